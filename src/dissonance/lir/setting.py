"""What P runs are runs of: everything that does not change from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Chi, Control, Focus, Weights
from dissonance.lir.flows import Flow
from dissonance.lir.inner import Inner, inner_for
from dissonance.lir.parameters import Parameters
from dissonance.lir.refocus import Refocus
from dissonance.lir.trace import Record
from dissonance.pdg import PDG
from dissonance.solution import DEFAULT_TOL, checked
from dissonance.solvers import Solver, solver_named


@dataclass(frozen=True, eq=False)
class Setting:
    """The parameters of P runs, how each chooses its focus, and how all of them flow and are solved.

    `base` is the focus that refocus procedures choose from; the global inconsistency is measured with its attention.
    `tol`: below it an inconsistency counts as resolved.
    """

    parameters: Parameters
    refocus: Sequence[Refocus]
    seeds: Sequence[int]
    base: Focus
    flow: Flow
    solver: Solver
    record: Record
    tol: float

    @classmethod
    def of(
        cls,
        parameters: Parameters,
        refocus: Sequence[Refocus],
        seeds: Sequence[int],
        base: Focus,
        flow: Flow,
        solver: Solver | str,
        *,
        tol: float | None = None,
        record: Record | None = None,
    ) -> Setting:
        """With a solver by its name, and the tolerance of the solver by default."""
        chosen = solver_for(solver, tol)
        limit = getattr(chosen, "tol", DEFAULT_TOL) if tol is None else tol
        return cls(parameters, list(refocus), list(seeds), base, flow, chosen, record or Record(), limit)

    @property
    def names(self) -> list[str]:
        """The names of the arcs."""
        return [a.name for a in self.parameters.arcs]

    def inner(self) -> Inner:
        """A new inner problem, without memory."""
        return inner_for(self.parameters, self.solver, self.base.attention)


def base_focus(pdg: PDG, attention: Attention | Weights | None, control: Control | Chi | None) -> Focus:
    """The focus that refocus procedures choose from: by default their own beta, alpha = chi = 1, gamma = 0."""
    free = pdg.movable
    if not free:
        raise DissonanceError(
            "no arc has parameters to move: fixed tables have none. Use pdg.learnable(), or learnable=True where the "
            "beliefs are read."
        )
    focus = Focus(Attention.of(attention, pdg), Control.of(free if control is None else control))
    focus.check(pdg)
    return focus


def solver_for(solver: Solver | str, tol: float | None) -> Solver:
    """A solver by its name, with this tolerance if one is given, and without what only tightens bounds; one that is
    passed keeps every option."""
    if not isinstance(solver, str):
        return checked(solver)
    found: Any = solver_named(solver).unproved()
    return found if tol is None or not hasattr(found, "tol") else replace(found, tol=tol)
