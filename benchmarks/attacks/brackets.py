"""Random PDGs: no bracket may exclude what an independent dense minimiser reaches, or what Clarabel says.

The minimiser is entropic mirror descent over the dense joint in plain numpy: whatever it reaches is an upper bound on
the inconsistency, so a lower bound above it is wrong. That an upper bound is none too low is checked on mu itself,
scored by the same plain formulas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from dissonance.attended import Array
from dissonance.focus import Attention
from dissonance.inconsistency import Inconsistency, inconsistencies
from dissonance.pdg import PDG, Arc
from dissonance.variables import Variable

DRAWS = 40
"""PDGs of one structure, solved together."""
SLOP = 1e-9
"""What rounding may do to plain sums of a few hundred terms, relative to the weights."""


@dataclass(frozen=True)
class Dense:
    """OInc + gamma SDef of K dense joints (K, cells), for K PDGs of one structure."""

    gamma: float
    parts: list[tuple[NDArray[np.float64], NDArray[np.float64], Array, float, float]]
    """Of each arc: which cells each entry (s, t) and each row s sums, log p (K, entries), beta, alpha."""

    @classmethod
    def of(cls, pdgs: list[PDG], attention: Attention) -> Dense:
        first = pdgs[0]
        shape = [v.size for v in first.variables]
        grid = np.indices(shape).reshape(len(shape), -1)
        axis = {v.name: i for i, v in enumerate(first.variables)}
        parts: list[tuple[NDArray[np.float64], NDArray[np.float64], Array, float, float]] = []
        for arc in first.arcs:
            sums = [_sums(grid, [axis[v.name] for v in vs], [v.size for v in vs]) for vs in (arc.scope, arc.sources)]
            with np.errstate(divide="ignore"):
                log_p = np.log(np.stack([p[arc.name].cpd.table().detach().numpy().reshape(-1) for p in pdgs]))
            weights = attention.beta.get(arc.name, 0.0), attention.alpha.get(arc.name, 0.0)
            parts.append((sums[0], sums[1], log_p, *weights))
        return cls(attention.gamma, parts)

    def __call__(self, mu: Array) -> tuple[Array, Array]:
        """The incompatibility of each joint, and its slope in every cell."""
        log_mu = np.log(np.where(mu > 0, mu, 1.0))
        value = self.gamma * (mu * log_mu).sum(1)
        slope = self.gamma * log_mu
        for entries, rows, log_p, beta, alpha in self.parts:
            joint, row = mu @ entries, mu @ rows
            width = entries.shape[1] // rows.shape[1]
            given = np.repeat(row, width, 1)
            log_q = np.log(np.where(joint > 0, joint, 1.0)) - np.log(np.where(given > 0, given, 1.0))
            cost = beta * np.where(joint > 0, log_q - log_p, 0.0) - self.gamma * alpha * np.where(joint > 0, log_q, 0.0)
            value = value + (joint * cost).sum(1)
            slope = slope + np.where(np.isfinite(cost), cost, 0.0) @ entries.T
        return value, slope

    def minimise(self, mu: Array, steps: int = 150) -> tuple[Array, Array]:
        """The least value that mirror descent reaches from here, and where."""
        possible = np.ones_like(mu, dtype=bool)
        for entries, _, log_p, beta, _ in self.parts:
            if beta > 0:
                possible &= ~((log_p == -math.inf) @ entries.T > 0)
        rate = 1.0 / (self.gamma + sum(abs(b) for *_, b, _ in self.parts) + 1e-9)
        mu = np.where(possible, mu, 0.0)
        total = mu.sum(1, keepdims=True)
        mu = mu / np.where(total > 0, total, 1.0)
        best, where = np.full(len(mu), math.inf), mu
        for _ in range(steps):
            value, slope = self(mu)
            better = (value < best) & (total[:, 0] > 0)
            best, where = np.where(better, value, best), np.where(better[:, None], mu, where)
            moved = np.where(possible, np.log(np.where(mu > 0, mu, 1e-300)) - rate * slope, -math.inf)
            moved = np.exp(moved - np.max(moved, 1, keepdims=True, initial=-1e300, where=possible))
            mu = np.where(possible, moved, 0.0)
            mu = mu / np.maximum(mu.sum(1, keepdims=True), 1e-300)
        return best, where


def _sums(grid: NDArray[np.int64], axes: list[int], sizes: list[int]) -> NDArray[np.float64]:
    """The matrix that takes a flat joint to the flat marginal over these axes."""
    cells = grid.shape[1]
    flat = np.ravel_multi_index(tuple(grid[axes]), tuple(sizes)) if axes else np.zeros(cells, dtype=np.int64)
    found = np.zeros((cells, math.prod(sizes)))
    found[np.arange(cells), flat] = 1.0
    return found


def structure(rng: np.random.Generator) -> tuple[list[PDG], Attention]:
    """PDGs of one random structure, and a convex attention without hard arcs for all of them."""
    n = int(rng.integers(1, 5))
    variables = [Variable("ABCD"[i], int(rng.integers(2, 4))) for i in range(n)]
    gamma = float(rng.choice([0.0, 0.0, 0.1, 1.0]))
    scopes: list[tuple[str, list[Variable], list[Variable]]] = []
    beta: dict[str, float] = {}
    alpha: dict[str, float] = {}
    for j in range(int(rng.integers(1, 6))):
        chosen = [variables[i] for i in rng.permutation(n)[: int(rng.integers(1, min(n, 3) + 1))]]
        cut = int(rng.integers(0, len(chosen)))
        scopes.append((f"p{j}", chosen[:cut], chosen[cut:]))
        beta[f"p{j}"] = float(rng.choice([1.0, 10 ** rng.uniform(-2, 2)]))
        alpha[f"p{j}"] = float(rng.random()) * (1.0 if gamma == 0 else min(1.0, beta[f"p{j}"] / gamma))
    sharp, zeros = float(rng.choice([1.0, 1.0, 0.05])), float(rng.choice([0.0, 0.0, 0.2]))
    pdgs: list[PDG] = []
    for _ in range(DRAWS):
        arcs = [Arc(name, s, t, _table(rng, s, t, sharp, zeros)) for name, s, t in scopes]
        pdgs.append(PDG(*arcs, variables=variables))
    return pdgs, Attention.only(beta, alpha, gamma)


def _table(rng: np.random.Generator, s: list[Variable], t: list[Variable], sharp: float, zeros: float) -> Array:
    p = rng.dirichlet(np.full(math.prod(v.size for v in t), sharp), math.prod(v.size for v in s)) + 1e-12
    keep = rng.random(p.shape) >= zeros
    keep[np.arange(len(p)), p.argmax(1)] = True
    p = np.where(keep, p, 0.0)
    return (p / p.sum(1, keepdims=True)).reshape([v.size for v in (*s, *t)])


def attack(seed: int) -> Iterator[str | None]:
    """Structures without end; a line for every bracket that is wrong."""
    for k in range(1 << 62):
        rng = np.random.default_rng([seed, k])
        pdgs, attention = structure(rng)
        results = inconsistencies(pdgs, [attention] * len(pdgs))
        dense = Dense.of(pdgs, attention)
        cells = math.prod(v.size for v in pdgs[0].variables)
        reached, _ = dense.minimise(np.full((len(pdgs), cells), 1.0 / cells))
        weight = 1.0 + attention.gamma + sum(attention.beta.values())
        for i, (result, value) in enumerate(zip(results, reached, strict=True)):
            where = f"structure {k} draw {i} of seed {seed}: [{result.lower!r}, {result.upper!r}]"
            if not result.lower <= result.upper or result.lower > value + SLOP * weight:
                yield f"{where}, and a joint has {value!r}"
            elif i == 0 and (odd := _other_way(pdgs[0], attention, result, dense, weight, k)):
                yield f"{where}, {odd}"
            else:
                yield None


def _other_way(
    pdg: PDG, attention: Attention, result: Inconsistency, dense: Dense, weight: float, k: int
) -> str | None:
    """What mu itself scores, and now and then what Clarabel says."""
    if math.isfinite(result.upper):
        first = Dense(dense.gamma, [(e, r, p[:1], b, a) for e, r, p, b, a in dense.parts])
        mu = result.mu.marginal(*(v.name for v in pdg.variables)).detach().numpy().reshape(1, -1)
        if (scored := float(first(mu)[0][0])) > result.upper + 1e-6 * weight:
            return f"whose mu scores {scored!r}"
    if k % 25 == 0:
        theirs = import_module("reference.convex").solve(pdg, attention)  # in tests/
        agreed = theirs.value == result.upper == math.inf
        if (
            theirs.accurate
            and not agreed
            and not result.lower - theirs.slop <= theirs.value <= result.upper + theirs.slop
        ):
            return f"and Clarabel finds {theirs.value!r} +- {theirs.slop:.1g}"
    return None
