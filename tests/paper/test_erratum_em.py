"""Errata 8 and 9: EM. With hard data and a hard q(Z|X) the inconsistency is -ELBO - H(d); a hard q(Z) is less."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, Empirical, Table, Variable, inconsistency
from shared_files import SHARED, shared_json

VECTORS = shared_json("vectors", "em.json")
CASE = next((c for c in VECTORS["cases"] if c["kind"] == "categorical_mixture"), None) if VECTORS else None
pytestmark = pytest.mark.skipif(CASE is None, reason=f"no vectors under {SHARED}")

inf = math.inf


def entropy_of_data(data: list[tuple[int, ...]]) -> float:
    """H(d) of the empirical distribution."""
    counts = np.array(list(Counter(data).values())) / len(data)
    return float(-(counts * np.log(counts)).sum())


def steps() -> list[tuple[dict, np.ndarray, float]]:
    """(q of the E-step, joint p(x1, x2, x3, z) it is scored with, expected -ELBO), E- and M-steps in turn."""
    found = []
    pi, theta = np.array(CASE["pi0"]), np.array(CASE["theta0"])
    for it in CASE["iterates"]:
        q = dict(zip(map(tuple, CASE["X"]), it["q"], strict=True))
        found.append((q, joint(pi, theta), it["inconsistency_after_E"]))
        pi, theta = np.array(it["pi"]), np.array(it["theta"])
        found.append((q, joint(pi, theta), it["inconsistency_after_M"]))
    return found


def joint(pi: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """p(x1, x2, x3, z) of the mixture; theta[k][feature][value]."""
    return np.einsum("k,ka,kb,kc->abck", pi, theta[:, 0], theta[:, 1], theta[:, 2])


def mixture(q: dict, p: np.ndarray) -> tuple[PDG, list[tuple[int, ...]]]:
    data = [tuple(row) for row in CASE["X"]]
    xs = [Variable(f"X{i}", 3) for i in range(3)]
    z = Variable("Z", CASE["K"])
    table = np.full((3, 3, 3, CASE["K"]), 1 / CASE["K"])
    for x, row in q.items():
        table[x] = row
    table /= table.sum(-1, keepdims=True)
    marginal = np.mean([table[x] for x in data], axis=0)
    pdg = PDG(
        Arc("d", (), xs, Empirical(data)),
        Arc("q", xs, z, Table(table)),
        Arc("q(Z)", (), z, Table(marginal)),
        Arc("p", (), (*xs, z), Table(p / p.sum())),
    )
    return pdg, data


@pytest.mark.parametrize("solver", ["auto", "newton", "clique-tree"])
def test_every_step_of_em_is_the_inconsistency_less_the_entropy_of_the_data(solver: str):
    for q, p, expected in steps():
        pdg, data = mixture(q, p)
        result = inconsistency(pdg, Attention.only({"d": inf, "q": inf, "p": 1.0}), solver=solver)
        assert result.converged and (solver != "auto" or result.solver == "pinned")
        slop = 1e-10  # of the vectors
        assert result.lower - slop <= expected - entropy_of_data(data) <= result.upper + slop


def test_em_never_raises_the_inconsistency():
    values = [inconsistency(mixture(q, p)[0], Attention.only({"d": inf, "q": inf, "p": 1.0})) for q, p, _ in steps()]
    assert all(after.lower <= before.upper for before, after in itertools.pairwise(values))


def test_a_hard_marginal_of_the_latent_leaves_the_coupling_free():
    for q, p, expected in steps()[1::2]:
        pdg, data = mixture(q, p)
        results = [
            inconsistency(pdg, Attention.only({"d": inf, "q(Z)": inf, "p": 1.0}), solver=s)
            for s in ("auto", "clique-tree")
        ]
        for result in results:
            assert result.converged and result.upper < expected - entropy_of_data(data) - 1e-4
        assert results[0].lower <= results[1].upper and results[1].lower <= results[0].upper
