"""What notebooks show of PDGs, results and runs; and the command that draws."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    Euclidean,
    LinearGaussian,
    PointMass,
    SoftmaxTable,
    Variable,
    inconsistency,
    lir,
)
from dissonance.cli.app import run
from dissonance.drawing.chart import falling

EXAMPLES = Path(__file__).parents[3] / "examples"
A, B = Variable("A", 2), Variable("B", 2)
PAIR = PDG(Arc("p", (), A, SoftmaxTable([0.9, 0.1])), Arc("q", (), A, SoftmaxTable([0.2, 0.8])))


def pictures(html: str) -> list[ET.Element]:
    """The pictures in a piece of HTML, which is well formed."""
    ET.fromstring(html)
    return [ET.fromstring(p) for p in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]


def test_a_notebook_shows_a_pdg_as_a_picture_and_a_table():
    html = PAIR._repr_html_()
    assert len(pictures(html)) == 1
    assert html.count("<tr>") == 3
    assert "SoftmaxTable" in html


def test_a_large_pdg_is_shown_as_a_table_only():
    pdg = PDG(*(Arc(f"p{i}", (), Variable(f"V{i}", 2), [0.5, 0.5]) for i in range(200)))
    html = pdg._repr_html_()
    assert not pictures(html)
    assert "140 more not shown" in html


def test_a_notebook_shows_a_result_with_its_bounds_and_a_bar_for_each_arc():
    result = inconsistency(PAIR, Attention.only({"p": 1.0, "q": 3.0}))
    html = result._repr_html_()
    assert f"{result.upper:.9g}" in html and f"{result.lower:.9g}" in html
    (chart,) = pictures(html)
    bars = [g for g in chart.iter("{http://www.w3.org/2000/svg}g") if g.get("class") == "bar"]
    length = {g.get("data-name"): float(next(e for e in g if e.tag.endswith("rect")).get("width", "")) for g in bars}
    blame = {r.name: r.contribution for r in result.by_arc(saved=False)}
    assert length["p"] / length["q"] == pytest.approx(blame["p"] / blame["q"], rel=0.01)
    assert [g.get("data-name") for g in bars] == sorted(blame, key=lambda a: -blame[a])


def test_results_without_blame_are_shown_all_the_same():
    contradiction = PDG(Arc("p", (), A, [1.0, 0.0]), Arc("q", (), A, [0.0, 1.0]))
    assert "∞" in inconsistency(contradiction)._repr_html_()
    empty = inconsistency(PDG())
    assert "0 nats" in empty._repr_html_()
    point = PDG(Arc("x", (), Variable("X", Euclidean(1)), PointMass([1.0])))
    pictures(inconsistency(point, Attention.only({"x": math.inf}))._repr_html_())


def test_a_notebook_shows_runs_and_traces_as_a_line_that_falls():
    done = lir(PAIR, steps=4, progress=False)
    for html in (done._repr_html_(), done.trace._repr_html_()):
        (chart,) = pictures(html)
        lines = [e for e in chart.iter() if e.get("class", "").startswith("global")]
        assert len(lines) == 1
    assert f"{done.before.upper:.6g}" in done._repr_html_()


def test_a_line_is_broken_where_a_value_is_missing():
    scene = falling([0, 1, 2, 3, 4], [2.0, 1.0, math.nan, 1.0, 0.5], [math.nan] * 5, "")
    kinds = [m.kind for g in scene.groups for m in g.marks if getattr(m, "kind", "")]
    assert kinds.count("global") == 2 and kinds.count("local") == 0


def cells_of(table: ET.Element) -> list[list[str]]:
    """The texts of a table, row by row."""
    return [["".join(c.itertext()).strip() for c in row] for row in table.iter("tr")]


def test_a_notebook_shows_mu_as_tables_with_labels():
    age, buys = Variable("Age", ["young", "old"]), Variable("Buys", ["no", "yes"])
    pdg = PDG(Arc("age", (), age, [0.25, 0.75]), Arc("buys", age, buys, [[0.9, 0.1], [0.2, 0.8]]))
    joint, marginals = ET.fromstring(inconsistency(pdg).mu._repr_html_()).iter("table")
    assert cells_of(joint) == [
        ["Age", "Buys=no", "Buys=yes"],
        ["young", "0.2250", "0.0250"],
        ["old", "0.1500", "0.6000"],
    ]
    assert cells_of(marginals) == [
        ["variable", "value", "probability"],
        ["Age", "young", "0.2500"],
        ["old", "0.7500"],
        ["Buys", "no", "0.3750"],
        ["yes", "0.6250"],
    ]
    assert [h.get("scope") for h in joint.iter("th")] == ["col"] * 3 + ["row"] * 2
    assert "color:" not in inconsistency(pdg).mu._repr_html_().replace("currentColor", "")


def test_labels_that_are_markup_are_text_in_tables():
    evil = Variable("<b>&", ["<script>alert(1)</script>", '"'])
    html = inconsistency(PDG(Arc("p", (), evil, [0.5, 0.5]))).mu._repr_html_()
    (table,) = ET.fromstring(html).iter("table")
    assert cells_of(table)[1][:2] == ["<b>&", "<script>alert(1)</script>"]
    assert "<script" not in html


def test_a_large_mu_is_shown_in_part_and_says_so():
    pdg = PDG(*(Arc(f"p{i}", (), Variable(f"V{i}", 20), [0.05] * 20) for i in range(14)))
    html = inconsistency(pdg).mu._repr_html_()
    (table,) = ET.fromstring(html).iter("table")
    assert "and 8 more values" in html and "and 2 more variables" in html
    assert len(cells_of(table)) == 1 + 12 * 13


def test_results_posteriors_and_numbers_have_tables_too():
    shown = inconsistency(PAIR)
    (table,) = ET.fromstring(shown._repr_html_()).iter("table")
    assert cells_of(table)[1][2] == f"{shown.mu['A'][0]:.4f}"
    posterior = inconsistency(PDG(Arc("p", (), A, [0.9, 0.1]), Arc("q", A, B, [[0.8, 0.2], [0.3, 0.7]]))).query(
        {"A": 1}
    )
    (table,) = ET.fromstring(posterior._repr_html_()).iter("table")
    assert cells_of(table)[-1] == ["1", "0.7000"]
    x = Variable("X", Euclidean(1))
    gaussian = inconsistency(PDG(Arc("x", (), x, LinearGaussian([[]], [3.0], 4.0)))).mu
    (table,) = ET.fromstring(gaussian._repr_html_()).iter("table")
    assert cells_of(table)[1] == ["X", "3 ± 2"]


def test_showing_does_not_change_the_gradient():
    result = inconsistency(PAIR)
    result._repr_html_()
    result.value.backward()
    assert all(torch.isfinite(p.grad).all() for p in PAIR.parameters() if p.grad is not None)


# -- dissonance draw ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--blame"], ["--blame", "--measure", "saved"], ["--theme", "dark"]])
def test_the_command_draws_an_svg(tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "smoking.svg"
    assert run(["draw", str(EXAMPLES / "smoking.json"), str(out), *options]) == 0
    assert capsys.readouterr() == ("", "")
    text = out.read_text(encoding="utf-8")
    ET.fromstring(text)
    assert 'data-name="Smokes"' in text
    assert ("blame, 0 to" in text) == ("--blame" in options)


def test_the_command_colours_the_arcs_the_file_gives_control_of(tmp_path: Path):
    model = tmp_path / "m.json"
    model.write_text(
        '{"format": "dissonance.pdg", "version": 1, "variables": [{"name": "X", "size": 2}], "arcs": ['
        '{"name": "p", "targets": ["X"], "control": "inf", "table": [0.5, 0.5]},'
        '{"name": "q", "targets": ["X"], "table": [0.1, 0.9]}]}'
    )
    out = tmp_path / "m.svg"
    assert run(["draw", str(model), str(out)]) == 0
    assert out.read_text(encoding="utf-8").count('class="control') == 1
    assert run(["draw", str(model), str(out), "--no-focus"]) == 0
    assert 'class="control' not in out.read_text(encoding="utf-8")


def test_the_command_draws_png_and_pdf(tmp_path: Path):
    pytest.importorskip("matplotlib")
    for suffix, magic in ((".png", b"\x89PNG"), (".pdf", b"%PDF")):
        out = tmp_path / f"smoking{suffix}"
        assert run(["draw", str(EXAMPLES / "smoking.json"), str(out)]) == 0
        assert out.read_bytes().startswith(magic)


@pytest.mark.parametrize(
    ("out", "options", "complaint"),
    [
        ("picture.gif", [], ".svg, .png or .pdf"),
        ("picture", [], ".svg, .png or .pdf"),
        ("no/such/folder/picture.svg", [], "cannot be written"),
        ("picture.svg", ["--theme", "drak"], "Did you mean 'dark'"),
        ("picture.svg", ["--measure", "size"], "contribution"),
    ],
)
def test_what_cannot_be_drawn_is_one_line_and_status_2(
    tmp_path: Path, out: str, options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
):
    assert run(["draw", str(EXAMPLES / "smoking.json"), str(tmp_path / out), *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert complaint in captured.err
    assert not list(tmp_path.iterdir())
