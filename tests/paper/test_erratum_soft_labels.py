"""Erratum 27: a soft label y against a prediction p. beta_y = 1: -2 log sum sqrt(y p); beta_y = inf: KL(y || p).

Label smoothing is neither of them the cross-entropy: that is KL(y || p) + H(y).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, PointMass, SoftmaxTable, Variable, inconsistency

Y = Variable("Y", ["cat", "dog", "bird"])
LOGITS = np.array([0.3, -1.2, 0.8])
LABEL = np.array([0.9, 0.05, 0.05])
P = np.exp(LOGITS) / np.exp(LOGITS).sum()


def labelled(label: object) -> PDG:
    return PDG(Arc("y", (), Y, label), Arc("p", (), Y, SoftmaxTable(logits=LOGITS)))


@pytest.mark.parametrize("solver", ["auto", "newton", "clique-tree", "joint"])
@pytest.mark.parametrize(
    ("beta", "closed", "mu"),
    [
        (1.0, -2 * math.log(np.sqrt(LABEL * P).sum()), np.sqrt(LABEL * P) / np.sqrt(LABEL * P).sum()),
        (math.inf, float((LABEL * np.log(LABEL / P)).sum()), LABEL),
    ],
)
def test_the_value_and_the_logit_gradient_of_a_soft_label(solver: str, beta: float, closed: float, mu: np.ndarray):
    pdg = labelled(LABEL)
    result = inconsistency(pdg, Attention.only({"y": beta, "p": 1.0}), solver=solver)
    assert result.converged and result.lower - 1e-13 <= closed <= result.upper + 1e-13
    result.value.backward()
    np.testing.assert_allclose(pdg["p"].cpd.logits.grad, P - mu, atol=1e-6)


def test_a_hard_label_gives_the_log_loss_whatever_its_weight():
    for beta in (0.1, 1.0, math.inf):
        pdg = labelled(PointMass("dog"))
        result = inconsistency(pdg, Attention.only({"y": beta, "p": 1.0}))
        assert result.lower - 1e-13 <= -math.log(P[1]) <= result.upper + 1e-13
        result.value.backward()
        np.testing.assert_allclose(pdg["p"].cpd.logits.grad, P - np.array([0, 1, 0]), atol=1e-6)


def test_neither_is_the_cross_entropy():
    cross_entropy = -float((LABEL * np.log(P)).sum())
    for beta in (1.0, math.inf):
        assert inconsistency(labelled(LABEL), Attention.only({"y": beta, "p": 1.0})).upper < cross_entropy - 0.1
