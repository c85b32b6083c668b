"""mu* at gamma = 0: among the minimisers of OInc the one that minimises SDef, the gamma -> 0+ limit."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from problems import at_gamma, component, forced, loop, network, program, supported

from dissonance import PDG, Arc, Attention, Variable, inconsistency
from dissonance.answer import Answer, Marginals
from dissonance.distributions import Tree
from dissonance.inconsistency import Inconsistency
from dissonance.problem import Batch, prepare
from dissonance.scores import incompatibility, structural_deficiency
from dissonance.solvers import CliqueTreeSolver, Newton
from dissonance.solvers.convex import work
from dissonance.solvers.convex.interior import COLD
from dissonance.solvers.convex.layout import BY_CELLS, GIVEN
from dissonance.solvers.convex.program import Structure
from dissonance.solvers.convex.selection import CLOSE, SETTLED, extrapolate, near_zero, select
from dissonance.solvers.exact import NewtonMarginals
from reference import convex
from strategies import Style, case_of, random_case

X, Y = Variable("X", 3), Variable("Y", 4)


def rows(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), size=shape[:-1])


def entropies(p: np.ndarray) -> np.ndarray:
    return -(p * np.log(p)).sum(-1)


def test_an_indifferent_source_is_uniform():
    """The quasi-convexity case: both rows of p(B|A) equal, so that A does not matter; SDef makes it uniform."""
    a, b = Variable("A", 2), Variable("B", 2)
    pdg = PDG(Arc("q", (), b, [0.5, 0.5]), Arc("p", a, b, [[0.25, 0.75], [0.25, 0.75]]))
    result = inconsistency(pdg)
    np.testing.assert_allclose(result.mu.marginal("A"), [0.5, 0.5], atol=1e-6)
    middle = np.sqrt([0.125, 0.375]) / np.sqrt([0.125, 0.375]).sum()
    np.testing.assert_allclose(result.mu.marginal("A", "B"), np.outer([0.5, 0.5], middle), atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_one_arc_leaves_its_sources_to_structure(alpha: float):
    """min -H(X,Y) + alpha H(Y|X) with mu(Y|X) = p: mu(x) is proportional to exp((1 - alpha) H(p(.|x)))."""
    p = rows(0, 3, 4)
    pdg = PDG(Arc("p", X, Y, p))
    result = inconsistency(pdg, Attention.only({"p": 1.0}, {"p": alpha}))
    weight = np.exp((1 - alpha) * entropies(p))
    np.testing.assert_allclose(result.mu.marginal("X"), weight / weight.sum(), atol=1e-5)
    np.testing.assert_allclose(result.mu.conditional("Y", "X"), p, atol=1e-5)
    assert result.mu_error < 1e-5


def test_unmentioned_variables_are_uniform_and_independent():
    pdg = PDG(Arc("x", (), X, [0.2, 0.3, 0.5]), variables=(X, Y))
    mu = inconsistency(pdg).mu
    np.testing.assert_allclose(mu.marginal("X", "Y"), np.outer([0.2, 0.3, 0.5], np.full(4, 0.25)), atol=1e-7)


def test_only_the_least_inconsistent_rows_carry_mass():
    """Two conditionals that agree at X = 1 and disagree elsewhere: all mass goes where they agree."""
    p, q = rows(1, 3, 4), rows(2, 3, 4)
    q[1] = p[1]
    pdg = PDG(Arc("p", X, Y, p), Arc("q", X, Y, q))
    result = inconsistency(pdg)
    assert result.upper == pytest.approx(0, abs=1e-7)
    np.testing.assert_allclose(result.mu.marginal("X"), [0, 1, 0], atol=1e-5)


def test_the_weight_of_an_arc_does_not_change_what_is_selected():
    """The selection depends on the set of minimisers and on alpha, not on the scale of beta."""
    p = rows(3, 3, 4)
    for scale in (1e-6, 1.0, 1e6):
        mu = inconsistency(PDG(Arc("p", X, Y, p)), Attention.only({"p": scale}, {"p": 0.3})).mu
        weight = np.exp(0.7 * entropies(p))
        np.testing.assert_allclose(mu.marginal("X"), weight / weight.sum(), atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_limit_of_small_gammas(seed: int):
    case = random_case(seed, Style(hard=0.1), most=4)
    names = [v.name for v in case.pdg.variables]
    mu = inconsistency(case.pdg, case.attention).mu.marginal(*names).numpy()
    # an independent solver at a gamma it can resolve, and a certified solve at a much smaller one
    coarse = convex.solve(case.pdg, case.attention.replace(gamma=3e-4))
    assert coarse.accurate and 0.5 * np.abs(mu - coarse.mu).sum() < 0.03
    gamma = 1e-5
    fine = inconsistency(case.pdg, case.attention.replace(gamma=gamma), solver=CliqueTreeSolver(tol=1e-10))
    unsure = math.sqrt(2 * (fine.upper - fine.lower) / gamma)  # by strong convexity
    assert unsure < 0.01
    assert 0.5 * np.abs(mu - fine.mu.marginal(*names).numpy()).sum() < unsure + 1e-3


@pytest.mark.parametrize("solver", ["newton", "clique-tree", "joint"])
def test_every_solver_selects_the_same_mu(solver: str):
    for seed in range(8):
        case = random_case(seed, Style(zeros=0.1, hard=0.15))
        names = [v.name for v in case.pdg.variables]
        one, other = (inconsistency(case.pdg, case.attention, solver=s) for s in ("auto", solver))
        gap = 0.5 * (one.mu.marginal(*names) - other.mu.marginal(*names)).abs().sum()
        assert float(gap) <= 1e-5 + 3 * (one.mu_error + other.mu_error), seed


def test_no_other_minimiser_has_less_structural_deficiency():
    better = 0
    for seed in range(15):
        case = random_case(seed, Style(zeros=0.1))
        result = inconsistency(case.pdg, case.attention)
        for s in result.answers:
            names = {a.name for a in s.part.arcs}
            alpha = {n: a for n, a in case.attention.alpha.items() if n in names}
            pdg = case_of(s.part).pdg
            found = inconsistency(pdg, Attention.only({a.name: a.beta for a in s.part.arcs}, alpha))
            selected = float(structural_deficiency(found.mu, pdg, alpha))
            other = float(structural_deficiency(s.mu, pdg, alpha))  # the solver's own minimiser
            assert selected <= other + 1e-4
            better += selected < other - 1e-4
    assert better > 0  # it does make a difference


def test_it_is_computed_only_when_asked(monkeypatch: pytest.MonkeyPatch):
    def never(*_: object) -> None:
        raise AssertionError("selected without being asked")

    monkeypatch.setattr(sys.modules["dissonance.solvers.convex.selection"], "select", never)
    result = inconsistency(PDG(Arc("p", X, Y, rows(4, 3, 4))))
    assert math.isfinite(result.upper)
    with pytest.raises(AssertionError, match="without being asked"):
        _ = result.mu


def tree_of(solution: Answer) -> Tree:
    assert solution.on is not None
    return solution.on.tree


def conflicted(seed: int, count: int = 28) -> PDG:
    """A loopy Bayesian network, each variable with the two before as parents, and two experts who disagree about the
    last: everything leads to it, so that nothing can be left out."""
    rng = np.random.default_rng(seed)
    v = [Variable(f"V{i}", 3) for i in range(count)]
    arcs = [Arc(f"p{i}", v[max(0, i - 2) : i], v[i], rows(seed + i, *[3] * min(i, 2), 3)) for i in range(count)]
    sure = np.array([0.9, 0.05, 0.05])
    experts = Arc("one", (), v[-1], sure), Arc("other", (), v[-1], rng.permutation(sure[::-1]))
    return PDG(*arcs, *experts)


@pytest.mark.parametrize("seed", [0, 1])
def test_in_a_network_with_a_conflict_it_takes_few_steps(seed: int, monkeypatch: pytest.MonkeyPatch):
    """It agrees with what another implementation finds at two small gammas, extrapolated, within the error it gives."""
    pdg, steps = conflicted(seed), list[int]()

    newton = work.newton

    def counted(*args: Any) -> None:
        newton(*args)
        (taken,) = args[9]
        steps.append(taken)

    result = inconsistency(pdg)
    assert result.method == "newton" and sum(t.cells for t in map(tree_of, result.answers)) > 600
    monkeypatch.setattr(work, "newton", counted)
    error = result.mu_error
    assert steps and sum(steps) <= 30
    assert error < 1e-5
    near = [inconsistency(pdg, result.attention.replace(gamma=g), solver=Newton(tol=1e-9)) for g in (1e-6, 2e-6)]
    assert near[0].method == "newton"
    for cluster in tree_of(result.answers[0]).clusters:
        first, second = (x.mu.marginal(*cluster) for x in near)
        there, here = 2 * first - second, result.mu.marginal(*cluster)
        assert 0.5 * float((here - there).abs().sum()) <= error + 1e-6
        assert 0.5 * float((here - first).abs().sum()) <= 20 * error + 1e-6  # this gamma is ten times as large


def test_a_tenth_of_gamma_is_a_tenth_of_the_error_and_the_error_is_an_upper_bound():
    s = inconsistency(conflicted(2, 12)).answers[0]
    found = [near_zero(s.part, s, g) for g in (1e-5, 1e-6, 1e-7)]
    for x, better in itertools.pairwise(found):
        assert better.error[0] == pytest.approx(0.1 * x.error[0], rel=0.2, abs=1e-7)
        tables = (y.structure.tables(y.mu[0]) for y in (x, better))
        assert max(0.5 * float((a - b).abs().sum()) for a, b in zip(*tables, strict=True)) < 0.1 * x.error[0]


def test_a_smaller_gamma_is_tried_where_the_error_is_large():
    """A = 1 costs 5e-7 more than A = 0: it has mass at gamma = 1e-7, and none at 1e-8."""
    a, b = Variable("A", 2), Variable("B", 2)
    arcs = (Arc("p", a, b, np.full((2, 2), 0.5)), Arc("q", a, b, [[0.5, 0.5], [0.5 + 7e-4, 0.5 - 7e-4]]))
    s = inconsistency(PDG(*arcs), solver=Newton(tol=1e-12)).answers[0]
    assert near_zero(s.part, s, 1e-7).error[0] > 1e-3
    mu, error = select(s)
    assert error < 1e-4
    np.testing.assert_allclose(mu[0].sum(1), [1.0, 0.0], atol=error)


def heavy(seed: int, beta: float) -> tuple[Inconsistency, np.ndarray]:
    """An arc of a large weight beside one of weight 1, and mu(X) in closed form."""
    p, z = rows(seed, 3, 4), Variable("Z", 2)
    pdg = PDG(Arc("p", X, Y, p), Arc("weak", Y, z, rows(seed + 1, 4, 2)))
    weight = np.exp(0.7 * entropies(p))
    return inconsistency(pdg, Attention.only({"p": beta, "weak": 1.0}, {"p": 0.3, "weak": 1.0})), weight / weight.sum()


@pytest.mark.parametrize("beta", [1e4, 1e5, 1e6])
def test_the_error_contains_what_rounding_does_to_heavy_arcs(beta: float):
    """Weights of 1e6 round to 1e-10, and a gamma of 1e-7 is there for a weight of 1: the error says what that costs."""
    for seed in range(5, 15):
        result, wanted = heavy(seed, beta)
        np.testing.assert_allclose(result.mu.marginal("X"), wanted, atol=result.mu_error)
        assert result.mu_error < 0.01


def test_a_larger_gamma_is_tried_where_rounding_counts():
    """Of the gammas to choose from the largest loses the least to rounding here."""
    counted = 0
    for seed in range(5, 15):
        s = heavy(seed, 1e5)[0].answers[0]
        first = near_zero(s.part, s, 1e-7)
        larger = near_zero(s.part, s, 1e-6, first.start)
        if first.error[0] > CLOSE and first.rounding[0] > first.slope[0]:
            assert select(s)[1] == larger.error[0] < first.error[0]
            counted += 1
    assert counted >= 3


def test_a_smaller_gamma_is_not_tried_where_rounding_is_half_of_the_error():
    for seed in range(5, 15):
        s = heavy(seed, 1e6)[0].answers[0]
        first = near_zero(s.part, s, 1e-7)
        larger = near_zero(s.part, s, 1e-6, first.start)
        if first.error[0] > CLOSE and 2 * first.rounding[0] > first.slope[0]:
            assert select(s)[1] == larger.error[0]


def test_the_error_of_a_mu_that_was_not_selected_is_not_said_to_be_zero():
    result, wanted = heavy(5, 1e7)
    assert not result.converged
    off = 0.5 * float(np.abs(result.mu.marginal("X").numpy() - wanted).sum())
    assert off <= result.mu_error + 1e-6


def test_mu_settles_where_there_is_a_hard_arc():
    """In 60 loops of four variables: none is lost in rounding."""
    lost = []
    for seed in range(1000, 1060):
        pdg = loop(np.random.default_rng(seed))
        attention = Attention.uniform(pdg, beta=1 + seed % 5 / 7).replace(beta={"cd": math.inf})
        if inconsistency(pdg, attention).mu_error > CLOSE:
            lost.append(seed)
    assert lost == []


def test_when_rounding_takes_over_the_mu_that_had_settled_best_stands():
    """How far mu moved last, out of a hundred steps, against the least it ever moved in the first forty."""
    tol = np.array([1e-6 * 1e-7])
    for seed, style in ((88, Style(hard=0.7)), (96, Style(zeros=0.1, sharp=0.5, hard=0.3, ratio=1e3))):
        case = random_case(seed, style)
        for c in prepare(case.pdg, case.attention).parts:
            one = program(at_gamma(c, 1e-7 * min([1.0, *(a.beta for a in c.arcs if not a.hard)])))
            rooms = [(work.Work(one.structure, one.numbers), most) for most in (*range(5, 40), 100)]
            moves = [float(work.settle(tol, SETTLED, most)[0][0]) for work, most in rooms]
            assert moves[-1] <= max(10 * min(moves), 1e-5)


@pytest.mark.parametrize("beta", [{}, {"cd": math.inf}], ids=["soft", "hard"])
def test_problems_at_once_are_extrapolated_as_one_by_one(beta: dict[str, float]):
    """Bit for bit: no problem knows of others."""
    rng = np.random.default_rng(3)
    pdgs = [loop(rng) for _ in range(5)]
    parts = [
        at_gamma(component(p, Attention.uniform(p, beta=1 + i / 7).replace(beta=beta)), 1e-7)
        for i, p in enumerate(pdgs)
    ]
    s = supported(parts[0])
    assert s is not None
    together = extrapolate(s, Batch.together(parts))
    assert np.median(together.error) < CLOSE
    for k, c in enumerate(parts):
        alone = extrapolate(s, c)
        np.testing.assert_array_equal(together.mu[k], alone.mu[0])
        assert together.error[k] == alone.error[0]


class Stopped(NamedTuple):
    """The mu of a solution, said to have stopped anywhere."""

    tree: Tree
    tables: Sequence[torch.Tensor]
    stopped: tuple[Structure, np.ndarray]


def without_start(s: Answer) -> Answer:
    """The solution, and not where it stopped."""
    assert s.on is not None
    return replace(s, on=Marginals(s.on.tree, s.on.tables))


@pytest.mark.parametrize("beta", [{}, {"cd": math.inf}], ids=["soft", "hard"])
def test_mu_is_selected_from_where_the_solution_came_by(beta: dict[str, float], monkeypatch: pytest.MonkeyPatch):
    """No cold start, and the mu that one leads to."""
    starts: list[int] = []
    newton = work.Work.newton

    def noted(self: work.Work, tol: Any, start: int = COLD, *args: Any, **kwargs: Any) -> Any:
        starts.append(start)
        return newton(self, tol, start, *args, **kwargs)

    for seed in range(10):
        pdg = loop(np.random.default_rng(seed))
        s = inconsistency(pdg, Attention.uniform(pdg).replace(beta=beta)).answers[0]
        with monkeypatch.context() as spied:
            spied.setattr(work.Work, "newton", noted)
            found, error = select(s)
        assert COLD not in starts
        again, other = select(without_start(s))
        for a, b in zip(found, again, strict=True):
            assert 0.5 * float((a - b).abs().sum()) <= error + other


def test_a_path_over_other_cells_is_no_start():
    """Of a solution whose point belongs to another structure nothing is used."""
    first, second = (inconsistency(loop(np.random.default_rng(seed))).answers[0] for seed in (0, 1))
    elsewhere = inconsistency(PDG(Arc("p", X, Y, rows(0, 3, 4)), Arc("q", Y, X, rows(1, 4, 3)))).answers[0].on
    assert isinstance(elsewhere, NewtonMarginals)
    for s in (first, second):
        assert s.on is not None
        lost, kept = select(replace(s, on=Stopped(s.on.tree, s.on.tables, elsewhere.stopped))), select(without_start(s))
        for a, b in zip(lost[0], kept[0], strict=True):
            np.testing.assert_array_equal(a, b)


def test_choosing_mu_takes_about_as_many_newton_steps_as_the_solve(monkeypatch: pytest.MonkeyPatch):
    """A clique of 540 cells, where a step is dear, with sharp tables."""
    sizes = {"A": 9, "B": 5, "C": 4, "D": 3}
    V = {name: Variable(name, size) for name, size in sizes.items()}
    rng = np.random.default_rng(2)
    arcs = []
    for s, t in itertools.permutations(sizes, 2):
        arcs.append(Arc(s + t, V[s], V[t], rng.dirichlet(np.full(sizes[t], 0.5), sizes[s]) + 1e-9))
    result = inconsistency(PDG(*arcs))
    assert result.converged and result.stats["cells"] == 540
    whole, taken = work.Work.newton, []

    def counted(self: work.Work, *args: Any, **options: Any) -> Any:
        taken.append(np.zeros(len(self.X), dtype=np.int64))
        return whole(self, *args, **{**options, "taken": taken[-1]})

    monkeypatch.setattr(work.Work, "newton", counted)
    assert result.mu_error < CLOSE
    steps = sum(int(x.sum()) for x in taken)
    assert 0 < steps <= 2 * result.stats["steps"]


@pytest.mark.parametrize("seed", [26, 57, 121, 168])
def test_mu_attains_the_upper_bound_where_weights_are_far_apart(seed: int):
    """Beliefs that determine mu, two of them hard, the others trusted 1 to 45,000: no small gamma serves both."""
    rng = np.random.default_rng(seed)
    A, B, C = Variable("A", 4), Variable("B", 2), Variable("C", 2)
    pdg = PDG(
        Arc("p", (), (A, C), rng.dirichlet(np.ones(8)).reshape(4, 2)),
        Arc("q", (), B, rng.dirichlet(np.ones(2))),
        Arc("r", (A, C), B, rng.dirichlet(np.ones(2), size=(4, 2))),
        Arc("s", B, (C, A), rng.dirichlet(np.ones(8), size=2).reshape(2, 2, 4)),
    )
    attention = Attention.only({"p": math.inf, "q": math.inf, "r": 0.002, "s": 90.0})
    result = inconsistency(pdg, attention)
    assert float(incompatibility(result.mu, pdg, attention)) == pytest.approx(result.upper, abs=1e-4)


@pytest.mark.parametrize("gamma", [1e-8, 1e-6, 1e-3, 0.3])
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_wide_clusters_find_the_same_mu_with_their_marginals_given_as_by_cells(gamma: float, zeros: float):
    """However small gamma is: then what a cluster knows of its separator, which its conditional table leaves open, is
    far below the rounding errors of the rest."""
    for seed in range(3):
        c = component(pdg := network(np.random.default_rng(seed), zeros=zeros), Attention.uniform(pdg, gamma=gamma))
        one = program(c)
        s, found = one.structure, []
        assert (s.fronts.way == GIVEN).any()
        for structure in (s, forced(s, np.full_like(s.fronts.way, BY_CELLS))):
            room = work.Work(structure, one.numbers)
            room.newton(np.array([1e-10]))
            lower, upper, _ = room.bounds[0]
            assert upper - lower < 1e-9
            room.settle(np.array([1e-6 * gamma]), SETTLED, 100)
            found.append(room.mu[0].copy())
        away = 0.5 * np.add.reduceat(np.abs(found[0] - found[1]), s.layout.cell_at[:-1])
        assert away.max() < 1e-5
