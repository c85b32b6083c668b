"""The mean of a Gaussian mu: a least-squares problem of its own, with hard arcs as equations and doubts as negative
weights; and what rounding may do to the costs of means and covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, inv, lstsq, null_space, solve, solve_triangular

from dissonance.attended import Array, Attended
from dissonance.problem import EPS

LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class GaussianBelief:
    """An arc's numbers: where its sources and targets are, R and b over all coordinates, and its whitened rows."""

    arc: Attended
    sources: list[int]
    targets: list[int]
    R: Array
    b: Array
    Sigma: Array
    white: Array
    """L^-1 R for Sigma = L L'."""
    log_det: float
    """log det 2 pi Sigma."""

    @property
    def A(self) -> Array:  # noqa: N802
        """The matrix A of the linear-Gaussian arc: its slope."""
        return -self.R[:, self.sources]

    def said_by(self, m: Array, C: Array) -> GaussianBelief:
        """The same arc with the numbers of mu(T|S)."""
        s, t = self.sources, self.targets
        A = solve(C[np.ix_(s, s)], C[np.ix_(s, t)], assume_a="pos").T if s else np.zeros((len(t), 0))
        Sigma = C[np.ix_(t, t)] - A @ C[np.ix_(s, t)]
        return belief_of(self.arc, s, t, A, m[t] - A @ m[s], (Sigma + Sigma.T) / 2, len(m))


def belief_of(arc: Attended, s: list[int], t: list[int], A: Array, b: Array, Sigma: Array, n: int) -> GaussianBelief:
    """An arc N(A s + b, Sigma) over n coordinates."""
    R = np.zeros((len(t), n))
    R[:, s], R[:, t] = -A, np.eye(len(t))
    L = cholesky(Sigma, lower=True)
    white = solve_triangular(L, R, lower=True)
    return GaussianBelief(arc, s, t, R, b, Sigma, white, len(t) * LOG_2PI + 2 * float(np.log(np.diag(L)).sum()))


@dataclass(frozen=True)
class Mean:
    """The mean, what it costs, the multipliers of the hard arcs' b, and how far off those are."""

    m: Array
    cost: float
    blur: float
    """How far what it costs may be from the least cost, double precision being what it is."""
    eta: dict[str, Array]
    residual: float


def whiten(belief: GaussianBelief, values: Array) -> Array:
    """L^-1 values."""
    return solve_triangular(cholesky(belief.Sigma, lower=True), values, lower=True)


def mean(arcs: Sequence[GaussianBelief], n: int) -> Mean:
    """The m of least cost that hard arcs allow; of least norm where several are. Its cost is -inf if there is none."""
    soft = [a for a in arcs if not a.arc.hard and a.arc.beta != 0]
    hard = [a for a in arcs if a.arc.hard]
    if any(a.arc.beta < 0 for a in soft):
        return _doubted_mean(soft, hard, n)
    rows = [math.sqrt(a.arc.beta) * a.white for a in soft]
    X = np.concatenate(rows) if rows else np.zeros((0, n))
    z = [math.sqrt(a.arc.beta) * whiten(a, a.b) for a in soft]
    y = np.concatenate(z) if z else np.zeros(0)
    start, free = np.zeros(n), np.eye(n)
    if hard:
        H = np.concatenate([a.white for a in hard])
        start = _least_squares(H, np.concatenate([whiten(a, a.b) for a in hard]))
        free = null_space(H)
    m = start
    if len(X) and free.shape[1]:
        m = start + free @ _least_squares(X @ free, y - X @ start)
    off = X @ m - y
    left = X @ free @ _least_squares(X @ free, off) if len(X) and free.shape[1] else np.zeros(1)
    blur = 0.5 * norm(left) * (2 * norm(off) + norm(left)) + blurred_mean(soft, m)
    return Mean(m, 0.5 * float(off @ off), blur, *_held(hard, m, X.T @ off))


