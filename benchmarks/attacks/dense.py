"""Bounds on the inconsistency from the dense joint, in plain numpy: a reference that shares no code with the library.

    F(mu) = sum_a beta_a KL(mu(s,t) | p_a(t|s) mu(s)) + gamma (-H(mu) + sum_a alpha_a H(T|S)),  hard arcs as constraints

*Upper*: F at a joint in hand that satisfies the hard arcs. *Lower*: F = G + gamma sum mu log mu with G convex and
G(c mu) = c G(mu), so that for any mu, any row r in the span of the constraints and every nu that satisfies them

    F(nu) >= <grad G(mu), nu> + gamma sum nu log nu >= <r, mu> - gamma log sum exp((r - grad G(mu))/gamma)

(at gamma = 0 the least component of grad G(mu) - r). Both hold at whatever mu: Newton's method only makes them tight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

FACTOR, CENTRED = 0.1, 0.25
"""By which factor the barrier is lowered, and the squared Newton decrement below which it is."""
MOST_STEPS = 80
LOWEST = 1e-11
"""The barrier at the end, in units of the weights."""


@dataclass(frozen=True)
class DenseArc:
    """An arc of K problems over n joint states: the entry (s,t) and the row s of every state, log p (K, entries), beta
    and alpha (K,)."""

    entry: Ints
    row: Ints
    log_p: Array
    beta: Array
    alpha: Array
    hard: bool

    def sums(self, mu: Array) -> tuple[Array, Array]:
        """mu(s,t) and mu(s) at every state, (K, n)."""
        return mu @ self.same_entry, mu @ self.same_row

    @cached_property
    def same_entry(self) -> Array:
        """1 where two states have the same entry."""
        return (self.entry[:, None] == self.entry[None]).astype(np.float64)

    @cached_property
    def same_row(self) -> Array:
        """1 where two states have the same row."""
        return (self.row[:, None] == self.row[None]).astype(np.float64)


@dataclass(frozen=True)
class At:
    """Joints mu (K, n), grad G and gamma log mu there, and F (K,)."""

    mu: Array
    slope: Array
    bend: Array
    value: Array

    def take(self, some: NDArray[np.bool_]) -> At:
        """Those of some of the problems."""
        return At(self.mu[some], self.slope[some], self.bend[some], self.value[some])


@dataclass(frozen=True)
class Dense:
    """K problems over the n joint states that their zeros leave; gamma (K,)."""

    arcs: Sequence[DenseArc]
    gamma: Array

    @property
    def weight(self) -> Array:
        """The sum of the weights, (K,): what rounding is relative to."""
        return self.gamma + sum((a.beta for a in self.arcs if not a.hard), np.zeros_like(self.gamma))

    def _terms(self, mu: Array) -> tuple[Array, Array]:
        """grad G (K, n), and log mu."""
        slope = np.zeros_like(mu)
        for a in self.arcs:
            if a.hard:  # mu(t|s) is p, and so its entropy is linear
                slope -= (self.gamma * a.alpha)[:, None] * a.log_p[:, a.entry]
                continue
            joint, row = a.sums(mu)
            log_q, attended = np.log(joint / row), (a.beta > 0)[:, None]
            slope += a.beta[:, None] * (log_q - np.where(attended, a.log_p[:, a.entry], 0.0))
            slope -= (self.gamma * a.alpha)[:, None] * log_q
        return slope, np.log(mu)

    def at(self, mu: Array) -> At:
        """What is known at positive joints."""
        slope, log_mu = self._terms(mu)
        return At(mu, slope, self.gamma[:, None] * log_mu, (mu * (slope + self.gamma[:, None] * log_mu)).sum(1))

    def constraints(self) -> Array:
        """Rows (K, rows, n) that are 0 on what hard arcs allow, below one of ones."""
        k, n = len(self.gamma), len(self.arcs[0].entry)
        found = [np.ones((k, 1, n))]
        for a in self.arcs:
            if a.hard:
                entries = np.unique(a.entry)
                same_row = np.array([a.row[a.entry == e][0] for e in entries])[:, None] == a.row[None]
                p = np.exp(a.log_p[:, entries])[:, :, None]
                found.append((entries[:, None] == a.entry[None]) - p * same_row)
        return np.concatenate(found, 1)

    def directions(self) -> tuple[Array, Array, Array]:
        """Orthonormal bases of the span of the constraints (K, n, rank) and of the directions that keep them (K, n,
        free); whether double precision can tell which is which, (K,)."""
        rows = self.constraints()
        size, right = np.linalg.svd(rows / np.maximum(np.linalg.norm(rows, axis=2, keepdims=True), 1e-300))[1:]
        ranks = [(size > small * size[:, :1]).sum(1) for small in (1e-7, 1e-12)]
        rank = int(ranks[1].max())
        turned = right.transpose(0, 2, 1)
        return turned[:, :, :rank], turned[:, :, rank:], (ranks[0] == rank) & (ranks[1] == rank)

    def lower(self, at: At, span: Array, height: Array) -> Array:
        """The bound of the module's docstring, with the r that is best for a barrier of this height; (K,)."""
        mu, gamma = at.mu, self.gamma[:, None]
        wanted = at.slope + at.bend + gamma - height[:, None] / mu
        price = (span @ _least_squares(mu[:, :, None] * span, mu * wanted)[:, :, None])[:, :, 0]
        left = at.slope - price
        least = left.min(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            soft = self.gamma * np.log(np.exp((least[:, None] - left) / gamma).sum(1))
        rounding = 1e-13 * (np.abs(price).max(1) + np.abs(at.slope).max(1))
        return (price * mu).sum(1) + least - np.where(self.gamma > 0, soft, 0.0) - rounding

    def take(self, some: Ints) -> Dense:
        """Some of the problems."""
        arcs = [replace(a, log_p=a.log_p[some], beta=a.beta[some], alpha=a.alpha[some]) for a in self.arcs]
        return Dense(arcs, self.gamma[some])

    def bounds(self, mu: Array) -> tuple[Array, Array]:
        """The tightest bounds (K,) on the way of Newton's method, from positive joints that satisfy the hard arcs."""
        (span, free, known), some, part, at = self.directions(), np.arange(len(mu)), self, self.at(mu)
        low, high, height = np.full(len(mu), -math.inf), at.value.copy(), 0.1 * self.weight
        for _ in range(MOST_STEPS):
            at, decrement = part.step(at, free, height)
            high[some] = np.fmin(high[some], at.value)
            low[some] = np.fmax(low[some], part.lower(at, span, height))
            height = np.where(decrement < CENTRED, FACTOR * height, height)
            on = height > LOWEST * part.weight
            if not on.any():
                break
            if on.mean() < 0.7:
                at, span, free, height, some = at.take(on), span[on], free[on], height[on], some[on]
                part = self.take(some)
        return np.where(known, low, -math.inf), high

    def step(self, at: At, free: Array, height: Array) -> tuple[At, Array]:
        """A Newton step for F(mu) - height sum log mu along the free directions, and its squared decrement before."""
        mu, n = at.mu, at.mu.shape[1]
        curve = np.zeros((len(mu), n, n))
        for a in self.arcs:
            if not a.hard:
                joint, row = a.sums(mu)
                w = (a.beta - self.gamma * a.alpha)[:, None]
                curve += (w / joint)[:, :, None] * a.same_entry
                curve -= (w / row)[:, :, None] * a.same_row
        diagonal = np.arange(n)
        curve[:, diagonal, diagonal] += self.gamma[:, None] / mu + height[:, None] / mu**2
        turned = free.transpose(0, 2, 1)
        right = (turned @ (at.slope + at.bend - height[:, None] / mu)[:, :, None])[:, :, 0]
        moved = _solved(turned @ curve @ free, right)
        move = -(free @ moved[:, :, None])[:, :, 0]
        share = np.minimum(1.0, 0.95 / np.maximum((-move / mu).max(1, initial=0.0), 1e-300))
        return self._descended(at, move * share[:, None], height), (moved * right).sum(1) / (height + 1e-300)

    def _descended(self, at: At, move: Array, height: Array) -> At:
        """Where the whole move leads, or a share of it that does not go up."""
        now = at.value - height * np.log(at.mu).sum(1) + 1e-13 * self.weight
        tried = self.at(at.mu + move)
        for _ in range(3):
            worse = ~(tried.value - height * np.log(tried.mu).sum(1) <= now)
            if not worse.any():
                break
            move = np.where(worse[:, None], 0.25 * move, move)
            tried = self.at(at.mu + move)
        return tried


def _solved(matrix: Array, right: Array) -> Array:
    """x with matrix x = right, (K, n), for matrices (K, n, n) that are positive definite, or nearly."""
    at = np.arange(matrix.shape[1])
    size = 1 / np.sqrt(np.maximum(matrix[:, at, at], 1e-300))
    matrix = matrix * size[:, :, None] * size[:, None, :]
    matrix[:, at, at] += 1e-13
    return size * np.linalg.solve(matrix, (right * size)[:, :, None])[:, :, 0]


def _least_squares(rows: Array, y: Array) -> Array:
    """b (K, m) with the least |rows b - y|, for rows (K, n, m); refined once."""
    turned = rows.transpose(0, 2, 1)
    square, found = turned @ rows, np.zeros((len(rows), rows.shape[2]))
    for _ in range(2):
        left = y - (rows @ found[:, :, None])[:, :, 0]
        found = found + _solved(square, (turned @ left[:, :, None])[:, :, 0])
    return found
