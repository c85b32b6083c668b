"""What is observed of P runs at every step: the global inconsistency, who is to blame, how far theta and mu* moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from dissonance import numerics, scores
from dissonance.lir.flows.base import Movement
from dissonance.lir.foci import StackedFocus
from dissonance.lir.inner import Attentions, Compromise, Inner, Solved
from dissonance.lir.local import Local
from dissonance.lir.parameters import Stacked, stacked
from dissonance.lir.part import Part
from dissonance.lir.setting import Setting
from dissonance.lir.trace import BLANK, Trace


class Observer:
    """Fills in the rows of traces; `start` is mu* at the start of the runs, once it is known.

    `tv_theta`: how far the tables are from those of the start, where that is known without looking at all of them.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting, self.parameters, self.record = setting, setting.parameters, setting.record
        self.start: Compromise | None = None
        self.tv_theta: Tensor | None = None

    def forget(self) -> None:
        """Discard `tv_theta`: any arc may have moved."""
        self.tv_theta = None

    def follow(self, part: Part, before: Stacked, after: Stacked) -> None:
        """Update `tv_theta` after a step that moved only the arcs of one part."""
        if part.shared or self.tv_theta is None:
            self.forget()
        else:
            self.tv_theta = self.tv_theta + (part.distance(after) - part.distance(before)) / self.parameters.rows

    def look(
        self, inner: Inner | None, theta: Mapping[str, Tensor], step: int, traces: Sequence[Trace], last: bool
    ) -> None:
        """Begin the row of every trace: global inconsistency, blame, how far theta and mu* have moved."""
        whole = [] if inner is None else self._whole(inner, stacked(theta), step, last)
        if self.parameters.tabular and self.tv_theta is None:
            self.tv_theta = self.parameters.distance(theta, self.parameters.theta0) / self.parameters.rows
        moved: list[float] = [] if self.tv_theta is None else self.tv_theta.tolist()
        keep = self.record.snapshots and (last or step % self.record.snapshots == 0)
        for k, trace in enumerate(traces):
            now: dict[str, Any] = {"step": step}
            if whole:
                now |= whole[k]
            if moved:
                now["tv_theta"] = moved[k]
            trace.now = BLANK.updated(now)
            trace.where = partial(self.parameters.of, k, theta)
            if keep:
                trace.snapshots[step] = {key: v.clone() for key, v in trace.theta.items()}

    def complete(
        self, traces: Sequence[Trace], focus: StackedFocus, local: Local, moved: Movement, seconds: float
    ) -> None:
        """Complete the rows that were begun with what the step has done, and add them to the traces."""
        count = len(traces)
        lower, upper = local.first or ([math.nan] * count,) * 2
        found = {"solves": local.solves, "newton_steps": local.steps}
        found |= {"projected": moved.projected, "residual": moved.residual}
        stacked = {name: _every(x, count) for name, x in found.items() if isinstance(x, Tensor)}
        for k, trace in enumerate(traces):
            done = {**focus.row_fields[k], **found, "seconds": seconds / count}
            for name, column in stacked.items():
                done[name] = column[k]
            done["local_lower"], done["local_upper"] = lower[k], upper[k]
            done["newton_steps"] += trace.now.newton_steps
            trace.rows.append(trace.now.updated(done))

    @cached_property
    def attention(self) -> Attentions:
        """The base attention of every run."""
        return Attentions.of([self.setting.base.attention] * len(self.setting.seeds), self.setting.names)

    def _whole(self, inner: Inner, theta: Stacked, step: int, last: bool) -> list[dict[str, Any]]:
        """The inconsistency under the base attention, run by run; where it is recorded, the distortion of mu* too."""
        solved = inner.solve(theta, self.attention)
        lower, upper = solved.bounds
        steps = _every(solved.steps, len(upper))
        found: dict[str, list[Any]] = {"global_lower": lower, "global_upper": upper, "newton_steps": steps}
        every = self.record.distortion
        if last or step == 0 or (every and step % every == 0):
            now = inner.compromise(theta, self.attention)
            self.start = self.start or now
            found["tv_mu"] = now.distance(self.start).tolist()
        if self.parameters.tabular and not self.attention.varying:
            found["blame"], found["surprisal"] = (self._named(x) for x in self._blame(theta, solved))
        return [{name: column[k] for name, column in found.items()} for k in range(len(upper))]

    def _named(self, x: Tensor) -> list[dict[str, float]]:
        return [dict(zip(self.setting.names, row, strict=True)) for row in x.tolist()]

    def _blame(self, theta: Stacked, solved: Solved) -> tuple[Tensor, Tensor]:
        """beta_a KL_a at mu*, and the excess surprisal E_mu[-log p] - E_mu(S)[H(p)], (P, arcs) each."""
        with torch.no_grad():
            log_p = self.parameters.log_tables(theta)
        m = solved.joints(self.parameters)
        divergence, surprisal = scores.entry_scores(m, self.parameters.along_rows(m), log_p)
        soft = torch.where(self.attention.beta == math.inf, 0.0, self.attention.beta)
        kl = self.parameters.by_arc(divergence).clamp(min=0.0)
        return numerics.times(soft, kl), self.parameters.by_arc(surprisal)


def _every(x: Any, count: int) -> list[Any]:
    """A number for each of so many runs, of one for all or (P,)."""
    if not isinstance(x, Tensor):
        return [x] * count
    found: Any = x.tolist()
    return found if isinstance(found, list) and len(found) == count else [found] * count
