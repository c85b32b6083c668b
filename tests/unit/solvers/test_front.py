"""The front of all solvers: problems in rows against Clarabel, in company and alone; solvers and reductions of one's
own, whoever asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, CapabilityError, Control, SoftmaxTable, Variable, inconsistency, lir, lirs
from dissonance.answer import Answer, Marginals, Solver, infinite
from dissonance.attended import Array, Attended
from dissonance.inconsistency import Inconsistency, inconsistencies
from dissonance.problem import Batch, Bools
from dissonance.solvers import Auto, CliqueTreeSolver, JointSolver, Newton
from dissonance.solvers.front import Starts, solve_rows

A, B, C = Variable("A", 2), Variable("B", 3), Variable("C", 2)
SCOPES = [((), A), ((A,), B), ((B,), C), ((C,), A), ((), B)]


def tables(rng: np.random.Generator) -> list[np.ndarray]:
    shapes = [(*(v.size for v in s), t.size) for s, t in SCOPES]
    drawn = [rng.uniform(0.05, 1.0, shape) for shape in shapes]
    return [x / x.sum(-1, keepdims=True) for x in drawn]


def pdg(cpds: list[np.ndarray]) -> PDG:
    return PDG(*(Arc(f"a{i}", s, t, p) for i, ((s, t), p) in enumerate(zip(SCOPES, cpds, strict=True))))


def problems(count: int = 10) -> tuple[list[PDG], list[Attention]]:
    """Soft, hard, with a zero, out of attention, with structure; as many of each."""
    rng = np.random.default_rng(5)
    pdgs: list[PDG] = []
    attentions: list[Attention] = []
    for k in range(count):
        cpds, beta, gamma = tables(rng), rng.uniform(0.5, 2.0, 5), 0.0
        if k % 5 == 1:
            beta[4] = math.inf
        if k % 5 == 2:
            cpds[1][0] = [0.5, 0.5, 0.0]
        if k % 5 == 3:
            beta[2] = 0.0
        if k % 5 == 4:
            gamma = 0.3
        pdgs.append(pdg(cpds))
        names = [a.name for a in pdgs[-1]]
        attentions.append(
            Attention.only(dict(zip(names, beta.tolist(), strict=True)), dict.fromkeys(names, 1.0), gamma)
        )
    return pdgs, attentions


def batch(pdgs: list[PDG], attentions: list[Attention]) -> Batch:
    return Batch.over(pdgs[0].variables, pdgs[0].arcs, len(pdgs)).with_numbers(
        np.stack([torch.cat([a.log_table().reshape(-1) for a in p]).numpy() for p in pdgs]),
        np.array([list(a.beta.values()) for a in attentions]),
        np.array([list(a.alpha.values()) for a in attentions]),
        np.array([a.gamma for a in attentions]),
    )


def solved(of: Batch, tol: float = 1e-7) -> Answer:
    return solve_rows(of, Newton(tol, device="cpu"))


def some(*numbers: int) -> np.ndarray:
    return np.array(numbers)


# -- problems in rows --------------------------------------------------------------------------------------------------


def test_every_problem_is_solved_as_clarabel_solves_it_alone():
    pdgs, attentions = problems()
    whole = batch(pdgs, attentions)
    assert len(whole.groups()) == 4  # what is out of attention stays with what is plain
    found = solved(whole)
    for k, (p, a) in enumerate(zip(pdgs, attentions, strict=True)):
        expected = inconsistency(p, a, solver=CliqueTreeSolver())
        assert found.bounds.lower[k] <= expected.upper + 1e-9
        assert found.bounds.upper[k] == pytest.approx(expected.upper, abs=2e-7)
    assert found.bounds.within(1e-7).all() and found.converged


def test_slopes_are_differences_of_values():
    whole = batch(*problems()).take(some(4, 9))  # gamma > 0: mu* is unique, and the value smooth
    base, step = solved(whole, 1e-11), 1e-5
    for entry in range(whole.log_p.shape[1]):
        values: list[np.ndarray] = []
        for way in (step, -step):
            log_p = whole.log_p.copy()
            log_p[:, entry] += way
            values.append(solved(whole.with_numbers(log_p, *whole.numbers[1:]), 1e-11).bounds.upper)
        np.testing.assert_allclose((values[0] - values[1]) / (2 * step), base.slope[:, entry], rtol=1e-5, atol=1e-5)


def test_a_contradiction_is_infinite():
    cpds = tables(np.random.default_rng(0))
    cpds[0], cpds[3] = np.array([1.0, 0.0]), np.array([[0.0, 1.0], [0.0, 1.0]])
    made = pdg(cpds)
    found = solved(batch([made], [Attention.uniform(made)]))
    assert found.lower == found.upper == math.inf and not found.slope.any()


def test_what_is_not_convex_is_said_to_be():
    whole = batch(*problems()).take(some(4, 9))
    assert len(whole.groups()) == 1 and whole.convex.all()
    beta = whole.beta.copy()
    beta[1, 0] = -1.0
    odd = whole.with_numbers(whole.log_p, beta, whole.alpha, whole.gamma)
    assert odd.convex.tolist() == [True, False]
    with pytest.raises(CapabilityError, match=r"'a0'.* has beta < gamma alpha"):
        solved(odd)


def test_what_is_neither_found_nor_proved_infinite_is_not_called_converged():
    x = Variable("X", 2)
    p, q = 0.3, 0.3 + 3e-4 * 0.3 * 0.7
    two = PDG(Arc("p", (), x, [p, 1 - p]), Arc("q", (), x, [q, 1 - q]))
    found = solved(batch([two], [Attention.uniform(two, beta=math.inf)]))
    assert found.upper == math.inf
    assert found.converged == bool(found.bounds.within(1e-7)[0]) == (found.lower == math.inf)


# -- alone and in company ----------------------------------------------------------------------------------------------


def check_the_same(one: Inconsistency, other: Inconsistency) -> None:
    """Bit for bit: bounds, steps, mu, derivatives."""
    assert (one.lower, one.upper, one.steps, one.solver) == (other.lower, other.upper, other.steps, other.solver)
    for a, b in zip(one.answers, other.answers, strict=True):
        assert np.array_equal(a.joint, b.joint) and np.array_equal(a.slope, b.slope)


def test_a_result_is_the_same_bits_alone_as_among_200():
    pdgs, attentions = problems(200)
    for k, found in enumerate(inconsistencies(pdgs, attentions)):
        check_the_same(found, inconsistency(pdgs[k], attentions[k]))


@pytest.mark.parametrize("solver", [Newton(), Auto(), JointSolver()], ids=lambda s: s.name)
def test_a_row_is_the_same_bits_alone_as_among_200(solver: Solver):
    whole = batch(*problems(200))
    together = solve_rows(whole, solver)
    for k in range(200):
        alone = solve_rows(whole.take(some(k)), solver)
        assert (alone.lower, alone.upper) == (together.bounds.lower[k], together.bounds.upper[k])
        np.testing.assert_array_equal(alone.joint[0], together.joint[k])
        np.testing.assert_array_equal(alone.slope[0], together.slope[k])
        assert np.broadcast_to(alone.steps, 1)[0] == np.broadcast_to(together.steps, 200)[k]


def test_rows_that_are_asked_for_again_keep_their_answers_whatever_else_is_asked():
    whole, starts = batch(*problems(20)), Starts(20)
    first = solve_rows(whole, Newton(), starts)
    log_p, moved = whole.log_p.copy(), np.arange(20) % 3 == 0
    log_p[moved] += 0.01 * np.random.default_rng(0).random((moved.sum(), log_p.shape[1]))
    log_p[whole.log_p == -math.inf] = -math.inf
    second = solve_rows(whole.with_numbers(log_p, *whole.numbers[1:]), Newton(), starts, last=first)
    for name in ("joint", "slope"):
        same = (getattr(first, name) == getattr(second, name)).all(1)
        assert same[~moved].all() and not same[moved].any()
    for name in ("lower", "upper"):
        np.testing.assert_array_equal(getattr(first.bounds, name)[~moved], getattr(second.bounds, name)[~moved])
    assert not np.broadcast_to(second.steps, 20)[~moved].any() and (np.asarray(second.steps)[moved] > 0).all()
    taken = second.take(np.flatnonzero(~moved))
    np.testing.assert_array_equal(taken.joint, first.joint[~moved])
    np.testing.assert_array_equal(taken.bounds.upper, first.bounds.upper[~moved])


def test_rows_start_from_where_they_stopped():
    whole, starts = batch(*problems(20)), Starts(20)
    first = solve_rows(whole, Newton(), starts)
    log_p = np.where(whole.log_p > -math.inf, whole.log_p * (1 + 1e-4), -math.inf)
    moved = whole.with_numbers(log_p, *whole.numbers[1:])
    warm, cold = solve_rows(moved, Newton(), starts), solve_rows(moved, Newton())
    assert np.sum(warm.steps) < 0.7 * np.sum(cold.steps) and np.sum(first.steps) > 0
    np.testing.assert_allclose(warm.bounds.upper, cold.bounds.upper, atol=1e-7)


@pytest.mark.parametrize("refocus", ["uniform", "partial"])
def test_a_run_is_the_same_bits_alone_as_in_company(refocus: str):
    """The first has nothing to resolve, and stands still while the others move."""
    pdgs = [pdg(cpds).learnable() for cpds in map(tables, map(np.random.default_rng, range(6)))]
    marginal = tables(np.random.default_rng(9))[0]
    still = [marginal, *tables(np.random.default_rng(9))[1:3], np.stack([marginal, marginal])]
    still.append(marginal @ still[1])
    pdgs[0] = pdg(still).learnable()
    for k, run in enumerate(lirs(pdgs, refocus, steps=4, seeds=list(range(6)))):
        alone = lir(pdgs[k], refocus, steps=4, seed=k)
        assert all(torch.equal(run.theta[key], theta) for key, theta in alone.theta.items())
        for one, other in zip(run.trace.rows, alone.trace.rows, strict=True):
            assert (one.global_lower, one.global_upper) == (other.global_lower, other.global_upper)
            assert one.newton_steps == other.newton_steps


# -- solvers and reductions of one's own -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Mine(Solver):
    """Newton under another name, of one problem after another; it counts the problems."""

    name = "mine"

    seen: list[int] = field(default_factory=list)

    def fits(self, part: Batch) -> Bools:
        return part.convex

    def solve(self, part: Batch, *how: Any, **options: Any) -> Answer:
        self.seen.append(len(part))
        return replace(Newton().solve(part, *how, **options), solver=self.name)


@dataclass(frozen=True, eq=False)
class MineTogether(Mine):
    """The same of many problems at once, from nearby ones."""

    together = True

    def nearby(self, part: Batch, near: Sequence[Answer]) -> Any:
        return Newton().nearby(part, near)


@dataclass(frozen=True, eq=False)
class Merged(Solver):
    """The reduction of a problem whose soft arcs repeat each other: those that say the same become one."""

    name = "merged"
    reduces = True

    seen: list[int] = field(default_factory=list)

    def fits(self, part: Batch) -> Bools:
        return np.array([not one.hard.any() and len(merged(one)) < len(one.beliefs) for one in part.singles])

    def reduce(self, part: Batch) -> tuple[list[Batch], Callable[[Sequence[Answer]], Answer]]:
        self.seen.append(len(part))

        def back(answers: Sequence[Answer]) -> Answer:
            (found,) = answers
            name = f"{self.name} + {found.solver}"
            if found.on is None:
                return infinite(part, name, steps=found.steps)
            mu = Marginals(found.on.tree, found.on.tables)
            return Answer(part, found.bounds, name, mu, steps=found.steps, method=found.method)

        return [Batch.of(part.variables, merged(part), part.gamma.item(), part.theta)], back


def merged(part: Batch) -> list[Attended]:
    """The arcs of a single problem, each with the weights of all that say the same."""
    found: dict[object, Attended] = {}
    for a in part.arcs:
        key = a.sources, a.targets, a.log_p.tobytes()
        other = found.get(key)
        found[key] = a if other is None else replace(other, beta=other.beta + a.beta, alpha=other.alpha + a.alpha)
    return list(found.values())


def repeated(seed: int) -> PDG:
    """A loop of three beliefs, two of them held twice, and a belief that may move."""
    rng = np.random.default_rng(seed)
    ab, bc, ca = (rng.dirichlet(np.ones(t.size), s.size) for s, t in ((A, B), (B, C), (C, A)))
    arcs = [Arc("ab", A, B, ab), Arc("ab again", A, B, ab), Arc("bc", B, C, bc), Arc("ca", C, A, ca)]
    return PDG(*arcs, Arc("ca again", C, A, ca), Arc("b", (), B, SoftmaxTable(rng.dirichlet(np.ones(3)))))


OWN: list[Callable[[], Any]] = [Mine, MineTogether, Merged]
CALLERS: dict[str, Callable[[Solver], Any]] = {
    "inconsistency": lambda s: [inconsistency(repeated(0), solver=s)],
    "structure": lambda s: [inconsistency(repeated(0), Attention.uniform(repeated(0), gamma=0.1), solver=s)],
    "inconsistencies": lambda s: inconsistencies([repeated(k) for k in range(5)], solver=s),
    "lir": lambda s: [lir(repeated(0), steps=3, solver=s)],
    "lirs": lambda s: lirs([repeated(k) for k in range(4)], steps=3, solver=s),
    "full control": lambda s: [lir(repeated(0), steps=1, control=Control({"b": math.inf}), solver=s)],
    "partial foci": lambda s: lirs([repeated(k) for k in range(4)], "partial", steps=3, solver=s, seeds=[1, 2, 3, 4]),
}


def values(result: Any) -> list[float]:
    """What is compared of a result or of a run."""
    return [result.upper] if isinstance(result, Inconsistency) else [result.before.upper, result.after.upper]


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("own", OWN)
def test_a_solver_or_a_reduction_of_ones_own_is_the_one_that_is_used(own: Callable[[], Any], caller: str):
    ours = own()
    found, expected = CALLERS[caller](Auto(first=(ours,))), CALLERS[caller](Auto())
    assert len(ours.seen) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(values(one), values(other), atol=1e-6)
        if isinstance(one, Inconsistency):
            assert one.solver == {"merged": "merged + newton"}.get(ours.name, ours.name)
            for a, b in zip(one.by_arc(saved=False), other.by_arc(saved=False), strict=True):
                assert a.divergence == pytest.approx(b.divergence, abs=1e-4)
        else:
            for key, theta in one.theta.items():
                torch.testing.assert_close(theta, other.theta[key], atol=1e-3, rtol=0)


@pytest.mark.parametrize("own", OWN)
def test_blame_asks_a_solver_or_a_reduction_of_ones_own(own: Callable[[], Any]):
    ours = own()
    result = inconsistency(repeated(0), solver=Auto(first=(ours,)))
    before = sum(ours.seen)
    rows = result.by_arc()
    assert sum(ours.seen) >= before + 3  # a solve for each arc that may save something
    for row, expected in zip(rows, inconsistency(repeated(0)).by_arc(), strict=True):
        assert row.saved_if_dropped == pytest.approx(expected.saved_if_dropped, abs=1e-6)


@pytest.mark.parametrize("own", OWN)
def test_gradients_are_those_of_the_problem_that_was_asked(own: Callable[[], Any]):
    slopes: list[torch.Tensor] = []
    for solver in (Auto(first=(own(),)), Auto()):
        learnable = repeated(0).learnable()
        inconsistency(learnable, Attention.uniform(learnable, gamma=0.1), solver=solver).value.backward()
        slopes.append(torch.cat([p.grad.reshape(-1) for p in learnable.parameters() if p.grad is not None]))
    torch.testing.assert_close(slopes[0], slopes[1], atol=1e-5, rtol=0)


def test_what_a_reduction_leaves_goes_to_the_first_solver_that_fits():
    ours, reduction = Mine(), Merged()
    result = inconsistency(repeated(0), solver=Auto(first=(reduction, ours)))
    assert result.solver == "merged + mine" and len(reduction.seen) == len(ours.seen) == 1


@pytest.mark.parametrize("own", [Mine, MineTogether])
def test_a_solver_of_ones_own_may_take_some_of_the_problems_of_a_pattern(own: Callable[[], Any]):
    """The others are Newton's, and starts are kept apart: those of another tree are none."""

    class Some(own):
        def fits(self, part: Batch) -> Bools:
            return part.log_p[:, 0] > math.log(0.5)

        def solve(self, part: Batch, *how: Any, **options: Any) -> Answer:
            self.seen.append(len(part))
            return replace(JointSolver().solve(part, *how, **options), solver=self.name)

    pdgs = [wide(k) for k in range(8)]
    first = [p["link 0"].log_table().reshape(-1)[0] > math.log(0.5) for p in pdgs]
    assert 1 < sum(first) < 7
    found = inconsistencies(pdgs, solver=Auto(first=(Some(),)))
    assert [r.solver == "mine" for r in found] == first
    runs, expected = (lirs(pdgs, steps=3, solver=s) for s in (Auto(first=(Some(),)), Auto()))
    for one, other in zip(runs, expected, strict=True):
        assert one.after.upper == pytest.approx(other.after.upper, abs=1e-6)


