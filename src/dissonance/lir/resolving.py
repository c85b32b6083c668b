"""Resolving a model as a whole: what may move is moved by LIR, and what did not move stays as it was, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus
from dissonance.inconsistency import Inconsistency, inconsistency
from dissonance.jsonable import json_number
from dissonance.lir.moved import MovedRow, moved_count, moved_rows, restored
from dissonance.lir.refocus import SWEEP, Refocus, default_control
from dissonance.lir.run import Callback
from dissonance.lir.start import STEPS, SWEEPS, Run, Value, lir
from dissonance.lir.trace import Record
from dissonance.names import ArcNames
from dissonance.pdg import PDG
from dissonance.solvers import Auto, Solver
from dissonance.verdict import contradicting_zeros


@dataclass(frozen=True)
class Resolving:
    """How a model is to be resolved: what `dissonance resolve` takes, with its defaults.

    `bounds`: seconds that bounds of the whole may take before every sweep and after the last; None: none are sought.
    """

    refocus: Refocus | str = "uniform"
    flow: str | None = None
    steps: int | None = None
    seed: int = 0
    solver: Solver | str = "auto"
    neighbourhood: str | None = None
    sweeps: int | None = None
    bounds: float | None = None
    order: str | None = None

    @property
    def scorer(self) -> Solver | str:
        """The solver of the whole."""
        return self.solver if self.bounds is None else Auto(seconds=self.bounds)

    @property
    def stepper(self) -> Solver | str:
        """The solver of each step, which does without what only tightens bounds."""
        scorer = self.scorer
        return scorer if isinstance(scorer, str) or self.bounds is not None else scorer.unproved()

    @property
    def sweeping(self) -> bool:
        """Whether all local foci are visited, sweep by sweep."""
        return self.refocus == SWEEP

    @property
    def total(self) -> int:
        """How many steps there are, or sweeps."""
        given, default = (self.sweeps, SWEEPS) if self.sweeping else (self.steps, STEPS)
        return default if given is None else given

    @property
    def unit(self) -> str:
        """The unit in which `total` counts: steps or sweeps."""
        return "sweeps" if self.sweeping else "steps"


@dataclass(frozen=True)
class Resolved:
    """A run, and the beliefs it began with: before and after it they are scored as `dissonance score` does it."""

    run: Run
    before: PDG
    attention: Attention
    how: Resolving

    @cached_property
    def pdg(self) -> PDG:
        """The beliefs at the end: every row that did not move is as it was."""
        return restored(self.before, self.run.pdg, self.attention.beta)

    @cached_property
    def initial(self) -> Value:
        """The inconsistency of the beliefs it began with, if the run looked at the whole."""
        known = self.run.before
        return known if math.isnan(known.upper) or self.how.sweeping else _value(self._scored(self.before), known.tol)

    @cached_property
    def final(self) -> Value:
        """The inconsistency of `pdg`, which is what is written, if the run looked at the whole."""
        known = self.run.after
        return known if math.isnan(known.upper) else _value(self._score, known.tol)

    @cached_property
    def _score(self) -> Inconsistency:
        return self._scored(self.pdg)

    @torch.no_grad()
    def _scored(self, pdg: PDG) -> Inconsistency:
        return inconsistency(pdg, self.attention, solver=self.how.scorer)

    @property
    def contradiction(self) -> str:
        """Which beliefs contradict each other at the end, if the inconsistency is infinite; else nothing."""
        return contradicting_zeros(self._score) if self.final.upper == math.inf else ""

    @property
    def resolution_percent(self) -> float:
        """100 (1 - after/before): how much of the inconsistency is gone; NaN if there was none."""
        return replace(self.run, before=self.initial, after=self.final).resolution_percent

    def moves(self, most: int | None = None) -> list[MovedRow]:
        """The rows of tables that moved, the furthest first; no more than `most` of them."""
        return moved_rows(self.before, self.pdg, most)

    @cached_property
    def moved(self) -> int:
        """How many rows of tables moved."""
        return moved_count(self.before, self.pdg)

    @property
    def record(self) -> dict[str, object]:
        """The result as a JSON object."""
        run = self.run
        bounds = {
            key: {
                "inconsistency": None if v.is_bracket else json_number(v.upper),
                "lower": json_number(v.lower),
                "upper": json_number(v.upper),
            }
            for key, v in (("initial", self.initial), ("final", self.final))
        }
        return {
            **bounds,
            "resolution_percent": json_number(self.resolution_percent),
            "distortion_tv": json_number(run.distortion_tv),
            "steps": run.steps,
            "refocus": run.refocus,
            "flow": run.flow,
            "solver": run.solver,
            "unit": "nats",
        }


def _value(found: Inconsistency, tol: float) -> Value:
    return Value(found.lower, found.upper, tol)


def movable(
    names: ArcNames,
    focus: Focus,
    control: Mapping[str, float] | None = None,
    keep: Collection[str] = (),
    move: Collection[str] = (),
) -> Focus:
    """The base focus of a run: the control of the file, then that of `control`; if there is none, all but facts may
    move.

    `move`: these only, with chi = 1 if nothing else is said; `keep`: none of these. All of them name arcs as `ArcNames`
    has it.
    """
    said = names.weights(control or {})
    kept, moved = names.all(keep), {n for name in move for n in names.soft(name)}
    freed = {n for n, x in said.items() if x > 0}
    if both := kept & (moved | freed):
        raise DissonanceError(f"{min(both)!r} is to move as well, and is to be kept.")
    if moved and (odd := freed - moved):
        raise DissonanceError(f"a control lets {min(odd)!r} move, and only {', '.join(move)} may move.")
    file = focus.control.chi
    if move:
        chi: dict[str, float | Tensor] = {n: said.get(n, file.get(n) or 1.0) for n in names.pdg.arc_names if n in moved}
    elif not (chi := dict(file) | said):
        chi = dict(default_control(dict.fromkeys(names.pdg.arc_names, 1.0), focus.attention).chi)
    return Focus(focus.attention, Control({n: x for n, x in chi.items() if n not in kept}))


def resolve(
    pdg: PDG,
    focus: Focus,
    how: Resolving,
    *,
    checkpoint: str | None = None,
    callbacks: Sequence[Callback] = (),
    record: Record | None = None,
    cluster: Any = None,
) -> Resolved:
    """Run LIR on a model of fixed beliefs; by default the flow is natural, for Gaussians full."""
    if how.bounds is not None and not (how.sweeping and how.solver == "auto"):
        raise DissonanceError("bounds of the whole as it goes are for refocus sweep with solver auto.")
    moving = pdg.learnable()
    run = lir(
        moving,
        how.refocus,
        steps=how.steps,
        flow=how.flow or ("full" if not how.sweeping and any(a.is_euclidean for a in moving.arcs) else "natural"),
        neighbourhood=how.neighbourhood,
        sweeps=how.sweeps,
        order=how.order,
        attention=focus.attention,
        control=focus.control,
        seed=how.seed,
        checkpoint=checkpoint,
        callbacks=callbacks,
        solver=how.stepper,
        trace=record if how.bounds is None else Record(globally=True),
        progress=False,
        cluster=cluster,
    )
    return Resolved(run, pdg, focus.attention.on(pdg), how)


def moved_to(pdg: PDG, theta: Mapping[str, Tensor], attention: Attention) -> PDG:
    """The beliefs at the parameters of a run: every row that did not move is as it was."""
    return restored(pdg, with_theta(pdg.learnable(), theta), attention.beta)


def with_theta(pdg: PDG, theta: Mapping[str, Tensor]) -> PDG:
    """The same beliefs at other values of what their cpds hold, parameters and buffers."""
    return pdg.replace(*(a.with_cpd(a.at(theta)) for a in pdg.arcs if a.holds(theta)))
