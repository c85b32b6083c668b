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
from dissonance.problem import Component, prepare
from dissonance.solvers import SOLVERS, Auto, Newton, Pinned, Solution, Solver

X, U = Variable("X", 2), Variable("U", Euclidean(1))
P, Q = Arc("p", (), X, [0.7, 0.3]), Arc("q", (), X, [0.2, 0.8])


def component(pdg: PDG, **attention: Any) -> Component:
    """The only component of a PDG."""
    (found,) = prepare(pdg, Attention.uniform(pdg).replace(**attention)).components
    return found


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
def test_auto_takes_the_first_solver_of_its_list_that_fits(one: Component, name: str):
    fitting = [s.name for s in Auto().candidates if one.kinds <= s.takes and s.fits(one)]
    assert fitting[0] == name == Auto().choose(one).name


@dataclass(frozen=True)
class Fixed(Solver):
    """Whatever Newton finds, of tables only."""

    name: str = "fixed"

    def solve(self, component: Component) -> Solution:
        """Bounds."""
        return replace(Newton().solve(component), solver=self.name)


def test_a_new_solver_needs_a_name_and_solve_and_refuses_what_it_does_not_take():
    assert inconsistency(PDG(P, Q), solver=Fixed()).solver == "fixed"
    euclidean = PDG(Arc("u", (), U, LinearGaussian(b=[0.0])))
    with pytest.raises(CapabilityError, match="the fixed solver needs finite variables"):
        inconsistency(euclidean, solver=Fixed())
    assert not Newton().fits(component(PDG(P, Q), gamma=1.0, beta={"p": -1.0}))
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


def test_sweeps_are_told_which_solver_takes_tables():
    assert Auto(tol=1e-5).for_tables() == Newton(tol=1e-5) and Newton().for_tables() == Newton()
    assert [SOLVERS[name]().for_tables() for name in ("joint", "clique-tree", "pinned", "sampled")] == [None] * 4
