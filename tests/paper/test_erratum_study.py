"""Errata 24, 25 and 26: what the paper's synthetic study reports, and what its text says about it."""

from __future__ import annotations

import csv
from statistics import fmean

import pytest
import torch

from dissonance import PDG, Arc, Attention, Variable, incompatibility, inconsistency, lir, lirs
from dissonance.distributions import Joint
from dissonance.flows import Descent
from dissonance.refocus import Hub
from dissonance.runs import Trace
from dissonance.studies.outcomes import ALL
from dissonance.studies.reported import PAPER
from dissonance.studies.structures import PUBLISHED, generator, random_structure
from shared_files import SHARED

STRUCTURES = [s.name for s in PUBLISHED]


def test_without_structure_two_minimisers_can_be_far_apart():
    """Erratum 24: one arc says nothing about its source, so the minimisers are as far apart as distributions can be."""
    X, Y = Variable("X", 2), Variable("Y", 2)
    rows = [[0.9, 0.1], [0.2, 0.8]]
    pdg = PDG(Arc("p", X, Y, rows))
    attention = Attention.uniform(pdg)
    table = torch.tensor(rows, dtype=torch.float64)
    either = [Joint((X, Y), torch.diag(torch.tensor(x, dtype=torch.float64)) @ table) for x in ([1.0, 0.0], [0.0, 1.0])]
    assert [float(incompatibility(mu, pdg, attention)) for mu in either] == pytest.approx([0.0, 0.0], abs=1e-15)
    assert float((either[0].table - either[1].table).abs().sum()) / 2 == 1.0
    selected = inconsistency(pdg, attention).mu  # the limit of gamma -> 0+
    assert selected.marginal("X").tolist() == pytest.approx([0.5, 0.5], abs=1e-5)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_chain_has_at_least_two_arcs(structure: str):
    """Erratum 25: max(2, m // 2) of them, and not m // 2, which would be one of three."""
    arcs = next(s.arcs for s in PUBLISHED if s.name == structure)
    expected = max(2, len(arcs) // 2)
    assert all((i, i + 1) in arcs for i in range(expected))
    assert all(
        (i, i + 1) in random_structure(6, 3, torch.Generator().manual_seed(k)).arcs for k in range(9) for i in (0, 1)
    )


def test_hub_focus_has_weight_zero_in_the_text_and_a_tenth_in_the_published_runs():
    pdg = PUBLISHED[3].draw("simplex", torch.Generator().manual_seed(0))

    def weights(other: float) -> set[float]:
        trace: Trace = lir(pdg, Hub(other), steps=4, seed=1).trace
        return {float(row.beta.get(a.name, 0.0)) for row in trace.rows[:-1] for a in pdg}

    assert weights(0.0) == {0.0, 1.0} and weights(0.1) == {0.1, 1.0}


@pytest.mark.parametrize("structure", STRUCTURES)
def test_uniform_focus_distorts_most_in_every_structure(structure: str):
    """Erratum 26: the text says that hub does."""
    assert PAPER.distortion[structure, "uniform"] > PAPER.distortion[structure, "hub"]


def test_for_what_it_resolves_partial_focus_distorts_less_than_uniform_and_more_than_hub():
    """TV of mu* over the share that was resolved, from the published means; the text says that partial has most."""
    per_unit = {s: 100 * PAPER.distortion[ALL, s] / PAPER.resolution[ALL, s] for s in ("uniform", "partial", "hub")}
    assert per_unit == pytest.approx({"uniform": 0.394, "partial": 0.364, "hub": 0.321}, abs=5e-4)


def test_natural_gradients_resolve_as_much_and_distort_a_fraction_of_what_adam_does():
    """The text: Adam, and leaving out the inverse Fisher matrix, add distortion. They are nine tenths of it."""
    drawn = [PUBLISHED[1].draw("uniform-normalised", generator(0, 1, k)) for k in range(3)]
    adam, natural = (lirs(drawn, flow=flow) for flow in (Descent(), "natural"))
    for one, other in zip(adam, natural, strict=True):
        assert other.distortion_tv < one.distortion_tv / 2
        assert other.resolution_percent > one.resolution_percent - 0.5
    assert fmean(run.distortion_tv for run in adam) == pytest.approx(0.187, abs=5e-3)
    assert fmean(run.distortion_tv for run in natural) == pytest.approx(0.017, abs=2e-3)


@pytest.mark.skipif(not (SHARED / "authors" / "results.csv").is_file(), reason=f"no results under {SHARED}")
def test_the_authors_own_results_have_uniform_on_top_too():
    with (SHARED / "authors" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    for structure in STRUCTURES:
        tv = {
            s: fmean(float(r["distortion_tv"]) for r in rows if (r["pdg_name"], r["strategy"]) == (structure, s))
            for s in ("uniform", "partial", "hub")
        }
        assert max(tv, key=tv.get) == "uniform"


@pytest.mark.skipif(not (SHARED / "authors" / "results.csv").is_file(), reason=f"no results under {SHARED}")
def test_by_the_bit_partial_focus_distorts_more_than_uniform():
    """TV of mu* over the bits that were resolved, pooled over the authors' 200 runs of each strategy."""
    with (SHARED / "authors" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    per_bit: dict[str, float] = {}
    for s in ("uniform", "partial", "hub"):
        runs = [r for r in rows if r["strategy"] == s]
        resolved = sum(float(r["initial"]) - float(r["final"]) for r in runs)
        per_bit[s] = sum(float(r["distortion_tv"]) for r in runs) / resolved
    assert per_bit == pytest.approx({"uniform": 2.301, "partial": 2.375, "hub": 1.874}, abs=1e-3)
