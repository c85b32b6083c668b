"""Flows where some parameters are under full control: those with chi = inf follow the others."""

from __future__ import annotations

from dataclasses import dataclass, field

from dissonance.lir.flows.base import Movement
from dissonance.lir.flows.full_control import FullControl
from dissonance.lir.inner.base import Attentions, Solved
from dissonance.lir.local import Local
from dissonance.lir.parameters import Stacked


@dataclass
class Following(Local):
    """What a flow sees while other parameters are under full control: these are at their argmin wherever it looks.

    That is the limit of chi -> inf: the flow of  min over what is under full control of <<phi . M(theta)>>, whose
    gradient is that of the inconsistency at the argmin.
    """

    full_part: Local = field(kw_only=True)

    def solve(self, theta: Stacked, attention: Attentions | None = None) -> Solved:
        """The inconsistency with what is under full control at its argmin."""
        return super().solve(self.led(theta).theta, attention)

    def led(self, theta: Stacked) -> Movement:
        """theta with what is under full control at its argmin."""
        moved = FullControl()(self.full_part, theta)
        self.solves, self.steps = self.solves + self.full_part.solves, self.steps + self.full_part.steps
        self.first = self.first or self.full_part.first
        self.full_part.solves = self.full_part.steps = 0
        return moved

    def alone(self, k: int) -> Following:
        """The same for run k by itself."""
        one = super().alone(k)
        part = self.full_part.alone(k)
        return Following(one.parameters, one.inner, one.attention, one.chi, one.tol, full_part=part)
