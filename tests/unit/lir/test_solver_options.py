"""The solver that a run of LIR is given is the one that runs, with every option it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, Euclidean, LinearGaussian, SizeError, SoftmaxTable, Variable, lir, lirs
from dissonance.answer import DEFAULT_TOL
from dissonance.lir.inner import inner_for
from dissonance.lir.inner.batched import Batched
from dissonance.lir.inner.one_by_one import OneByOne
from dissonance.lir.parameters import Parameters
from dissonance.lir.run import solver_for
from dissonance.problem import prepare
from dissonance.solvers import SOLVERS, Auto, CliqueTreeSolver, GaussianSolver, JointSolver, Newton, Paper, solver_named
from dissonance.solvers.convex.work import Work
from dissonance.solvers.exact import BYTES_PER_CELL, Targets

MEGABYTE = 2**20


def loop(seed: int = 0) -> PDG:
    rng = np.random.default_rng(seed)
    a, b = Variable("A", 2), Variable("B", 3)
    p, q = rng.dirichlet(np.ones(3), size=2), rng.dirichlet(np.ones(2), size=3)
    return PDG(
        Arc("ab", a, b, SoftmaxTable(p)),
        Arc("ba", b, a, SoftmaxTable(q)),
        Arc("b", (), b, SoftmaxTable([0.2, 0.3, 0.5])),
    )


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Newton, float, float]]:
    """The solvers that ran, and how far they were asked to iterate and to prove."""
    found: list[tuple[Newton, float, float]] = []

    def watch(cls: type[Newton]) -> None:
        run = cls.run

        def recorded(self: Newton, program: Any, targets: Targets, *rest: Any) -> Any:
            found.append((self, targets.to, targets.enough))
            return run(self, program, targets, *rest)

        monkeypatch.setattr(cls, "run", recorded)

    watch(Newton)
    watch(CliqueTreeSolver)
    return found


@pytest.mark.parametrize("tol", [1e-10, 1e-5])
def test_a_solver_that_is_passed_runs_with_every_option(tol: float, ran: list[tuple[Newton, float, float]]):
    solver = Newton(tol=tol, budget=100 * MEGABYTE, device="cpu")
    lir(loop(), steps=2, solver=solver)
    assert ran
    for used, inner, enough in ran:
        assert (used.tol, used.budget, used.device) == (tol, 100 * MEGABYTE, "cpu")
        assert inner < enough <= tol


def test_auto_hands_its_options_on(ran: list[tuple[Newton, float, float]]):
    lir(loop(), steps=2, solver=Auto(tol=1e-6, budget=50 * MEGABYTE, device="cpu"))
    assert ran
    assert {(type(s), s.tol, s.budget, s.device) for s, *_ in ran} == {(Newton, 1e-6, 50 * MEGABYTE, "cpu")}


@pytest.mark.parametrize("solver", [CliqueTreeSolver, JointSolver])
def test_other_exact_solvers_run_themselves(solver: type[Newton], ran: list[tuple[Newton, float, float]]):
    given = solver(tol=1e-6, budget=50 * MEGABYTE, device="cpu")
    lir(loop(), steps=1, solver=given)
    assert ran and all(used == given and type(used) is solver for used, *_ in ran)


@pytest.mark.parametrize("name", ["auto", "newton"])
def test_a_tolerance_beside_a_name_is_the_solvers(name: str, ran: list[tuple[Newton, float, float]]):
    lir(loop(), steps=1, solver=name, tol=1e-5)
    assert ran and {s.tol for s, *_ in ran} == {1e-5}


@pytest.mark.parametrize("name", ["auto", "newton"])
def test_without_a_tolerance_it_is_the_default_one(name: str, ran: list[tuple[Newton, float, float]]):
    lir(loop(), steps=1, solver=name)
    assert ran and {s.tol for s, *_ in ran} == {DEFAULT_TOL}


def test_a_solver_that_is_passed_keeps_its_tolerance_beside_another():
    solver = Newton(tol=1e-9)
    assert solver_for(solver, 1e-3) is solver
    assert solver_for("newton", 1e-3) == Newton(tol=1e-3)
    assert solver_for("auto", None) == Auto(nodes=0)


@pytest.mark.parametrize("solver", [Newton(1e-9, 7 * MEGABYTE, "cpu"), Auto(1e-9, 7 * MEGABYTE, "cpu")])
def test_runs_in_step_have_the_options_and_so_has_what_they_fall_back_on(solver: Newton | Auto):
    inner = inner_for(Parameters([loop(0), loop(1)]), solver, Attention.uniform(loop()))
    assert isinstance(inner, Batched)
    for used in (inner.solver, inner.alone(1).solver, inner.fork().solver, inner.other.solver):
        assert (used.tol, used.budget, used.device) == (1e-9, 7 * MEGABYTE, "cpu")


def test_what_does_not_fit_the_budget_together_is_solved_run_by_run(monkeypatch: pytest.MonkeyPatch):
    pdgs, pieces = [loop(k) for k in range(5)], list[int]()
    (part,) = prepare(pdgs[0], Attention.uniform(pdgs[0])).parts
    structure = Newton().structure(part)
    assert structure is not None
    need = max(structure.bytes, BYTES_PER_CELL * part.tree.cells)
    newton = Work.newton

    def counted(self: Work, *args: Any, **options: Any) -> None:
        pieces.append(len(self.X))
        newton(self, *args, **options)

    monkeypatch.setattr(Work, "newton", counted)
    alone = Newton(budget=need)
    wide, narrow = (lirs(pdgs, steps=2, solver=solver) for solver in (Newton(), alone))
    assert isinstance(inner_for(Parameters(pdgs), alone, Attention.uniform(pdgs[0])), Batched)
    assert set(pieces) == {1, 5}
    for one, other in zip(wide, narrow, strict=True):
        assert all(np.array_equal(one.theta[key], other.theta[key]) for key in one.theta)
    with pytest.raises(SizeError, match="budget"):
        lirs(pdgs, steps=2, solver=Newton(budget=need - 1))


def test_what_has_no_table_is_solved_run_by_run_by_any_solver():
    x = Variable("X", Euclidean(1))
    pdg = PDG(Arc("p", (), x, LinearGaussian(b=[0.0])), Arc("q", (), x, LinearGaussian(b=[1.0])))
    for solver in (Auto(), Newton(), GaussianSolver()):
        assert isinstance(inner_for(Parameters([pdg, pdg]), solver, Attention.uniform(pdg)), OneByOne)
    for solver in (Auto(), Newton(), JointSolver(), CliqueTreeSolver()):
        assert isinstance(inner_for(Parameters([loop()]), solver, Attention.uniform(loop())), Batched)


def test_a_tolerance_beside_the_name_of_the_gaussian_solver_is_its_own():
    assert solver_for("gaussian", 1e-3) == GaussianSolver(tol=1e-3)


def test_there_is_one_default_tolerance():
    """That of the concave-convex procedure is none between bounds: it says when to stop its rounds. Brackets past
    treewidth have a gap of their own at which they are narrow enough."""
    assert Newton().tol == CliqueTreeSolver().tol == JointSolver().tol == Auto().tol == Paper().tol == DEFAULT_TOL
    for name in set(SOLVERS) - {"concave-convex", "bounds"}:
        assert getattr(solver_named(name), "tol", DEFAULT_TOL) == DEFAULT_TOL, name


def test_a_finer_tolerance_gives_closer_bounds():
    """It is not only passed on: it matters."""
    rough, fine = (lir(loop(3), steps=1, solver=Newton(tol=t, device="cpu")) for t in (1e-3, 1e-11))
    gaps = [run.before.upper - run.before.lower for run in (rough, fine)]
    assert gaps[1] <= 1e-11 < gaps[0] <= 1e-3
