"""Where the usual solvers do not fit: the forms of `bounds/` and `reduced/` that `auto` knows."""

from __future__ import annotations

from dataclasses import dataclass

from dissonance.bounds.solver import Bounds
from dissonance.distributions.messages import message_bytes
from dissonance.problem import Component
from dissonance.reduced.solver import Reduced
from dissonance.solvers.direct import SumProductSolver
from dissonance.solvers.exact import Newton
from dissonance.solvers.peeled import left


@dataclass(frozen=True)
class PastNewton(Reduced):
    """The reduced dual, where Newton's steps do not fit but the junction tree does."""

    def fits(self, component: Component) -> bool:
        """Whether Newton refuses it, and messages have room."""
        newton = Newton(budget=self.budget)
        if newton.surely(component) or not super().fits(component) or message_bytes(component.tree) > self.budget:
            return False
        return newton.refuses(component) and self.bytes(component) <= self.budget


@dataclass(frozen=True)
class PastTree(Bounds):
    """Bounds, where the junction tree does not fit the budget."""

    def fits(self, component: Component) -> bool:
        """Whether there is no room for Newton's steps nor for messages, not even of what is left without loose ends."""
        newton = Newton(budget=self.budget)
        if newton.surely(component) or not super().fits(component):
            return False
        if SumProductSolver().fits(component):
            return message_bytes(component.tree) > self.budget
        reduced = PastNewton(budget=self.budget)
        return any(newton.refuses(c) and not reduced.fits(c) for c in left(component))
