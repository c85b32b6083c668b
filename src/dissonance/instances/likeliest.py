"""The likeliest population of samples of different shapes: the divergence the other way."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from dissonance.arc import Arc
from dissonance.distributions import Joint
from dissonance.errors import DissonanceError, SizeError
from dissonance.pdg import PDG
from dissonance.variables import cells, shape

log = logging.getLogger("dissonance")

MOST_CELLS = 1 << 22
"""Cells of the joint distribution of all variables."""


@dataclass(frozen=True)
class Likeliest:
    """The population `mu` under which samples are most probable, and how far from it each sample is.

    `divergence` is sum_a n_a KL( p_a || mu(X_a) ) in nats: no population has less, but for `gap`.
    """

    mu: Joint
    divergence: float
    gap: float
    sweeps: int


def likeliest(*samples: Arc, tol: float = 1e-6, sweeps: int = 20_000) -> Likeliest:
    """The mu that minimises sum_a n_a KL( p_a || mu(X_a) ), the likelihood of counts: what pooling is for samples that
    are not about the same variables.

    The inconsistency has the divergences the other way round, n_a KL( mu(X_a) || p_a ), and what one sample has never
    seen is impossible there; here it is not. By expectation-maximisation,

        mu(x) <- mu(x) g(x),      g(x) = sum_a (n_a / n) p_a(x_a) / mu(x_a)

    until n (max g - 1), which bounds what is left to gain (the likelihood is concave), is at most `tol`. Among several
    such mu it finds the one that a uniform start leads to.
    """
    for a in samples:
        if a.counts is None or a.sources:
            raise DissonanceError(f"{a}: the likeliest population is of samples: tables of counts without sources.")
    if not samples:
        raise DissonanceError("the likeliest population is of at least one sample.")
    variables = PDG(*samples).variables
    if cells(variables) > MOST_CELLS:
        raise SizeError(f"the variables have {cells(variables):,} settings together, of {MOST_CELLS:,} at most.")
    places = {v.name: i for i, v in enumerate(variables)}
    margins: list[tuple[np.ndarray, tuple[int, ...]]] = []
    for a in samples:
        assert a.counts is not None
        axes = [places[n] for n in a.names]
        rest = tuple(i for i in places.values() if i not in axes)
        wide = [1 if i in rest else v.size for i, v in enumerate(variables)]
        margins.append((a.counts.numpy().transpose(np.argsort(axes)).reshape(wide), rest))
    total = sum(float(n.sum()) for n, _ in margins)
    mu = np.full(shape(variables), 1 / cells(variables))
    gap, done = np.inf, 0
    while done < sweeps and gap > tol:
        g = np.zeros_like(mu)
        for n, rest in margins:
            now = mu.sum(rest, keepdims=True)
            g += np.divide(n, now, out=np.zeros_like(now), where=now > 0) / total
        gap = total * (float(g.max()) - 1.0)
        mu = mu * g
        mu /= mu.sum()
        done += 1
    if gap > tol:
        log.warning("the likeliest population is known up to %.3g nats after %d sweeps.", gap, done)
    divergence = 0.0
    for n, rest in margins:
        now, some = mu.sum(rest, keepdims=True), n > 0
        p = n / n.sum()
        divergence += float((n[some] * np.log(p[some] / now[some])).sum())
    return Likeliest(Joint(variables, mu), divergence, gap, done)
