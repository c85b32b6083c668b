"""Resolving a model as a whole: what may move is moved by LIR, and what did not move stays as it was, bit for bit."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.focus import Control, Focus
from dissonance.jsonable import json_number
from dissonance.lir.moved import MovedRow, moved_count, moved_rows, restored
from dissonance.lir.refocus import SWEEP, Refocus
from dissonance.lir.run import Callback
from dissonance.lir.start import STEPS, SWEEPS, Run, lir
from dissonance.lir.trace import Record
from dissonance.pdg import PDG
from dissonance.solvers import Auto, Solver


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
    """A run, and the beliefs it began with."""

    run: Run
    before: PDG

    @cached_property
    def pdg(self) -> PDG:
        """The beliefs at the end: every row that did not move is as it was."""
        return restored(self.before, self.run.pdg)

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
            for key, v in (("initial", run.before), ("final", run.after))
        }
        return {
            **bounds,
            "resolution_percent": json_number(run.resolution_percent),
            "distortion_tv": json_number(run.distortion_tv),
            "steps": run.steps,
            "refocus": run.refocus,
            "flow": run.flow,
            "solver": run.solver,
            "unit": "nats",
        }


def movable(
    pdg: PDG, focus: Focus, control: Mapping[str, float], keep: Container[str] = (), move: Collection[str] = ()
) -> Focus:
    """The base focus of a run: the control of the file, then that of `control`; if there is none, all may move.

    `move`: these arcs only, with chi = 1 if nothing else is said; `keep`: none of these.
    """
    chi = dict(focus.control.chi) | dict(control)
    if move:
        chi = {name: chi.get(name, 1.0) for name in pdg.arc_names if name in move}
    chi = chi or dict.fromkeys(pdg.arc_names, 1.0)
    return Focus(focus.attention, Control({n: x for n, x in chi.items() if n.partition(".")[0] not in keep}))


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
        solver=how.solver if how.bounds is None else Auto(seconds=how.bounds),
        trace=record if how.bounds is None else Record(globally=True),
        progress=False,
        cluster=cluster,
    )
    return Resolved(run, pdg)


def moved_to(pdg: PDG, theta: Mapping[str, Tensor]) -> PDG:
    """The beliefs at the parameters of a run: every row that did not move is as it was."""
    moving = pdg.learnable()
    return restored(pdg, moving.replace(*(a.with_cpd(a.at(theta)) for a in moving.arcs)))
