"""What P runs are runs of: everything that does not change from step to step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dissonance.answer import DEFAULT_TOL, checked
from dissonance.columns.weights import ColumnWeights
from dissonance.control import Chi
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus, Weights, facts
from dissonance.lir.flows import Flow
from dissonance.lir.inner import Inner, inner_for
from dissonance.lir.parameters import Parameters
from dissonance.lir.refocus import Refocus
from dissonance.lir.trace import Record
from dissonance.pdg import PDG
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


def default_control(free: Mapping[str, float], attention: Attention) -> Control:
    """What moves if nobody says: all that can, but for facts (beta = inf), which a control has to name."""
    hard = facts(attention)
    if isinstance(free, ColumnWeights):
        return Control(free | dict.fromkeys(hard & free.keys(), math.nan))
    return Control({name: chi for name, chi in free.items() if name not in hard})


def base_focus(
    pdg: PDG, attention: Attention | Weights | None, control: Control | Chi | None, *, named: bool = False
) -> Focus:
    """The focus that refocus procedures choose from: by default their own beta, alpha = 1, gamma = 0, and
    `default_control`. `named`: one that is known by its name chooses, and controls what the base controls."""
    free = pdg.movable
    if not free:
        raise DissonanceError(
            "no arc has parameters to move: fixed tables have none. Use pdg.learnable(), or learnable=True where the "
            "beliefs are read."
        )
    attended = Attention.of(attention, pdg)
    chosen = default_control(free, attended) if control is None else Control.of(control)
    if control is None and named and not chosen.chi:
        raise DissonanceError(
            "every arc that could move is a fact (beta = inf), and facts are kept unless a control names them: "
            f"control={{{next(iter(free))!r}: 1.0}}."
        )
    attended.check(pdg)
    return Focus(attended, chosen.on(pdg))


def solver_for(solver: Solver | str, tol: float | None) -> Solver:
    """A solver by its name, with this tolerance if one is given, and without what only tightens bounds; one that is
    passed keeps every option."""
    if not isinstance(solver, str):
        return checked(solver)
    found: Any = solver_named(solver).unproved()
    return found if tol is None or not hasattr(found, "tol") else replace(found, tol=tol)
