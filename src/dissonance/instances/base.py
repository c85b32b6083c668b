"""An instance: a PDG, a refocus, a flow, and a way to read the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dissonance.focus import Attention, Control
from dissonance.lir import Flow, Record, Refocus, Run, lir
from dissonance.pdg import PDG
from dissonance.solvers import Solver

T = TypeVar("T")


@dataclass(frozen=True)
class Instance(Generic[T]):
    """An algorithm as Local Inconsistency Resolution: what to believe, where to look, how to move, what to report.

    `attention` and `control` are the base of the run: what the global inconsistency of the trace means. `read` turns a
    finished run into the answer; `solver` is for the inner problem; `trace` says what the run records. There is no
    optimiser, loss or update rule here: those are the engine's.
    """

    pdg: PDG
    refocus: Refocus
    read: Callable[[Run], T]
    attention: Attention | None = None
    control: Control | None = None
    flow: Flow | str = "natural"
    trace: Record | None = None
    solver: Solver | str = "auto"

    def run(self, steps: int, **options: Any) -> Run:
        """So many steps of LIR; `options` are those of `lir`."""
        base = {"attention": self.attention, "control": self.control}
        own = {**base, "flow": self.flow, "solver": self.solver, "trace": self.trace}
        options = {**own, **options}
        return lir(self.pdg, self.refocus, steps=steps, **options)

    def answer(self, steps: int, **options: Any) -> T:
        """The answer that is read off a run of so many steps."""
        return self.read(self.run(steps, **options))