def wide(seed: int) -> PDG:
    """A chain of disputes, on its tree and as one table of cells of different size."""
    rng, x = np.random.default_rng(seed), [Variable(f"X{i}", 2) for i in range(5)]
    arcs = [Arc(f"link {i}", x[i], x[i + 1], rng.dirichlet([1, 1], 2)) for i in range(4)]
    return PDG(*arcs, *(Arc(f"end {i}", (), x[i], SoftmaxTable(rng.dirichlet([1, 1]))) for i in (0, 4)))


@pytest.mark.parametrize("own", [Mine, MineTogether])
def test_sweeps_refuse_a_solver_of_ones_own_by_its_name(own: Callable[[], Any]):
    for solver in (own(), Auto(first=(own(),))):
        with pytest.raises(CapabilityError, match="a sweep is solved by \"newton\", not by 'mine'"):
            lir(repeated(0), "sweep", sweeps=1, solver=solver)


def test_a_solver_that_is_no_solver_of_many_gives_scalars():
    """An answer of one's own needs bounds only: steps and residuals are numbers of one problem or of all."""

    @dataclass(frozen=True, eq=False)
    class Terse(Solver):
        name = "terse"
        together = True

        def solve(self, part: Batch, *how: Any, **options: Any) -> Answer:
            known = Newton().solve(part)
            return Answer.given(part, known.bounds, self.name, known.joint, known.slope)

    pdgs, attentions = problems(10)
    for k, found in enumerate(inconsistencies(pdgs, attentions, solver=Terse())):
        assert found.solver == "terse"
        joint: Array = found.answers[0].joint
        known = inconsistency(pdgs[k], attentions[k], solver="newton")
        assert (found.lower, found.upper) == (known.lower, known.upper)
        np.testing.assert_array_equal(joint, known.answers[0].joint)
