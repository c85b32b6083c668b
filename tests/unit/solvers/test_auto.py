"""Which solver takes a component: what each says it fits, in the order of the list."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    DissonanceError,
    Euclidean,
    LinearGaussian,
    Variable,
    inconsistency,
)
from dissonance.problem import Batch, prepare
from dissonance.solvers import Answer, Auto, Newton, Pinned, Solver, solver_named

X, U = Variable("X", 2), Variable("U", Euclidean(1))
P, Q = Arc("p", (), X, [0.7, 0.3]), Arc("q", (), X, [0.2, 0.8])


def component(pdg: PDG, **attention: Any) -> Batch:
    """The only component of a PDG."""
    (found,) = prepare(pdg, Attention.uniform(pdg).replace(**attention)).parts
    return found


def chosen_by(solver: Solver, part: Batch) -> str:
    """The name of the solver of a problem."""
    ((found, rows),) = solver.choose(part)
    assert rows.tolist() == [0]
    return found.name


@pytest.mark.parametrize(
    ("one", "name"),
    [
        (component(PDG(P, Q)), "newton"),
        (component(PDG(P, Q), beta={"p": math.inf}), "pinned"),
        (component(PDG(P), gamma=1.0), "sum-product"),
        (component(PDG(P, Q), gamma=1.0, beta={"p": -1.0}), "concave-convex"),
        (
            component(PDG(Arc("u", (), U, LinearGaussian(b=[0.0])), Arc("v", (), U, LinearGaussian(b=[1.0])))),
            "gaussian",
        ),
    ],
)
def test_auto_takes_the_first_solver_of_its_list_that_fits(one: Batch, name: str):
    fitting = [s.name for s in Auto().candidates if one.kinds <= s.takes and s.fits(one)]
    assert fitting[0] == name == chosen_by(Auto(), one)


@dataclass(frozen=True)
class Fixed(Solver):
    """Whatever Newton finds, of tables only."""

    name: str = "fixed"

    def solve(self, component: Batch) -> Answer:
        """Bounds."""
        return replace(Newton().solve(component), solver=self.name)


def test_a_new_solver_needs_a_name_and_solve_and_refuses_what_it_does_not_take():
    assert inconsistency(PDG(P, Q), solver=Fixed()).solver == "fixed"
    euclidean = PDG(Arc("u", (), U, LinearGaussian(b=[0.0])))
    with pytest.raises(CapabilityError, match="the fixed solver needs finite variables"):
        inconsistency(euclidean, solver=Fixed())
    assert not Newton().fits(component(PDG(P, Q), gamma=1.0, beta={"p": -1.0})).any()
    assert not Pinned().fits(component(PDG(P, Q)))


def test_what_is_no_solver_is_told_what_to_inherit_from():
    class Odd:
        name = "odd"

    with pytest.raises(DissonanceError, match=r"Odd is no solver: have it inherit from dissonance\.solvers\.Solver"):
        inconsistency(PDG(P, Q), solver=Odd())  # type: ignore[arg-type]


@pytest.mark.parametrize("solver", [s for s in Auto().candidates if s.needs], ids=lambda s: s.name)
@pytest.mark.parametrize("attention", [{}, {"beta": {"p": math.inf}}, {"gamma": 1.0}], ids=["soft", "hard", "gamma"])
def test_a_solver_does_not_fit_what_it_need_not_be_asked_about(solver: Solver, attention: dict[str, Any]):
    assert solver.needs <= solver.takes
    assert not solver.fits(component(PDG(P, Q), **attention))


def test_auto_hands_tables_to_newton_with_its_options_and_every_other_solver_takes_them_itself():
    part = component(PDG(P, Q))
    for solver, wanted in ((Auto(tol=1e-5), Newton(tol=1e-5)), (Newton(), Newton())):
        ((found, _),) = solver.choose(part)
        assert found == wanted
    for name in ("joint", "clique-tree", "pinned", "sampled"):
        assert chosen_by(solver_named(name), part) == name


def test_every_problem_of_a_batch_has_the_solver_it_has_alone():
    """A pool that is heavy, a factor graph, beliefs and disbelief, all over the same arcs."""
    rows = [({}, 0.0), ({"p": 1e9}, 0.0), ({}, 1.0), ({"p": -1.0}, 1.0), ({}, 0.0), ({"p": 2.0}, 1.0)]
    parts = [component(PDG(P, Q), beta=beta, gamma=gamma) for beta, gamma in rows]
    whole = Batch.together(parts)
    for some in whole.groups():
        found = {k: s for s, numbers in Auto().choose(whole.take(some)) for k in some[numbers].tolist()}
        assert sorted(found) == sorted(some.tolist())
        for k, s in found.items():
            assert s.name == chosen_by(Auto(), parts[k])
    assert {chosen_by(Auto(), p) for p in parts} == {"newton", "pooled", "sum-product", "concave-convex"}
