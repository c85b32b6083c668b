"""The lines of arcs between boxes that stand wherever a person put them: of a few ways for each arc, the clearest."""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dissonance.drawing.curves import Corners, Curve, at_distance, dense, direction, through
from dissonance.drawing.layout import BOX, HEAD, STUB, Rectangle, Tag
from dissonance.drawing.ranks import Ends
from dissonance.drawing.routes import CLEAR, Route
from dissonance.drawing.segments import STEP, Segments

BENDS = (0.0, 26.0, -26.0, 52.0, -52.0, 90.0, -90.0, 140.0, -140.0)
"""How far aside a line may swing to pass a box."""
RINGS = (0.0, 24.0, 48.0, 80.0, 120.0)
"""How far from the middle between its ends a junction may stand."""
DOT = 14.0
"""The distance that junctions keep from boxes."""
APART = 8.0
"""Between the rooms of parallel arcs."""
ENTRY = 9.0
"""Heads closer together than this are hard to tell apart."""
THROUGH_BOX, ON_LABEL, ACROSS, CROWDED = 100.0, 12.0, 3.0, 6.0
"""What it costs to pass through a box, to have no room for the label, to cross a line, to end beside another head."""


def free_height(name: str, arcs: Iterable[Ends]) -> float:
    """The height of a box that arcs may reach on any side."""
    ends = sum(name in e.sources + e.targets for e in arcs)
    return max(BOX, min(HEAD * math.ceil(ends / 3) + 8, 90.0))


def free_routes(boxes: Mapping[str, Rectangle], arcs: Mapping[str, Ends], tags: Mapping[str, Tag]) -> dict[str, Route]:
    """The curves of every arc: first those between two boxes, then merging and splitting ones, then stubs."""
    walls = np.array([_grown(b.corners, CLEAR) for b in boxes.values()]).reshape(-1, 4)
    taken = _Taken(walls, {v: i for i, v in enumerate(boxes)})
    found: dict[str, Route] = {}
    lanes = _lanes(boxes, arcs, tags)
    for a in sorted(arcs, key=lambda a: _turn(arcs[a])):
        ends = arcs[a]
        if _turn(ends) == 0:
            ways = _between(boxes[ends.sources[0]], boxes[ends.targets[0]], ends.targets[0], *lanes[a])
        elif _turn(ends) == 1:
            ways = _hyper(boxes, ends, tags[a])
        else:
            ways = _stubs(boxes[ends.targets[0]], ends.targets[0], tags[a])
        least = math.inf
        for disliked, way in ways:
            if disliked >= least:
                continue
            cost = disliked + taken.cost(way, ends, tags[a], least - disliked)
            if cost < least:
                least, found[a] = cost, way
        taken.add(found[a], tags[a])
    return {a: found[a] for a in arcs}


def _turn(ends: Ends) -> int:
    return (
        2
        if not ends.sources and len(ends.targets) == 1
        else int(len(ends.sources + ends.targets) > 2 or not ends.sources)
    )


@dataclass
class _Taken:
    """What is there already: boxes, lines, the rooms of labels, tips of arrows."""

    boxes: NDArray[np.float64]
    number: Mapping[str, int]
    lines: Segments = field(default_factory=Segments)
    rooms: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 4)))
    tips: NDArray[np.complex128] = field(default_factory=lambda: np.zeros(0, dtype=np.complex128))

    def add(self, route: Route, tag: Tag) -> None:
        self.lines = self.lines.joined(Segments.along([dense(c, STEP) for c in route.curves]))
        self.tips = np.array([*self.tips, *(c[-1][3] for _, c in route.heads)])
        if tag.width:
            self.rooms = np.array([*self.rooms, _room(route, tag)])

    def cost(self, route: Route, ends: Ends, tag: Tag, below: float) -> float:
        """How much a route hides, crosses and crowds; what it crosses is not counted once it is not `below` that."""
        curves = [dense(c, STEP) for c in route.curves]
        along = np.concatenate(curves)
        inner = self.boxes.copy()
        inner[[self.number[v] for v in (*ends.sources, *ends.targets)]] += np.array([1, 1, -1, -1]) * (CLEAR + 2.0)
        total = THROUGH_BOX * _entered(along, inner) + ON_LABEL * _entered(along, self.rooms)
        if tag.width:
            room = _room(route, tag)
            total += 2 * ON_LABEL * sum(int(_meeting(room, those).sum()) for those in (self.boxes, self.rooms))
            total += ON_LABEL * self.lines.within(room)
        if route.junction is not None:
            total += THROUGH_BOX / 2 * _entered(np.array([route.junction]), self.boxes + np.array([-1, -1, 1, 1]) * DOT)
        total += CROWDED * sum(int((abs(self.tips - c[-1][3]) < ENTRY).sum()) for _, c in route.heads)
        total += 0.02 * sum(float(np.abs(np.diff(c)).sum()) for c in curves)
        return total if total >= below else total + ACROSS * self.lines.crossings(Segments.along(curves))


