"""Where the labels of arcs stand: beside their lines, on the side and at the place where they hide least."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dissonance.drawing import style
from dissonance.drawing.arrows import BOLD, SIDE, ArrowStyle
from dissonance.drawing.curves import at_distance, dense
from dissonance.drawing.layout import Rectangle
from dissonance.drawing.routes import Route
from dissonance.drawing.scene import DEEP, Writing
from dissonance.drawing.text import Label, plain

SHIFTS = (0.0, 10.0, -10.0, 22.0, -22.0, 36.0, -36.0, 52.0, -52.0)
"""How far along its line a label may move."""
ASIDE = (0.0, 4.0, 9.0, 15.0)
"""How much further from its line than usual it may stand."""
LEADING = 1.5
"""The least distance between one label and the next."""
ON_BOX, ON_LABEL, ON_OWN, ON_LINE = 200.0, 60.0, 40.0, 10.0
"""What it costs to lie on a box, on another label, on the arc's own line, on another line."""


@dataclass(frozen=True)
class _Taken:
    """What is there already: points of lines with the numbers of their arcs, and boxes."""

    along: NDArray[np.complex128]
    owner: NDArray[np.int64]
    boxes: NDArray[np.float64]

    def costs(self, frames: NDArray[np.float64], arc: int, width: float) -> NDArray[np.float64]:
        """How much each of the frames (a row of corners each) would hide, for an arc with a line of that width."""
        half = width / 2
        left, top = frames[:, :2].min(0) - half
        right, bottom = frames[:, 2:].max(0) + half
        x, y = self.along.real, self.along.imag
        near = np.flatnonzero((x > left) & (x < right) & (y > top) & (y < bottom))
        left, top, right, bottom = (frames + half * np.array([-1, -1, 1, 1])).T[:, :, None]
        x, y, owner = x[near], y[near], self.owner[near]
        inside = (x > left) & (x < right) & (y > top) & (y < bottom)
        hidden = [set(owner[row].tolist()) for row in inside]
        lines = [ON_LINE * len(h - {arc}) + ON_OWN * (arc in h) for h in hidden]
        return np.array(lines, dtype=np.float64) + ON_BOX * _overlaps(frames, self.boxes).astype(np.float64)


def writings(
    styles: Mapping[str, ArrowStyle], routes: Mapping[str, Route], boxes: Mapping[str, Rectangle]
) -> dict[str, tuple[Writing, ...]]:
    """The label and the note of each arc: all labels first, then all notes, then each looks once more."""
    lines = {a: [dense(c) for c in r.curves] for a, r in routes.items()}
    counts = [sum(map(len, mine)) for mine in lines.values()]
    along = np.concatenate([c for mine in lines.values() for c in mine] or [np.zeros(0, dtype=np.complex128)])
    corners = np.array([b.corners for b in boxes.values()]).reshape(-1, 4)
    taken = _Taken(along, np.repeat(np.arange(len(routes)), counts), corners)
    number = {a: i for i, a in enumerate(routes)}
    wanted = [(a, note) for note in (False, True) for a in routes if (styles[a].note if note else styles[a].label)]
    choices = [list(_choices(styles[a], note, routes[a], lines[a])) for a, note in wanted]
    frames = [np.array([w.corners for _, w in found]) for found in choices]
    costs = [
        np.array([c for c, _ in found]) + taken.costs(framed, number[a], styles[a].width)
        for (a, _), found, framed in zip(wanted, choices, frames, strict=True)
    ]
    found: dict[tuple[str, bool], Writing] = {}
    placed = np.full((len(wanted), 4), np.nan)  # no frame overlaps one that is not there
    for _ in range(2):
        for i, key in enumerate(wanted):
            placed[i] = np.nan
            best = int((costs[i] + ON_LABEL * _overlaps(frames[i], placed)).argmin())
            placed[i], found[key] = frames[i][best], choices[i][best][1]
    return {a: tuple(found[k] for k in ((a, False), (a, True)) if k in found) for a in routes}


def _choices(
    drawn: ArrowStyle, note: bool, route: Route, lines: Sequence[NDArray[np.complex128]]
) -> Iterator[tuple[float, Writing]]:
    """A label (or a note) at places along the line, above and below it, and how much each is disliked."""
    line = min(lines, key=lambda c: float(np.abs(c - route.spot).min()))
    beside = BOLD if any(b.controlled for b in drawn.beside) else SIDE if drawn.beside else 0
    away = drawn.width / 2 + beside + 2.5
    for n, shift in enumerate(SHIFTS):
        spot, heading = route.spot, route.heading
        if shift:
            there = at_distance(line, route.spot, shift)
            if there is None:
                continue
            spot, heading = there
        up = heading * 1j
        up = up if up.imag < -1e-6 or (abs(up.imag) <= 1e-6 and up.real > 0) else -up
        for (m, more), other in itertools.product(enumerate(ASIDE), (False, True)):
            side = -up if note != other else up  # labels above and notes below, unless the other side is clearer
            yield 1.5 * n + 2.0 * m + 4.0 * other, _written(drawn, note, spot, side, away + more)


def _written(drawn: ArrowStyle, note: bool, spot: complex, up: complex, away: float) -> Writing:
    if note or drawn.label is None:
        return _aside(plain(drawn.note), style.NOTE, spot, up, away + 0.5, drawn.colour)
    return _aside(drawn.label, style.TAG, spot, up, away, "ink")


def _aside(label: Label, size: float, spot: complex, up: complex, away: float, colour: str) -> Writing:
    """A label in the direction `up` from a spot, clear of a line that runs across that direction."""
    w, h = label.width * size, 0.72 * size
    deep = 0.2 * size if any(s.dy > 0 or DEEP & set(s.text) for s in label.spans) else 0.0
    reach = away + (abs(up.real) * w + abs(up.imag) * (h + deep)) / 2
    middle = spot + up * reach  # of the letters with what reaches below their base line
    name = size == style.TAG
    at = middle + complex(0, (h - deep) / 2)
    return Writing(at, label, size, colour, italic=name, halo=True, kind="label" if name else "note")


def _overlaps(frames: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many of the other rectangles overlap each of the frames."""
    left, top, right, bottom = others.T
    x0, y0, x1, y1 = frames.T[:, :, None]
    meet = (left < x1) & (x0 < right) & (top < y1 + LEADING) & (y0 - LEADING < bottom)
    return meet.sum(1)
