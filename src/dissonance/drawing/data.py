"""A scene as plain data, for pages that draw it themselves: numbers, texts, lists and dicts that JSON can hold."""

from __future__ import annotations

from typing import Any

from dissonance.drawing.scene import Box, Dot, FilledShape, Mark, Scene, Stroke, Writing
from dissonance.drawing.style import DARK, LIGHT
from dissonance.drawing.svg import path


def data(scene: Scene) -> dict[str, Any]:
    """What an SVG of the scene shows, mark by mark, in the order in which it is painted.

    `bounds` are left, top, width and height; `positions` the centres of the variables' boxes. A colour is a code or the
    name of a role that `colours` gives for light and for dark pages.
    """
    return {
        "title": scene.title,
        "bounds": [_short(x) for x in (scene.corner.real, scene.corner.imag, scene.width, scene.height)],
        "colours": {"light": LIGHT, "dark": DARK},
        "positions": {g.name: _point(_centre(g.marks)) for g in scene.groups if g.kind == "variable"},
        "groups": [
            {"kind": g.kind, "name": g.name, "title": g.title, "marks": [_mark(m) for m in g.marks]}
            for g in scene.groups
        ],
    }


def _mark(mark: Mark) -> dict[str, Any]:
    if isinstance(mark, Stroke):
        drawn = {"d": path(mark.curve), "width": _short(mark.width), "colour": mark.colour, "dash": list(mark.dash)}
        return {"type": "path", "kind": mark.kind, **drawn}
    if isinstance(mark, FilledShape):
        return {
            "type": "polygon",
            "kind": mark.kind,
            "points": [_point(p) for p in mark.points],
            "colour": mark.colour,
        }
    if isinstance(mark, Dot):
        at = {"centre": _point(mark.centre), "radius": _short(mark.radius)}
        return {"type": "circle", "kind": mark.kind, **at, "colour": mark.colour}
    if isinstance(mark, Box):
        at = {"x": _short(mark.corner.real), "y": _short(mark.corner.imag)}
        size = {"width": _short(mark.width), "height": _short(mark.height), "radius": _short(mark.radius)}
        return {"type": "rect", "kind": "box", **at, **size, "fill": mark.fill, "line": mark.line}
    return _writing(mark)


def _writing(mark: Writing) -> dict[str, Any]:
    left, size = mark.at.real - mark.width / 2, mark.size
    spans = [
        {
            "text": s.text,
            "x": _short(left + s.dx * size),
            "y": _short(mark.at.imag + s.dy * size),
            "size": _short(s.size * size),
            "width": _short(s.width * size),
        }
        for s in mark.label.spans
        if s.width > 0
    ]
    look = {"colour": mark.colour, "italic": mark.italic, "bold": mark.bold, "halo": mark.halo}
    around = mark.corners
    box = [_short(x) for x in (around[0], around[1], around[2] - around[0], around[3] - around[1])]
    return {"type": "text", "kind": mark.kind, "spans": spans, "box": box, **look}


def _centre(marks: tuple[Mark, ...]) -> complex:
    return next(m.corner + complex(m.width, m.height) / 2 for m in marks if isinstance(m, Box))


def _point(p: complex) -> list[float]:
    return [_short(p.real), _short(p.imag)]


def _short(x: float) -> float:
    return round(x, 2)
