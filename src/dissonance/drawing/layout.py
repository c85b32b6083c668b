"""Where variables and arcs are placed: columns of variables from left to right, between them a column for the arcs.

Every arc has an element of its own between the columns: its junction, where the sources merge and from which the
targets split, and the room for its label. Links over several columns have an element in each of them (Sugiyama).
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dissonance.drawing.heights import Extent, heights
from dissonance.drawing.order import crossings, ordered
from dissonance.drawing.ranks import Ends, ranks

BOX = 30.0
"""The height of a variable's box, if few arcs end at it."""
HEAD, TAIL = 11.0, 6.5
"""How far arrow heads, and the ends of lines without, stand apart on a side of a box."""
MANY = 5
"""More lines than this leave a box at one point."""
STUB = 40.0
"""The least length of an arrow that comes from outside."""
ROOM, NARROW = 15.0, 52.0
"""Between columns; and at least between columns of variables."""
SLOPE, STEEP, FAR, LONG = 0.5, 48.0, 0.3, 13
"""Columns stand further apart where lines climb: by half of a small climb, by less of a high one, by less yet if there
are many columns."""
SPLIT = 14.0
"""How far above its targets a joint belief splits, if they stand on both sides of it."""

Size = tuple[float, float]
"""Of a box: along the flow and across it."""


@dataclass(frozen=True)
class Tag:
    """The room an arc's label needs: above the line, below it, along it."""

    width: float
    above: float
    below: float
    drop: float = 22.0
    """How long a line across the flow must be that has the label beside it."""


