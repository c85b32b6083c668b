"""Checkpoints: all that a run needs to go on, written after every step.

A checkpoint holds theta, the state of the flow, the generators, the solver's last states (so that a resumed run takes
the same Newton steps), mu* of the start and the traces. On CPU a resumed run is bit for bit the run that was not
stopped, but for its seconds. The file is sealed, and says what it is a checkpoint of: of anything else it is refused.

After a step that moved all of theta the file is written anew. After one that moved a part, that part and the new rows
are appended, until what was appended is as much as the file began with: a step costs what its focus costs.

A checkpoint belongs to one run at a time, which holds its lock. Its records continue each other: each is sealed with
the record before it, and the traces have the row of every step.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dissonance.errors import DissonanceError, FormatError
from dissonance.io import sealed
from dissonance.io.fingerprint import Fingerprint
from dissonance.io.locked import alone
from dissonance.io.sealed import Seal
from dissonance.lir.inner.compromise import Compromise
from dissonance.lir.trace import rows_of_lines

if TYPE_CHECKING:
    from dissonance.lir.run import Algorithm

FORMAT = "dissonance.lir 6"
WHAT = "a checkpoint"


class Checkpoint:
    """The file that a run is kept in."""

    def __init__(self, runs: Algorithm, path: str) -> None:
        """For a run that has not begun: what identifies it is computed here, once."""
        self.runs, self.path = runs, path
        self.of = Fingerprint(
            *(runs.parameters.pdgs, runs.refocus, runs.seeds, runs.base),
            *(runs.flow, runs.solver, runs.record, runs.tol),
        )
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
            if Path(path).exists():
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
        """Return the state of the runs: of theta these parameters, of the traces what is new from a row on."""
        runs = self.runs
        return {
            "format": FORMAT,
            "of": self.of.hex(),
            "step": runs.step,
            "theta": runs.parameters.kept(runs.theta, keys),
            "flow": None if runs.state is None else _written(runs.state, runs.flow.name),
            "tv_theta": runs.tv_theta,
            "generators": [g.bit_generator.state for g in runs.generators],
            "inner": None if runs.looked is None else runs.looked.inner.dump(),
            "start": None if runs.start is None else [runs.start.mu, runs.start.cluster],
            "rows": ["".join(row.line for row in t.rows[first:]) for t in runs.traces],
            "snapshots": [{step: x for step, x in t.snapshots.items() if step >= first} for t in runs.traces],
        }

    def resume(self, steps: int) -> None:
        """Go on from the file, to do so many steps in all."""
        states = sealed.read_states(self.path, WHAT)
        for state in states:
            refuse_other(self.path, state, FORMAT, self.of.hex())
        refuse_longer(self.path, states[-1]["step"], steps, "steps")
        if self.of.unseen:
            functions = ", ".join(dict.fromkeys(self.of.unseen))
            warnings.warn(
                f"{self.path}: {functions}: name, source and what is closed over are those of the checkpoint; what "
                "else it reads cannot be checked.",
                stacklevel=2,
            )
        runs, last = self.runs, states[-1]
        theta = {key: x for state in states for key, x in state["theta"].items()}
        runs.step, runs.theta = last["step"], runs.parameters.resumed(theta, self.path)
        runs.state = None if last["flow"] is None else {name: _read(x) for name, x in last["flow"].items()}
        runs.tv_theta = last["tv_theta"]
        for generator, known in zip(runs.generators, last["generators"], strict=True):
            generator.bit_generator.state = known
        if last["inner"] is not None:
            runs.whole.inner.restore(last["inner"])
        runs.start = None if last["start"] is None else Compromise(*last["start"])
        for k, trace in enumerate(runs.traces):
            trace.rows[:] = rows_of_lines("".join(state["rows"][k] for state in states))
            if trace.column("step") != [*range(runs.step)]:
                raise FormatError(f"{self.path}: has not the row of every step. Delete it to start anew.")
            for state in states:
                trace.snapshots |= state["snapshots"][k]


def refuse_other(path: str, state: Mapping[str, Any], form: str, of: str) -> None:
    """Raise if a state is not of this format, or of another run than the one with this fingerprint."""
    if (found := state.get("format")) != form:
        raise FormatError(f"{path}: is not a checkpoint of {form}, but of {found}. Delete it, or name another file.")
    if state["of"] != of:
        raise FormatError(
            f"{path}: is a checkpoint of another run (another PDG, refocus, flow, seed or option). "
            "Delete it, or name another file."
        )


def refuse_longer(path: str, done: int, asked: int, unit: str) -> None:
    """Raise if a run has done more steps, or sweeps, than are asked for."""
    if done > asked:
        raise FormatError(
            f"{path}: is of a run that has done {done} {unit}, and {asked} are asked for. "
            f"Ask for {done} or more, delete it, or name another file."
        )


def _written(state: Mapping[str, Any], flow: str) -> dict[str, Any]:
    """Return the state of a flow as plain values: arrays of numpy as a tensor and a mark."""
    found: dict[str, Any] = {}
    for name, x in state.items():
        if isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "biufc":
            found[name] = ("numpy", torch.tensor(x))
        elif x is None or isinstance(x, Tensor) or type(x) in (bool, int, float, str):
            found[name] = x
        else:
            kind = type(x).__name__
            raise DissonanceError(f"the flow {flow!r} keeps {name!r}, a {kind}: a checkpoint holds arrays and numbers.")
    return found


def _read(x: Any) -> Any:
    """Return what `_written` made of a value."""
    return x[1].numpy() if isinstance(x, tuple) else x
