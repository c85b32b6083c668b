"""The networks of pgmpy: alone they are consistent; with experts who disagree they are scored and resolved."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from networks import NETWORKS, needs_networks

from dissonance.cpds import SoftmaxTable
from dissonance.errors import SizeError
from dissonance.focus import Control
from dissonance.inconsistency import inconsistency
from dissonance.io import load
from dissonance.lir import Record, lir
from dissonance.pdg import PDG, Arc

pytestmark = needs_networks


def with_experts(pdg: PDG, name: str) -> PDG:
    """One expert is 90 % sure of the first value, another of the last."""
    v = pdg.variable(name)
    sure = np.full(v.size, 0.1 / (v.size - 1))
    sure[0] = 0.9
    return pdg + Arc("expert 1", (), v, SoftmaxTable(sure)) + Arc("expert 2", (), v, SoftmaxTable(sure[::-1].copy()))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_published_network_is_consistent_whatever_its_treewidth(name: str):
    pdg, focus = load(NETWORKS[name])
    with torch.no_grad():
        result = inconsistency(pdg, focus.attention)
    assert result.converged and -1e-9 <= result.lower <= result.upper <= 1e-9


@pytest.mark.parametrize(
    ("name", "variable"), [("asia", "bronc"), ("alarm", "SHUNT"), ("hepar2", "hbeag"), ("munin1", "R_APB_FORCE")]
)
def test_experts_who_disagree_are_scored_and_resolved_or_refused_with_the_numbers(name: str, variable: str):
    both = with_experts(load(NETWORKS[name])[0], variable)
    if name == "munin1":
        with pytest.raises(SizeError, match=r"treewidth 7 .* table cells, about .* GiB; the budget is"):
            inconsistency(both)
        return
    result = inconsistency(both)
    one, two = (both[f"expert {i}"].cpd.table().detach().numpy() for i in (1, 2))
    alone = -2 * float(np.log(np.sqrt(one * two).sum()))  # what the two experts cost without the network
    assert result.converged and result.upper >= alone - 1e-9
    moves = Control({"expert 1": 1.0, "expert 2": 1.0})
    run = lir(both, "uniform", steps=3, flow="natural", control=moves, trace=Record(distortion=0), progress=False)
    assert run.resolution_percent > 90
