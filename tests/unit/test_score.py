"""`dissonance score`: what it says of a model, to programs and to people."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from dissonance import inconsistency
from dissonance.cli.app import run
from dissonance.io import load
from dissonance.solvers import SOLVERS

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.json"))
SMOKING = str(next(p for p in EXAMPLES if p.stem == "smoking"))


def pdg_file(path: Path, *arcs: dict[str, Any], sizes: dict[str, int] | None = None, **keys: Any) -> str:
    """A file with these arcs over binary variables X, Y (or others)."""
    variables = [{"name": n, "size": k} for n, k in (sizes or {"X": 2, "Y": 2}).items()]
    path.write_text(json.dumps({"format": "dissonance.pdg", "version": 1, "variables": variables, "arcs": arcs} | keys))
    return str(path)


def says(name: str, *table: float, **keys: Any) -> dict[str, Any]:
    """An arc to X."""
    return {"name": name, "targets": ["X"], "table": table} | keys


@pytest.fixture
def scored(capsys: pytest.CaptureFixture[str]):
    """Runs `dissonance score --json` and returns its object."""

    def scored(*args: str) -> dict[str, Any]:
        assert run(["score", "--json", *args]) == 0
        captured = capsys.readouterr()
        assert captured.out.count("\n") == 1
        return json.loads(captured.out)

    return scored


def test_the_json_object_has_the_promised_keys(scored):
    record = scored(SMOKING)
    assert list(record) == [
        "inconsistency", "lower", "upper", "unit", "gamma", "converged", "bracket", "solver", "arcs", "marginals",
        "seconds", "verdict", "cells",
    ]  # fmt: skip
    assert list(record["arcs"][0]) == ["name", "beta", "divergence", "contribution", "saved_if_dropped"]
    assert record["unit"] == "nats"


def test_two_opinions_meet_at_the_normalised_geometric_mean(scored, tmp_path: Path):
    record = scored(pdg_file(tmp_path / "m.json", says("p", 0.9, 0.1), says("q", 0.2, 0.8)))
    both = [math.sqrt(0.9 * 0.2), math.sqrt(0.1 * 0.8)]
    slack = record["upper"] - record["lower"] + 1e-9
    assert record["inconsistency"] == pytest.approx(-2 * math.log(sum(both)), abs=slack)
    assert record["marginals"] == {"X": pytest.approx({str(i): b / sum(both) for i, b in enumerate(both)}, abs=1e-4)}
    assert [a["name"] for a in record["arcs"]] == ["p", "q"]
    assert sum(a["contribution"] for a in record["arcs"]) == pytest.approx(record["inconsistency"], abs=1e-6)
    for arc in record["arcs"]:
        assert arc["saved_if_dropped"] == pytest.approx(record["inconsistency"], abs=1e-8)


def test_bits_are_nats_over_log_2(scored):
    nats, bits = scored(SMOKING), scored(SMOKING, "--unit", "bits")
    assert bits["unit"] == "bits"
    for key in ("inconsistency", "lower", "upper"):
        assert bits[key] * math.log(2) == pytest.approx(nats[key], rel=1e-12)
    for b, n in zip(bits["arcs"], nats["arcs"], strict=True):
        assert b["beta"] == n["beta"]
        for key in ("divergence", "contribution", "saved_if_dropped"):
            assert b[key] * math.log(2) == pytest.approx(n[key], rel=1e-12)
    assert bits["marginals"] == nats["marginals"]


def test_gamma_on_the_command_line_wins_over_the_file(scored, tmp_path: Path):
    path = pdg_file(tmp_path / "m.json", says("p", 0.9, 0.1), gamma=0.5)
    assert scored(path)["gamma"] == 0.5
    assert scored(path, "--gamma", "0")["gamma"] == 0.0
    record = scored(path, "--gamma", "2")
    assert record["gamma"] == 2.0
    assert record["inconsistency"] == pytest.approx(inconsistency(*_with_gamma(path, 2.0)).upper, abs=1e-9)


def _with_gamma(path: str, gamma: float):
    pdg, focus = load(path)
    return pdg, focus.attention.replace(gamma=gamma)


def test_the_solver_can_be_chosen(scored):
    values = {name: scored(SMOKING, "--solver", name)["inconsistency"] for name in ("newton", "clique-tree")}
    assert values["newton"] == pytest.approx(values["clique-tree"], abs=1e-6)


def test_contradiction_is_infinite_and_no_error(scored, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = pdg_file(tmp_path / "m.json", says("p", 1, 0), says("q", 0, 1), says("r", 0.5, 0.5))
    record = scored(path)
    assert (record["inconsistency"], record["lower"], record["upper"]) == ("inf", "inf", "inf")
    assert record["marginals"] is None
    assert [a["saved_if_dropped"] for a in record["arcs"]] == ["inf", "inf", 0.0]
    assert run(["score", path]) == 0
    assert "Inconsistency: inf (there is no best compromise)" in (printed := capsys.readouterr().out)
    assert "Some beliefs contradict each other outright: p gives X=1 probability 0; q gives" in printed


def test_hard_arcs_have_beta_inf(scored, tmp_path: Path):
    record = scored(pdg_file(tmp_path / "m.json", says("p", 0.9, 0.1, beta="inf"), says("q", 0.2, 0.8)))
    assert record["arcs"][0]["beta"] == "inf"
    assert record["arcs"][0]["contribution"] == 0.0
    assert record["inconsistency"] == pytest.approx(0.9 * math.log(0.9 / 0.2) + 0.1 * math.log(0.1 / 0.8), abs=1e-8)


def test_only_attended_variables_have_marginals(scored, tmp_path: Path):
    unattended = {"name": "q", "targets": ["Y"], "table": [0.2, 0.8], "beta": 0}
    assert list(scored(pdg_file(tmp_path / "m.json", says("p", 0.9, 0.1), unattended))["marginals"]) == ["X"]


def test_no_arcs_are_no_inconsistency(scored, tmp_path: Path):
    record = scored(pdg_file(tmp_path / "m.json"))
    assert (record["inconsistency"], record["arcs"], record["marginals"]) == (0.0, [], {})


def test_what_dropping_saves_is_left_out_of_large_models_unless_asked(scored, tmp_path: Path):
    path = pdg_file(tmp_path / "m.json", *(says(f"p{i}", 0.5, 0.5) for i in range(101)))
    assert {a["saved_if_dropped"] for a in scored(path)["arcs"]} == {None}
    assert None not in {a["saved_if_dropped"] for a in scored(path, "--saved")["arcs"]}
    assert {a["saved_if_dropped"] for a in scored(SMOKING, "--no-saved")["arcs"]} == {None}


def test_a_result_that_did_not_converge_is_flagged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    hasty = SOLVERS["newton"](tol=1e-300)
    monkeypatch.setitem(SOLVERS, "newton", lambda: hasty)
    assert run(["score", SMOKING, "--solver", "newton", "--no-saved"]) == 0
    captured = capsys.readouterr()
    assert "dissonance: warning: the solver stopped early: the inconsistency is between" in captured.err
    assert "NOT converged" in captured.out


def test_hard_arcs_that_hold_closely_or_perhaps_are_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for off, words in (
        (1e-9, "dissonance: warning: hard arcs hold only within 1e-08."),
        (1.5e-8, "dissonance: warning: undecided: hard arcs contradict each other"),
        (2e-8, "Inconsistency: inf"),
    ):
        arcs = says("p", 0.5, 0.5), says("q", 0.5 + off, 0.5 - off)
        path = pdg_file(tmp_path / "m.json", *(a | {"beta": "inf"} for a in arcs))
        assert run(["score", path]) == 0
        assert words in "".join(capsys.readouterr())


def test_people_see_the_value_its_bounds_the_blame_and_the_compromise(capsys: pytest.CaptureFixture[str]):
    assert run(["score", SMOKING]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "\x1b" not in captured.out
    lines = captured.out.splitlines()
    assert lines[0].startswith("Inconsistency: 0.")
    assert lines[0].endswith(" nats")
    assert lines[1].startswith("certified between 0.")
    blame = [line for line in lines if "->" in line]
    contributions = [float(line.split()[-2]) for line in blame]
    assert len(blame) == len(load(SMOKING)[0])
    assert contributions == sorted(contributions, reverse=True)
    compromise = [line.split() for line in lines[lines.index("The best compromise, marginal probabilities") + 1 :]]
    assert [line[0] for line in compromise] == ["Smokes", "Tar", "Cancer"]
    assert sum(map(float, compromise[0][2::2])) == pytest.approx(1, abs=2e-4)


def test_large_models_are_shortened_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    sizes = {f"V{i}": 9 for i in range(50)}
    arcs = [{"name": f"p{i}", "targets": [v], "table": [1 / 9] * 9} for i, v in enumerate(sizes)]
    assert run(["score", pdg_file(tmp_path / "m.json", *arcs, sizes=sizes), "--no-saved"]) == 0
    out = capsys.readouterr().out
    assert "10 more arcs not shown" in out
    assert "30 more variables not shown" in out
    assert "... 3 more" in out


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_the_examples_disagree_and_are_solved(example: Path, scored):
    record = scored(str(example))
    assert record["converged"]
    assert record["inconsistency"] > 0.05 or record["gamma"] > 0
    assert record["upper"] - record["lower"] < 1e-6
