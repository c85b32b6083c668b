"""The lines of the arcs: smooth curves along their ways that keep clear of boxes and labels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dissonance.drawing.curves import Curve, at_abscissa, direction, hits, through
from dissonance.drawing.layout import Place, Placement, Tag, Way

CLEAR = 4.0
"""The distance that lines keep from boxes."""
NEAR = 7.0
"""A line may pass that far from where its label was planned."""


@dataclass(frozen=True)
class Route:
    """The curves of an arc: `tails` end at the junction, `heads` at the targets. `spot`: where its label belongs."""

    tails: tuple[Curve, ...]
    heads: tuple[tuple[str, Curve], ...]
    junction: complex | None
    spot: complex
    heading: complex

    @property
    def curves(self) -> tuple[Curve, ...]:
        """All of its curves."""
        return (*self.tails, *(curve for _, curve in self.heads))


def routes(layout: Placement, tags: Mapping[str, Tag]) -> dict[str, Route]:
    """The curves of every arc."""
    names = list(layout.boxes)
    corners = [layout.boxes[v].corners for v in names]
    labels = [_label_room(p, tags[a]) for a, p in layout.places.items() if tags[a].width]
    owners = [a for a in layout.places if tags[a].width]
    pairs = Counter(_pair(p) for p in layout.places.values())
    alone = {a for a, p in layout.places.items() if not tags[a].width and pairs[_pair(p)] == 1}
    walls = _Walls(names, owners, np.array([*(_grown(c, CLEAR) for c in corners), *labels]).reshape(-1, 4))
    return {a: _route(a, p, walls, a in alone) for a, p in layout.places.items()}


@dataclass(frozen=True)
class _Walls:
    """What lines should not cross: the boxes of variables, then the labels of arcs."""

    variables: Sequence[str]
    arcs: Sequence[str]
    rectangles: NDArray[np.float64]

    def block(self, curve: Curve, arc: str, ends: Sequence[str]) -> bool:
        """Whether a curve of an arc crosses a wall that is not its own."""
        if not len(self.rectangles):
            return False
        crossed = hits(curve, self.rectangles)
        n = len(self.variables)
        return any((self.variables[i] not in ends) if i < n else (self.arcs[i - n] != arc) for i in crossed)


def _grown(corners: tuple[float, float, float, float], by: float) -> tuple[float, float, float, float]:
    left, top, right, bottom = corners
    return left - by, top - by, right + by, bottom + by


def _label_room(place: Place, tag: Tag) -> tuple[float, float, float, float]:
    at = place.spot
    if place.outside is not None and place.heading == 1j:
        return at.real - 4, place.outside.imag - 2, at.real + tag.width + 8, place.junction.imag
    return at.real - tag.width / 2, at.imag - tag.above, at.real + tag.width / 2, at.imag + 1


def _pair(place: Place) -> frozenset[str]:
    return frozenset(w.variable for w in (*place.sources, *place.targets))


def _route(name: str, place: Place, walls: _Walls, free: bool) -> Route:
    if not place.sources and place.outside is None:
        (way,) = place.targets
        bend = 2 * place.spot - place.junction
        start, end = (place.junction, place.heading), (way.points[0], complex(-way.side))
        level = abs(place.junction.imag - end[0].imag) < 0.5
        curve = through([start, end] if level else [start, (bend, place.heading), end])
        return Route((), ((way.variable, curve),), None, place.spot, place.heading)
    if len(place.sources) == len(place.targets) == 1:
        return _simple(name, place, walls, math.inf if free else NEAR)
    tails = [_reversed(_curve(name, w, place.heading, False, walls)) for w in place.sources]
    heads = [(w.variable, _curve(name, w, place.heading, True, walls)) for w in place.targets]
    if place.outside is not None:
        tails.append(through([(place.outside, place.heading), (place.junction, place.heading)]))
    return Route(tuple(tails), tuple(heads), place.junction, place.spot, place.heading)


def _simple(name: str, place: Place, walls: _Walls, near: float) -> Route:
    """An arc from one variable to one: a single curve if it can, else by way of its label."""
    (source,), (target,) = place.sources, place.targets
    ends = (source.variable, target.variable)
    start, end = (source.points[0], complex(source.side)), (target.points[0], complex(-target.side))
    direct = through([start, end])
    spot, heading = at_abscissa(direct, place.junction.real)
    if abs(spot - place.junction) <= near and not walls.block(direct, name, ends):
        return Route((), ((target.variable, direct),), None, spot, heading)
    tail = _reversed(_curve(name, source, place.heading, False, walls))
    curve = (*tail, *_curve(name, target, place.heading, True, walls))
    return Route((), ((target.variable, curve),), None, place.junction, place.heading)


def _curve(name: str, way: Way, heading: complex, into: bool, walls: _Walls) -> Curve:
    """From the junction to the box (`into`), or from the junction back along a tail, as straight as the walls allow."""
    stops = way.points[::-1]
    out = heading if into else -heading
    if heading == 1j and stops[-1].imag < stops[0].imag + 4:  # from above, to a box that is higher: leave sideways
        out = complex(-way.side)
    if (out * way.side).real > 0:  # the wrong way: leave upwards or downwards
        out = 1j if stops[1].imag > stops[0].imag else -1j
    last = (stops[-1], complex(-way.side))
    onwards = complex(-way.side)
    kept: list[tuple[complex, complex]] = [(stops[0], out)]
    i = 0
    while i < len(stops) - 1:
        for j in range(len(stops) - 1, i, -1):
            there = last if j == len(stops) - 1 else (stops[j], onwards)
            if j == i + 1 or not walls.block(through([kept[-1], there]), name, (way.variable,)):
                kept.append(there)
                i = j
                break
    smooth = _smoothed(kept)
    return smooth if not walls.block(smooth, name, (way.variable,)) else through(kept)


def _smoothed(stations: Sequence[tuple[complex, complex]]) -> Curve:
    """The curve that turns gradually: at each stop between it heads from the one before to the one after."""
    turned = list(stations)
    for i in range(1, len(stations) - 1):
        across = direction(stations[i + 1][0] - stations[i - 1][0])
        if (across * stations[i][1].conjugate()).real > 0.3:
            turned[i] = (stations[i][0], across)
    return through(turned)


def _reversed(curve: Curve) -> Curve:
    return tuple((d, c, b, a) for a, b, c, d in reversed(curve))
