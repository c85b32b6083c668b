"""The networks of pgmpy: alone they are consistent; with experts who disagree they are scored and resolved."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from networks import NETWORKS, needs_networks

from dissonance import lir
from dissonance.arc import Arc
from dissonance.cpds import SoftmaxTable
from dissonance.errors import SizeError
from dissonance.focus import Attention, Control
from dissonance.inconsistency import inconsistency
from dissonance.io import load
from dissonance.pdg import PDG

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


@pytest.mark.parametrize("name", ["andes", "pigs"])
def test_a_factor_graph_is_judged_by_the_memory_of_its_messages(name: str):
    pdg, _ = load(NETWORKS[name])
    result = inconsistency(pdg, Attention.uniform(pdg, gamma=1.0))  # a Newton solve would need tens of gigabytes
    assert result.solver == "sum-product" and result.lower <= 1e-9 and result.upper >= -1e-9


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("asia", "dysp"),
        ("sachs", "Akt"),
        ("child", "Age"),
        ("alarm", "SHUNT"),
        ("insurance", "DrivQuality"),
        ("win95pts", "PrtStatToner"),
        ("hepar2", "hbeag"),
        ("hailfinder", "MidLLapse"),
        ("andes", "SNode_8"),
        ("pigs", "p197131688"),
        ("pigs", "p392203792"),
        ("water", "C_NI_12_45"),
        ("munin1", "R_DIFFN_MEDD2_DIFSLOW"),
        ("munin2", "L_LNLPC5_DELT_MUDENS"),
        ("munin3", "R_ULN_BLOCK_EW"),
        ("water", "CNON_12_45"),
    ],
)
def test_experts_who_disagree_are_scored_blamed_and_resolved(name: str, variable: str):
    both = with_experts(load(NETWORKS[name])[0], variable)
    result = inconsistency(both)
    one, two = (both[f"expert {i}"].cpd.table().detach().numpy() for i in (1, 2))
    alone = -2 * float(np.log(np.sqrt(one * two).sum()))  # what the two experts cost without the network
    assert result.converged and result.upper >= alone - 1e-9
    blame = {row.name: row.contribution for row in result.by_arc(saved=False)}
    assert sum(blame.values()) == pytest.approx(result.upper, abs=1e-4)
    assert blame["expert 1"] + blame["expert 2"] > 0.5 * result.upper
    moves = Control({"expert 1": 1.0, "expert 2": 1.0})
    run = lir(both, "uniform", steps=3, flow="natural", control=moves, progress=False)
    assert run.resolution_percent > 90 and 0 < run.distortion_tv < 1


@pytest.mark.parametrize(
    ("name", "variable", "numbers"),
    [
        ("munin1", "R_APB_FORCE", "treewidth 11 .* 4.3e.08 table cells"),
        ("barley", "protein", "treewidth 7 .* 2.49e.07 table cells"),
    ],
)
def test_a_conflict_that_does_not_fit_is_refused_with_the_numbers(name: str, variable: str, numbers: str):
    with pytest.raises(SizeError, match=numbers):
        inconsistency(with_experts(load(NETWORKS[name])[0], variable), solver="newton")
