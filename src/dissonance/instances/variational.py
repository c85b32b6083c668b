"""Variational inference: minus the evidence lower bound is an inconsistency, coordinate ascent is full control."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from dissonance.arc import Arc
from dissonance.cpds import Independent, PointMass, SoftmaxTable
from dissonance.distributions.tree import decompose
from dissonance.errors import DissonanceError, SizeError
from dissonance.focus import Attention, Control, Focus
from dissonance.instances.base import Instance
from dissonance.lir import Cycle, Run, Value
from dissonance.pdg import PDG
from dissonance.query import query
from dissonance.variables import Variable, cells, shape

inf = math.inf

LARGEST = 2**20
"""Cells of the largest table that says that a block is independent of its neighbours."""


@dataclass(frozen=True)
class Block:
    """Variables whose q is one table, and what a focus on them needs: the other blocks they meet in some arc."""

    variables: tuple[Variable, ...]
    neighbours: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The names of the variables."""
        return ", ".join(v.name for v in self.variables)

    @property
    def arc(self) -> str:
        """The name of the arc that holds q."""
        return f"q({self.name})"

    @property
    def others(self) -> str:
        """The name of the arc that says what the neighbours do."""
        return f"q(others of {self.name})"


@dataclass(frozen=True)
class Variational:
    """An approximate posterior, q = prod_b q_b, and what it proves: elbo <= log p(evidence).

    `bound` is minus the ELBO between bounds; `elbos` is its course, step by step, from before the first. `q` has the
    table of each block, by name.
    """

    bound: Value
    elbos: list[float] = field(repr=False)
    q: dict[str, Tensor]
    _blocks: tuple[Block, ...] = field(repr=False)
    _asked: tuple[PDG, Mapping[str, Hashable]] = field(repr=False)

    @property
    def elbo(self) -> float:
        """The lower bound of the log-evidence."""
        return -self.bound.upper

    @cached_property
    def marginals(self) -> dict[str, Tensor]:
        """q of every latent variable."""
        found: dict[str, Tensor] = {}
        for b in self._blocks:
            for i, v in enumerate(b.variables):
                rest = [k for k in range(len(b.variables)) if k != i]
                found[v.name] = self.q[b.name].sum(rest) if rest else self.q[b.name]
        return found

    @cached_property
    def log_evidence(self) -> float:
        """log p(evidence), exactly, by sum-product: the inconsistency without q. For models that allow it."""
        model, evidence = self._asked
        return float(query(model, evidence).log_partition)

    @property
    def gap(self) -> float:
        """How much the bound misses: log p(evidence) - ELBO = KL(q || posterior)."""
        return self.log_evidence - self.elbo


def variational(
    model: PDG,
    evidence: Mapping[str, Hashable] | None = None,
    *,
    blocks: Iterable[Sequence[str]] = (),
    start: Mapping[str, object] | None = None,
    control: float = inf,
    simultaneous: bool = False,
) -> Instance[Variational]:
    """Approximate the posterior of a Bayesian network or factor graph by independent blocks.

        <<M + q>> = E_q[ log q - log prod_a p_a ] = -ELBO,      <<M>> = -log p(evidence)

    with gamma = 1, the model's beta = alpha = 1, and the evidence and q hard. Mean field by default; `blocks` of
    variables whose joint q is one table make it structured. Each q_b has a focus: the arcs at its variables and what
    its neighbours do. Full control there is coordinate ascent, log q_b = E_others[log p] + const; finite control chi is
    a natural gradient step, log q_b <- (1 - chi) log q_b + chi E_others[log p] + const, and if `simultaneous` all
    blocks take it at once. `start` has tables to begin with, by block ("A" or "A, B"); q is uniform otherwise.
    """
    evidence = dict(evidence or {})
    seen = [Arc(f"{n}={x}", (), model.variable(n), PointMass(x)) for n, x in evidence.items()]
    parts = _blocks(model, evidence, blocks)
    tables = {b.name: SoftmaxTable(_start(b, start or {})) for b in parts}
    unknown = [n for n in start or {} if n not in tables]
    if unknown:
        raise DissonanceError(f"no block {unknown[0]!r} to start with; the blocks are {', '.join(map(repr, tables))}.")
    own = [Arc(b.arc, (), b.variables, tables[b.name]) for b in parts]
    together = _together(model, parts, tables)
    pdg = PDG(*model.arcs, *seen, *own, *_others(parts, tables), *together, variables=model.variables)
    attention = _attention([a.name for a in model.arcs], [a.name for a in (*seen, *together)])
    control_all = Control({b.arc: control for b in parts})
    if simultaneous and control == inf:
        raise DissonanceError("simultaneous steps need a finite control: full control is of one block at a time.")
    foci = [Focus(attention, control_all)] if simultaneous else [_focus(model, b, seen, control) for b in parts]

    def read(run: Run) -> Variational:
        q = {b.name: run.pdg[b.arc].cpd.table().detach() for b in parts}
        elbos = [-x for x in run.trace.column("global_upper")]
        return Variational(run.after, elbos, q, tuple(parts), (model, evidence))

    return Instance(pdg, Cycle(*foci), read, attention, control_all)


