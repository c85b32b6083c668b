"""The mean of a Gaussian mu: a least-squares problem of its own, with hard arcs as equations and doubts as negative
weights; and what rounding may do to the costs of means and covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, inv, lstsq, null_space, solve, solve_triangular

from dissonance.attended import Array, Attended
from dissonance.distributions.gaussian import LOG_2PI
from dissonance.problem import EPS


@dataclass(frozen=True)
class GaussianBelief:
    """An arc N(A s + b, Sigma): where its sources and targets are among n coordinates, and its numbers."""

    arc: Attended
    sources: list[int]
    targets: list[int]
    A: Array
    b: Array
    Sigma: Array
    n: int

    @cached_property
    def R(self) -> Array:  # noqa: N802
        """[-A, I] over all coordinates."""
        R = np.zeros((len(self.b), self.n))
        R[:, self.sources], R[:, self.targets] = -self.A, np.eye(len(self.b))
        return R

    @cached_property
    def L(self) -> Array:  # noqa: N802
        """Sigma = L L'."""
        return cholesky(self.Sigma, lower=True)

    @cached_property
    def log_det(self) -> float:
        """log det 2 pi Sigma."""
        return len(self.b) * LOG_2PI + 2 * float(np.log(np.diag(self.L)).sum())

    @cached_property
    def white(self) -> Array:
        """L^-1 R."""
        return self.whiten(self.R)

    def whiten(self, values: Array) -> Array:
        """L^-1 values."""
        return solve_triangular(self.L, values, lower=True)

    def off(self, m: Array) -> tuple[Array, Array]:
        """L^-1 (R m - b), and what rounding may do to it: what is subtracted may be much larger than the noise."""
        found = self.whiten(self.R @ m - self.b)
        size = np.abs(self.R) @ np.abs(m) + np.abs(self.b) + np.abs(self.L) @ np.abs(found)
        return found, 4 * (self.n + 1) * EPS * np.abs(inv(self.L)) @ size

    def said_by(self, m: Array, C: Array) -> GaussianBelief:
        """The same arc with the numbers of mu(T|S)."""
        s, t = self.sources, self.targets
        A = solve(C[np.ix_(s, s)], C[np.ix_(s, t)], assume_a="pos").T if s else np.zeros((len(t), 0))
        Sigma = C[np.ix_(t, t)] - A @ C[np.ix_(s, t)]
        return GaussianBelief(self.arc, s, t, A, m[t] - A @ m[s], (Sigma + Sigma.T) / 2, self.n)


@dataclass(frozen=True)
class Mean:
    """The mean, what it costs, the multipliers of the hard arcs' b, and how far off those are."""

    m: Array
    cost: float
    blur: float
    """How far what it costs may be from the least cost, double precision being what it is."""
    eta: dict[str, Array]
    residual: float


def mean(arcs: Sequence[GaussianBelief], n: int) -> Mean:
    """The m of least cost that hard arcs allow; of least norm where several are. Its cost is -inf if there is none."""
    soft = [a for a in arcs if not a.arc.hard and a.arc.beta != 0]
    hard = [a for a in arcs if a.arc.hard]
    X, y, sign = _equations(soft, n)
    H, h, _ = _equations(hard, n)
    start, free = _least_squares(H, h), null_space(H) if hard else np.eye(n)
    if (sign < 0).any():
        move, blur = _doubted(X, y, sign, start, free)
    else:
        move = _least_squares(X @ free, y - X @ start)
        off = X @ (start + free @ move) - y
        left = norm(X @ free @ _least_squares(X @ free, off))
        blur = 0.5 * left * (2 * norm(off) + left)
    if move is None:
        return Mean(start, -math.inf, 0.0, *_held(hard, H, start, np.zeros(n)))
    m = start + free @ move
    off = X @ m - y
    cost, slope = 0.5 * float(sign @ off**2), X.T @ (sign * off)
    return Mean(m, cost, blur + blurred_mean(soft, m), *_held(hard, H, m, slope))


def _equations(arcs: Sequence[GaussianBelief], n: int) -> tuple[Array, Array, Array]:
    """X, y and signs with sum_a beta_a/2 |R m - b|^2_P = 1/2 sum_i sign_i (X m - y)_i^2; a hard arc counts once."""
    weights = [1.0 if a.arc.hard else a.arc.beta for a in arcs]
    X = [math.sqrt(abs(w)) * a.white for w, a in zip(weights, arcs, strict=True)]
    y = [math.sqrt(abs(w)) * a.whiten(a.b) for w, a in zip(weights, arcs, strict=True)]
    sign = [np.full(len(a.b), math.copysign(1.0, w)) for w, a in zip(weights, arcs, strict=True)]
    none = np.zeros(0)
    return np.concatenate([np.zeros((0, n)), *X]), np.concatenate([none, *y]), np.concatenate([none, *sign])


def _doubted(X: Array, y: Array, sign: Array, start: Array, free: Array) -> tuple[Array | None, float]:
    """The best move from the start along what is free, where 1/2 m'Q m - g'm need not be convex; None if it has no
    lower end. And what rounding may do to its cost."""
    Q, g = X.T @ (sign[:, None] * X), X.T @ (sign * y)
    size, pull = np.abs(X.T) @ np.abs(X), np.abs(X.T) @ np.abs(y)  # what rounding is relative to
    values, vectors = np.linalg.eigh(free.T @ Q @ free)
    towards = vectors.T @ free.T @ (g - Q @ start)
    n = len(start)
    small = 64 * EPS * max(1, n) * float(size.sum(1).max(initial=0.0))
    faint = 64 * EPS * max(1, n) * (norm(pull) + norm(size) * norm(start))
    flat = np.abs(values) <= small
    if (values < -small).any() or (np.abs(towards[flat]) > faint).any():
        return None, 0.0
    move = vectors[:, ~flat] @ (towards[~flat] / values[~flat])
    m = np.abs(start + free @ move)
    return move, 64 * EPS * float(m @ size @ m + pull @ m + 0.5 * y @ y)


def _held(hard: Sequence[GaussianBelief], H: Array, m: Array, slope: Array) -> tuple[dict[str, Array], float]:
    """The multipliers of the hard arcs' b, for the whitened equations H m = L^-1 b, where the cost has this slope in m;
    and how far off the arcs are."""
    ends = np.cumsum([len(a.b) for a in hard])[:-1]
    prices = np.split(_least_squares(H.T, slope), ends)
    amiss = [float((np.abs(off) - rounding).max()) for off, rounding in (a.off(m) for a in hard)]
    return {a.arc.name: price for a, price in zip(hard, prices, strict=False)}, max(0.0, *amiss, 0.0)


def blurred_mean(soft: Sequence[GaussianBelief], m: Array) -> float:
    """What rounding may do to sum_a beta_a/2 |R m - b|^2_P."""
    total = 0.0
    for a in soft:
        off, error = map(norm, a.off(m))
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


def _least_squares(X: Array, y: Array) -> Array:
    found = lstsq(X, y)
    assert found is not None
    return found[0]
