"""Algorithm 1 of the paper, for P runs of one structure in step: look, refocus, flow, record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from dissonance.focus import Focus
from dissonance.lir import guards
from dissonance.lir.checkpoints import Checkpoint
from dissonance.lir.flows import exp
from dissonance.lir.flows.base import begin, whole_steps
from dissonance.lir.foci import Foci
from dissonance.lir.local import Local
from dissonance.lir.observe import Observer
from dissonance.lir.setting import Setting
from dissonance.lir.trace import Trace

Callback = Callable[[int, Sequence[Trace]], bool | None]
"""Called after every step with how many steps are done and the traces of the runs; True ends the run."""


class Algorithm:
    """The state of P runs of LIR: theta, the step, the traces so far, and what the inner solver remembers."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.parameters = setting, setting.parameters
        self.theta, self.step, self.interrupted = self.parameters.theta0, 0, False
        self.inner, self.flow, self.foci = setting.inner(), begin(setting.flow), Foci(self.parameters)
        self.generators = [torch.Generator().manual_seed(seed) for seed in setting.seeds]
        self.traces, self.observer = [Trace(setting.base) for _ in setting.seeds], Observer(setting)

    def run(self, steps: int, checkpoint: str | None = None, callbacks: Sequence[Callback] = ()) -> None:
        """Up to so many steps, from the checkpoint if there is one; Ctrl-C ends it at the last finished step."""
        kept = Checkpoint.resumed(self, checkpoint, steps) if checkpoint is not None else None
        guards.refuse_nonfinite(self)
        try:
            with whole_steps(self.flow) as whole:
                while self.step < steps:
                    self.look()
                    with whole:
                        self.advance()
                    guards.refuse_nonfinite(self, written=kept is not None)
                    if kept is not None:
                        kept.write()
                    if True in [callback(self.step, self.traces) for callback in callbacks]:
                        break
        except KeyboardInterrupt:
            self.interrupted = True
            self.inner = self.setting.inner()  # the old one may hold half a solution
        guards.refuse_nonfinite(self)
        self.look(last=True)
        for trace in self.traces:
            trace.rows.append(trace.now)

    def look(self, last: bool = False) -> None:
        """Begin the row of this theta: how inconsistent the whole is, and how far it has moved."""
        self.observer.look(self.inner, self.theta, self.step, self.traces, last)

    def advance(self) -> None:
        """phi, chi <- REFOCUS();  theta <- exp_theta{ -chi . grad <<phi . M(theta)>> }."""
        began = time.perf_counter()
        foci = self.refocus()
        focus = self.foci.stack(foci)
        guards.surround(self, foci, focus)
        inner = self.inner.fork() if self.setting.record.globally else self.inner
        local = Local(self.parameters, inner, focus.attention, focus.reach, self.setting.tol)
        with guards.explained(self, foci, local):
            moved = exp(local, self.theta, self.flow)
        rows = self.observer.rows(self.traces, focus, local, moved, time.perf_counter() - began)
        self.theta, self.step = moved.theta, self.step + 1
        for trace, row in zip(self.traces, rows, strict=True):
            trace.rows.append(row)

    def refocus(self) -> list[Focus]:
        """The next focus of every run, which may depend on its trace and draw from its generator."""
        asked = zip(self.setting.refocus, self.parameters.pdgs, self.generators, self.traces, strict=True)
        return [guards.refocused(self, *each) for each in asked]