def _held(hard: Sequence[GaussianBelief], m: Array, slope: Array) -> tuple[dict[str, Array], float]:
    """The multipliers of the hard arcs' b where the cost has this slope in m, and how far off the arcs are."""
    eta: dict[str, Array] = {}
    residual = 0.0
    if hard:
        price = _least_squares(np.concatenate([a.white for a in hard]).T, slope)
        at = 0
        for a in hard:
            eta[a.arc.name] = price[at : at + len(a.b)]  # for the whitened equation L^-1 (R m - b) = 0
            at += len(a.b)
            amiss = np.abs(whiten(a, a.R @ m - a.b)) - _rounding(a, m)
            residual = max(residual, float(amiss.max()))
    return eta, residual


def _doubted_mean(soft: Sequence[GaussianBelief], hard: Sequence[GaussianBelief], n: int) -> Mean:
    """The same where some beta < 0: sum_a beta_a/2 |R m - b|^2_P = 1/2 m'Q m - g'm + c, of which Q need not be >= 0."""
    Q, g, c = np.zeros((n, n)), np.zeros(n), 0.0
    size, pull = np.zeros((n, n)), np.zeros(n)  # what rounding is relative to
    for a in soft:
        shift = whiten(a, a.b)
        Q += a.arc.beta * a.white.T @ a.white
        g += a.arc.beta * a.white.T @ shift
        c += 0.5 * a.arc.beta * float(shift @ shift)
        size += abs(a.arc.beta) * np.abs(a.white.T) @ np.abs(a.white)
        pull += abs(a.arc.beta) * np.abs(a.white.T) @ np.abs(shift)
    start, free = np.zeros(n), np.eye(n)
    if hard:
        H = np.concatenate([a.white for a in hard])
        start = _least_squares(H, np.concatenate([whiten(a, a.b) for a in hard]))
        free = null_space(H)
    values, vectors = np.linalg.eigh(free.T @ Q @ free)
    towards = vectors.T @ free.T @ (g - Q @ start)
    small = 64 * EPS * max(1, n) * float(np.abs(size).sum(1).max(initial=0.0))
    faint = 64 * EPS * max(1, n) * (norm(pull) + norm(size) * norm(start))
    flat = np.abs(values) <= small
    if (values < -small).any() or (np.abs(towards[flat]) > faint).any():
        return Mean(start, -math.inf, 0.0, *_held(hard, start, np.zeros(n)))
    m = start + free @ (vectors[:, ~flat] @ (towards[~flat] / values[~flat]))
    blur = 64 * EPS * (float(np.abs(m) @ size @ np.abs(m)) + float(pull @ np.abs(m)) + abs(c)) + blurred_mean(soft, m)
    return Mean(m, 0.5 * float(m @ Q @ m) - float(g @ m) + c, blur, *_held(hard, m, Q @ m - g))


def blurred_mean(soft: Sequence[GaussianBelief], m: Array) -> float:
    """What rounding may do to sum_a beta_a/2 |R m - b|^2_P."""
    total = 0.0
    for a in soft:
        off, error = norm(whiten(a, a.R @ m - a.b)), norm(_rounding(a, m))
        total += abs(a.arc.beta) * error * (off + error)
    return 2 * total


def blurred_covariance(arcs: Sequence[GaussianBelief], variances: Array) -> float:
    """What rounding of every R'P R may do to the value, 1/2 tr(dQ C): much, where mu is wide beside the noise."""
    weights = [1.0 if a.arc.hard else abs(a.arc.beta) for a in arcs]
    size = sum(w * float((a.white**2).sum(0) @ variances) for w, a in zip(weights, arcs, strict=True))
    return 32 * EPS * size


def norm(x: Array) -> float:
    """The Euclidean norm of all entries."""
    return float(np.linalg.norm(x))


def _rounding(belief: GaussianBelief, m: Array) -> Array:
    """What rounding may do to L^-1 (R m - b): what is subtracted may be much larger than the noise."""
    L = cholesky(belief.Sigma, lower=True)
    size = np.abs(belief.R) @ np.abs(m) + np.abs(belief.b) + np.abs(L) @ np.abs(whiten(belief, belief.R @ m - belief.b))
    return 4 * (len(m) + 1) * EPS * np.abs(inv(L)) @ size


def _least_squares(X: Array, y: Array) -> Array:
    found = lstsq(X, y)
    assert found is not None
    return found[0]
