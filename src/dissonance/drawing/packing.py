"""Connected parts of a PDG, each laid out on its own, side by side and in rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from dissonance.drawing.curves import Corners, bounding_box, moved_curve
from dissonance.drawing.free import free_height, free_routes
from dissonance.drawing.layout import Rectangle, Tag, placement
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


def packed(widths: Mapping[str, float], arcs: Mapping[str, Ends], tags: Mapping[str, Tag]) -> Arrangement:
    """Lay out every connected part; put one beside the other, and under it where a row is full."""
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
    pieces = [_piece({v: widths[v] for v in part}, own, tags) for part, own in zip(parts, mine, strict=True)]
    row = max(
        [math.sqrt(ASPECT * sum((p.width + APART) * (p.height + APART) for p in pieces)), *(p.width for p in pieces)]
    )
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
    widths: Mapping[str, float], arcs: Mapping[str, Ends], tags: Mapping[str, Tag], centres: Mapping[str, complex]
) -> Arrangement:
    """Boxes at given places and lines around them; boxes without one stand as `packed` has them beside the others."""
    found = dict(centres)
    if len(centres) < len(widths):
        automatic = packed(widths, arcs, tags).boxes
        by = sum(centres[v] - automatic[v].centre for v in centres) / max(1, len(centres))
        found |= {v: b.centre + by for v, b in automatic.items() if v not in centres}
    boxes = {v: Rectangle(found[v], widths[v], free_height(v, arcs.values())) for v in widths}
    for v in widths:
        if v not in centres:
            boxes[v] = _cleared(boxes[v], [b for u, b in boxes.items() if u != v])
    return Arrangement(boxes, free_routes(boxes, arcs, tags), 0.0, 0.0)


def _cleared(box: Rectangle, others: Sequence[Rectangle]) -> Rectangle:
    """The box moved down until it lies on no other."""
    while any(
        abs(box.centre.real - b.centre.real) < (box.width + b.width) / 2
        and abs(box.centre.imag - b.centre.imag) < (box.height + b.height) / 2
        for b in others
    ):
        box = Rectangle(box.centre + 10j, box.width, box.height)
    return box


def _piece(widths: Mapping[str, float], arcs: Mapping[str, Ends], tags: Mapping[str, Tag]) -> Arrangement:
    placed = placement(widths, arcs, tags)
    found = routes(placed, tags)
    frames = [b.corners for b in placed.boxes.values()]
    frames += [bounding_box(c) for r in found.values() for c in (*r.tails, *(h for _, h in r.heads))]
    frames += [_label(r, tags[a]) for a, r in found.items() if tags[a].width]
    left, top = min(f[0] for f in frames), min(f[1] for f in frames)
    right, bottom = max(f[2] for f in frames), max(f[3] for f in frames)
    whole = Arrangement(placed.boxes, found, right - left, bottom - top)
    return _moved(whole, -complex(left, top))


def _label(route: Route, tag: Tag) -> Corners:
    """Around a label, whichever side of a steep line it stands on."""
    aside = tag.width / 2 + abs(route.heading.imag) * (tag.width / 2 + 6)
    return route.spot.real - aside, route.spot.imag - tag.above, route.spot.real + aside, route.spot.imag + tag.below


def _moved(piece: Arrangement, by: complex) -> Arrangement:
    boxes = {v: Rectangle(b.centre + by, b.width, b.height) for v, b in piece.boxes.items()}
    lines = {
        a: Route(
            tuple(moved_curve(c, by) for c in r.tails),
            tuple((v, moved_curve(h, by)) for v, h in r.heads),
            None if r.junction is None else r.junction + by,
            r.spot + by,
            r.heading,
        )
        for a, r in piece.routes.items()
    }
    return Arrangement(boxes, lines, piece.width, piece.height)
