"""The solver: proved bounds where no junction tree fits, narrower the more time there is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dissonance.answer import Answer, Solver, infinite
from dissonance.bounds.bracketing import NAME
from dissonance.errors import CapabilityError
from dissonance.problem import BUDGET, Batch, Bools


@dataclass(frozen=True)
class Bounds(Solver):
    """Proved bounds whatever the treewidth, narrower the more time there is.

    From below, small sets of variables that multipliers make agree; from above, joint states, and at gamma > 0 mixtures
    of products over blocks of variables. `tol`: the gap at which it stops, relative to max(1, inconsistency);
    `seconds`: when it stops in any case (a first bracket takes what it takes); `budget`: bytes it may use; `seed`: of
    the states that are drawn.
    """

    name = NAME

    seconds: float = 20.0
    tol: float = 1e-3
    budget: int = BUDGET
    seed: int = 0

    def fits(self, part: Batch) -> Bools | bool:
        """Return where no arc is disbelieved, and at gamma > 0 beta >= gamma alpha, mechanism by mechanism."""
        return (part.beta >= 0).all(1) & part.convex

    def solve(self, part: Batch) -> Answer:
        """The bracket that is reached in time; of an interrupted one, the best so far."""
        if not self.fits(part):
            raise CapabilityError(
                f"the {self.name} solver needs tables, beta >= 0 and beta >= gamma alpha. Use "
                'solver="concave-convex", which finds a local minimum.'
            )
        if part.gamma.item():
            from dissonance.bounds.structural import (
                StructuralBracketing as Bracketing,  # SciPy's graphs are slow to import
            )
        else:
            from dissonance.bounds.bracketing import Bracketing
        run = Bracketing(self, part)
        run.narrow()
        return infinite(part, self.name) if run.lower == math.inf else run.solution()
