"""Opinion pools as PDGs: one distribution of several about the same thing; counts of one population added up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc
from dissonance.errors import DissonanceError, suggest
from dissonance.focus import Attention
from dissonance.inconsistency import Inconsistency, inconsistency
from dissonance.pdg import PDG
from dissonance.variables import Variable, cells, shape

SOURCE = "Source"
"""The variable that says which source is right, in a linear pool."""


@dataclass(frozen=True)
class Pool:
    """A pool as a PDG and an attention to it: mu* given the sources of the arcs is the pool.

    `weights` are those of the arcs and add up to 1.
    """

    pdg: PDG
    attention: Attention
    weights: dict[str, float]
    sources: tuple[Variable, ...]
    targets: tuple[Variable, ...]

    @cached_property
    def result(self) -> Inconsistency:
        """The inconsistency of the PDG: 0 of a linear pool; of a logarithmic one, what pooling costs, in nats."""
        with torch.no_grad():
            return inconsistency(self.pdg, self.attention)

    @cached_property
    def table(self) -> Tensor:
        """The pooled distribution, of the shape of the arcs' tables."""
        if self.result.upper == math.inf:
            raise DissonanceError("the arcs share no possible value: a logarithmic pool of them is nothing.")
        rows = numerics.conditional(self.result.mu.rows(self.sources, self.targets))
        return rows.reshape(shape((*self.sources, *self.targets)))

    def of(self, source: str) -> Tensor:
        """What a linear pool says if this source is right, cell by cell: every source is a population of its own."""
        if SOURCE not in {v.name for v in self.pdg.variables}:
            raise DissonanceError(
                "every source is a population of its own in a linear pool only: ask linear_pool(...)."
            )
        if source not in self.weights:
            raise DissonanceError(f"no source named {source!r}.{suggest(source, self.weights)}")
        names = [v.name for v in self.targets]
        return self.result.mu.conditional(names, [SOURCE, *(v.name for v in self.sources)])[
            list(self.weights).index(source)
        ]

    def arc(self, name: str = "pool", *, beta: float = 1.0) -> Arc:
        """The pool as a belief."""
        return Arc(name, self.sources, self.targets, self.table, beta=beta)


def linear_pool(arcs: Iterable[Arc], weights: Mapping[str, float] | Sequence[float] | None = None) -> Pool:
    """sum_a w_a p_a(t|s): one of the sources is right, and w_a is how probable it is that it is a.

    Hard arcs say which source is right (`S -> Source`) and what each says (`S, Source -> T`); the pool is mu(T|S). It
    minimises sum_a w_a KL( p_a || mu ), the divergence the other way. Probabilities of events are averages, so that
    pooling and adding up (to a margin) may be done in any order; pooling and conditioning on new evidence may not.
    """
    every, share = _alike(arcs, weights)
    first = every[0]
    if any(v.name == SOURCE for v in first.scope):
        raise DissonanceError(f"a variable is named {SOURCE!r}: rename it.")
    which = Variable(SOURCE, [a.name for a in every])
    said = torch.stack([a.cpd.table().detach() for a in every], len(first.sources))
    even = torch.tensor(list(share.values()), dtype=numerics.DTYPE).expand(*shape(first.sources), -1)
    pdg = PDG(
        Arc("which source", first.sources, which, even),
        Arc("what it says", (*first.sources, which), first.targets, said),
        *_settings(first),
    )
    return Pool(pdg, _hard(pdg), share, first.sources, first.targets)


def log_pool(arcs: Iterable[Arc], weights: Mapping[str, float] | Sequence[float] | None = None) -> Pool:
    """prod_a p_a(t|s)^w_a, normalised: the compromise mu* of the arcs with beta_a = w_a.

    It minimises sum_a w_a KL( mu || p_a ). What one arc gives probability 0 has probability 0. Updating every arc by
    the same likelihood and pooling may be done in any order; pooling and adding up (to a margin) may not.
    """
    every, share = _alike(arcs, weights)
    settings = _settings(every[0])
    beta = share | {a.name: math.inf for a in settings}
    return Pool(PDG(*every, *settings), Attention.only(beta), share, every[0].sources, every[0].targets)


def pooled_counts(arcs: Iterable[Arc], name: str = "pooled") -> Arc:
    """One sample of several of the same population: their counts are added up, and beta is the sum of all.

    The table is the linear pool with weights n_a, row by row: the likeliest population.
    """
    every, _ = _alike(arcs, None)
    for a in every:
        if a.counts is None:
            raise DissonanceError(f"{a} has no counts to add up: make it with Arc.from_table(..., counts=...).")
    counts = torch.stack([a.counts for a in every if a.counts is not None]).sum(0)
    rows = counts.reshape(cells(every[0].sources), -1)
    sums = rows.sum(1, keepdim=True)
    if bool((sums <= 0).any()):
        raise DissonanceError(f"{every[0]}: a row has no counts in any of the arcs.")
    table = (rows / sums).reshape(counts.shape)
    return Arc(name, every[0].sources, every[0].targets, table, beta=float(counts.sum()), counts=counts)


def _settings(first: Arc) -> list[Arc]:
    """A uniform distribution of the sources, so that mu has mass at each of their settings."""
    if not first.sources:
        return []
    even = torch.full(shape(first.sources), 1 / cells(first.sources), dtype=numerics.DTYPE)
    return [Arc("settings", (), first.sources, even)]


def _hard(pdg: PDG) -> Attention:
    return Attention.only(dict.fromkeys((a.name for a in pdg.arcs), math.inf))


def _alike(
    arcs: Iterable[Arc], weights: Mapping[str, float] | Sequence[float] | None
) -> tuple[list[Arc], dict[str, float]]:
    """The arcs, which must have the same sources and targets, and their weights, which sum to 1."""
    every = list(arcs)
    if not every:
        raise DissonanceError("a pool is of at least one arc.")
    first, names = every[0], [a.name for a in every]
    for a in every:
        if (a.sources, a.targets) != (first.sources, first.targets) or not a.has_table:
            raise DissonanceError(f"{a} and {first} are not tables about the same: only such are pooled.")
    if len(set(names)) < len(names):
        raise DissonanceError(f"two arcs are named {next(n for n in names if names.count(n) > 1)!r}.")
    if weights is None:
        weights = [1.0] * len(every)
    if not isinstance(weights, Mapping):
        if len(weights) != len(every):
            raise DissonanceError(f"{len(every)} arcs need as many weights, found {len(weights)}.")
        weights = dict(zip(names, weights, strict=True))
    for n, w in weights.items():
        if n not in names:
            raise DissonanceError(f"weights: no arc named {n!r}.{suggest(n, names)}")
        if not 0 <= w < math.inf:
            raise DissonanceError(f"the weight of {n!r} is {w}; it must be a number from 0 on.")
    total = sum(weights.values())
    if total <= 0 or len(weights) < len(names):
        missing = next((n for n in names if n not in weights), None)
        raise DissonanceError(f"no weight of {missing!r}." if missing else "all weights are 0.")
    return every, {n: float(weights[n]) / total for n in names}