@dataclass(frozen=True)
class Rectangle:
    """A variable's box around its centre."""

    centre: complex
    width: float
    height: float

    @property
    def corners(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom."""
        x, y, w, h = self.centre.real, self.centre.imag, self.width / 2, self.height / 2
        return x - w, y - h, x + w, y + h


@dataclass(frozen=True)
class Way:
    """From the box of a variable to the junction of an arc: where it passes, and on which side it leaves the box."""

    variable: str
    points: tuple[complex, ...]
    side: int


@dataclass(frozen=True)
class Place:
    """An arc: its junction and where it is headed there, the ways of its sources and targets, where it comes from.

    `spot` is the point of its line beside which the label stands.
    """

    junction: complex
    heading: complex
    spot: complex
    sources: tuple[Way, ...]
    targets: tuple[Way, ...]
    outside: complex | None


@dataclass(frozen=True)
class Placement:
    """Boxes by variable, places by arc."""

    boxes: dict[str, Rectangle]
    places: dict[str, Place]


@dataclass
class _Elements:
    """Everything that has a place in a column: variables, junctions, and where links pass a column."""

    column: list[int] = field(default_factory=list)
    extent: list[Extent] = field(default_factory=list)
    links: list[tuple[int, int, float]] = field(default_factory=list)

    def add(self, column: int, extent: Extent) -> int:
        self.column.append(column)
        self.extent.append(extent)
        return len(self.column) - 1

    def link(self, a: int, b: int, weight: float) -> list[int]:
        """Join two elements; returns what lies between them, one element a column."""
        step = 1 if self.column[b] > self.column[a] else -1
        passed = [self.add(c, Extent(3, 3, 5)) for c in range(self.column[a] + step, self.column[b], step)]
        chain = [a, *passed, b]
        for u, v in itertools.pairwise(chain):
            u, v = (u, v) if self.column[u] < self.column[v] else (v, u)
            inner = (u in passed) + (v in passed)
            self.links.append((u, v, weight * (1.0, 2.0, 8.0)[inner]))
        return passed


def placement(
    sizes: Mapping[str, Size], arcs: Mapping[str, Ends], tags: Mapping[str, Tag], most: int | None = None
) -> Placement:
    """Place connected variables (by name, with the least sizes of their boxes) and the arcs between them.

    `most` is how many variables may stand in a column.
    """
    rank = ranks(list(sizes), arcs, most)
    where = {a: _column(e, rank, arcs) for a, e in arcs.items()}
    widths = {v: wide for v, (wide, _) in sizes.items()}
    tall = {v: _height(v, 2 * rank[v], arcs, where, least) for v, (_, least) in sizes.items()}
    elements = _Elements()
    of = {v: elements.add(2 * rank[v], Extent(tall[v] / 2, tall[v] / 2, 14)) for v in widths}
    junction: dict[str, int] = {}
    passed: dict[tuple[str, str], list[int]] = {}
    degree = Counter(v for e in arcs.values() if len(e.sources + e.targets) > 1 for v in e.sources + e.targets)
    loose = {v for v in widths if degree[v] == 1}
    for a, e in arcs.items():
        junction[a] = elements.add(where[a], _room(e, tags[a], where[a], rank))
        for v in (*e.sources, *e.targets):
            passed[a, v] = elements.link(of[v], junction[a], _pull(v, e, loose))
    columns = _best_order(elements)
    y = heights(columns, elements.links, dict(enumerate(elements.extent)))
    need = {of[v]: widths[v] for v in widths} | {
        junction[a]: _width(e, tags[a], where[a], rank) for a, e in arcs.items()
    }
    spans = _across(columns, elements, need, y)
    boxes = {v: Rectangle(complex(_middle(spans[2 * rank[v]]), y[of[v]]), widths[v], tall[v]) for v in widths}
    ends = {a: complex(_middle(spans[where[a]]), y[junction[a]]) for a in arcs}
    chains: dict[tuple[str, str], list[complex]] = {}
    for (a, v), between in passed.items():
        turn = 1 if where[a] > 2 * rank[v] else -1
        crossed = [complex(x, y[i]) for i in between for x in spans[elements.column[i]][::turn]]
        chains[a, v] = [*crossed, ends[a]]
    ports = _ports(boxes, arcs, chains)
    edges = {v: spans[2 * rank[v]] for v in widths}
    places = {a: _place(a, e, chains, ports, edges, tags[a], ends[a], spans[where[a]]) for a, e in arcs.items()}
    return Placement(boxes, places)


def _middle(span: tuple[float, float]) -> float:
    return (span[0] + span[1]) / 2


def _pull(v: str, ends: Ends, loose: set[str]) -> float:
    """How much a variable draws an arc's junction to its height: most where all its other lines meet.

    Arcs to loose ends give way, so that chains are straight.
    """
    scope = ends.sources + ends.targets
    if len(scope) <= 2:
        return 0.3 if len(scope) == 1 else 0.7 if loose & set(scope) else 1.0
    alone = len(ends.sources) == 1 if v in ends.sources else len(ends.targets) == 1
    return 4.0 if alone else 1.0


def _width(ends: Ends, tag: Tag, column: int, rank: Mapping[str, int]) -> float:
    """The room an arc needs between two columns of variables."""
    if ends.sources:
        return tag.width
    return 2 * tag.width + 12 if _from_above(ends, column, rank) else max(STUB, tag.width + 14) + 10 - ROOM


def _from_above(ends: Ends, column: int, rank: Mapping[str, int]) -> bool:
    """Whether a joint belief has targets on both sides."""
    return not ends.sources and len({2 * rank[v] > column for v in ends.targets}) == 2


def _column(ends: Ends, rank: Mapping[str, int], arcs: Mapping[str, Ends]) -> int:
    """The column of an arc's junction: an odd number; variables have the even ones."""
    left, right = [rank[v] for v in ends.sources], [rank[v] for v in ends.targets]
    if not left:
        if min(right) < max(right):
            return 2 * min(right) + 1
        alone = all(_only_entered(v, rank, arcs) for v in ends.targets)
        return 2 * right[0] + (1 if alone else -1)
    first, last = (left, right) if sum(left) * len(right) <= sum(right) * len(left) else (right, left)
    if max(first) < min(last):
        if len(first) == len(last) == 1:
            return first[0] + last[0] + (1 - (first[0] + last[0]) % 2)
        return 2 * max(first) + 1 if len(first) < len(last) else 2 * min(last) - 1
    return 2 * min(right) - 1 if first is left else 2 * max(right) + 1


def _only_entered(v: str, rank: Mapping[str, int], arcs: Mapping[str, Ends]) -> bool:
    """Whether other variables of a variable's arcs are all to its left, and there are some."""
    others = [rank[u] for e in arcs.values() if v in e.sources + e.targets for u in e.sources + e.targets if u != v]
    return bool(others) and max(others) < rank[v]


def _height(v: str, column: int, arcs: Mapping[str, Ends], where: Mapping[str, int], least: float) -> float:
    """A box is as high as the arrow heads on either of its sides need."""
    heads = [where[a] > column for a, e in arcs.items() if v in e.targets]
    tails = [where[a] > column for a, e in arcs.items() if v in e.sources]
    need = max(heads.count(side) * HEAD + min(tails.count(side), 2) * TAIL for side in (False, True))
    return max(least, min(need + 8, 150.0))


def _room(ends: Ends, tag: Tag, column: int, rank: Mapping[str, int]) -> Extent:
    if _from_above(ends, column, rank):
        return Extent(tag.drop + 2 * SPLIT, 4.0, 8)
    return Extent(max(4.0, tag.above), max(4.0, tag.below), 9 if tag.above and tag.below else 5)


def _best_order(elements: _Elements) -> list[list[int]]:
    """The elements column by column: of two walks along the links, with few crossings."""
    links = [(u, v) for u, v, _ in elements.links]
    found = [ordered(_columns(elements, deep), links) for deep in (False, True)]
    return min(found, key=lambda columns: crossings(columns, links))


def _columns(elements: _Elements, deep: bool) -> list[list[int]]:
    """The elements column by column, in the order in which a walk along the links meets them."""
    lowest, highest = min(elements.column), max(elements.column)
    columns: list[list[int]] = [[] for _ in range(lowest, highest + 1)]
    near: list[list[int]] = [[] for _ in elements.column]
    for u, v, _ in elements.links:
        near[u].append(v)
        near[v].append(u)
    seen: set[int] = set()
    for start in range(len(elements.column)):
        waiting = deque([start])
        while waiting:
            e = waiting.pop() if deep else waiting.popleft()
            if e not in seen:
                seen.add(e)
                columns[elements.column[e] - lowest].append(e)
                waiting.extend(reversed(near[e]) if deep else near[e])
    return columns


def _across(
    columns: Sequence[Sequence[int]], elements: _Elements, need: Mapping[int, float], y: Mapping[int, float]
) -> dict[int, tuple[float, float]]:
    """From where to where each column reaches."""
    first = min(elements.column)
    climb = [0.0] * len(columns)
    for u, v, _ in elements.links:
        i = elements.column[u] - first
        climb[i] = max(climb[i], abs(y[u] - y[v]))
    spans: dict[int, tuple[float, float]] = {}
    left, share = 0.0, min(1.0, (LONG / len(columns)) ** 2)
    for i, column in enumerate(columns):
        wide = max((need.get(e, 0.0) for e in column), default=0.0)
        if (first + i) % 2 and 0 < i < len(columns) - 1:
            wide = max(wide, NARROW - 2 * ROOM)
        spans[first + i] = (left, left + wide)
        left += wide + ROOM + share * min(max(STEEP, FAR * climb[i]), SLOPE * climb[i])
    return spans


def _ports(
    boxes: Mapping[str, Rectangle], arcs: Mapping[str, Ends], chains: Mapping[tuple[str, str], Sequence[complex]]
) -> dict[tuple[str, str], complex]:
    """Where each arc meets the boxes of its variables: spread over the side, in the order of what comes next."""
    ports: dict[tuple[str, str], complex] = {}
    for v, box in boxes.items():
        mine = [(a, e) for a, e in arcs.items() if v in e.sources + e.targets]
        for side in (-1, 1):
            here = [(a, v in e.targets) for a, e in mine if (chains[a, v][0].real > box.centre.real) == (side > 0)]
            here.sort(key=lambda item: chains[item[0], v][0].imag)
            tails = sum(not head for _, head in here)
            steps = [HEAD if head else TAIL if tails <= MANY else 0.0 for _, head in here]
            places = [sum(steps[: i + 1]) - steps[i] / 2 for i in range(len(steps))]
            total = sum(steps)
            scale = min(1.0, (box.height - 6) / total) if total else 1.0
            for (a, _), p in zip(here, places, strict=True):
                ports[a, v] = box.centre + complex(side * box.width / 2, (p - total / 2) * scale)
    return ports


def _place(
    name: str,
    ends: Ends,
    chains: Mapping[tuple[str, str], Sequence[complex]],
    ports: Mapping[tuple[str, str], complex],
    edges: Mapping[str, tuple[float, float]],
    tag: Tag,
    junction: complex,
    span: tuple[float, float],
) -> Place:
    def way(v: str) -> Way:
        port, beyond = ports[name, v], chains[name, v]
        side = 1 if beyond[0].real > port.real else -1
        edge = complex(edges[v][side > 0], port.imag)
        return Way(v, (port, *([edge] if abs(edge - port) > 2 else []), *beyond), side)

    sources, targets = tuple(map(way, ends.sources)), tuple(map(way, ends.targets))
    if sources:
        heading = 1 if sum(w.side for w in sources) >= sum(w.side for w in targets) else -1
        beside = (tag.width / 2 + 5) * heading * ((len(targets) == 1) - (len(sources) == 1))
        sources, targets = (tuple(_ending(w, junction - beside) for w in ways) for ways in (sources, targets))
        return Place(junction - beside, heading, junction, sources, targets, None)
    length = max(STUB, tag.width + 14)
    sides = {w.side for w in targets}
    if len(targets) == 1:
        (w,) = targets
        port = w.points[0]
        length += min(26.0, abs(port.imag - junction.imag))
        start = complex(port.real + w.side * length, junction.imag)
        spot = start - w.side * max(tag.width / 2 + 1, (length - 14) / 2 if length <= STUB else 0)
        return Place(start, -w.side, spot, (), (Way(w.variable, (port, start), w.side),), None)
    if len(sides) == 2:
        level = max(min(junction.imag, *(w.points[0].imag for w in targets)), junction.imag - SPLIT)
        junction, outside = complex(junction.real, level - SPLIT), complex(junction.real, level - SPLIT - tag.drop)
        return Place(junction, 1j, (junction + outside) / 2, (), tuple(_ending(w, junction) for w in targets), outside)
    side = next(iter(sides))
    moved = complex(span[side < 0], junction.imag)
    ways = tuple(_ending(w, moved) for w in targets)
    return Place(moved, -side, moved + side * length / 2, (), ways, moved + side * length)


def _ending(way: Way, junction: complex) -> Way:
    """The same way to a junction that was moved."""
    return Way(way.variable, (*way.points[:-1], junction), way.side)
