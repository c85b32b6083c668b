"""Connected parts of a PDG, each laid out on its own, side by side and in rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import networkx as nx

from dissonance.drawing.curves import Corners, bounding_box
from dissonance.drawing.free import free_height, free_routes
from dissonance.drawing.layout import BOX, Rectangle, Tag, placement
from dissonance.drawing.ranks import Ends
from dissonance.drawing.routes import Route, routes

APART = 36.0
"""Between the parts."""
ASPECT = 1.9
"""How many times wider than high the whole should be, if there are several parts."""


@dataclass(frozen=True)
class Arrangement:
    """Boxes by variable, routes by arc, and about how much room they take."""

    boxes: dict[str, Rectangle]
    routes: dict[str, Route]
    width: float
    height: float


@dataclass(frozen=True)
class PageFlow:
    """Which way arcs run, "right" or "down", and the width to keep to; by default right, or down if too wide."""

    direction: str | None = None
    width: float | None = None


def packed(
    widths: Mapping[str, float], arcs: Mapping[str, Ends], tags: Mapping[bool, Mapping[str, Tag]], flow: PageFlow
) -> Arrangement:
    """Lay out every connected part; put one beside the other, and under it where a row is full.

    `tags` are the rooms for labels beside lines to the right (False) and downwards (True).
    """
    graph = nx.Graph()
    graph.add_nodes_from(widths)
    for e in arcs.values():
        scope = (*e.sources, *e.targets)
        graph.add_edges_from((scope[0], v) for v in scope[1:])
    place = {v: i for i, v in enumerate(widths)}
    parts = sorted(
        (sorted(c, key=place.__getitem__) for c in nx.connected_components(graph)), key=lambda c: place[c[0]]
    )
    owner = {v: i for i, part in enumerate(parts) for v in part}
    mine: list[dict[str, Ends]] = [{} for _ in parts]
    for a, e in arcs.items():
        mine[owner[e.targets[0]]][a] = e
    pieces = [_part({v: widths[v] for v in part}, own, tags, flow) for part, own in zip(parts, mine, strict=True)]
    row = max(
        [math.sqrt(ASPECT * sum((p.width + APART) * (p.height + APART) for p in pieces)), *(p.width for p in pieces)]
    )
    row = row if flow.width is None else min(row, flow.width)
    boxes: dict[str, Rectangle] = {}
    lines: dict[str, Route] = {}
    x = y = tall = wide = 0.0
    for p in pieces:
        if x > 0 and x + p.width > row + 1e-6:
            x, y, tall = 0.0, y + tall + APART, 0.0
        moved = _moved(p, complex(x, y))
        boxes |= moved.boxes
        lines |= moved.routes
        x, tall, wide = x + p.width + APART, max(tall, p.height), max(wide, x + p.width)
    return Arrangement({v: boxes[v] for v in widths}, lines, wide, y + tall)


def given(
    widths: Mapping[str, float],
    arcs: Mapping[str, Ends],
    tags: Mapping[bool, Mapping[str, Tag]],
    flow: PageFlow,
    centres: Mapping[str, complex],
) -> Arrangement:
    """Boxes at given places and lines around them; boxes without one stand as `packed` has them beside the others."""
    found = dict(centres)
    if len(centres) < len(widths):
        automatic = packed(widths, arcs, tags, flow).boxes
        by = sum(centres[v] - automatic[v].centre for v in centres) / max(1, len(centres))
        found |= {v: b.centre + by for v, b in automatic.items() if v not in centres}
    boxes = {v: Rectangle(found[v], widths[v], free_height(v, arcs.values())) for v in widths}
    for v in widths:
        if v not in centres:
            boxes[v] = _cleared(boxes[v], [b for u, b in boxes.items() if u != v])
    return Arrangement(boxes, free_routes(boxes, arcs, tags[False]), 0.0, 0.0)


def _cleared(box: Rectangle, others: Sequence[Rectangle]) -> Rectangle:
    """The box moved down until it lies on no other."""
    while any(
        abs(box.centre.real - b.centre.real) < (box.width + b.width) / 2
        and abs(box.centre.imag - b.centre.imag) < (box.height + b.height) / 2
        for b in others
    ):
        box = Rectangle(box.centre + 10j, box.width, box.height)
    return box


def _part(
    widths: Mapping[str, float], arcs: Mapping[str, Ends], tags: Mapping[bool, Mapping[str, Tag]], flow: PageFlow
) -> Arrangement:
    """One connected part: to the right or downwards, with so few boxes a row that it is not too wide, if it can be."""
    first = _piece(widths, arcs, tags, flow.direction == "down", None)
    if flow.width is None or first.width <= flow.width or flow.direction == "right":
        return first
    found = [first]
    most = len(widths)
    while most >= 1 and found[-1].width > flow.width:
        found.append(_piece(widths, arcs, tags, True, most))
        rows = Counter(round(b.centre.imag) for b in found[-1].boxes.values())
        most = min(most, max(rows.values())) * 4 // 5
    return found[-1] if found[-1].width <= flow.width else min(found, key=lambda p: p.width)


def _piece(
    widths: Mapping[str, float],
    arcs: Mapping[str, Ends],
    tags: Mapping[bool, Mapping[str, Tag]],
    down: bool,
    most: int | None,
) -> Arrangement:
    """One layout: made from left to right, and turned if it is to run downwards."""
    sizes = {v: (BOX, w) if down else (w, BOX) for v, w in widths.items()}
    placed = placement(sizes, arcs, tags[down], most)
    found = routes(placed, tags[down])
    frames = [b.corners for b in placed.boxes.values()]
    frames += [bounding_box(c) for r in found.values() for c in r.curves]
    frames += [_label(r, tags[down][a]) for a, r in found.items() if tags[down][a].width]
    left, top = min(f[0] for f in frames), min(f[1] for f in frames)
    right, bottom = max(f[2] for f in frames), max(f[3] for f in frames)
    whole = _moved(Arrangement(placed.boxes, found, right - left, bottom - top), -complex(left, top))
    return _turned(whole) if down else whole


def _label(route: Route, tag: Tag) -> Corners:
    """Around a label, whichever side of a steep line it stands on."""
    aside = tag.width / 2 + abs(route.heading.imag) * (tag.width / 2 + 6)
    return route.spot.real - aside, route.spot.imag - tag.above, route.spot.real + aside, route.spot.imag + tag.below


def _moved(piece: Arrangement, by: complex) -> Arrangement:
    boxes = {v: Rectangle(b.centre + by, b.width, b.height) for v, b in piece.boxes.items()}
    lines = {a: r.mapped(lambda p: p + by) for a, r in piece.routes.items()}
    return Arrangement(boxes, lines, piece.width, piece.height)


def _turned(piece: Arrangement) -> Arrangement:
    """What ran to the right runs downwards: x and y exchanged."""

    def turn(p: complex) -> complex:
        return complex(p.imag, p.real)

    boxes = {v: Rectangle(turn(b.centre), b.height, b.width) for v, b in piece.boxes.items()}
    lines = {a: replace(r.mapped(turn), heading=turn(r.heading)) for a, r in piece.routes.items()}
    return Arrangement(boxes, lines, piece.height, piece.width)