def _attention(model: Iterable[str], hard: Iterable[str]) -> Attention:
    names = list(model)
    return Attention.only(dict.fromkeys(names, 1.0) | dict.fromkeys(hard, inf), dict.fromkeys(names, 1.0), 1.0)


def _focus(model: PDG, b: Block, seen: Sequence[Arc], control: float) -> Focus:
    """The arcs at the block, what is known about them, what its neighbours do; control of its own q."""
    near = [a for a in model.arcs if not set(b.variables).isdisjoint(a.scope)]
    scope = {v for a in near for v in a.scope}
    hard = [a.name for a in seen if a.targets[0] in scope] + [b.arc] + [b.others] * bool(b.neighbours)
    return Focus(_attention([a.name for a in near], hard), Control({b.arc: control}))


def _blocks(model: PDG, evidence: Mapping[str, Hashable], given: Iterable[Sequence[str]]) -> list[Block]:
    """Every variable that is not observed, in the blocks given or else by itself."""
    free = {v.name: v for v in model.variables if v.name not in evidence}
    made: list[tuple[Variable, ...]] = []
    for names in given:
        for n in names:
            model.variable(n)
            if n not in free:
                raise DissonanceError(f"{n!r} is observed or in two blocks: a block has variables of its own.")
        made.append(tuple(free.pop(n) for n in names))
    made += [(v,) for v in free.values()]
    if not made:
        raise DissonanceError("every variable is observed: there is no posterior to approximate.")
    plain = [Block(b) for b in made]
    meets = _scopes(model, plain)
    return [
        Block(b.variables, tuple(dict.fromkeys(n for scope in meets if b.name in scope for n in scope if n != b.name)))
        for b in plain
    ]


def _scopes(model: PDG, blocks: Sequence[Block]) -> list[tuple[str, ...]]:
    """The blocks that each arc of the model mentions."""
    home = {v.name: b.name for b in blocks for v in b.variables}
    return [tuple(dict.fromkeys(home[v.name] for v in a.scope if v.name in home)) for a in model.arcs]


def _start(b: Block, start: Mapping[str, object]) -> object:
    if b.name in start:
        return start[b.name]
    return torch.full(shape(b.variables), 1 / cells(b.variables), dtype=torch.float64)


def _others(blocks: Sequence[Block], tables: Mapping[str, SoftmaxTable]) -> list[Arc]:
    """For each block an arc to its neighbours: whatever it is, they do as their own q say, independently.

    Hard arcs -> Z_1 and -> Z_2 alone would leave the coupling of Z_1 and Z_2 free, and the value below -ELBO.
    """
    of = {b.name: b.variables for b in blocks}
    found: list[Arc] = []
    for b in blocks:
        targets = [v for n in b.neighbours for v in of[n]]
        need = cells((*b.variables, *targets))
        if need > LARGEST:
            raise SizeError(
                f"{b.name!r} meets {len(targets)} other variables: a table of {need:.3g} cells, and at most {LARGEST} "
                "will do. Observe some of them, or split arcs with many variables."
            )
        if targets:
            found.append(Arc(b.others, b.variables, targets, Independent(*(tables[n] for n in b.neighbours))))
    return found


def _together(model: PDG, blocks: Sequence[Block], tables: Mapping[str, SoftmaxTable]) -> list[Arc]:
    """Arcs that say of all blocks that they are independent, cluster by cluster of a junction tree of the model."""
    of = {b.name: b.variables for b in blocks}
    tree = decompose({n: cells(vs) for n, vs in of.items()}, [s for s in _scopes(model, blocks) if s])
    found: list[Arc] = []
    for i, (cluster, separator) in enumerate(zip(tree.clusters, tree.separators, strict=True)):
        new = [n for n in cluster if n not in separator]
        if new:
            sources = [v for n in separator for v in of[n]]
            targets = [v for n in new for v in of[n]]
            found.append(Arc(f"q together {i + 1}", sources, targets, Independent(*(tables[n] for n in new))))
    return found
