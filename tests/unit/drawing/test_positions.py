"""Pictures whose boxes stand where a person put them, and pictures as data."""

from __future__ import annotations

import json
import math
import random
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, DissonanceError, Variable, draw
from dissonance.drawing.curves import hits
from dissonance.drawing.scene import Box, Stroke

A, B, C, D, E, F = (Variable(n, 2) for n in "ABCDEF")


def even(sources: int, targets: int) -> torch.Tensor:
    return torch.full((2,) * (sources + targets), 0.5**targets, dtype=torch.float64)


PDG_OF_ALL = PDG(
    Arc("stub", (), A, even(0, 1)),
    Arc("second", (), A, even(0, 1)),
    Arc("joint", (), (A, B), even(0, 2)),
    Arc("simple", A, C, even(1, 1)),
    Arc("parallel", A, C, even(1, 1)),
    Arc("merging", (A, B), D, even(2, 1)),
    Arc("splitting", C, (D, E), even(1, 2)),
    Arc("back", E, A, even(1, 1)),
    variables=[A, B, C, D, E, F],
)


def scattered(seed: int) -> dict[str, tuple[float, float]]:
    """Places on a grid of three by two, in any order, a little off."""
    choose = random.Random(seed)
    places = [
        (180.0 * i + choose.uniform(-30, 30), 130.0 * j + choose.uniform(-20, 20)) for i in range(3) for j in (0, 1)
    ]
    choose.shuffle(places)
    return dict(zip("ABCDEF", places, strict=True))


def boxes(drawing) -> dict[str, Box]:
    return {g.name: g.marks[0] for g in drawing.scene.groups if g.kind == "variable"}


def distance(p: complex, box: Box) -> float:
    x0, y0 = box.corner.real, box.corner.imag
    return math.hypot(max(x0 - p.real, 0, p.real - x0 - box.width), max(y0 - p.imag, 0, p.imag - y0 - box.height))


@pytest.mark.parametrize("seed", range(6))
def test_boxes_stand_where_they_are_put_and_arcs_reach_them(seed: int):
    places = scattered(seed)
    drawing = draw(PDG_OF_ALL, positions=places)
    found = boxes(drawing)
    for name, at in places.items():
        box = found[name]
        assert box.corner + complex(box.width, box.height) / 2 == pytest.approx(complex(*at))
    for g in (g for g in drawing.scene.groups if g.kind == "arc"):
        of = PDG_OF_ALL[g.name]
        tips = [m.points[0] for m in g.marks if getattr(m, "kind", "") == "head"]
        assert {v for v in found for tip in tips if distance(tip, found[v]) < 3} == {v.name for v in of.targets}
        starts = [m.curve[0][0] for m in g.marks if getattr(m, "kind", "") in ("tail", "line")]
        assert {v for v in found for p in starts if distance(p, found[v]) < 1} == {v.name for v in of.sources}
        strokes = [m for m in g.marks if isinstance(m, Stroke)]
        others = [b for v, b in found.items() if v not in {u.name for u in of.scope}]
        corners = [(b.corner.real, b.corner.imag, b.corner.real + b.width, b.corner.imag + b.height) for b in others]
        assert not any(hits(s.curve, np.array(corners)) for s in strokes)


def test_everything_lies_inside_the_bounds_wherever_boxes_are():
    drawing = draw(PDG_OF_ALL, positions={n: (x - 500, y + 900) for n, (x, y) in scattered(3).items()})
    left, top, width, height = drawing.data()["bounds"]
    assert left < -300 and top > 700
    root = ET.fromstring(drawing.svg())
    assert [float(x) for x in root.get("viewBox", "").split()] == pytest.approx([left, top, width, height], abs=0.06)
    for box in boxes(drawing).values():
        assert left <= box.corner.real and box.corner.real + box.width <= left + width
        assert top <= box.corner.imag and box.corner.imag + box.height <= top + height


def test_variables_without_a_position_stand_clear_of_the_others():
    drawing = draw(PDG_OF_ALL, positions={"A": (0, 0), "C": (0, 60)})
    found = list(boxes(drawing).values())
    for i, a in enumerate(found):
        for b in found[:i]:
            across = abs((a.corner - b.corner).real + (a.width - b.width) / 2) >= (a.width + b.width) / 2 - 1e-6
            down = abs((a.corner - b.corner).imag + (a.height - b.height) / 2) >= (a.height + b.height) / 2 - 1e-6
            assert across or down


@pytest.mark.parametrize(
    ("positions", "complaint"),
    [({"AA": (0, 0)}, "AA"), ({"A": (0, math.nan)}, "two finite numbers"), ({"A": (0, 1, 2)}, "two finite numbers")],
)
def test_positions_that_mean_nothing_are_errors(positions: dict[str, tuple[float, ...]], complaint: str):
    with pytest.raises(DissonanceError, match=complaint):
        draw(PDG_OF_ALL, positions=positions)


def test_the_data_of_a_picture_is_what_its_svg_shows():
    drawing = draw(PDG_OF_ALL, title="All of it", blame={"simple": 1.0, "back": 0.25})
    found = json.loads(json.dumps(drawing.data(), allow_nan=False))
    root = ET.fromstring(drawing.svg())
    svg = "{http://www.w3.org/2000/svg}"
    shown = list(root.iter(f"{svg}g"))
    assert [(g["kind"], g["name"]) for g in found["groups"]] == [
        (g.get("class"), g.get("data-name", "")) for g in shown
    ]
    tags = {"path": "path", "polygon": "polygon", "circle": "circle", "rect": "rect", "text": "text"}
    for group, element in zip(found["groups"], shown, strict=True):
        drawn = [e for e in element if e.tag != f"{svg}title"]
        assert [f"{svg}{tags[m['type']]}" for m in group["marks"]] == [e.tag for e in drawn]
        for mark, e in zip(group["marks"], drawn, strict=True):
            if mark["type"] == "path":
                assert mark["d"] == e.get("d")
            if mark["type"] == "text":
                assert "".join(s["text"] for s in mark["spans"]) == "".join(e.itertext())
            colour = mark.get("colour", mark.get("fill"))
            code = found["colours"]["light"].get(colour, colour)
            assert code in (e.get("fill"), e.get("stroke"))
    again = draw(PDG_OF_ALL, positions=found["positions"]).data()["positions"]
    assert again == {v: pytest.approx(at, abs=0.01) for v, at in found["positions"].items()}
