"""mu* as a function of theta and of the attention: against central finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from dissonance import PDG, Arc, Attention, CapabilityError, SoftmaxTable, Variable, inconsistency
from dissonance.implicit import Weights, minimiser

A, B, C, D = (Variable(n, k) for n, k in zip("ABCD", (2, 3, 2, 2), strict=True))
STEP = 3e-4


def rows(rng: np.random.Generator, *shape: int) -> SoftmaxTable:
    p = rng.random(shape) + 0.1
    return SoftmaxTable(p / p.sum(-1, keepdims=True))


def beliefs() -> PDG:
    """A loop of three variables, a tail, a free variable's worth of structure, and two marginals."""
    rng = np.random.default_rng(3)
    return PDG(
        Arc("ab", A, B, rows(rng, 2, 3)),
        Arc("bc", B, C, rows(rng, 3, 2)),
        Arc("ca", C, A, rows(rng, 2, 2)),
        Arc("b", (), B, rows(rng, 3)),
        Arc("cd", C, D, rows(rng, 2, 2)),
        Arc("c", (), C, rows(rng, 2)),
        variables=(A, B, C, D, Variable("E", 2)),
    )


def weights(pdg: PDG, hard: tuple[str, ...]) -> Weights:
    betas = dict(zip((a.name for a in pdg.arcs), (1.0, 1.5, 0.7, 1.2, 0.9, 1.0), strict=True))
    alphas = dict(zip((a.name for a in pdg.arcs), (0.5, 0.3, 1.0, 0.2, 0.7, 0.4), strict=True))
    return Weights(
        {k: torch.tensor(math.inf if k in hard else v, dtype=torch.float64) for k, v in betas.items()},
        {k: torch.tensor(v, dtype=torch.float64) for k, v in alphas.items()},
        torch.tensor(0.4, dtype=torch.float64),
    )


def loss(pdg: PDG, w: Weights, theta: dict[str, Tensor]) -> Tensor:
    """Any smooth function of mu* that looks across clusters."""
    mu = minimiser(pdg, w, theta=theta)
    return (mu.marginal("A", "D") ** 2).sum() + mu.marginal("B")[1].log() + mu.marginal("C", "B")[0, 2]


@pytest.mark.parametrize("hard", [(), ("c",), ("ab", "c")])
def test_the_gradient_of_a_function_of_mu_is_its_finite_difference(hard: tuple[str, ...]) -> None:
    pdg, w = beliefs(), weights(beliefs(), hard)
    theta = {k: v.detach().clone().requires_grad_() for k, v in pdg.theta.items()}
    soft = [n for n in w.beta if n not in hard]
    variables = [*theta.values(), *(w.beta[n] for n in soft), *w.alpha.values(), w.gamma]
    for v in variables:
        v.requires_grad_()
    found = torch.autograd.grad(loss(pdg, w, theta), variables)
    for v, gradient in zip(variables, found, strict=True):
        for i in range(v.numel()):
            values = []
            for sign in (1, -1):
                with torch.no_grad():
                    v.view(-1)[i] += sign * STEP
                    values.append(float(loss(pdg, w, theta)))
                    v.view(-1)[i] -= sign * STEP
            difference = (values[0] - values[1]) / (2 * STEP)
            assert float(gradient.reshape(-1)[i]) == pytest.approx(difference, abs=2e-7)


def test_the_minimiser_is_the_mu_of_the_inconsistency() -> None:
    pdg, w = beliefs(), weights(beliefs(), ())
    mu = minimiser(pdg, w)
    reference = inconsistency(pdg, w.attention).mu
    for names in (("A", "B"), ("D", "A"), ("E",)):
        assert torch.allclose(mu.marginal(*names).detach(), reference.marginal(*names), atol=1e-7)


def test_attention_can_be_learned_so_that_mu_meets_a_target() -> None:
    pdg, start = beliefs(), weights(beliefs(), ())
    logs = {k: v.log().requires_grad_() for k, v in start.beta.items()}
    alpha = {k: 0.1 * v for k, v in start.alpha.items()}
    wanted = Weights({**start.beta, "b": start.beta["b"] * 4, "ab": start.beta["ab"] / 2}, alpha, start.gamma)
    target = minimiser(pdg, wanted).marginal("B").detach()
    adam = torch.optim.Adam(logs.values(), lr=0.1)
    history = []
    for _ in range(25):
        adam.zero_grad()
        w = Weights({k: v.exp() for k, v in logs.items()}, alpha, start.gamma)
        miss = ((minimiser(pdg, w).marginal("B") - target) ** 2).sum()
        miss.backward()
        adam.step()
        history.append(float(miss.detach()))
    assert history[-1] < 0.05 * history[0]


def test_gamma_zero_is_refused_because_mu_is_not_unique() -> None:
    with pytest.raises(CapabilityError, match="gamma > 0"):
        minimiser(beliefs(), Attention.uniform(beliefs()))
