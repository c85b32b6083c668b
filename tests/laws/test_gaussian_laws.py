"""What must hold for every linear-Gaussian PDG."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dissonance import PDG, Arc, Attention, Euclidean, LinearGaussian, Variable, inconsistency
from dissonance.distributions import Gaussian

SEEDS = st.integers(0, 2**32 - 1)
SOME = settings(max_examples=12)


def case(seed: int, n: int = 3) -> tuple[PDG, Attention]:
    """A marginal on each of a few scalars and some conditionals between them, convex attention."""
    rng = np.random.default_rng(seed)
    gamma = float(rng.choice([0.0, 0.4]))
    variables = [Variable(f"V{i}", Euclidean(1)) for i in range(n)]
    arcs = [
        Arc(f"m{i}", (), v, LinearGaussian(None, rng.normal(), rng.uniform(0.3, 2))) for i, v in enumerate(variables)
    ]
    for k in range(int(rng.integers(1, 4))):
        t, *s = (variables[i] for i in rng.permutation(n)[: int(rng.integers(2, n + 1))])
        arcs.append(Arc(f"a{k}", s, t, LinearGaussian(rng.normal(size=(1, len(s))), rng.normal(), rng.uniform(0.3, 2))))
    alpha = {a.name: float(rng.uniform(0, 1)) for a in arcs}
    beta = {a.name: gamma * alpha[a.name] + float(rng.uniform(0.1, 2)) for a in arcs}
    return PDG(*arcs, variables=variables), Attention.only(beta, alpha, gamma)


@SOME
@given(SEEDS)
def test_the_order_of_the_arcs_and_of_the_variables_does_not_matter(seed: int):
    pdg, attention = case(seed)
    other = PDG(*reversed(pdg.arcs), variables=tuple(reversed(pdg.variables)))
    a, b = inconsistency(pdg, attention), inconsistency(other, attention)
    assert a.converged
    assert max(a.lower, b.lower) <= min(a.upper, b.upper)
    assert torch.allclose(a.mu.marginal("V1", "V0").covariance, b.mu.marginal("V1", "V0").covariance, atol=1e-4)


@SOME
@given(SEEDS)
def test_more_belief_never_costs_less_and_a_belief_mu_already_holds_costs_nothing(seed: int):
    pdg, attention = case(seed)
    found = inconsistency(pdg, attention)
    more = attention.replace(beta={k: 1.5 * b for k, b in attention.beta.items()})
    if attention.gamma == 0:
        assert inconsistency(pdg, more).upper >= found.lower
    held = found.mu.conditional("V0", given=["V1", "V2"])
    bigger = pdg + Arc("held", (pdg.variable("V1"), pdg.variable("V2")), pdg.variable("V0"), held)
    again = inconsistency(bigger, attention.replace(beta={"held": 0.7}))
    assert again.upper == pytest.approx(found.upper, abs=1e-6 * max(1, abs(found.upper)))


@SOME
@given(SEEDS, st.floats(-3, 3), st.floats(0.2, 5))
def test_at_gamma_0_units_and_origins_do_not_matter(seed: int, shift: float, scale: float):
    pdg, attention = case(seed)
    attention = attention.replace(gamma=0.0)
    arcs = []
    for a in pdg.arcs:  # y = scale x + shift, every variable alike
        A, b, Sigma = (x.detach() for x in a.cpd.linear_gaussian())
        moved = scale * b + shift - A.sum(1) * shift
        arcs.append(
            Arc(a.name, a.sources, a.targets, LinearGaussian(A if a.sources else None, moved, scale**2 * Sigma))
        )
    other = PDG(*arcs, variables=pdg.variables)
    a, b = inconsistency(pdg, attention), inconsistency(other, attention)
    assert a.upper == pytest.approx(b.upper, abs=1e-7 * max(1, a.upper))


@SOME
@given(SEEDS)
def test_what_is_read_off_one_gaussian_is_consistent(seed: int):
    rng = np.random.default_rng(seed)
    variables = [Variable(f"V{i}", Euclidean(1)) for i in range(3)]
    L = rng.normal(size=(3, 3)) + np.eye(3)
    mu = Gaussian(variables, rng.normal(size=3), L @ L.T + 0.1 * np.eye(3))
    arcs = []
    for k in range(4):
        order = [variables[i] for i in rng.permutation(3)]
        cut, end = int(rng.integers(1, 3)), int(rng.integers(2, 4))
        targets, sources = order[:cut], order[cut:end]
        arcs.append(
            Arc(f"a{k}", sources, targets, mu.conditional([v.name for v in targets], [v.name for v in sources]))
        )
    found = inconsistency(PDG(*arcs, variables=variables))
    assert found.converged
    assert -1e-7 < found.lower <= 1e-9
    assert abs(found.upper) < 1e-7
