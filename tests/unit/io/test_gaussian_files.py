"""PDG files with Euclidean variables and linear Gaussians."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from dissonance import PDG, Arc, Euclidean, FormatError, LinearGaussian, PointMass, Variable, inconsistency, load, save
from dissonance.cli.app import run

EXAMPLE = Path(__file__).parents[3] / "examples" / "shoes.json"
X, P = Variable("X", Euclidean(1)), Variable("P", Euclidean(2))


def test_a_round_trip_keeps_the_inconsistency(tmp_path: Path):
    pdg = PDG(
        Arc("x", (), X, LinearGaussian(None, 0.5, 2.0)),
        Arc("p", X, P, LinearGaussian([[1.0], [2.0]], [0.1, 0.2], [[1.0, 0.3], [0.3, 0.7]])),
        Arc("q", (), P, LinearGaussian(None, [3.0, 0.0], 0.5)),
        Arc("c", (), Variable("C", 2), [0.3, 0.7]),
    )
    save(tmp_path / "beliefs.json", pdg)
    again, _ = load(tmp_path / "beliefs.json")
    assert inconsistency(again).upper == pytest.approx(inconsistency(pdg).upper, abs=1e-12)
    for name in ("x", "p", "q"):
        for a, b in zip(pdg[name].cpd.linear_gaussian(), again[name].cpd.linear_gaussian(), strict=True):
            assert np.allclose(a.detach(), b.detach(), atol=1e-15)


def broken(**changes: object) -> io.BytesIO:
    """The example with its second arc changed (None leaves a key out)."""
    document = json.loads(EXAMPLE.read_text())
    arc = document["arcs"][1] | changes
    document["arcs"][1] = {k: v for k, v in arc.items() if v is not None}
    return io.BytesIO(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"linear_gaussian": None}, "arc 'rule': the key 'table' is missing"),
        ({"table": [1.0]}, "arc 'rule' has both"),
        ({"table": [[1.0]], "linear_gaussian": None}, "arc 'rule' has a table, but 'Height' is Euclidean"),
        ({"linear_gaussian": {"b": [0.0], "Sigma": [[1.0]]}}, r"arc 'rule'.*A is 1 x 0"),
        ({"linear_gaussian": {"A": [[1.0]], "b": [0.0], "Sigma": [[-1.0]]}}, "arc 'rule': Sigma must be"),
        ({"linear_gaussian": {"A": [[1.0]], "b": [0.0, 1.0], "Sigma": [[1.0]]}}, "arc 'rule': A is"),
        ({"linear_gaussian": {"A": [[1.0], [1.0, 2.0]], "b": [0.0], "Sigma": [[1.0]]}}, "arc 'rule': A is an array"),
        ({"linear_gaussian": {"A": [[1.0]], "b": [0.0], "sigma": 1}}, "sigma"),
        ({"targets": ["Shoes"]}, "no variable named 'Shoes'"),
    ],
)
def test_what_does_not_fit_is_one_line(changes: dict[str, object], line: str):
    with pytest.raises(FormatError, match=line):
        load(broken(**changes))


def test_a_point_mass_is_not_written(tmp_path: Path):
    with pytest.raises(FormatError, match="tables and linear Gaussians only"):
        save(tmp_path / "point.json", PDG(Arc("at", (), X, PointMass([1.0]))))


def test_the_command_line_scores_them(capsys: pytest.CaptureFixture[str]):
    assert run(["score", str(EXAMPLE), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["inconsistency"] == pytest.approx(0.3985, abs=1e-4)
    assert record["marginals"]["Shoe"]["mean"] == pytest.approx([42.9])
    assert run(["score", str(EXAMPLE)]) == 0
    assert "42.9 +- " in capsys.readouterr().out
