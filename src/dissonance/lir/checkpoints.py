"""Checkpoints: all that a run needs to go on, written after every step.

A checkpoint holds theta, the generators, the solver's last states (so that a resumed run takes the same Newton steps),
the states of optimisers that are kept, mu* of the start and the traces. On CPU a resumed run is bit for bit the run
that was not stopped, but for its seconds. The file is sealed, and says what it is a checkpoint of: of anything else it
is refused.

After a step that moved all of theta the file is written anew. After one that moved a part, that part and the new rows
are appended, until what was appended is as much as the file began with: a step costs what its focus costs.

A checkpoint belongs to one run at a time, which holds its lock. Its records continue each other: each is sealed with
the record before it, and the traces have the row of every step.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dissonance.errors import FormatError
from dissonance.io import sealed
from dissonance.io.fingerprint import Fingerprint
from dissonance.io.locked import alone
from dissonance.io.sealed import Seal
from dissonance.lir.inner.compromise import Compromise
from dissonance.lir.trace import rows_of_lines

if TYPE_CHECKING:
    from dissonance.lir.run import Algorithm

FORMAT = "dissonance.lir 5"
WHAT = "a checkpoint"


class Checkpoint:
    """The file that a run is kept in."""

    def __init__(self, runs: Algorithm, path: str) -> None:
        """For a run that has not begun: what identifies it is computed here, once."""
        self.runs, self.path = runs, path
        of = runs.setting
        self.of = Fingerprint(of.parameters.pdgs, of.refocus, of.seeds, of.base, of.flow, of.solver, of.record, of.tol)
        self.last: Seal | None = None  # of the record that this run wrote last
        self.room = 0  # how many bytes may still be appended
        self.written = 0  # the rows that the file has

    @classmethod
    @contextmanager
    def resumed(cls, runs: Algorithm, path: str | None, steps: int) -> Generator[Checkpoint | None, None, None]:
        """Hold the checkpoint at a path, after the runs have been restored from it if the file exists."""
        if path is None:
            yield None
            return
        with alone(path):
            kept = cls(runs, path)
            kept.resume(steps)
            yield kept

    def write(self) -> None:
        """Write the state after the last step."""
        runs = self.runs
        if self.last is not None and self.room > 0 and len(runs.moved) < len(runs.theta):
            self.last = sealed.append_state(self.path, self._state(runs.moved, self.written), self.last)
            self.room -= self.last.size
        else:
            self.last = sealed.write_state(self.path, self._state(runs.theta, 0))
            self.room = self.last.size
        self.written = len(runs.traces[0])

    def _state(self, keys: Collection[str], first: int) -> dict[str, Any]:
        """The state of the runs: of theta these parameters, of the traces what is new from a row on."""
        runs = self.runs
        start, flow = runs.observer.start, cast("Any", runs.flow)
        return {
            "format": FORMAT,
            "of": self.of.hex(),
            "step": runs.step,
            "theta": runs.parameters.kept(runs.theta, keys),
            "tv_theta": runs.observer.tv_theta,
            "generators": [g.bit_generator.state for g in runs.generators],
            "inner": None if runs.whole is None else runs.whole.dump(),
            "flow": flow.dump() if hasattr(flow, "dump") else [],
            "start": None if start is None else [start.mu, start.cluster],
            "rows": ["".join(row.line for row in t.rows[first:]) for t in runs.traces],
            "snapshots": [{step: x for step, x in t.snapshots.items() if step >= first} for t in runs.traces],
        }

    def resume(self, steps: int) -> None:
        """Go on from the file, if it is there, to do so many steps in all."""
        if not Path(self.path).exists():
            return
        states = sealed.read_states(self.path, WHAT)
        for state in states:
            self._check(state)
        state = states[-1] | {
            "theta": {key: x for each in states for key, x in each["theta"].items()},
            "rows": ["".join(lines) for lines in zip(*(each["rows"] for each in states), strict=True)],
            "snapshots": [
                {step: x for one in each for step, x in one.items()}
                for each in zip(*(one["snapshots"] for one in states), strict=True)
            ],
        }
        self._check_state(state, steps)
        if self.of.unseen:
            functions = ", ".join(dict.fromkeys(self.of.unseen))
            warnings.warn(
                f"{self.path}: {functions}: name, source and what is closed over are those of the checkpoint; what "
                "else it reads cannot be checked.",
                stacklevel=2,
            )
        self._restore(state)

    def _check(self, state: dict[str, Any]) -> None:
        where = self.path
        if state.get("format") != FORMAT:
            raise FormatError(f"{where}: is not a checkpoint of dissonance. Delete it, or name another file.")
        if state["of"] != self.of.hex():
            raise FormatError(
                f"{where}: is a checkpoint of another run (another PDG, refocus, flow, seed or option). "
                "Delete it, or name another file."
            )

    def _check_state(self, state: dict[str, Any], steps: int) -> None:
        where = self.path
        if state["step"] > steps:
            raise FormatError(
                f"{where}: is of a run that has done {state['step']} steps, and {steps} are asked for. "
                f"Ask for {state['step']} or more, delete it, or name another file."
            )

    def _restore(self, state: dict[str, Any]) -> None:
        runs = self.runs
        runs.step, runs.theta = state["step"], runs.parameters.resumed(state["theta"], self.path)
        for generator, known in zip(runs.generators, state["generators"], strict=True):
            generator.bit_generator.state = known
        if state["inner"] is not None:
            runs.inner.restore(state["inner"])
        runs.observer.tv_theta = state["tv_theta"]
        flow: Any = runs.flow
        if hasattr(flow, "restore"):
            flow.restore(runs.theta, state["flow"])
        runs.observer.start = None if state["start"] is None else Compromise(*state["start"])
        for trace, lines, snapshots in zip(runs.traces, state["rows"], state["snapshots"], strict=True):
            trace.rows[:] = rows_of_lines(lines)
            if trace.column("step") != [*range(runs.step)]:
                raise FormatError(f"{self.path}: has not the row of every step. Delete it to start anew.")
            trace.snapshots |= snapshots
