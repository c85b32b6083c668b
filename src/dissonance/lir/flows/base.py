"""What a flow is, and what it returns: theta a unit of time later."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

import torch
from torch import Tensor

from dissonance.lir.local import Local
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.numerics import DTYPE


@dataclass(frozen=True)
class Movement:
    """Where a flow has taken theta; which runs left the parameter space and were projected, (P,); and how far from
    stationary the parameters under full control are (largest component of the gradient), (P,)."""

    theta: Stacked
    projected: Tensor | bool = False
    residual: Tensor | float = 0.0

    @classmethod
    def settled(cls, parameters: Parameters, theta: Stacked, moved: Stacked) -> Movement:
        """theta with the moved parameters, projected onto the parameter space where they left it."""
        theta = {**theta, **moved}
        return cls(theta) if parameters.boundless.issuperset(moved) else cls(*parameters.admissible(theta))

    @classmethod
    def stacked(cls, each: Sequence[Movement]) -> Movement:
        """The movements of several single runs as one of P runs."""
        theta = {k: torch.cat([m.theta[k] for m in each]) for k in each[0].theta}
        projected = torch.cat([torch.as_tensor(m.projected).reshape(-1) for m in each])
        return cls(theta, projected, torch.cat([torch.as_tensor(m.residual, dtype=DTYPE).reshape(-1) for m in each]))

    def then(self, after: Movement) -> Movement:
        """This move and then another: where both end, and the larger residual."""
        one, other = self.residual, after.residual
        if isinstance(one, Tensor) or isinstance(other, Tensor):
            residual = torch.maximum(torch.as_tensor(one, dtype=DTYPE), torch.as_tensor(other, dtype=DTYPE))
        else:
            residual = max(one, other)
        return Movement(after.theta, self.projected | after.projected, residual)


class Flow(Protocol):
    """Anything that moves theta for unit time under the control of a focus."""

    @property
    def name(self) -> str:
        """What the trace calls it."""
        ...

    def __call__(self, local: Local, theta: Stacked) -> Movement:
        """theta a unit of time later."""
        ...


def begin(flow: Flow) -> Flow:
    """The flow for a whole run: one that keeps state between steps makes a new object in its `begin`."""
    return flow.begin() if hasattr(flow, "begin") else flow  # pyright: ignore[reportAttributeAccessIssue]


class _WholeSteps:
    """A context for steps, entered once for each: Ctrl-C inside a step takes effect at its end."""

    def __init__(self, before: Callable[[int, FrameType | None], object]) -> None:
        self.before, self.inside = before, False
        self.waiting: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> None:
        self.inside = True

    def __exit__(self, *error: object) -> None:
        self.inside = False
        waiting, self.waiting = self.waiting, None
        if waiting is not None and error[0] is None:
            self.before(*waiting)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT: inside a step, wait until the step is done."""
        if self.inside:
            self.waiting = number, frame
        else:
            self.before(number, frame)


@contextlib.contextmanager
def whole_steps(flow: Flow) -> Generator[contextlib.AbstractContextManager[None]]:
    """The context in which the steps of a run are taken: a flow that changes theta in place (one with a `dump`) must
    not be interrupted within a step."""
    before = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()
    if not (hasattr(flow, "dump") and here and callable(before)):
        yield contextlib.nullcontext()
        return
    steps = _WholeSteps(before)
    signal.signal(signal.SIGINT, steps.interrupt)
    try:
        yield steps
    finally:
        signal.signal(signal.SIGINT, before)
