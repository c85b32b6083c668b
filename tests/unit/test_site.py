"""The site: every public name is in the API reference, and every page can be reached from the first one."""

from __future__ import annotations

import importlib.util
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

import dissonance
from dissonance.cli.app import command, run

DOCS = Path(__file__).parents[2] / "docs"


def test_the_api_reference_lists_every_public_name_of_every_package():
    api, text = loaded("api"), (DOCS / "api.md").read_text(encoding="utf-8")
    assert re.findall(r"^## `(.*)`$", text, re.MULTILINE) == api.packages()
    assert api.page(text) == text, "if names have changed: python docs/api.py"
    assert all(f"~dissonance.{n}\n" in text for n in dissonance.__all__)


def test_every_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("").as_posix()
        if name != "index" and "_build" not in page.parts:
            assert f"\n{name}\n" in index, name


def test_the_page_of_the_command_line_has_every_command_and_option_and_every_key_of_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page = (DOCS / "command_line.md").read_text(encoding="utf-8")
    root = command()
    for name, one in root.commands.items():
        assert f"| `{name}` |" in page
        for option in [o for p in one.params for o in (*p.opts, *p.secondary_opts) if o.startswith("--")]:
            assert f"`{option}`" in page, f"{name} {option}"
    model = str(DOCS.parent / "examples" / "two-experts.json")
    for args in (
        ["score", model],
        ["resolve", model, "--out", str(tmp_path / "r.json"), "--steps", "1"],
        ["query", model],
        ["report", model, "--out", str(tmp_path / "r.md")],
        ["convert", model, str(tmp_path / "c.json")],
        ["draw", model, str(tmp_path / "d.svg")],
        ["doctor"],
    ):
        assert run([*args, "--json"]) == 0
        keys = list(json.loads(capsys.readouterr().out))
        listed = re.findall(rf"^\| `{args[0]}` \| (.*) \|$", page, re.MULTILINE)[-1]
        outermost = re.sub(r"\([^)]*\)", "", listed)
        assert re.findall(r"`(\w+)`", outermost) == keys


def loaded(name: str) -> ModuleType:
    """A script of the site as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_docstrings_become_restructured_text():
    lines = [
        "The *sum* |x| of `beta` and x_:",
        "    a * b",
        "It holds",
        "- one `thing`",
        "  that goes on;",
        "- another.",
    ]
    loaded("docstrings").as_restructured_text(lines)
    assert lines == [
        r"The \*sum\* \|x\| of ``beta`` and x\_:",
        "",
        "::",
        "",
        "    a * b",
        "",
        "It holds",
        "",
        "- one ``thing``",
        "  that goes on;",
        "- another.",
        "",
    ]


def test_formulas_become_mathml_or_an_error():
    pytest.importorskip("latex2mathml")
    pytest.importorskip("sphinx")
    mathml = loaded("mathml").mathml
    shown = mathml(r"\inf_\mu \sum_a \beta_a \operatorname{KL}(\mu \Vert p_a) - \log 2", display=True)
    root = ET.fromstring(shown)
    assert root.tag.endswith("math") and root.get("display") == "block"
    assert "".join(root.itertext()) == "infμ∑aβaKL(μ‖pa)\N{MINUS SIGN}log2"
    assert "<munder><mo>inf</mo>" in shown.replace("ns0:", "") and "\\" not in shown
    with pytest.raises(ValueError, match=r"no MathML for \\unknown"):
        mathml(r"\unknown x", display=False)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda p: p.name)
def test_every_formula_of_a_page_is_understood(page: Path):
    pytest.importorskip("latex2mathml")
    pytest.importorskip("sphinx")
    mathml = loaded("mathml").mathml
    for block in re.findall(r"^\$\$\n(.*?)\n\$\$$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for line in block.split("\\\\\n"):
            assert ET.fromstring(mathml(line.strip(), display=True)).tag.endswith("math")


def test_charts_turn_dark_with_their_page():
    pytest.importorskip("sphinx")
    themed = loaded("charts").themed
    charts = [p for p in (DOCS / "figures").glob("*.svg") if "matplotlib" in p.read_text(encoding="utf-8")]
    assert len(charts) > 20
    for path in charts:
        text = path.read_text(encoding="utf-8")
        changed = themed(text)
        ET.fromstring(changed)
        assert "prefers-color-scheme:dark" in changed and themed(changed) == changed
        used = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", text)) - {"#ffffff"}
        missing = [c for c in used if c not in changed.split("</style>")[0] and contrast_on_dark(c) < 3]
        assert not missing, f"{path.name}: {missing} cannot be seen on dark pages; add them to docs/charts.py"
    picture = (DOCS / "figures" / "gallery_smoking.svg").read_text(encoding="utf-8")
    assert themed(picture) == picture  # pictures of PDGs know two themes already


def contrast_on_dark(code: str) -> float:
    """Of a colour against the dark page of the theme, as WCAG 2.1 defines it."""

    def luminance(code: str) -> float:
        parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    return (luminance(code) + 0.05) / (luminance("#131416") + 0.05)


def test_the_picture_of_the_readme_is_its_example():
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    picture = re.findall(r"!\[.*\]\((.*\.svg)\)", readme)[0]
    pdg, focus = dissonance.load(DOCS.parent / "examples" / "smoking.json")
    assert "dissonance score examples/smoking.json" in readme
    drawn = dissonance.inconsistency(pdg, focus.attention).plot().svg()
    assert (DOCS.parent / picture).read_text(encoding="utf-8") == drawn
