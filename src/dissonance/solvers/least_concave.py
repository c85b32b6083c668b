"""The same incompatibility with as little of it concave as can be.

Once linear terms are set apart, an incompatibility is a weighted sum of entropies H(A) of sets of variables. There are
many ways to write it as

    sum_(S,T) -c(S,T) H(T|S) + sum_(S,T) d(S,T) H(T|S),    c, d >= 0,

for instance -H(X,Y) + H(Y|X) is -H(X), which is convex though beta < gamma alpha. The one with the least sum of d
log|T| is found by a linear program over all S and T inside a cluster of the junction tree: where no d is left, the
incompatibility is convex.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from dissonance.arc import Arc
from dissonance.attended import Attended, Mechanism
from dissonance.problem import EVEN, Batch

MOST_VARIABLES = 6
"""A cluster may have so many variables, else the incompatibility stays as it is: S and T are 3^n - 2^n pairs."""

UNLIKE = 1e-14
"""How far the weight of an entropy may be from what it was, relative to the largest weight."""

Sets = dict[frozenset[str], float]


def _subsets(names: tuple[str, ...]) -> Iterator[frozenset[str]]:
    for k in range(len(names) + 1):
        yield from map(frozenset, combinations(names, k))


def _weights(part: Batch) -> Sets:
    """The weight of H(A) of every set inside a cluster; that of all variables is taken apart along the tree."""
    found = dict(part.entropies)
    every = frozenset(v.name for v in part.variables)
    tree, weight = part.tree, found.pop(every, 0.0)
    for cluster, parent in zip(tree.clusters, tree.parent, strict=True):
        separator = frozenset(cluster) & frozenset(tree.clusters[parent] if parent >= 0 else ())
        for names, sign in ((frozenset(cluster), 1.0), (separator, -1.0)):
            found[names] = found.get(names, 0.0) + sign * weight
    return {names: w for names, w in found.items() if names and w}


def least_concave(part: Batch) -> Batch:
    """A part with the same incompatibility at every mu on the tree, up to rounding, and gamma = 0.

    Its arcs have alpha = 0; others that say nothing (log p = 0) carry what entropies are left. The part itself if
    a cluster is too large, or if the linear program is not solved to the last digits.
    """
    if max(map(len, part.tree.clusters)) > MOST_VARIABLES:
        return part
    from scipy.optimize import linprog  # pyright: ignore[reportMissingTypeStubs]

    inside = [both for cluster in part.tree.clusters for both in _subsets(cluster)]
    pairs: dict[Mechanism, None] = {(both - t, t): None for both in inside for t in _subsets(tuple(sorted(both))) if t}
    columns = list(pairs)
    weights = _weights(part)
    sides = [names for s, t in columns for names in (s | t, s) if names]
    rows = {names: i for i, names in enumerate(dict.fromkeys([*weights, *sides]))}  # the same under every hash seed
    A = np.zeros((len(rows), len(columns)))  # H(T|S) = H(S,T) - H(S)
    for j, (s, t) in enumerate(columns):
        A[rows[s | t], j] += 1.0
        if s:
            A[rows[s], j] -= 1.0
    wanted = np.zeros(len(rows))
    for names, w in weights.items():
        wanted[rows[names]] = w
    hard = {a.mechanism for a in part.arcs if a.hard}
    most = [math.log(math.prod(part.sizes[n] for n in t)) for _, t in columns]
    price = np.where([m in hard for m in columns], 0.0, most)  # an entropy that is known is linear
    signed = np.hstack([-A, A])
    found = linprog(np.concatenate([1e-6 * price, price]), A_eq=signed, b_eq=wanted, method="highs")
    if found.status != 0:
        return part
    scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
    used = np.flatnonzero(found.x > 1e-9 * scale)
    net = np.zeros(2 * len(columns))
    net[used] = np.maximum(np.linalg.lstsq(signed[:, used], wanted, rcond=None)[0], 0.0)
    if np.abs(signed @ net - wanted).max(initial=0.0) > UNLIKE * scale:
        return part
    totals = dict(zip(columns, net[: len(columns)] - net[len(columns) :], strict=True))
    return _carrying(part, totals)


def unlike(part: Batch, eased: Batch) -> float:
    """Return how far the incompatibility of a part with as little concave as can be may be from its own: weights
    of entropies are sums, and those that cancel are dropped."""
    if eased is part:
        return 0.0
    logs = {v: math.log(n) for v, n in part.sizes.items()}
    here, there = _weights(part), _weights(eased)
    found = sum(abs(here.get(x, 0.0) - there.get(x, 0.0)) * sum(map(logs.__getitem__, x)) for x in {*here, *there})
    dropped = (
        ((0.0 if a.hard else abs(a.beta)) + c.gamma.item() * abs(a.alpha)) * sum(map(logs.__getitem__, a.scope))
        for c in (part, eased)
        for a in c.arcs
    )
    return found + EVEN * math.fsum(dropped)


def _carrying(part: Batch, totals: dict[Mechanism, float]) -> Batch:
    """The part at gamma = 0 whose mechanisms have these weights."""
    arcs = [Attended(a.arc, a.log_p, a.beta, 0.0) for a in part.arcs]
    for a in part.arcs:
        if not a.hard:
            totals[a.mechanism] = totals.get(a.mechanism, 0.0) - a.beta
    known = {v.name: v for v in part.variables}
    for (s, t), weight in totals.items():
        if abs(weight) > 0.1 * UNLIKE:
            sources, targets = ([v for n, v in known.items() if n in names] for names in (s, t))
            shape = tuple(v.size for v in (*sources, *targets))
            even = np.full(shape, 1 / math.prod(v.size for v in targets))
            name = f"H({', '.join(sorted(t))} | {', '.join(sorted(s))})"
            arcs.append(Attended(Arc(name, sources, targets, even), np.zeros(shape), weight, 0.0))
    return Batch.of(part.variables, arcs, 0.0, part.theta)
