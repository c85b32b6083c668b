"""The incompatibility of a Gaussian mu straight from its definition, and its minimum by a general-purpose optimiser."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import minimize

from dissonance.focus import Attention
from dissonance.pdg import PDG


def _places(pdg: PDG) -> dict[str, list[int]]:
    found, at = {}, 0
    for v in pdg.variables:
        found[v.name] = list(range(at, at := at + v.domain.dim))
    return found


def incompatibility(pdg: PDG, attention: Attention, m: torch.Tensor, C: torch.Tensor) -> torch.Tensor:
    """sum beta KL(mu(S,T) || mu(S) p(T|S)) + gamma (-H + sum alpha H(T|S)), the KL between two joint Gaussians."""
    place = _places(pdg)
    entropy = lambda K: 0.5 * torch.logdet(2 * math.pi * math.e * K) if len(K) else torch.zeros(())  # noqa: E731
    total = -attention.gamma * entropy(C)
    for a in pdg.arcs:
        beta, alpha = attention.beta.get(a.name, 0.0), attention.alpha.get(a.name, 0.0)
        s, t = [i for v in a.sources for i in place[v.name]], [i for v in a.targets for i in place[v.name]]
        A, b, Sigma = (x.detach() for x in a.cpd.linear_gaussian())
        i = [*s, *t]
        total = total + attention.gamma * alpha * (entropy(C[i][:, i]) - entropy(C[s][:, s]))
        if not beta:
            continue
        mean = torch.cat([m[s], A @ m[s] + b])
        top = torch.cat([C[s][:, s], C[s][:, s] @ A.T], 1)
        bottom = torch.cat([A @ C[s][:, s], A @ C[s][:, s] @ A.T + Sigma], 1)
        p = torch.distributions.MultivariateNormal(mean, torch.cat([top, bottom]))
        mu = torch.distributions.MultivariateNormal(m[i], C[i][:, i])
        total = total + beta * torch.distributions.kl_divergence(mu, p)
    return total


def minimum(pdg: PDG, attention: Attention) -> tuple[float, np.ndarray, np.ndarray]:
    """The least incompatibility of a Gaussian, with its mean and covariance: BFGS over a Cholesky factor."""
    n = sum(v.domain.dim for v in pdg.variables)
    low = torch.tril_indices(n, n, -1)

    def unpack(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        L = torch.diag(x[n : 2 * n].exp())
        L = L.index_put((low[0], low[1]), x[2 * n :])
        return x[:n], L @ L.T

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        live = torch.tensor(x, requires_grad=True)
        value = incompatibility(pdg, attention, *unpack(live))
        return float(value.detach()), torch.autograd.grad(value, live)[0].numpy()

    start = np.zeros(2 * n + low.shape[1])
    found = minimize(both, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    m, C = unpack(torch.tensor(found.x))
    return float(found.fun), m.numpy(), C.numpy()
