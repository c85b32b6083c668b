"""What a flow is, and what it returns: theta a unit of time later, and the state for its next step."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from dissonance.lir.local import Local
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.numerics import DTYPE

State = MutableMapping[str, Any]
"""What a flow keeps from step to step: arrays (of torch or numpy) and numbers, by name."""


@dataclass(frozen=True)
class Moved:
    """The result of a step of a flow.

    Attributes
    ----------
    theta : Stacked
        The parameters a unit of time later, (P, ...) each.
    state : State or None
        What the flow keeps for its next step.
    residual : Tensor or float
        The largest component of the gradient that full control has left, (P,).
    projected : Tensor or bool
        Whether theta left the parameter space and was projected back, (P,).
    """

    theta: Stacked
    state: State | None = None
    residual: Tensor | float = 0.0
    projected: Tensor | bool = False

    @classmethod
    def settled(cls, parameters: Parameters, theta: Stacked, moved: Stacked) -> Moved:
        """Return theta with the moved parameters, projected onto the parameter space where they left it."""
        theta = {**theta, **moved}
        if parameters.boundless.issuperset(moved):
            return cls(theta)
        theta, left = parameters.admissible(theta)
        return cls(theta, projected=left)

    @classmethod
    def stacked(cls, each: Sequence[Moved]) -> Moved:
        """Join the moves of several single runs to one of P runs."""
        theta = {k: torch.cat([m.theta[k] for m in each]) for k in each[0].theta}
        residual = torch.cat([torch.as_tensor(m.residual, dtype=DTYPE).reshape(-1) for m in each])
        return cls(theta, None, residual, torch.cat([torch.as_tensor(m.projected).reshape(-1) for m in each]))

    def then(self, after: Moved) -> Moved:
        """Return this move and then another: where both end, the later state, and the larger residual."""
        one, other = self.residual, after.residual
        if isinstance(one, Tensor) or isinstance(other, Tensor):
            residual = torch.maximum(torch.as_tensor(one, dtype=DTYPE), torch.as_tensor(other, dtype=DTYPE))
        else:
            residual = max(one, other)
        state = self.state if after.state is None else after.state
        return Moved(after.theta, state, residual, self.projected | after.projected)


class Flow(Protocol):
    """A rule that moves theta for unit time under the control of a focus. A flow of one's own derives from this class.

    Attributes
    ----------
    name : str
        The name in the trace.
    in_place : bool
        Whether `step` writes into theta, so that Ctrl-C has to wait for its end.
    whole : bool
        Whether `step` needs the parameters of all arcs. Else it may be given those of the arcs in focus alone.
    """

    name: str
    in_place: bool = False
    whole: bool = False

    def init(self, theta: Mapping[str, Tensor]) -> State | None:
        """Return the state before the first step, of a flow that keeps any."""
        return None

    def step(self, local: Local, theta: Stacked, state: State | None) -> Moved:
        """Return theta a unit of time later, and the state for the next step."""
        ...
