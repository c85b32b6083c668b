"""The shared vectors: every case against every solver that can take it, in one contract."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    SoftmaxTable,
    Variable,
    incompatibility,
    inconsistency,
    load,
)
from dissonance.answer import Solver
from dissonance.distributions import Joint
from dissonance.problem import prepare
from dissonance.scores import by_arc, observational_incompatibility, structural_deficiency
from dissonance.solvers import SumProductSolver
from reference import dense
from shared_files import SHARED, shared_json
from strategies import EXACT

VECTORS = shared_json("vectors", "inconsistency.json")
CASES = VECTORS["cases"] if VECTORS else []
AUTHORS = shared_json("vectors", "authors_exact.json")
pytestmark = pytest.mark.skipif(not CASES, reason=f"no vectors under {SHARED}")

SLOP = 1e-11
"""How far the vectors' own values may be off."""
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['id']}-{c['tag'].split(' ')[0]}")


def build(model: Mapping[str, Any]) -> tuple[PDG, Attention]:
    """The PDG of a model, every table a softmax of logits, and its attention."""
    known = {v["name"]: Variable(v["name"], v["size"]) for v in model["variables"]}
    arcs = [
        Arc(a["name"], [known[n] for n in a["sources"]], [known[n] for n in a["targets"]], SoftmaxTable(a["table"]))
        for a in model["arcs"]
    ]
    beta = {a["name"]: float(a["beta"]) for a in model["arcs"]}
    alpha = {a["name"]: float(a["alpha"]) for a in model["arcs"]}
    return PDG(*arcs, variables=known.values()), Attention.only(beta, alpha, model["gamma"])


@each_case
@pytest.mark.parametrize("solver", EXACT, ids=str)
def test_every_solver_keeps_the_contract(case: Mapping[str, Any], solver: str | Solver):
    pdg, attention = build(case["model"])
    expected = case["expected"]
    exact = float(expected["inconsistency"])
    try:
        result = inconsistency(pdg, attention, solver=solver)
    except CapabilityError:
        assert isinstance(solver, str)
        takes = {
            "pinned": lambda c: c.pinned is not None,
            "sum-product": lambda c: SumProductSolver().fits(c).all(),
            "given": lambda c: c.given is not None,
            "pooled": lambda c: not (c.gamma.any() or c.shape.sources.any() or c.hard.any()) and len(c.weights) == 1,
        }[solver]
        assert not all(takes(c) for c in prepare(pdg, attention).parts)
        return
    assert result.converged
    if math.isinf(exact):
        assert result.lower == result.upper == float(result.value.detach()) == exact
        return
    assert float(result.value.detach()) == pytest.approx(exact, abs=1e-7)
    assert result.lower - SLOP <= exact <= result.upper + SLOP
    assert 0 <= result.upper - result.lower <= (1e-6 if len(pdg.variables) == 5 else 1e-7)
    if expected["mu_unique"]:
        for name, marginal in expected["marginals"].items():
            np.testing.assert_allclose(result.mu.marginal(name), marginal, rtol=0, atol=1e-5)
    if "gradient_wrt_logits" in expected and result.value.requires_grad:
        result.value.backward()
    for name, gradient in expected.get("gradient_wrt_logits", {}).items():
        found = pdg[name].cpd.logits.grad
        found = np.zeros(np.shape(gradient)) if found is None else found.reshape(np.shape(gradient))
        np.testing.assert_allclose(found, gradient, rtol=0, atol=1e-5)


@each_case
def test_scores_of_a_given_mu(case: Mapping[str, Any]):
    pdg, attention = build(case["model"])
    expected = case["expected"]["score_test"]
    table = np.array(expected["mu"], dtype=np.float64).reshape([v.size for v in pdg.variables])
    mu = Joint(pdg.variables, table)
    with torch.no_grad():
        scores = by_arc(mu, pdg)
        finite = {n: b for n, b in attention.beta.items() if b < math.inf}
        oinc = float(observational_incompatibility(mu, pdg, finite))
        sdef = float(structural_deficiency(mu, pdg, attention.alpha))
        total = float(incompatibility(mu, pdg, attention))
    assert [float(s.divergence) for s in scores.values()] == pytest.approx(
        [float(x) for x in expected["kl"]], abs=1e-10
    )
    assert [float(s.conditional_entropy) for s in scores.values()] == pytest.approx(expected["cond_entropy"], abs=1e-10)
    assert oinc == pytest.approx(float(expected["OInc_finite_beta_arcs"]), abs=1e-10)
    assert sdef == pytest.approx(expected["SDef"], abs=1e-10)
    hard = any(b == math.inf for b in attention.beta.values())
    assert total == (math.inf if hard else pytest.approx(oinc + attention.gamma * sdef, abs=1e-10))


@each_case
def test_the_plain_scorer_agrees_with_the_vectors(case: Mapping[str, Any]):
    pdg, attention = build(case["model"])
    expected = case["expected"]["score_test"]
    mu = np.array(expected["mu"], dtype=np.float64).reshape([v.size for v in pdg.variables])
    alpha = [attention.alpha[a.name] for a in pdg.arcs]
    assert dense.divergences(pdg, mu) == pytest.approx([float(x) for x in expected["kl"]], abs=1e-10)
    assert dense.structural_deficiency(pdg, mu, alpha) == pytest.approx(expected["SDef"], abs=1e-10)


def test_the_vectors_cover_what_they_promise():
    tags = {c["tag"].split("_")[0] for c in CASES}
    assert len(CASES) == 44
    assert {"soft", "one", "hard", "zeros", "beta0", "factor", "five", "infinite"} <= tags


@pytest.mark.parametrize("solver", ["auto", "clique-tree", "joint"])
@pytest.mark.parametrize("pdg_name", ["chain_4v_3e", "chain_5v_4e", "chain_6v_5e", "chain_7v_6e"])
def test_the_initial_inconsistency_of_the_published_runs_in_bits(pdg_name: str, solver: str):
    rows = [r for r in AUTHORS["rows"] if r["pdg"] == pdg_name]
    assert len(rows) == 25
    for row in rows:
        path = SHARED / "authors" / "replicates" / pdg_name / f"rep_{row['replicate']:04d}.json"
        pdg, focus = load(path)
        result = inconsistency(pdg, focus.attention, solver=solver)
        bits = float(result.value) / math.log(2)
        assert bits == pytest.approx(row["exact_bits"], abs=1e-8)
        assert result.lower / math.log(2) <= row["upper_bits"] and row["lower_bits"] <= result.upper / math.log(2)
        assert row["authors_initial"] > bits  # what was published had not converged (erratum 23)
