"""The replicate files of the paper's authors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from dissonance.errors import FormatError
from dissonance.io import load

REPLICATE: dict[str, Any] = {
    "complete": True,
    "graph": {
        "variables": [{"name": "A", "domain": ["a0", "a1"]}, {"name": "B", "domain": ["b0", "b1", "b2"]}],
        "edges": [{"label": "p1", "src": "A", "src_atoms": ["A"], "tgt_atoms": ["B"], "alpha": 0.5, "beta": 2.0}],
    },
    "cpds": [{"label": "p1", "shape": [2, 3], "values": [[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]}],
    "strategy_results": {},
}


def test_a_replicate_is_known_by_its_keys(tmp_path: Path):
    path = tmp_path / "rep.json"
    path.write_text(json.dumps(REPLICATE))
    pdg, focus = load(path)
    assert str(pdg["p1"]) == "arc 'p1' (A -> B)"
    assert pdg.variable("B").finite.labels == ("b0", "b1", "b2")
    assert pdg["p1"].cpd.table().tolist() == REPLICATE["cpds"][0]["values"]
    assert (focus.attention.beta["p1"], focus.attention.alpha["p1"], focus.attention.gamma) == (2.0, 0.5, 0.0)


def test_a_replicate_without_a_cpd_is_refused(tmp_path: Path):
    path = tmp_path / "rep.json"
    path.write_text(json.dumps(REPLICATE | {"cpds": []}))
    with pytest.raises(FormatError, match=r"rep\.json:1: arc 'p1' has no cpd\."):
        load(path)


def test_a_replicate_with_a_wrong_table_is_refused(tmp_path: Path):
    path = tmp_path / "rep.json"
    path.write_text(json.dumps(REPLICATE | {"cpds": [{"label": "p1", "values": [[1.0, 0.0]]}]}))
    with pytest.raises(FormatError, match="arc 'p1': table has 1 entries, but A has 2 values"):
        load(path)


def test_every_published_replicate_can_be_read(shared: Path):
    paths = sorted((shared / "authors" / "replicates").glob("*/rep_*.json"))
    if not paths:
        pytest.skip(f"no replicates under {shared}")
    for path in paths:
        pdg, focus = load(path)
        record = json.loads(path.read_text())
        assert [a.name for a in pdg] == [c["label"] for c in record["cpds"]]
        for cpd in record["cpds"]:
            given = torch.tensor(cpd["values"], dtype=torch.float64)
            torch.testing.assert_close(pdg[cpd["label"]].cpd.table(), given, rtol=0, atol=1e-15)
        assert set(focus.attention.beta.values()) == {1.0}
