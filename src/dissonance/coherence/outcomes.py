"""What became of forecasts: outcomes that follow from others, gains that were realised, scores before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dissonance.coherence.beliefs import Belief
from dissonance.coherence.events import NO, YES, Is, names, truth

Floats = npt.NDArray[np.float64]

CALLED_OFF = -1.0
"""The outcome of a belief whose condition did not hold."""


def settled(beliefs: Sequence[Belief], stated: npt.ArrayLike) -> Floats:
    """The outcomes of P books, (P, B): 1, 0, NaN if unknown, or `CALLED_OFF`; `stated` (P, B) has those that are given.

    What single variables did is taken as stated; what follows from it takes the place of what is stated of other
    events.
    """
    given = np.asarray(stated, dtype=np.float64)
    seen: dict[str, npt.NDArray[np.object_]] = {}
    for b in beliefs:
        for name in [n for e in (b.target, b.source) if e is not None for n in names(e)]:
            seen.setdefault(name, np.full(len(given), None, dtype=object))
    for i, b in enumerate(beliefs):
        for outcome in (0.0, 1.0):
            if isinstance(b.target, Is) and (value := _value(b.target, outcome == 1.0)) is not None:
                seen[b.target.variable][given[:, i] == outcome] = value
    found = np.full(given.shape, math.nan)
    for i, b in enumerate(beliefs):
        sure, possible = truth(b.target, seen)
        found[:, i] = np.where(sure, 1.0, np.where(possible, given[:, i], 0.0))
        if b.source is not None:
            sure, possible = truth(b.source, seen)
            found[:, i] = np.where(sure, found[:, i], np.where(possible, math.nan, CALLED_OFF))
    return found


def _value(event: Is, holds: bool) -> str | None:
    """The value of the variable of an event that happened or did not, if that tells it."""
    if len(event.values) != 1:
        return None
    value = event.values[0]
    return value if holds else {YES: NO, NO: YES}.get(value)


def realised(gain: Floats, outcome: Floats) -> Floats:
    """What the bets of P books won, (P,): NaN where some outcome is unknown."""
    won = np.where(outcome == 1.0, gain[..., 1], gain[..., 0])
    return np.where(np.isnan(outcome), math.nan, np.where(outcome == CALLED_OFF, 0.0, won)).sum(-1)


@dataclass(frozen=True)
class Scores:
    """Of `count` forecasts whose outcomes are known: the mean of -log p(outcome), and of (p - outcome)^2."""

    count: int
    log: float
    brier: float


def forecast_scores(p: npt.ArrayLike, outcome: npt.ArrayLike) -> Scores:
    """How good forecasts were; those whose outcome is unknown, or that were called off, do not count."""
    q, happened = np.broadcast_arrays(np.asarray(p, dtype=np.float64), np.asarray(outcome, dtype=np.float64))
    known = (happened >= 0) & ~np.isnan(q)
    q, happened = q[known], happened[known]
    if not len(q):
        return Scores(0, math.nan, math.nan)
    with np.errstate(divide="ignore"):
        surprise = -np.log(np.where(happened == 1.0, q, 1 - q))
    return Scores(len(q), float(surprise.mean()), float(((q - happened) ** 2).mean()))
