"""A run of LIR, frame by frame: the same as `dissonance resolve` with the same options, and its last model too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dissonance.errors import DissonanceError, SizeError
from dissonance.focus import Focus, facts
from dissonance.jsonable import json_number
from dissonance.lir import Record, Row, Trace
from dissonance.lir.refocus import SWEEP
from dissonance.lir.resolving import Resolving, movable, moved_to, resolve
from dissonance.lir.start import Value
from dissonance.names import ArcNames
from dissonance.pdg import PDG
from dissonance.studio.documents import Model, pdg_of, read_weights, written
from dissonance.studio.place import StudioPlace
from dissonance.variables import cells

MAX_STEPS = 10_000
MAX_NUMBERS = 1 << 24
"""Cells of all tables in all frames."""
MAX_SEED = 2**63 - 1
FOLLOWED = 60
"""Up to how many arcs mu* is found at every step, to see how far it has moved; else at the first and the last."""


class RunParams(msgspec.Struct, forbid_unknown_fields=True):
    """A model, and the options of `dissonance resolve`."""

    model: Model
    refocus: str = "uniform"
    flow: str | None = None
    steps: int = 20
    seed: int = 0
    solver: str = "auto"
    control: dict[str, float | str] = {}


def run_lir(place: StudioPlace, params: RunParams, emit: Callable[[Any], bool]) -> dict[str, Any]:
    """Run LIR. A frame is theta at a step, and the focus it is about to be resolved under; the last has none."""
    pdg, given = pdg_of(params.model)
    _check(pdg, params)
    names = ArcNames(pdg, facts=facts(given.attention))
    focus = movable(names, given, read_weights(params.control))
    film = _Film(pdg, given, emit)
    how = Resolving(params.refocus, params.flow, params.steps, params.seed, params.solver)
    followed = Record(distortion=int(len(pdg) <= FOLLOWED and params.refocus != SWEEP))
    found = resolve(pdg, focus, how, callbacks=[film], record=followed)
    film.show(found.run.trace.rows[-1], found.pdg, found.final)
    if found.contradiction:
        raise DissonanceError(found.contradiction)
    moved = [m.record for m in found.moves()]
    cancelled = found.run.steps < params.steps
    return {"kind": "done", "model": written(found.pdg, given), **found.record, "moved": moved, "cancelled": cancelled}


def _check(pdg: PDG, params: RunParams) -> None:
    if not 0 <= params.steps <= MAX_STEPS:
        raise DissonanceError(f"steps: expected 0 to {MAX_STEPS}, found {params.steps}.")
    if not 0 <= params.seed <= MAX_SEED:
        raise DissonanceError(f"seed: expected 0 to {MAX_SEED}, found {params.seed}.")
    numbers = (params.steps + 1) * sum(cells(a.scope) for a in pdg.arcs if a.has_table)
    if numbers > MAX_NUMBERS:
        raise SizeError(
            f"{params.steps} steps would show {numbers:,} numbers, and a page takes {MAX_NUMBERS:,}. Ask for fewer "
            "steps, or use `dissonance resolve`."
        )


class _Film:
    """Called after every step of a run; shows the frame that the step began with."""

    def __init__(self, pdg: PDG, given: Focus, emit: Callable[[Any], bool]) -> None:
        self.pdg, self.given, self.emit = pdg, given, emit
        self.tabular = all(a.has_table for a in pdg.arcs)

    def __call__(self, done: int, traces: Sequence[Trace]) -> bool:
        (trace,) = traces
        return self.show(trace.rows[-1], moved_to(self.pdg, trace.theta, self.given.attention))

    def show(self, row: Row, pdg: PDG, score: Value | None = None) -> bool:
        """Emit a frame, with the score of its tables if it is known better than by the row; returns whether the run is
        to stop."""
        tables = {a.name: a.cpd.table().tolist() for a in pdg.arcs if a.has_table}
        bounds = (row.global_lower, row.global_upper) if score is None else (score.lower, score.upper)
        lower, upper = map(json_number, bounds)
        frame = {
            "kind": "frame",
            "step": row.step,
            "attention": _numbers(row.beta),
            "control": _numbers(row.chi),
            "gamma": row.gamma,
            "global": {"value": upper, "lower": lower, "upper": upper},
            "local": json_number(row.local_upper),
            "distortion": json_number(row.tv_theta),
            "distortion_mu": json_number(row.tv_mu),
            "blame": _numbers(row.blame),
            "tables": tables,
        }
        return self.emit(frame if self.tabular else frame | {"model": written(pdg, self.given)})


def _numbers(x: Mapping[str, float]) -> dict[str, float | str | None]:
    return {n: json_number(v) for n, v in x.items()}
