"""Solvers that work on small matrices use one thread of BLAS: more take longer to meet than to multiply them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dissonance import PDG, Arc, Attention, Euclidean, LinearGaussian, Variable, inconsistency, lbfgs
from dissonance.bounds.dual import RelaxedDual
from dissonance.bounds.structural import StructuralBracketing
from dissonance.gaussians import covariance
from dissonance.problem import prepare
from dissonance.reduced.dual import ReducedDual
from dissonance.solvers import Bounds, Reduced

QUICK = Bounds(seconds=0.0)


def blas_threads() -> set[int]:
    """How many threads the BLAS libraries of this process may use."""
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def graph(count: int) -> PDG:
    """Twice as many random tables between random pairs of two-valued variables."""
    rng = np.random.default_rng(0)
    variables = [Variable(f"X{i}", 2) for i in range(count)]
    pairs = [rng.choice(count, 2, replace=False) for _ in range(2 * count)]
    arcs = [Arc(f"a{k}", variables[s], variables[t], rng.dirichlet([1, 1], 2)) for k, (s, t) in enumerate(pairs)]
    return PDG(*arcs, variables=variables)


def gaussians() -> PDG:
    a, b = Variable("A", Euclidean(2)), Variable("B", Euclidean(2))
    there, back = (LinearGaussian(np.full((2, 2), x), np.ones(2), np.eye(2)) for x in (0.3, -0.2))
    return PDG(
        Arc("p", a, b, there), Arc("q", b, a, back), Arc("r", (), a, LinearGaussian(None, np.zeros(2), np.eye(2)))
    )


def bracket(pdg: PDG, gamma: float, solver: Any) -> None:
    inconsistency(pdg, Attention.uniform(pdg, gamma=gamma), solver=solver)


SOLVES: dict[str, tuple[object, str, Callable[[], object]]] = {
    "reduced": (ReducedDual, "at_point", lambda: bracket(graph(8), 0.1, Reduced())),
    "gaussian": (covariance, "minimise", lambda: bracket(gaussians(), 0.1, "gaussian")),
}


@pytest.mark.parametrize("name", SOLVES)
def test_a_solver_of_small_matrices_has_one_thread_of_blas(name: str, monkeypatch: pytest.MonkeyPatch):
    where, what, solve = SOLVES[name]
    does, seen = getattr(where, what), set[int]()

    def watched(*args: Any, **options: Any) -> Any:
        seen.update(blas_threads())
        return does(*args, **options)

    monkeypatch.setattr(where, what, watched)
    with threadpool_limits(3, user_api="blas"):
        solve()
        assert seen == {1} and 3 in blas_threads()


def test_lbfgs_finds_the_top_of_a_parabola_in_one_thread_and_stops_when_it_is_told_to():
    top, points, seen = np.array([1.0, -2.0, 3.0]), list[int](), set[int]()

    def at(x: np.ndarray) -> tuple[float, np.ndarray]:
        seen.update(blas_threads())
        return -float((x - top) @ (x - top)), 2 * (top - x)

    with threadpool_limits(3, user_api="blas"):
        found, steps = lbfgs.raised(at, np.zeros(3), maxiter=50)
    assert found == pytest.approx(top, abs=1e-6) and steps > 0 and seen == {1}

    def stop() -> None:
        points.append(1)
        raise StopIteration

    lbfgs.raised(at, np.zeros(3), stop, maxiter=50)
    assert points == [1]


def test_lbfgs_goes_no_lower_than_it_may_and_nowhere_without_numbers():
    def at(x: np.ndarray) -> tuple[float, np.ndarray]:
        return -float((x + 1) @ (x + 1)), -2 * (x + 1)

    found, _ = lbfgs.raised(at, np.ones(2), None, np.array([0.0, -math.inf]), maxiter=50)
    assert found == pytest.approx([0.0, -1.0], abs=1e-6)
    assert not lbfgs.raised(at, np.zeros(0), None, np.zeros(0), maxiter=50)[0].size


def test_as_many_steps_lead_to_the_same_bits_whatever_the_number_of_threads():
    pdg = graph(90)
    component = prepare(pdg, Attention.uniform(pdg, gamma=0.1)).parts[0]
    dual = RelaxedDual(StructuralBracketing(QUICK, component).regions)
    found = []
    for count in (1, 2):
        with threadpool_limits(count, user_api="blas"):
            found.append(dual.raised(dual.start, 0.1, 20))
    assert found[0][1] == found[1][1] and np.array_equal(found[0][0], found[1][0])
