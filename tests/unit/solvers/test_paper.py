"""The paper's inner solver: never below the exact value, rarely at it, and just where the published runs were."""

from __future__ import annotations

import json
import math
from pathlib import Path

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
from dissonance.solvers import Paper

SHARED = Path(__file__).parents[3].parent / "shared"

X, Y = Variable("X", 2), Variable("Y", 3)
PAIR = PDG(
    Arc("p", X, Y, [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]),
    Arc("q", Y, X, [[0.3, 0.7], [0.6, 0.4], [0.5, 0.5]]),
    Arc("r", (), Y, [0.1, 0.6, 0.3]),
)


@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_a_few_steps_of_adam_cost_more_than_the_exact_mu_and_say_they_have_not_converged(gamma: float) -> None:
    attention = Attention.uniform(PAIR, gamma=gamma)
    exact, paper = inconsistency(PAIR, attention), inconsistency(PAIR, attention, solver="paper")
    assert paper.upper > exact.upper
    assert paper.lower <= exact.upper
    assert not paper.converged
    assert paper.upper == pytest.approx(float(incompatibility(paper.mu, PAIR, attention)), abs=1e-12)


def test_enough_steps_of_adam_arrive() -> None:
    exact = inconsistency(PAIR)
    long = inconsistency(PAIR, solver=Paper(iterations=4000))
    assert exact.upper - 1e-9 <= long.upper <= exact.upper + 1e-4


def test_theta_replaces_the_parameters() -> None:
    agreed = torch.tensor([0.2, 0.8], dtype=torch.float64).log()
    pdg = PDG(Arc("p", (), X, SoftmaxTable([0.9, 0.1])), Arc("q", (), X, SoftmaxTable([0.2, 0.8])))
    moved = PDG(Arc("p", (), X, [0.2, 0.8]), Arc("q", (), X, [0.2, 0.8]))
    found = inconsistency(pdg, theta={"p.logits": agreed, "q.logits": agreed}, solver="paper")
    assert found.upper == pytest.approx(inconsistency(moved, solver="paper").upper, abs=1e-12)
    assert found.upper < inconsistency(pdg, solver="paper").upper


def test_a_hard_arc_is_refused() -> None:
    with pytest.raises(CapabilityError, match=r"'p'.*no constraints"):
        inconsistency(PAIR, Attention.only(beta={"p": math.inf, "q": 1.0}), solver="paper")


@pytest.mark.skipif(not SHARED.exists(), reason="the published runs are not beside this checkout")
def test_fifty_iterations_on_the_published_pdgs_come_to_the_published_values() -> None:
    rows = json.loads((SHARED / "vectors" / "authors_exact.json").read_text())["rows"]
    ours, theirs, exact = [], [], []
    for row in (r for r in rows if r["pdg"] == "chain_4v_3e"):
        pdg, focus = load(SHARED / "authors" / "replicates" / row["pdg"] / f"rep_{row['replicate']:04d}.json")
        found = inconsistency(pdg, focus.attention, solver=Paper(spread=3))  # D, which nobody attends to, has 3 values
        ours.append(found.upper / math.log(2))
        theirs.append(row["authors_initial"])
        exact.append(row["exact_bits"])
    assert np.all(np.array(ours) > np.array(exact))
    assert np.max(np.abs(np.array(ours) - theirs)) < 1e-7
    assert np.mean(np.array(theirs) - exact) > 0.03  # what the published values owe to the solver
