"""Algorithm 1 of the paper, for P runs of one structure in step: look, refocus, flow, record."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

import numpy as np
import torch

from dissonance.lir import guards, stepping
from dissonance.lir.checkpoints import Checkpoint
from dissonance.lir.flows.base import begin, whole_steps
from dissonance.lir.foci import Foci
from dissonance.lir.inner import Inner
from dissonance.lir.observe import Observer
from dissonance.lir.part import FocusParts
from dissonance.lir.setting import Setting
from dissonance.lir.trace import Trace

Callback = Callable[[int, Sequence[Trace]], bool | None]
"""Called after every step with how many steps are done and the traces of the runs; True ends the run."""


class Algorithm:
    """The state of P runs of LIR: theta, the step, the traces so far, and what the inner solver remembers.

    `whole`: the inner problem of all arcs, once it was asked for. `moved`: what the last step may have moved.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting, self.parameters = setting, setting.parameters
        self.theta, self.step, self.interrupted = self.parameters.begin(), 0, False
        self.moved: Collection[str] = self.theta
        self.flow, self.foci = begin(setting.flow), Foci(self.parameters)
        self.parts = FocusParts(setting, self.flow)
        self.whole: Inner | None = None
        self.generators = [np.random.default_rng(seed % 2**64) for seed in setting.seeds]
        self.traces, self.observer = [Trace(setting.base) for _ in setting.seeds], Observer(setting)

    @property
    def inner(self) -> Inner:
        """The inner problem of all arcs, made when it is first asked for."""
        if self.whole is None:
            self.whole = self.setting.inner()
        return self.whole

    def run(self, steps: int, checkpoint: str | None = None, callbacks: Sequence[Callback] = ()) -> None:
        """Up to so many steps, from the checkpoint if there is one; Ctrl-C ends it at the last finished step."""
        with Checkpoint.resumed(self, checkpoint, steps) as kept:
            guards.refuse_nonfinite(self)
            try:
                self._until(steps, kept, callbacks)
            except KeyboardInterrupt:
                self.interrupted, self.whole = True, None  # it may hold half a solution
        guards.refuse_nonfinite(self)
        self.look(last=True)
        for trace in self.traces:
            trace.rows.append(trace.now)

    def _until(self, steps: int, kept: Checkpoint | None, callbacks: Sequence[Callback]) -> None:
        """Take steps until so many are done, or a callback ends the run."""
        with whole_steps(self.flow) as whole, torch.enable_grad():
            while self.step < steps:
                self.look()
                with whole:
                    self.advance()
                guards.refuse_nonfinite(self, self.moved, written=kept is not None)
                if kept is not None:
                    kept.write()
                if True in [callback(self.step, self.traces) for callback in callbacks]:
                    break

    def look(self, last: bool = False) -> None:
        """Begin the row of this theta: how inconsistent the whole is, and how far it has moved."""
        inner = self.inner if self.setting.record.globally else None
        self.observer.look(inner, self.theta, self.step, self.traces, last)

    def advance(self) -> None:
        """phi, chi <- REFOCUS();  theta <- exp_theta{ -chi . grad <<phi . M(theta)>> }."""
        began = time.perf_counter()
        foci = stepping.refocus(self)
        focus, local, moved = stepping.flow(self, foci)
        self.step += 1
        self.observer.complete(self.traces, focus, local, moved, time.perf_counter() - began)