def _meeting(frame: Corners, others: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of the other rectangles overlap a frame."""
    left, top, right, bottom = others.T
    return (left < frame[2]) & (frame[0] < right) & (top < frame[3]) & (frame[1] < bottom)


def _entered(along: NDArray[np.complex128], rectangles: NDArray[np.float64]) -> int:
    """How many of the rectangles some of these points lie in."""
    near = rectangles[_meeting(_frame(along), rectangles)]
    left, top, right, bottom = near.T
    x, y = along.real[:, None], along.imag[:, None]
    return int(((x > left) & (x < right) & (y > top) & (y < bottom)).any(0).sum())


def _frame(line: NDArray[np.complex128]) -> Corners:
    x, y = line.real, line.imag
    return float(x.min()), float(y.min()), float(x.max()), float(y.max())


def _grown(corners: Corners, by: float) -> Corners:
    left, top, right, bottom = corners
    return left - by, top - by, right + by, bottom + by


def _room(route: Route, tag: Tag) -> Corners:
    """About where the label and the note will stand."""
    across = route.heading * 1j
    across = across if across.imag < 0 or (across.imag == 0 and across.real > 0) else -across
    w, h = abs(across.real) * tag.width, abs(across.imag)
    near = [route.spot + across * (w + h * tag.above), route.spot - across * (h * tag.below)]
    x, y = [p.real for p in near], [p.imag for p in near]
    beside = h * tag.width / 2
    tall = abs(across.real) * max(tag.above, tag.below) / 2
    return min(x) - beside, min(y) - tall, max(x) + beside, max(y) + tall


def _port(box: Rectangle, towards: complex) -> complex:
    """Where a line from the centre of a box in some direction leaves it."""
    to = towards - box.centre if abs(towards - box.centre) > 1e-6 else 1 + 0j
    scale = min(box.width / 2 / max(abs(to.real), 1e-9), box.height / 2 / max(abs(to.imag), 1e-9))
    return box.centre + to * scale


def _lanes(
    boxes: Mapping[str, Rectangle], arcs: Mapping[str, Ends], tags: Mapping[str, Tag]
) -> dict[str, tuple[complex, float]]:
    """For each arc between two boxes: across the line between them, and how far aside it runs if there are several."""
    pairs: dict[tuple[str, ...], list[str]] = {}
    for a, e in arcs.items():
        if _turn(e) == 0:
            pairs.setdefault(tuple(sorted((*e.sources, *e.targets))), []).append(a)
    found: dict[str, tuple[complex, float]] = {}
    for (u, v), mine in pairs.items():
        across = direction(boxes[v].centre - boxes[u].centre) * 1j
        room = max(abs(across.imag) * (tags[a].above + tags[a].below) + abs(across.real) * tags[a].width for a in mine)
        for i, a in enumerate(mine):
            found[a] = across, (i - (len(mine) - 1) / 2) * (max(room, 10.0) + APART)
    return found


def _between(a: Rectangle, b: Rectangle, target: str, across: complex, lane: float) -> Iterator[tuple[float, Route]]:
    """Curves from one box to another that swing aside by the lane and some more."""
    for bend in BENDS:
        over = (a.centre + b.centre) / 2 + 2 * (lane + bend) * across
        start, end = _port(a, over), _port(b, over)
        curve: Curve = ((start, start + (over - start) * 2 / 3, end + (over - end) * 2 / 3, end),)
        along = dense(curve)
        spot = complex(along[len(along) // 2])
        there = at_distance(along, spot, 0.0)
        yield abs(bend) / 12, Route((), ((target, curve),), None, spot, there[1] if there else 1 + 0j)


def _hyper(boxes: Mapping[str, Rectangle], ends: Ends, tag: Tag) -> Iterator[tuple[float, Route]]:
    """Sources that merge in a junction, from which the targets split, about half way between them."""
    targets = [boxes[v].centre for v in ends.targets]
    into = sum(targets) / len(targets)
    length = max(STUB, tag.width + 14)
    if ends.sources:
        sources = [boxes[v].centre for v in ends.sources]
        out_of = sum(sources) / len(sources)
        heading, middle = direction(into - out_of), (into + out_of) / 2
    else:
        heading, middle = 1j, into - 40j
    turns = [cmath.rect(1.0, k * math.pi / 4) for k in range(8)]
    for ring, turn in itertools.chain([(0.0, 1 + 0j)], itertools.product(RINGS[1:], turns)):
        junction = middle + ring * turn
        for onwards in (heading,) if ends.sources else (1j, -1j, 1 + 0j, -1 + 0j):
            heads = tuple((v, _spoke(boxes[v], junction, onwards, True)) for v in ends.targets)
            tails = tuple(_spoke(boxes[v], junction, onwards, False) for v in ends.sources)
            outside: Curve = through([(junction - onwards * length, onwards), (junction, onwards)])
            tails = tails or (outside,)
            line = heads[0][1] if len(heads) == 1 else tails[0]
            along = dense(line)
            spot = complex(along[len(along) // 2]) if len(heads) == 1 or len(tails) == 1 else junction
            there = at_distance(along, spot, 0.0)
            way = there[1] if there and spot != junction else onwards
            yield ring / 8, Route(tails, heads, junction, spot, way)


def _spoke(box: Rectangle, junction: complex, heading: complex, into: bool) -> Curve:
    """From a junction to a box, or from a box to the junction."""
    port = _port(box, junction)
    straight = direction(port - junction)
    leave = heading if into else -heading
    turned = direction(straight + 0.8 * leave) if (straight * leave.conjugate()).real > -0.2 else straight
    reach = abs(port - junction)
    if into:
        return ((junction, junction + 0.4 * reach * turned, port - 0.35 * reach * straight, port),)
    return ((port, port - 0.35 * reach * straight, junction + 0.4 * reach * turned, junction),)


def _stubs(box: Rectangle, target: str, tag: Tag) -> Iterator[tuple[float, Route]]:
    """Arrows from outside to any side of a box: level ones from the left are liked best."""
    level, upright = max(STUB, tag.width + 14), max(STUB, tag.above + tag.below + 14)
    sides = ((-1 + 0j, level, 0.0), (-1j, upright, 2.0), (1 + 0j, level, 3.0), (1j, upright, 4.0))
    for out, length, disliked in sides:
        half = (box.width if out.real == 0 else box.height) / 2 - 5
        reach = box.height / 2 if out.real == 0 else box.width / 2
        steps = max(1, int(half / HEAD))
        for k in sorted(range(-steps, steps + 1), key=abs):
            end = box.centre + out * reach + out * 1j * min(abs(k) * HEAD, half) * (1 if k >= 0 else -1)
            for more in (0.0, 30.0):
                start = end + out * (length + more)
                curve = through([(start, -out), (end, -out)])
                spot = start - out * max(tag.width / 2 + 1, (length - 14) / 2) if out.imag == 0 else (start + end) / 2
                yield disliked + abs(k) * 0.5 + more / 10, Route((), ((target, curve),), None, spot, -out)
