"""Checkpoints: all that a run needs to go on, written all at once after every step.

A checkpoint holds theta, the generators, the solver's last states (so that a resumed run takes the same Newton steps),
the states of optimisers that are kept, mu* of the start and the traces. On CPU a resumed run is bit for bit the run
that was not stopped, but for its seconds. The file is sealed, and says what it is a checkpoint of: of anything else it
is refused.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dissonance.errors import FormatError
from dissonance.io import sealed
from dissonance.io.fingerprint import Fingerprint
from dissonance.lir.inner.compromise import Compromise
from dissonance.lir.trace import rows_of_lines

if TYPE_CHECKING:
    from dissonance.lir.run import Algorithm

FORMAT = "dissonance.lir 3"
WHAT = "a checkpoint"


class Checkpoint:
    """The file that a run is kept in."""

    def __init__(self, runs: Algorithm, path: str) -> None:
        """Of a run that has not begun: what it is a run of is taken down here, once."""
        self.runs, self.path = runs, path
        of = runs.setting
        self.of = Fingerprint(of.parameters.pdgs, of.refocus, of.seeds, of.base, of.flow, of.solver, of.record, of.tol)

    @classmethod
    def resumed(cls, runs: Algorithm, path: str, steps: int) -> Checkpoint:
        """The same, after the runs have gone on from it, if the file is there."""
        kept = cls(runs, path)
        kept.resume(steps)
        return kept

    def write(self) -> None:
        """Write the state after the last step."""
        runs = self.runs
        start, flow = runs.observer.start, cast("Any", runs.flow)
        state: dict[str, Any] = {
            "format": FORMAT,
            "of": self.of.hex(),
            "step": runs.step,
            "theta": dict(runs.theta),
            "generators": [g.get_state() for g in runs.generators],
            "inner": runs.inner.dump(),
            "flow": flow.dump() if hasattr(flow, "dump") else [],
            "start": None if start is None else [start.mu, start.cluster],
            "rows": [t.lines() for t in runs.traces],
            "snapshots": [t.snapshots for t in runs.traces],
        }
        sealed.write_state(self.path, state)

    def resume(self, steps: int) -> None:
        """Go on from the file, if it is there, to do so many steps in all."""
        if not Path(self.path).exists():
            return
        state = sealed.read_state(self.path, WHAT)
        self._check(state, steps)
        if self.of.unseen:
            functions = ", ".join(dict.fromkeys(self.of.unseen))
            warnings.warn(
                f"{self.path}: {functions}: name, source and what is closed over are those of the checkpoint; what "
                "else it reads cannot be checked.",
                stacklevel=2,
            )
        self._restore(state)

    def _check(self, state: dict[str, Any], steps: int) -> None:
        where = self.path
        if state.get("format") != FORMAT:
            raise FormatError(f"{where}: is not a checkpoint of dissonance. Delete it, or name another file.")
        if state["of"] != self.of.hex():
            raise FormatError(
                f"{where}: is a checkpoint of another run (another PDG, refocus, flow, seed or option). "
                "Delete it, or name another file."
            )
        if state["step"] > steps:
            raise FormatError(
                f"{where}: is of a run that has done {state['step']} steps, and {steps} are asked for. "
                f"Ask for {state['step']} or more, delete it, or name another file."
            )
        shapes = {key: tuple(x.shape) for key, x in self.runs.theta.items()}
        if {key: tuple(x.shape) for key, x in state["theta"].items()} != shapes:
            raise FormatError(f"{where}: holds parameters of other shapes. Delete it, or name another file.")

    def _restore(self, state: dict[str, Any]) -> None:
        runs = self.runs
        runs.step, runs.theta = state["step"], state["theta"]
        for generator, known in zip(runs.generators, state["generators"], strict=True):
            generator.set_state(known)
        runs.inner.restore(state["inner"])
        flow: Any = runs.flow
        if hasattr(flow, "restore"):
            flow.restore(runs.theta, state["flow"])
        runs.observer.start = None if state["start"] is None else Compromise(*state["start"])
        for trace, lines, snapshots in zip(runs.traces, state["rows"], state["snapshots"], strict=True):
            trace.rows[:] = rows_of_lines(lines)
            trace.snapshots |= snapshots
