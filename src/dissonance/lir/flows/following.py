"""exp_theta: the flow where control is finite, full control where it is infinite, and both at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from dissonance.lir.flows.base import Flow, Moved, State
from dissonance.lir.flows.full_control import FullControl
from dissonance.lir.inner.base import Attentions, Solved
from dissonance.lir.local import Local
from dissonance.lir.parameters import Stacked


def exp(local: Local, theta: Stacked, flow: Flow, state: State | None = None) -> Moved:
    """exp_theta{ -chi . grad <<phi . M(theta)>> }: full control where chi = inf, the flow where it is finite.

    Where there are both, what is under full control follows the flow: the limit of a large chi, and at its argmin in
    the end.
    """
    if 0 < local.largest < math.inf:
        return flow.step(local, theta, state)
    full = local.controlled({k: torch.where(chi == math.inf, chi, 0.0) for k, chi in local.narrow.items()})
    rest = local.controlled({k: torch.where(chi == math.inf, 0.0, chi) for k, chi in local.narrow.items()})
    moved, seen = Moved(theta, state), full
    if rest.free:
        seen = Following(local.parameters, local.inner, local.attention, rest.chi, local.tol, leader=full)
        moved = flow.step(seen, theta, state)
        moved = moved.then(seen.led(moved.theta))
    elif full.free:
        moved = moved.then(FullControl().step(full, theta))
    local.solves, local.steps, local.first = seen.solves, seen.steps, seen.first
    return moved


@dataclass(eq=False)
class Following(Local):
    """What a flow sees while other parameters are under full control: these are at their argmin wherever it looks.

    That is the limit of chi -> inf: the flow of  min over what is under full control of <<phi . M(theta)>>, whose
    gradient is that of the inconsistency at the argmin.
    """

    leader: Local = field(kw_only=True)

    def solve(self, theta: Stacked, attention: Attentions | None = None) -> Solved:
        """Return the inconsistency with what is under full control at its argmin."""
        return super().solve(self.led(theta).theta, attention)

    def led(self, theta: Stacked) -> Moved:
        """Return theta with what is under full control at its argmin."""
        moved = FullControl().step(self.leader, theta)
        self.solves, self.steps = self.solves + self.leader.solves, self.steps + self.leader.steps
        self.first = self.first or self.leader.first
        self.leader.solves = self.leader.steps = 0
        return moved

    def alone(self, k: int) -> Following:
        """Return the same problem of run k without the other runs."""
        one = super().alone(k)
        return Following(one.parameters, one.inner, one.attention, one.chi, one.tol, leader=self.leader.alone(k))
