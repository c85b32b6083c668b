"""Solvers agree within their bounds, and the bounds contain what an independent solver finds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from dissonance import PDG, Arc, Attention, Variable, inconsistency
from dissonance.answer import Solver
from dissonance.errors import CapabilityError
from dissonance.inconsistency import Inconsistency
from reference import convex
from reference.feasible import least_violation
from strategies import EXACT, MIXED, ON_GPU, SOFT, STRUCTURED, Case, Style, cases, random_case

PHASES = (Phase.explicit, Phase.generate)  # shrinking takes minutes, and the seeds are fixed
STYLES = {
    "soft": SOFT,
    "structured": STRUCTURED,
    "mixed": MIXED,
    "factor graph": Style(gammas=(0.5, 1.0)),
    "factor graph given data": Style(gammas=(0.5, 1.0)),
    "hard": Style(hard=0.8, gammas=(0.0, 0.5)),
}


def by_every_solver(case: Case) -> dict[str | Solver, Inconsistency]:
    """The results of all solvers that can take the case."""
    found: dict[str | Solver, Inconsistency] = {}
    for solver in EXACT:
        try:
            found[solver] = inconsistency(case.pdg, case.attention, solver=solver)
        except CapabilityError:
            assert solver in {"pinned", "sum-product", "given", "pooled"}
    return found


def as_factor_graph(case: Case) -> Case:
    """The same arcs with beta = gamma alpha."""
    alpha = {n: a + 0.5 for n, a in case.attention.alpha.items()}
    gamma = case.attention.gamma
    return Case(case.pdg, Attention.only({n: gamma * a for n, a in alpha.items()}, alpha, gamma))


def given_data(case: Case) -> Case:
    """The same with a hard marginal of the first variable."""
    first = case.pdg.variables[0]
    data = Arc("data", (), first, np.arange(1.0, 1 + first.size) / sum(range(1, 1 + first.size)))
    return Case(case.pdg + data, case.attention.replace(beta={"data": math.inf}))


@pytest.mark.parametrize("style", STYLES)
def test_no_lower_bound_is_above_anothers_upper_bound(style: str):
    took: set[str | Solver] = set()
    for seed in range(30 if style == "hard" else 16):
        case = random_case(seed, STYLES[style])
        case = as_factor_graph(case) if "factor graph" in style else case
        case = given_data(case) if "given data" in style else case
        results = by_every_solver(case)
        took |= set(results)
        assert all(r.converged for r in results.values()), case
        assert max(r.lower for r in results.values()) <= min(r.upper for r in results.values()), (seed, results)
    assert {"newton", "clique-tree", "joint", "auto", ON_GPU} <= took
    assert style != "factor graph" or "sum-product" in took
    assert "given data" not in style or "given" in took
    assert style != "hard" or "pinned" in took


def assert_bracketed(case: Case, result: Inconsistency) -> None:
    """The bracket contains the value that cvxpy reports, to the accuracy it reports it with."""
    reference = convex.solve(case.pdg, case.attention)
    if not reference.accurate or reference.value == math.inf:  # where it gives up, the hard arcs nearly clash
        assert (result.lower == math.inf) is (least_violation(case.pdg, case.attention) > 1e-8)
        return
    assert result.lower - reference.slop <= reference.value <= result.upper + reference.slop
    if not any(b == math.inf for b in case.attention.beta.values()):
        assert convex.attained(case.pdg, case.attention, reference) >= result.lower


@given(cases(SOFT))
@settings(max_examples=40, phases=PHASES)
def test_the_bracket_contains_the_reference_without_structure(case: Case):
    assert_bracketed(case, inconsistency(case.pdg, case.attention))


@given(cases(STRUCTURED))
@settings(max_examples=40, phases=PHASES)
def test_the_bracket_contains_the_reference_with_structure(case: Case):
    assert_bracketed(case, inconsistency(case.pdg, case.attention))


@given(cases(Style(zeros=0.15, hard=0.4, gammas=(0.0, 0.3))))
@settings(max_examples=60, phases=PHASES)
def test_the_bracket_contains_the_reference_with_hard_arcs_and_zeros(case: Case):
    assert_bracketed(case, inconsistency(case.pdg, case.attention))


@given(cases(Style(zeros=0.3, hard=0.5, contradict=0.5, gammas=(0.0, 0.3)), most=3))
@settings(max_examples=60, phases=PHASES)
def test_contradictions_are_infinite_and_nothing_else_is(case: Case):
    assert_bracketed(case, inconsistency(case.pdg, case.attention))


@pytest.mark.parametrize("solver", ["newton", "clique-tree", "joint"])
def test_the_unique_minimiser_with_structure_is_the_references(solver: str):
    for seed in range(12):
        case = random_case(seed, STRUCTURED)
        reference = convex.solve(case.pdg, case.attention)
        mu = inconsistency(case.pdg, case.attention, solver=solver).mu
        # -gamma H is strongly convex: a value within e of the optimum is within sqrt(2 e / gamma) in total variation
        error = math.sqrt(2 * reference.slop / case.attention.gamma)
        found = mu.marginal(*(v.name for v in case.pdg.variables)).numpy()
        assert 0.5 * np.abs(found - reference.mu).sum() <= 2 * error


def lattice(rows: int, columns: int, size: int, gamma: float) -> Case:
    """Arcs both ways between neighbours, with zeros one way, and hard marginals here and there; state 0 is possible."""
    rng = np.random.default_rng(rows * columns)
    v = {(i, j): Variable(f"{i},{j}", size) for i in range(rows) for j in range(columns)}
    arcs: list[Arc] = []
    for (i, j), x in v.items():
        for y in (v.get((i + 1, j)), v.get((i, j + 1))):
            if y is not None:
                there = rng.gamma(0.7, size=(size, size)) + 1e-3
                there[:, 1:][rng.random((size, size - 1)) < 0.2] = 0.0
                arcs.append(Arc(f"p{len(arcs)}", x, y, there / there.sum(1, keepdims=True)))
                arcs.append(Arc(f"p{len(arcs)}", y, x, rng.dirichlet(np.ones(size), size=size)))
    beta = {a.name: gamma + float(rng.uniform(0.2, 2.0)) for a in arcs}
    for j in range(0, columns, 12):
        arcs.append(Arc(f"hard {j}", (), v[0, j], np.append(0.95, np.full(size - 1, 0.05 / (size - 1)))))
        beta[f"hard {j}"] = math.inf
    return Case(PDG(*arcs), Attention.only(beta, {a.name: 1.0 for a in arcs}, gamma))


@pytest.mark.parametrize("gamma", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(3, 40, 2), (1, 500, 3)], ids=["grid", "chain"])
def test_solvers_agree_on_what_no_joint_could_hold(shape: tuple[int, int, int], gamma: float):
    case = lattice(*shape, gamma)
    one, other = (inconsistency(case.pdg, case.attention, solver=s) for s in ("newton", "clique-tree"))
    assert one.converged and other.converged and one.upper > 10
    assert max(one.lower, other.lower) <= min(one.upper, other.upper)
