"""Pictures of PDGs: every arc has its strokes and heads, and its look says what it should."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections import Counter

import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    Control,
    Deterministic,
    DissonanceError,
    Euclidean,
    Focus,
    PointMass,
    SizeError,
    SoftmaxTable,
    Variable,
    draw,
    full_control,
    inconsistency,
)
from dissonance.cpds import Function
from dissonance.drawing import Drawing, figure, style

SVG = "{http://www.w3.org/2000/svg}"
A, B, C, D, E = (Variable(n, 2) for n in "ABCDE")


def table(sources: int, targets: int) -> torch.Tensor:
    return torch.full((2,) * (sources + targets), 0.5**targets, dtype=torch.float64)


def arc(name: str, sources: tuple[Variable, ...], targets: tuple[Variable, ...], cpd: object = None) -> Arc:
    return Arc(name, sources, targets, table(len(sources), len(targets)) if cpd is None else cpd)


HYPER = PDG(
    arc("stub", (), (A,)),
    arc("joint", (), (A, B)),
    arc("simple", (A,), (C,)),
    arc("merging", (A, B), (C,)),
    arc("splitting", (C,), (D, E)),
    arc("both", (A, B, C), (D, E)),
    arc("back", (E,), (A,)),
)


def groups(drawing: Drawing, kind: str) -> dict[str, ET.Element]:
    root = ET.fromstring(drawing.svg())
    return {g.get("data-name", ""): g for g in root.iter(f"{SVG}g") if g.get("class") == kind}


def kinds(group: ET.Element) -> Counter[str]:
    """How many marks of each kind an arc has."""
    return Counter(e.get("class", "").split(" ")[0] for e in group if e.get("class"))


def arcs(drawing: Drawing) -> dict[str, Counter[str]]:
    return {name: kinds(g) for name, g in groups(drawing, "arc").items()}


def width(drawing: Drawing, name: str) -> float:
    lines = [e for e in groups(drawing, "arc")[name] if e.get("class", "").startswith("line")]
    return float(lines[0].get("stroke-width", ""))


@pytest.mark.parametrize("name", [a.name for a in HYPER.arcs])
def test_sources_merge_and_targets_split(name: str):
    found, of = arcs(draw(HYPER))[name], HYPER[name]
    simple = len(of.sources) <= 1 and len(of.targets) == 1
    outside = not of.sources and len(of.targets) > 1
    assert found["head"] == len(of.targets)
    assert found["line"] == len(of.targets)
    assert found["tail"] == (0 if simple else len(of.sources) + outside)
    assert found["junction"] == (0 if simple else 1)


def test_lines_begin_and_end_at_the_boxes_of_their_variables():
    scene = draw(HYPER).scene
    boxes = {g.name: g.marks[0] for g in scene.groups if g.kind == "variable"}
    for g in scene.groups:
        if g.kind != "arc":
            continue
        tips = [m.points[0] for m in g.marks if getattr(m, "kind", "") == "head"]
        ends = {v.name for tip in tips for v in HYPER.variables if distance(tip, boxes[v.name]) < 3}
        assert ends == {v.name for v in HYPER[g.name].targets}
        starts = [m.curve[0][0] for m in g.marks if getattr(m, "kind", "") in ("tail", "line")]
        touched = {v.name for p in starts for v in HYPER.variables if distance(p, boxes[v.name]) < 1}
        assert touched == {v.name for v in HYPER[g.name].sources}


def distance(p: complex, box: object) -> float:
    x0, y0 = box.corner.real, box.corner.imag
    dx = max(x0 - p.real, 0, p.real - x0 - box.width)
    dy = max(y0 - p.imag, 0, p.imag - y0 - box.height)
    return math.hypot(dx, dy)


def test_deterministic_arcs_have_two_heads():
    real = Variable("R", Euclidean(1))
    pdg = PDG(
        arc("function", (A, B), (C,), Deterministic(lambda a, b: a ^ b)),
        arc("value", (), (A,), PointMass(1)),
        arc("zeros and ones", (A,), (D,), [[0.0, 1.0], [1.0, 0.0]]),
        Arc("vector", (), real, PointMass([0.5])),
        Arc("map", real, Variable("S", Euclidean(1)), Function(torch.nn.Linear(1, 1))),
        arc("table", (A,), (B,)),
        arc("two targets", (A,), (D, E), Deterministic(lambda a: (a, a))),
    )
    found = {name: kinds["head"] for name, kinds in arcs(draw(pdg)).items()}
    assert found == {
        "function": 2,
        "value": 2,
        "zeros and ones": 2,
        "vector": 2,
        "map": 2,
        "table": 1,
        "two targets": 4,
    }


def test_width_grows_with_beta_and_hard_arcs_have_the_widest():
    pdg = PDG(*(arc(f"p{i}", (A,), (B,)) for i in range(6)))
    betas = dict(zip((a.name for a in pdg.arcs), (0.0, 0.1, 1.0, 3.0, 50.0, math.inf), strict=True))
    drawing = draw(pdg, attention=Attention.only(betas))
    widths = [width(drawing, name) for name in betas]
    assert widths == sorted(widths)
    assert len(set(widths)) == len(widths)


def test_hard_arcs_have_an_exclamation_mark_and_unattended_ones_are_dotted():
    pdg = PDG(arc("p", (), (A,)), arc("q", (), (A,)), arc("r", (), (A,)))
    drawing = draw(pdg, attention=Attention.only({"p": math.inf, "q": 1.0}))
    marked = {name: "".join(g.itertext()).strip().endswith("!") for name, g in groups(drawing, "arc").items()}
    assert marked == {"p": True, "q": False, "r": False}
    dotted = {
        name: any(e.get("stroke-dasharray") for e in g if e.get("class", "").startswith("line"))
        for name, g in groups(drawing, "arc").items()
    }
    assert dotted == {"p": False, "q": False, "r": True}


def test_each_focus_has_a_colour_with_dashes_for_control():
    pdg = PDG(arc("p", (A,), (B,)), arc("q", (A,), (B,)), arc("d", (), (A,)))
    both = Attention.only({"d": math.inf, "p": 1.0, "q": 1.0})
    foci = {"first": Focus(both, full_control("p")), "second": Focus(both.without("q"), full_control("d"))}
    drawing = draw(pdg, focus=foci)
    found = arcs(drawing)
    assert found["p"]["control"] == 1 and found["p"]["attended"] == 0  # attended alike in both
    assert found["d"]["control"] == 1
    assert found["q"]["attended"] == 1 and found["q"]["control"] == 0  # only in the first
    colours = {}
    for name, g in groups(drawing, "arc").items():
        for e in g:
            kind = e.get("class", "").split(" ")[0]
            if kind in ("control", "attended"):
                assert (e.get("stroke-dasharray") is not None) == (kind == "control")
                colours[name] = e.get("stroke")
    assert colours["p"] == colours["q"] == style.LIGHT["focus0"]
    assert colours["d"] == style.LIGHT["focus1"]
    legend = "".join(groups(drawing, "legend")[""].itertext())
    assert "first" in legend and "second" in legend and "controlled" in legend


def test_control_of_a_parameter_is_control_of_its_arc():
    pdg = PDG(Arc("p", A, B, SoftmaxTable(table(1, 1))))
    (key,) = pdg.theta
    drawing = draw(pdg, focus=Focus(Attention.uniform(pdg), Control({key: torch.ones_like(pdg.theta[key])})))
    assert arcs(drawing)["p"]["control"] == 1


def test_a_legend_explains_only_what_there_is():
    assert not groups(draw(PDG(arc("p", (), (A,)))), "legend")
    assert not groups(draw(PDG(arc("p", (), (A,))), attention=Attention.only({"p": 3.0}), legend=False), "legend")


def test_the_colour_of_an_arc_is_its_blame():
    pdg = PDG(arc("p", (), (A,), [0.9, 0.1]), arc("q", (), (A,), [0.2, 0.8]), arc("fine", (A,), (B,)))
    result = inconsistency(pdg, Attention.only({"p": 1.0, "q": 4.0, "fine": 1.0}))
    contributions = {r.name: r.contribution for r in result.by_arc(saved=False)}
    worst = max(contributions, key=contributions.__getitem__)
    for drawing in (draw(pdg, blame=result), draw(pdg, blame=contributions), result.plot()):
        colour = {
            name: next(e.get("fill") for e in g if e.get("class", "").startswith("head"))
            for name, g in groups(drawing, "arc").items()
        }
        assert colour[worst] == style.LIGHT[style.blame_colour(1.0)]
        assert colour["fine"] == style.LIGHT[style.blame_colour(0.0)]
        assert len(set(colour.values())) == 3
        assert f"{contributions[worst]:.3g}" in "".join(groups(drawing, "arc")[worst].itertext())
        assert "blame" in "".join(groups(drawing, "legend")[""].itertext())


def test_infinite_blame_is_drawn_as_the_most():
    pdg = PDG(arc("p", (), (A,)), arc("q", (), (A,)))
    drawing = draw(pdg, blame={"p": math.inf, "q": 1.0})
    heads = {n: [e for e in g if "head" in e.get("class", "")] for n, g in groups(drawing, "arc").items()}
    assert heads["p"][0].get("fill") == style.LIGHT[style.blame_colour(1.0)]


def test_every_name_is_there_in_full():
    names = ["X_real", "tau", "a name that is much too long to be written in full", "x'", "été", "変数"]
    variables = [Variable(n, 2) for n in names]
    pdg = PDG(*(arc(f"{n} believed", (), (v,)) for n, v in zip(names, variables, strict=True)))
    drawing = draw(pdg)
    assert list(groups(drawing, "variable")) == names
    assert list(groups(drawing, "arc")) == [f"{n} believed" for n in names]
    titles = [t.text or "" for t in ET.fromstring(drawing.svg()).iter(f"{SVG}title")]
    assert all(any(n in t for t in titles) for n in names)


def test_an_arc_named_after_its_target_has_no_label_of_its_own():
    pdg = PDG.from_bayesian_network({A: ((), [0.5, 0.5]), B: ((A,), table(1, 1))})
    assert all(not list(g.iter(f"{SVG}text")) for g in groups(draw(pdg), "arc").values())


def test_names_of_arcs_can_be_left_out():
    drawing = draw(HYPER, labels=["both"])
    shown = {n for n, g in groups(drawing, "arc").items() if list(g.iter(f"{SVG}text"))}
    assert shown == {"both"}
    assert not any(list(g.iter(f"{SVG}text")) for g in groups(draw(HYPER, labels=False), "arc").values())


def test_names_cannot_smuggle_in_markup():
    evil = '"><script>alert(1)</script>&\x00\ud800'
    v = Variable(evil, [evil, "b"])
    pdg = PDG(Arc(evil, (), v, [0.5, 0.5]))
    result = inconsistency(pdg)
    for text in (draw(pdg, title=evil, focus={evil: Focus(Attention.uniform(pdg))}).svg(), result.plot().svg()):
        root = ET.fromstring(text)
        assert not list(root.iter(f"{SVG}script")) and not list(root.iter("script"))
        assert "<script" not in text
    for shown in (pdg._repr_html_(), result._repr_html_()):
        assert "<script" not in shown


def test_the_same_pdg_gives_the_same_picture():
    assert draw(HYPER).svg() == draw(HYPER).svg()


def test_pictures_are_readable_on_dark_pages():
    auto, dark, light = (draw(HYPER, theme=t).svg() for t in ("auto", "dark", "light"))
    assert "prefers-color-scheme:dark" in auto and style.DARK["ink"] in auto and style.LIGHT["ink"] in auto
    assert style.DARK["paper"] in dark and style.LIGHT["ink"] not in dark
    assert style.LIGHT["paper"] in light and style.DARK["ink"] not in light


def test_empty_pdgs_can_be_drawn():
    ET.fromstring(draw(PDG()).svg())
    assert list(groups(draw(PDG(variables=[A, B])), "variable")) == ["A", "B"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"attention": Attention.only({"bothh": 1.0})}, "Did you mean 'both'"),
        ({"blame": {"bothh": 1.0}}, "Did you mean 'both'"),
        ({"focus": Focus(control=full_control("bothh"))}, "Did you mean 'both'"),
        ({"labels": ["bothh"]}, "Did you mean 'both'"),
        ({"theme": "drak"}, "Did you mean 'dark'"),
    ],
)
def test_what_is_misspelt_is_an_error(options: dict[str, object], complaint: str):
    with pytest.raises(DissonanceError, match=complaint):
        draw(HYPER, **options)


def test_a_title_may_be_longer_than_a_name():
    title = "A title that is longer than a name may be"
    assert draw(HYPER, title=title).svg().count(f">{title}<") == 2  # written, and said when the mouse rests on it


def test_pictures_are_saved_by_suffix(tmp_path):
    drawing = HYPER.plot(title="A title", attention=Attention.uniform(HYPER, beta=2.0))
    drawing.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == drawing.svg()
    pytest.importorskip("matplotlib")
    for suffix, magic in (("png", b"\x89PNG\r\n\x1a\n"), ("pdf", b"%PDF-")):
        drawing.save(tmp_path / f"a.{suffix}", dpi=60)
        drawing.save(tmp_path / f"b.{suffix}", dpi=60)
        assert (tmp_path / f"a.{suffix}").read_bytes().startswith(magic)
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()
    with pytest.raises(DissonanceError, match=r"\.svg, \.png or \.pdf"):
        drawing.save(tmp_path / "a.gif")


@pytest.mark.parametrize("name", ["変数", "$x^2$", "a\\$b$", "\N{SNOWMAN} \U0001f600", " ", "x" * 500])
def test_any_name_can_be_saved_as_png(tmp_path, name: str):
    pytest.importorskip("matplotlib")
    PDG(Arc(name, (), Variable(name, 2), [0.5, 0.5])).plot(title=name).save(tmp_path / "a.png", dpi=40)
    assert (tmp_path / "a.png").stat().st_size > 100


def test_what_nobody_could_read_is_refused():
    pdg = PDG(variables=[Variable(f"V{i}", 2) for i in range(10_001)])
    with pytest.raises(SizeError, match="10001 variables and 0 arcs"):
        draw(pdg)


def test_without_matplotlib_png_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(CapabilityError, match=r"dissonance\[plot\]"):
        figure.rendered(draw(HYPER).scene, "png", "light", 72)
