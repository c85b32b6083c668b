"""Random convex problems over one set of arcs, many at a time: tables with zeros, hard arcs, weights of all sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.dense import Array, Dense, DenseArc, Ints
from dissonance.arc import Arc
from dissonance.focus import Attention
from dissonance.pdg import PDG
from dissonance.variables import Variable

Bools = NDArray[np.bool_]
SMALLEST = 1e-6
"""The least probability of a joint state in the joint that hard arcs are read off."""


@dataclass(frozen=True)
class Skeleton:
    """Variables, and the sources and targets of arcs, as places among the variables."""

    variables: tuple[Variable, ...]
    scopes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

    @property
    def names(self) -> list[str]:
        """The names of the arcs."""
        return [f"p{j}" for j in range(len(self.scopes))]

    def sizes(self, places: Sequence[int]) -> list[int]:
        """How many values these variables have."""
        return [self.variables[i].size for i in places]

    def flat(self, places: Sequence[int]) -> Ints:
        """The setting of these variables, as a number, at every joint state."""
        grid = np.indices(self.sizes(range(len(self.variables)))).reshape(len(self.variables), -1)
        found = np.zeros(grid.shape[1], dtype=np.int64)
        for i in places:
            found = found * self.variables[i].size + grid[i]
        return found


def skeleton(rng: np.random.Generator, most: int) -> Skeleton:
    """One to four variables with at most so many joint states, and one to seven arcs."""
    while True:
        sizes = [int(rng.choice([1, 2, 2, 2, 3, 3, 4])) for _ in range(int(rng.integers(1, 5)))]
        if math.prod(sizes) <= most:
            break
    variables = tuple(Variable("ABCD"[i], size) for i, size in enumerate(sizes))
    scopes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for _ in range(int(rng.integers(1, 8))):
        chosen = rng.permutation(len(sizes))[: int(rng.integers(1, min(len(sizes), 3) + 1))].tolist()
        cut = int(rng.integers(0, len(chosen)))
        scopes.append((tuple(chosen[:cut]), tuple(chosen[cut:])))
    return Skeleton(variables, tuple(scopes))


@dataclass(frozen=True)
class Drawn:
    """K problems with the same zeros and hard arcs: log p (K, entries) of every arc, beta, alpha (K, arcs), gamma (K,).

    `possible`: the joint states that zeros leave. `hidden` (K, possible): a joint that satisfies the hard arcs, or
    None if no joint does.
    """

    of: Skeleton
    log_p: tuple[Array, ...]
    beta: Array
    alpha: Array
    gamma: Array
    possible: Bools
    hidden: Array | None

    def __len__(self) -> int:
        return len(self.gamma)

    def pdg(self, k: int) -> PDG:
        """Problem k."""
        arcs: list[Arc] = []
        for name, (s, t), log_p in zip(self.of.names, self.of.scopes, self.log_p, strict=True):
            sources, targets = ([self.of.variables[i] for i in places] for places in (s, t))
            arcs.append(Arc(name, sources, targets, np.exp(log_p[k]).reshape(self.of.sizes((*s, *t)))))
        return PDG(*arcs, variables=self.of.variables)

    def attention(self, k: int) -> Attention:
        """How problem k is attended to."""
        beta, alpha = (dict(zip(self.of.names, x[k].tolist(), strict=True)) for x in (self.beta, self.alpha))
        return Attention.only(beta, alpha, float(self.gamma[k]))

    def dense(self) -> Dense:
        """The problems as the reference takes them."""
        arcs: list[DenseArc] = []
        for j, (s, t) in enumerate(self.of.scopes):
            entry, row = (self.of.flat(places)[self.possible] for places in ((*s, *t), s))
            arcs.append(DenseArc(entry, row, self.log_p[j], self.beta[:, j], self.alpha[:, j], self.is_hard(j)))
        return Dense(arcs, self.gamma)

    def is_hard(self, j: int) -> bool:
        """Whether arc j is hard, in all of them."""
        return bool(self.beta[0, j] == math.inf)


def draw(rng: np.random.Generator, of: Skeleton, count: int) -> Drawn:
    """Problems over these arcs, each with numbers of its own; now and then with hard arcs, and these contradictory."""
    arcs = len(of.scopes)
    hard = (rng.random(arcs) < 0.5) & (rng.random() < 0.4)
    ignored = (rng.random(arcs) < 0.1) & ~hard
    beta = 10 ** (float(rng.choice([0.0, 1.0, 2.0, 4.0])) * rng.uniform(-1, 1, (count, arcs)))
    beta = np.where(hard, math.inf, np.where(ignored, 0.0, beta))
    gamma = 10 ** rng.uniform(-2, 1, count) * float(rng.random() < 0.5)
    share = np.where(rng.random((count, arcs)) < 0.2, 1.0, rng.random((count, arcs)))
    alpha = share * np.where(hard, 1.0, np.minimum(1.0, beta / np.maximum(gamma, 1e-300)[:, None]))
    nothing = float(rng.choice([0.0, 0.0, 0.25]))
    zero = [_zeros(rng, of, j, nothing) for j in range(arcs)]
    possible = np.ones(len(of.flat(())), dtype=np.bool_)
    for j, (s, t) in enumerate(of.scopes):
        if not (hard[j] or ignored[j]):
            possible &= ~zero[j].ravel()[of.flat((*s, *t))]
    flatness, sharp = float(rng.choice([1.0, 1.0, 0.2])), float(rng.choice([1.0, 1.0, 0.05]))
    hidden = _rows(rng.standard_gamma(flatness, (count, int(possible.sum()))) + SMALLEST)
    log_p: list[Array] = []
    for j in range(arcs):
        if hard[j]:
            p = _read_off(of, j, possible, hidden)
        else:
            p = _rows(np.where(zero[j], 0.0, rng.standard_gamma(sharp, (count, *zero[j].shape)) + 1e-12))
        with np.errstate(divide="ignore"):
            log_p.append(np.log(p).reshape(count, -1))
    found = Drawn(of, tuple(log_p), beta, alpha, gamma, possible, hidden if possible.any() else None)
    return _contradicted(rng, found) if hard.any() and possible.any() and rng.random() < 0.3 else found


def _rows(p: Array) -> Array:
    return p / np.maximum(p.sum(-1, keepdims=True), 1e-300)


def _zeros(rng: np.random.Generator, of: Skeleton, j: int, share: float) -> Bools:
    """Entries (sources, targets) of arc j that are impossible: one of every row at least is not."""
    rows, width = (math.prod(of.sizes(places)) for places in of.scopes[j])
    found = rng.random((rows, width)) < share
    found[np.arange(rows), rng.integers(0, width, rows)] = False
    return found


def _read_off(of: Skeleton, j: int, possible: Bools, hidden: Array) -> Array:
    """p(t|s) of the hidden joints (K, sources, targets); uniform where no s is possible."""
    s, t = of.scopes[j]
    rows, width = math.prod(of.sizes(s)), math.prod(of.sizes(t))
    joint = hidden @ (of.flat((*s, *t))[possible][:, None] == np.arange(rows * width)).astype(np.float64)
    joint = joint.reshape(len(hidden), rows, width)
    return np.where(joint.sum(-1, keepdims=True) > 0, _rows(joint), 1.0 / width)


def _contradicted(rng: np.random.Generator, drawn: Drawn) -> Drawn:
    """The same with a hard arc beside a hard one that says something else of every possible s, if there can be one."""
    j = next(j for j in range(len(drawn.log_p)) if drawn.is_hard(j))
    s, t = drawn.of.scopes[j]
    rows, width = math.prod(drawn.of.sizes(s)), math.prod(drawn.of.sizes(t))
    p = np.exp(drawn.log_p[j]).reshape(len(drawn), rows, width)
    here = np.isin(np.arange(rows), drawn.of.flat(s)[drawn.possible])
    if (p[:, here] > 0).sum(-1).min() < 2:
        return drawn
    tilt = 10 ** rng.uniform(-4, 0, (len(drawn), 1, 1))
    other = _rows(p * np.where(np.arange(width) == p.argmax(-1)[:, :, None], 1.0, 1.0 + tilt))
    with np.errstate(divide="ignore"):
        log_p = (*drawn.log_p, np.log(other).reshape(len(drawn), -1))
    of = Skeleton(drawn.of.variables, (*drawn.of.scopes, (s, t)))
    beta, alpha = (np.concatenate([x, x[:, j : j + 1]], 1) for x in (drawn.beta, drawn.alpha))
    return Drawn(of, log_p, beta, alpha, drawn.gamma, drawn.possible, None)
