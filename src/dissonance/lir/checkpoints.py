"""Checkpoints: all that a run needs to go on, written all at once after every step.

A checkpoint holds theta, the generators, the solver's last states (so that a resumed run takes the same Newton steps),
the states of optimisers that are kept, mu* of the start and the traces. On CPU a resumed run is bit for bit the run
that was not stopped, but for its seconds.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from dissonance.errors import FormatError
from dissonance.io import files
from dissonance.lir.inner.compromise import Compromise
from dissonance.lir.trace import read_rows

if TYPE_CHECKING:
    from dissonance.lir.run import Algorithm

FORMAT = "dissonance.lir 2"


def fingerprint(runs: Algorithm) -> str:
    """What a run is a run of: parameters, refocus procedures, seeds, flow, solver, base focus."""
    digest = hashlib.sha256()
    for key, value in runs.parameters.theta0.items():
        digest.update(key.encode())
        digest.update(value.contiguous().numpy().tobytes())
    base = runs.traces[0].base
    of = runs.setting
    rest = [of.seeds, of.flow, of.solver, dict(base.attention.beta), dict(base.attention.alpha)]
    rest += [base.attention.gamma, dict(base.control.chi), of.record, of.tol]
    named = [getattr(r, "name", getattr(r, "__name__", "")) for r in of.refocus]
    digest.update(repr([*rest, *named, *sorted(base.attention.varying)]).encode())
    return digest.hexdigest()


def write(runs: Algorithm, path: str) -> None:
    """Write the state after the last step."""
    start, flow = runs.observer.start, cast("Any", runs.flow)
    state: dict[str, Any] = {
        "format": FORMAT,
        "of": fingerprint(runs),
        "step": runs.step,
        "theta": dict(runs.theta),
        "generators": [g.get_state() for g in runs.generators],
        "inner": runs.inner.dump(),
        "flow": flow.dump() if hasattr(flow, "dump") else [],
        "start": None if start is None else [start.mu, start.cluster],
        "rows": [t.lines() for t in runs.traces],
        "snapshots": [t.snapshots for t in runs.traces],
    }
    buffer = io.BytesIO()
    torch.save(state, buffer)
    files.write(path, buffer.getvalue())


def resume(runs: Algorithm, path: str) -> None:
    """Go on from a checkpoint, if the file is there."""
    if not Path(path).exists():
        return
    content, where = files.read(path)
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
        known = state["format"] == FORMAT
    except Exception:
        known, state = False, {}
    if not known:
        raise FormatError(f"{where}: is not a checkpoint of dissonance.")
    if state["of"] != fingerprint(runs):
        raise FormatError(
            f"{where}: is a checkpoint of another run (another PDG, refocus, flow, seed or option). "
            "Delete it, or name another file."
        )
    runs.step, runs.theta = state["step"], state["theta"]
    for generator, known_state in zip(runs.generators, state["generators"], strict=True):
        generator.set_state(known_state)
    runs.inner.restore(state["inner"])
    flow: Any = runs.flow
    if hasattr(flow, "restore"):
        flow.restore(runs.theta, state["flow"])
    runs.observer.start = None if state["start"] is None else Compromise(*state["start"])
    for trace, lines, snapshots in zip(runs.traces, state["rows"], state["snapshots"], strict=True):
        trace.rows[:] = read_rows(lines)
        trace.snapshots |= snapshots
