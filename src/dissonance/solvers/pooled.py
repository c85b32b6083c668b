"""Beliefs about the same variables, some of which weigh a million times more than others: a closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from dissonance.answer import Answer, Marginals, Solver, infinite
from dissonance.attended import Array
from dissonance.distributions.tree import single
from dissonance.errors import CapabilityError
from dissonance.problem import EPS, Batch, Bools
from dissonance.tolerances import HEAVY


@dataclass(frozen=True)
class Pooled(Solver):
    """Soft arcs without sources and with the same targets, at gamma = 0: the logarithmic opinion pool.

        mu* = prod_a p_a^(beta_a/B) / Z,     inconsistency = -B log Z,     B = sum_a beta_a

    log Z is near 0 where one arc r outweighs the others; with h = sum_a beta_a/B (log p_a - log p_r) it is
    log(1 + sum_x p_r expm1 h), which keeps all digits. `auto` takes it for such arcs; others are Newton's.
    """

    name = "pooled"

    def fits(self, part: Batch) -> Bools | bool:
        """Return where the arcs are such beliefs, and one is heavy."""
        heavy = part.beta.max(1, initial=0.0) > HEAVY
        return heavy & _alike(part) if heavy.any() else heavy

    def solve(self, part: Batch) -> Answer:
        """The inconsistency in closed form, exact but for rounding."""
        if not _alike(part).all():
            raise CapabilityError(
                "the pooled solver needs gamma = 0 and arcs without sources that have the same targets and beta > 0."
            )
        logs = np.stack([_over(part, k) for k in range(len(part.arcs))])  # (arcs, cells)
        possible = np.isfinite(logs).all(0)
        if not possible.any():
            return infinite(part, self.name)
        beta, total = part.beta[0], float(part.beta.sum())
        r = int(beta.argmax())
        p = np.exp(logs[r])
        p /= p.sum()
        logs, lost = logs[:, possible], float(p[~possible].sum())
        others = np.where(np.arange(len(beta)) == r, 0.0, beta)
        h = (others / total) @ (logs - logs[r])
        less = float(p[possible] @ np.expm1(h)) - lost  # Z - 1
        terms = logs[r] + h
        value = -total * (math.log1p(less) if less > -0.5 else float(np.logaddexp.reduce(terms)))
        mu = np.zeros_like(p)
        mu[possible] = np.exp(terms - terms.max())
        mu /= mu.sum()
        size = float(others @ (np.abs(logs) + np.abs(logs[r])) @ mu[possible])
        bounds = part.proved(value, value, 8 * EPS * (1.0 + abs(value) + size))
        tree = single(part.sizes)
        mu = Marginals(tree, (torch.from_numpy(mu.reshape(tree.shapes[0])),))
        return Answer(part, bounds, self.name, mu, unique=True)  # every cell has an entropy of its own


def _alike(part: Batch) -> Bools:
    """Return the problems whose arcs are soft beliefs about the same variables."""
    scopes = {frozenset(a.names) for a in part.beliefs}
    same = not part.kinds and not part.shape.sources.any() and len(scopes) == 1
    return same & (part.gamma == 0) & ((part.beta > 0) & ~part.hard).all(1)


def _over(part: Batch, k: int) -> Array:
    """log p of an arc, its targets in the order of the part's variables, flat."""
    arc = part.arcs[k]
    return arc.log_p.transpose([arc.targets.index(n) for n in part.sizes]).ravel()
