"""Where the labels of arcs stand: beside their lines, on the side and at the place where they hide least."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dissonance.drawing import style
from dissonance.drawing.arrows import BOLD, SIDE, Look
from dissonance.drawing.curves import Corners, at_abscissa, points
from dissonance.drawing.layout import Rectangle
from dissonance.drawing.routes import Route
from dissonance.drawing.scene import Writing
from dissonance.drawing.text import Label, plain

SHIFTS = (0.0, 10.0, -10.0, 22.0, -22.0)
"""How far along its line a label may move."""
DEEP = frozenset("gjpqy()/,;|μρφχψβ")
"""Letters that reach below the base line."""


@dataclass(frozen=True)
class _Taken:
    """What is there already: points of lines with the numbers of their arcs, boxes and labels."""

    along: NDArray[np.complex128]
    owner: NDArray[np.int64]
    boxes: Sequence[Corners]
    labels: list[Corners]

    def cost(self, frames: Sequence[Corners], arc: int) -> float:
        """How much would be hidden: boxes are worst, then labels, then lines of others, then one's own line."""
        total = 0.0
        for frame in frames:
            left, top, right, bottom = frame
            inside = (self.along.real > left) & (self.along.real < right)
            inside &= (self.along.imag > top) & (self.along.imag < bottom)
            owners = self.owner[inside]
            total += 10.0 * len(set(owners.tolist()) - {arc}) + 0.4 * int((owners == arc).sum())
            total += 200.0 * sum(_overlap(frame, b) for b in self.boxes)
            total += 60.0 * sum(_overlap(frame, b) for b in self.labels)
        return total


def writings(
    looks: Mapping[str, Look], routes: Mapping[str, Route], boxes: Mapping[str, Rectangle]
) -> dict[str, tuple[Writing, ...]]:
    """The label and the note of each arc."""
    pieces = [points(c) for r in routes.values() for c in (*r.tails, *(h for _, h in r.heads))]
    counts = [sum(len(c) for c in (*r.tails, *(h for _, h in r.heads))) for r in routes.values()]
    owner = np.repeat(np.arange(len(routes)), [25 * n for n in counts])
    along = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.complex128)
    taken = _Taken(along, owner, [b.corners for b in boxes.values()], [])
    found: dict[str, tuple[Writing, ...]] = {}
    for i, (name, route) in enumerate(routes.items()):
        look = looks[name]
        if look.label is None and not look.note:
            found[name] = ()
            continue
        choices = [(cost, _written(look, spot, up)) for spot, up, cost in _choices(look, route)]
        best = min(choices, key=lambda c: c[0] + taken.cost([_frame(w) for w in c[1]], i))[1]
        taken.labels.extend(map(_frame, best))
        found[name] = best
    return found


def _choices(look: Look, route: Route) -> Iterator[tuple[complex, complex, float]]:
    """Places on the line, the side of the label there, and how much they are disliked: the first is liked best."""
    free = len(route.heads) == 1 and route.heading != 1j
    for n, shift in enumerate(SHIFTS if free else SHIFTS[:1]):
        spot, heading = route.spot, route.heading
        if shift:
            spot, heading = at_abscissa(route.heads[0][1], route.spot.real + shift)
            if abs(spot.real - route.spot.real - shift) > 3:  # beyond the end of the line
                continue
        up = heading * 1j
        up = up if up.imag < -1e-6 or (abs(up.imag) <= 1e-6 and up.real > 0) else -up
        yield spot, up, 1.5 * n
        yield spot, -up, 1.5 * n + 4.0


def _written(look: Look, spot: complex, up: complex) -> tuple[Writing, ...]:
    """The label on one side of the line, the note on the other."""
    beside = BOLD if any(b.controlled for b in look.beside) else SIDE if look.beside else 0
    away = style.line_width(look.beta) / 2 + beside + 2.5
    found: list[Writing] = []
    if look.label is not None:
        found.append(_aside(look.label, style.TAG, spot, up, away, "ink"))
    if look.note:
        found.append(_aside(plain(look.note), style.NOTE, spot, -up, away + 0.5, look.colour))
    return tuple(found)


def _aside(label: Label, size: float, spot: complex, up: complex, away: float, colour: str) -> Writing:
    """A label in the direction `up` from a spot, clear of a line that runs across that direction."""
    w, h = label.width * size, 0.72 * size
    reach = away + (abs(up.real) * w + abs(up.imag) * h) / 2
    deep = 0.2 * size if up.imag < -0.3 and any(s.dy > 0 or DEEP & set(s.text) for s in label.spans) else 0.0
    italic = size == style.TAG
    return Writing(spot + up * reach + complex(0, h / 2 - deep), label, size, colour, italic=italic, halo=True)


def _frame(mark: Writing) -> Corners:
    x, y = mark.at.real, mark.at.imag
    return x - mark.width / 2 - 1, y - 0.75 * mark.size, x + mark.width / 2 + 1, y + 1


def _overlap(a: Corners, b: Corners) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
