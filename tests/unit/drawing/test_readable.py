"""Pictures that can be read: labels off lines, numbers against their paper, pages of any width, either direction."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from pictures import beliefs, boxes, labels, network, overlap, table

from dissonance import PDG, Arc, Attention, DissonanceError, Variable, draw
from dissonance.cli.app import run
from dissonance.drawing import Drawing, style
from dissonance.drawing.curves import dense
from dissonance.drawing.scene import Stroke, Writing

SMOKING = str(Path(__file__).parents[3] / "examples" / "smoking.json")
A, B, C = (Variable(n, 2) for n in "ABC")


def luminance(code: str) -> float:
    """Relative luminance of a colour, as WCAG 2.1 defines it."""
    parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_ratio_of_contrast_is_that_of_wcag():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)  # the known limit of grey on white


@pytest.mark.parametrize("colours", [style.LIGHT, style.DARK], ids=["light", "dark"])
def test_everything_written_has_a_contrast_of_at_least_four_and_a_half(colours: dict[str, str]):
    arcs = [Arc(f"a{i}", (), A, [0.5, 0.5]) for i in range(40)]
    blamed = draw(PDG(*arcs), blame={a.name: float(i) for i, a in enumerate(arcs)}, title="Title", legend=True)
    written = {m.colour for g in blamed.scene.groups for m in g.marks if isinstance(m, Writing)}
    assert {f"blame{i}" for i in range(1, style.SHADES)} <= written
    for role in written | {"muted"}:
        assert contrast(colours[role], colours["paper"]) >= 4.5, role
    assert contrast(colours["ink"], colours["box"]) >= 4.5
    lines = {f"focus{i}" for i in range(style.FOCI)}
    assert all(contrast(colours[role], colours["paper"]) >= 3 for role in lines)  # what is not text


def test_widths_tell_large_betas_apart_and_hard_arcs_have_the_widest():
    betas = {f"a{i}": b for i, b in enumerate((1.0, 10.0, 100.0, 1000.0, 1e6, math.inf))}
    pdg = PDG(*(Arc(name, A, B, table(1, 1)) for name in betas))
    drawing = draw(pdg, attention=Attention.only(betas))
    widths = [m.width for g in drawing.scene.groups if g.kind == "arc" for m in g.marks if isinstance(m, Stroke)]
    assert all(b - a > 0.25 for a, b in itertools.pairwise(widths))
    assert widths[-1] < 4


def own_lines(drawing: Drawing) -> list[str]:
    """The arcs whose label or note lies on their own line."""
    found = []
    for g in drawing.scene.groups:
        lines = [m for m in g.marks if isinstance(m, Stroke)]
        for w in (m for m in g.marks if isinstance(m, Writing) and m.kind):
            left, top, right, bottom = w.corners
            for line in lines:
                along = dense(line.curve)
                half = line.width / 2 - 0.5
                inside = (along.real > left - half) & (along.real < right + half)
                if (inside & (along.imag > top - half) & (along.imag < bottom + half)).any():
                    found.append(g.name)
    return found


@pytest.mark.parametrize("direction", ["right", "down"])
@pytest.mark.parametrize("seed", [0, 1])
def test_labels_and_numbers_stand_off_their_own_lines(seed: int, direction: str):
    pdg = beliefs(24, seed)
    blame = {a.name: 0.01 + i % 7 for i, a in enumerate(pdg.arcs)}
    assert len(pdg.arcs) <= 40
    drawing = draw(pdg, blame=blame, direction=direction)
    assert sum(m.kind == "note" for g in drawing.scene.groups for m in g.marks if isinstance(m, Writing)) > 25
    assert not own_lines(drawing)


def test_the_labels_of_22_parallel_arcs_do_not_overlap():
    pdg = PDG(*(Arc(f"belief {i}", A, B, table(1, 1)) for i in range(22)))
    drawing = draw(pdg, blame={a.name: 0.123 * (i + 1) for i, a in enumerate(pdg.arcs)})
    written = labels(drawing)
    assert len(written) == 44
    assert not any(overlap(a, b) for a, b in itertools.combinations(written, 2))
    assert not own_lines(drawing)


@pytest.mark.parametrize(("make", "size"), [(network, 40), (beliefs, 30)])
def test_downwards_nothing_overlaps_and_sources_stand_above_targets(make, size: int):
    pdg = make(size, 0)
    drawing = draw(pdg, direction="down")
    found, written = boxes(drawing), labels(drawing)
    assert not any(overlap(a, b) for a, b in itertools.combinations(found, 2))
    assert not any(overlap(a, b) for a in found for b in written)
    if make is network:
        middle = {g.name: (b[1] + b[3]) / 2 for g, b in zip(_variables(drawing), found, strict=True)}
        assert all(middle[s.name] < middle[t.name] for a in pdg.arcs for s in a.sources for t in a.targets)


def _variables(drawing: Drawing) -> list:
    return [g for g in drawing.scene.groups if g.kind == "variable"]


@pytest.mark.parametrize("width", [640, 400])
def test_a_picture_is_not_wider_than_its_page(width: float):
    pdg = network(40, 1)
    wide, page = draw(pdg), draw(pdg, width=width)
    assert wide.scene.width > 900
    assert page.scene.width * page.scene.scale <= width + 1e-6
    assert page.scene.scale > 0.75  # laid out anew, not only drawn smaller
    found = boxes(page)
    assert not any(overlap(a, b) for a, b in itertools.combinations(found, 2))
    assert draw(PDG(Arc("p", A, B, table(1, 1))), width=width).scene.scale == 1
    smaller = draw(pdg, width=width, direction="right")
    assert smaller.scene.width == wide.scene.width
    assert f'width="{width}"' in smaller.svg() and smaller.data()["scale"] == pytest.approx(width / wide.scene.width)


def test_parts_that_are_not_connected_wrap_at_the_width():
    pdg = PDG(variables=[Variable(f"Variable {i}", 2) for i in range(30)])
    assert draw(pdg, width=300).scene.width <= 300
    assert np.isclose(draw(pdg, width=300).scene.scale, 1)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [({"direction": "dwon"}, "Did you mean 'down'"), ({"width": 0}, "at least 100"), ({"width": math.nan}, "at least")],
)
def test_layouts_that_there_are_not_are_errors(options: dict[str, object], complaint: str):
    with pytest.raises(DissonanceError, match=complaint):
        draw(PDG(Arc("p", (), A, [0.5, 0.5])), **options)


def test_a_picture_goes_to_standard_output(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path):
    assert run(["draw", SMOKING, "-", "--direction", "down", "--width", "500"]) == 0
    shown = capfdbinary.readouterr().out
    assert run(["draw", SMOKING, str(tmp_path / "a.svg"), "--direction", "down", "--width", "500"]) == 0
    assert shown.startswith(b"<svg") and shown == (tmp_path / "a.svg").read_bytes()
    assert run(["draw", SMOKING, str(tmp_path / "picture"), "--to", "svg", "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["out"].endswith("picture")
    pytest.importorskip("matplotlib")
    assert run(["draw", SMOKING, "-", "--to", "png"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["-", "--json"], b"both want standard output"),
        (["-", "--to", "pgn"], b"Did you mean 'png'"),
        (["a.svg", "--direction", "rihgt"], b"Did you mean 'right'"),
        (["a.svg", "--width", "3"], b"at least 100"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(more: list[str], complaint: bytes, capfdbinary: pytest.CaptureFixture[bytes]):
    assert run(["draw", SMOKING, *more]) == 2
    captured = capfdbinary.readouterr()
    assert captured.out == b"" and complaint in captured.err and captured.err.count(b"\n") == 1
    assert not Path("a.svg").exists()
