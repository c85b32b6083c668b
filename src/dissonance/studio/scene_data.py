"""Stopgap until drawing/data.py of branch pages is here: the same shape."""

from typing import Any
from dissonance.drawing.scene import Box, Dot, FilledShape, Mark, Scene, Stroke, Writing
from dissonance.drawing.style import DARK, LIGHT
from dissonance.drawing.svg import _path as path


def data(scene: Scene) -> dict[str, Any]:
    return {
        "title": scene.title,
        "bounds": [0, 0, _short(scene.width), _short(scene.height)],
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
        return {"type": "polygon", "kind": mark.kind, "points": [_point(p) for p in mark.points], "colour": mark.colour}
    if isinstance(mark, Dot):
        at = {"centre": _point(mark.centre), "radius": _short(mark.radius)}
        return {"type": "circle", "kind": mark.kind, **at, "colour": mark.colour}
    if isinstance(mark, Box):
        at = {"x": _short(mark.corner.real), "y": _short(mark.corner.imag)}
        size = {"width": _short(mark.width), "height": _short(mark.height), "radius": _short(mark.radius)}
        return {"type": "rect", "kind": "box", **at, **size, "fill": mark.fill, "line": mark.line}
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
    box = [_short(x) for x in (left - 1, mark.at.imag - 0.75 * size, mark.width + 2, 0.97 * size)]
    return {"type": "text", "kind": "", "spans": spans, "box": box, **look}


def _centre(marks):
    return next(m.corner + complex(m.width, m.height) / 2 for m in marks if isinstance(m, Box))


def _point(p: complex) -> list[float]:
    return [_short(p.real), _short(p.imag)]


def _short(x: float) -> float:
    return round(x, 2)
