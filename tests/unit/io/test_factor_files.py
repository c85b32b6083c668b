"""Factors in JSON files: the numbers of a factor graph, which need not sum to 1, are kept."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from networks import factor_graphs

from dissonance.cpds import Factor
from dissonance.errors import FormatError
from dissonance.focus import Focus
from dissonance.inconsistency import inconsistency
from dissonance.io import load, save
from dissonance.pdg import PDG

HEAD = {"format": "dissonance.pdg", "version": 1, "variables": [{"name": "X", "size": 2}, {"name": "Y", "size": 2}]}


def holding(**arc: object) -> io.BytesIO:
    record = {"name": "phi", "targets": ["X", "Y"], **arc}
    return io.BytesIO(json.dumps({**HEAD, "gamma": 1, "arcs": [record]}).encode())


@settings(max_examples=30)
@given(factor_graphs())
def test_a_factor_graph_is_the_same_from_uai_to_json_and_back(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[PDG, Focus]
):
    folder = tmp_path_factory.mktemp("factors")
    save(folder / "first.uai", *case)
    save(folder / "between.json", *load(folder / "first.uai"))
    between = load(folder / "between.json")
    assert between[1] == case[1]
    for a, b in zip(case[0], between[0], strict=True):
        assert np.array_equal(a.cpd.phi, b.cpd.phi) and np.array_equal(a.cpd.table(), b.cpd.table())
    save(folder / "second.uai", *between)
    assert (folder / "first.uai").read_bytes() == (folder / "second.uai").read_bytes()


def test_a_factor_is_scored_as_what_it_sums_to_says():
    pdg, focus = load(holding(factor=[[1, 2], [3, 4]]))
    factor = pdg["phi"].cpd
    assert isinstance(factor, Factor) and float(factor.log_normalizer) == pytest.approx(np.log(10))
    assert inconsistency(pdg, focus.attention).upper == pytest.approx(0.0, abs=1e-9)
    movable = load(holding(factor=[[1, 2], [3, 4]], control=1))[0]["phi"].cpd
    np.testing.assert_allclose(movable.table().detach(), [[0.1, 0.2], [0.3, 0.4]])
    assert list(movable.parameters())


@pytest.mark.parametrize(
    ("arc", "why"),
    [
        ({"factor": [[1, 2], [3, 4]], "table": [[0.1, 0.2], [0.3, 0.4]]}, 'has both "table" and "factor"'),
        ({"factor": [[1, -2], [3, 4]]}, "arc 'phi': a factor needs finite non-negative entries"),
        ({"factor": [[0, 0], [0, 0]]}, "arc 'phi': a factor needs finite non-negative entries, not all 0"),
        ({"factor": [1, 2]}, r"arc 'phi': table\[0\] is 1"),
        ({"factor": [[1, 2], [3, 4]], "targets": ["Y"], "sources": ["X"]}, "a factor has no sources"),
    ],
)
def test_what_is_no_factor_is_refused(arc: dict[str, object], why: str):
    with pytest.raises(FormatError, match=why):
        load(holding(**arc))
