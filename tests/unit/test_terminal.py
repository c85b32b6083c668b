"""Names are printed, never obeyed: nothing that a file says acts on the terminal."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import pytest

from dissonance import PDG, Arc, DissonanceError, Variable
from dissonance.cli.app import run
from dissonance.cli.completion import arcs

EVIL = "a\x1b]0;title\x07\x1b[2Jb\x9b31m\x00\x7f\u202ec\u2066\u200bd"


def harmless(text: str) -> bool:
    return not any(unicodedata.category(c) in ("Cc", "Cf") and c != "\n" for c in text)


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Two experts about a variable; everything is named to do harm."""
    variables = [{"name": f"V{EVIL}", "values": [f"x{EVIL}", f"y{EVIL}"]}]
    tables = {"p": [0.9, 0.1], "q": [0.2, 0.8]}
    record = [{"name": n + EVIL, "targets": [f"V{EVIL}"], "table": t} for n, t in tables.items()]
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"format": "dissonance.pdg", "version": 1, "variables": variables, "arcs": record}))
    return str(path)


@pytest.mark.parametrize("verbose", [[], ["--verbose", "--debug"]])
def test_commands_print_names_without_obeying_them(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], verbose: list[str]
):
    out = tmp_path / f"r{EVIL.replace(chr(0), '')}.json"
    assert run(["score", model, *verbose]) == 0
    assert run(["score", model, "--json", *verbose]) == 0
    assert run(["resolve", model, "--out", str(out), "--steps", "2", *verbose]) == 0
    assert run(["resolve", model, "--out", str(tmp_path / "r.bif"), *verbose]) == 2
    assert run(["resolve", model, "--out", str(out), "--control", f"{EVIL}=1", *verbose]) == 2
    assert run(["score", f"{out}.missing", *verbose]) == 2
    assert run(["convert", model, str(tmp_path / "c.uai"), *verbose]) == 2
    captured = capsys.readouterr()
    assert "x1b]0;title" in captured.out and "u202e" in captured.out
    assert harmless(captured.out) and harmless(captured.err)


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_a_title_that_is_not_to_be_seen_is_drawn(model: str, tmp_path: Path, suffix: str):
    for title in ("\u200b", "\u202e\x1b", " "):
        assert run(["draw", model, str(tmp_path / f"p.{suffix}"), "--title", title]) == 0


def test_errors_and_values_show_names_without_obeying_them():
    X = Variable(EVIL, [EVIL, "y"])
    arc = Arc(EVIL, (), X, [0.5, 0.5])
    assert all(harmless(text) for text in (repr(X), repr(arc), str(arc), repr(PDG(arc))))
    with pytest.raises(DissonanceError) as refused:
        Arc("p", (), X, [0.5, 0.4, 0.1])
    assert harmless(str(refused.value))
    assert str(DissonanceError("two\nlines")) == "two\nlines"


def test_a_completion_leaves_out_names_that_act_on_the_terminal(model: str):
    context = SimpleNamespace(params={"model": model}, args=())
    assert arcs(context, "") == []  # pyright: ignore[reportArgumentType]


def test_torch_without_the_known_hole_is_required():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert '"torch>=2.6' in text


def test_no_message_advises_to_load_what_may_run():
    for path in (Path(__file__).parents[2] / "src").rglob("*.py"):
        assert "weights_only=False" not in path.read_text()
