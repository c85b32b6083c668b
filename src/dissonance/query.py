"""Posteriors: marginals and most probable states of a PDG's joint distribution given evidence.

The distribution is the factor graph of the cpds, which for a Bayesian network is its joint:

    mu(x) = 1/Z prod_a p_a(t|s)          (mu* at beta = alpha = gamma = 1)

Evidence fixes variables to values. Variables `observed` in every evidence set are cut out of the tables before the
junction tree is made; other evidence multiplies tables by 0 and 1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.above import ask
from dissonance.arc import Arc, Theta
from dissonance.cpds import Factor
from dissonance.distributions import CliqueTree, Distribution
from dissonance.distributions.factors import Factors, LogFactor
from dissonance.distributions.levels import Index, intp, walk
from dissonance.distributions.messages import MAX, ONE, SUM, Arithmetic, Array, Messages, Which
from dissonance.distributions.product import Product
from dissonance.distributions.tree import MOST, Tree, coarsened, decompose, single
from dissonance.errors import DissonanceError, SizeError, suggest, visible
from dissonance.pdg import PDG
from dissonance.problem import BUDGET
from dissonance.variables import Variable, cells, shape

Evidence = Mapping[str, Hashable]
State = dict[str, Hashable]

log = logging.getLogger("dissonance")

UNSEEN = object()

PLAN_BYTES = 160
"""What a cell of a cluster costs once: its number, and where it is read and added."""

SET_BYTES = 48
"""What it costs for each evidence set: its number, its product with messages, its marginal, and copies in between."""

MERGED = 64
"""Clusters are merged up to this many cells: for less, a message costs more than it saves."""

SHOWN = 8
"""How many variables, and how many values of each, are printed."""

CELLS_AT_ONCE = 2**21
"""Cells worked on at one time on a CPU: further evidence sets wait, so that memory is reused instead of allocated."""


def query(
    pdg: PDG,
    evidence: Evidence | Sequence[Evidence] | None = None,
    *,
    theta: Theta | None = None,
    budget: int = BUDGET,
    device: torch.device | str | None = None,
) -> Posterior:
    """The posterior of every variable given evidence {variable: label}, or given each of many evidence sets.

    Many sets are answered together. To ask again and again, plan once: `Queries`.
    """
    evidence = {} if evidence is None else evidence
    if isinstance(evidence, str):
        raise DissonanceError(f"evidence is {{variable: label}}, or a list of such; found {evidence!r}.")
    sets = [evidence] if isinstance(evidence, Mapping) else evidence
    shared = [n for n in sets[0] if all(n in e for e in sets)] if sets else []
    if (twice := _spoken_of_twice(pdg)) is not None:
        log.warning(
            "%s and %s both speak of %s: a query multiplies them, which counts as two pieces of evidence. "
            "inconsistency(pdg).query(...) asks the best compromise.",
            *twice,
        )
    return Queries(pdg, shared, theta=theta, budget=budget, device=device)(evidence)


def _spoken_of_twice(pdg: PDG) -> tuple[str, str, str] | None:
    """Two arcs with a target in common, and the target; None if there are none, or if the arcs are factors."""
    said_by: dict[str, str] = {}
    for arc in pdg.arcs:
        if isinstance(arc.cpd, Factor):
            continue
        for target in arc.target_names:
            if (other := said_by.setdefault(target, arc.name)) != arc.name:
                return other, arc.name, target
    return None


def posterior(
    mu: Distribution,
    evidence: Evidence | Sequence[Evidence] | None = None,
    *,
    budget: int = BUDGET,
    device: torch.device | str | None = None,
) -> Posterior:
    """The posterior of every finite variable of a distribution given evidence, or given each of many evidence sets."""
    return query(network_of(mu), evidence, budget=budget, device=device)


def network_of(mu: Distribution) -> PDG:
    """A PDG whose factor graph is mu: a conditional table for every cluster, given what it shares with its parent."""
    if isinstance(mu, Product):
        return PDG(*(a for p in mu.parts if all(v.is_finite for v in p.variables) for a in network_of(p).arcs))
    if not isinstance(mu, CliqueTree):
        if 8 * cells(mu.variables) > BUDGET:
            raise SizeError(
                "a posterior needs the junction tree of mu, which does not fit: mu is known by its joint states. "
                "mu.marginal(...) of a few variables can be asked for."
            )
        return PDG(Arc("mu", (), mu.variables, mu.marginal(*(v.name for v in mu.variables))))
    arcs: list[Arc] = []
    for k, (cluster, shared) in enumerate(zip(mu.tree.clusters, mu.tree.separators, strict=True)):
        sources = [mu.variable(n) for n in cluster if n in shared]
        targets = [mu.variable(n) for n in cluster if n not in shared]
        if targets:
            names = [v.name for v in (*sources, *targets)]
            rows = mu.tables[k].permute([cluster.index(n) for n in names]).reshape(cells(sources), cells(targets))
            arcs.append(
                Arc(f"mu{k}", sources, targets, numerics.conditional(rows).reshape(shape((*sources, *targets))))
            )
    return PDG(*arcs, variables=mu.variables)


@dataclass(frozen=True)
class Posterior:
    """What is known given one evidence set, or with a leading axis given each of many.

    log_partition   log sum_x prod_a p_a over the x that agree with the evidence: for a Bayesian network the
                    log-probability of the evidence. -inf if the evidence is impossible.
    marginals       mu(v | evidence) of each variable; all 0 if the evidence is impossible.
    """

    log_partition: Tensor
    marginals: dict[str, Tensor]
    variables: Mapping[str, Variable]
    _explain: Callable[[], tuple[Tensor, list[State | None]]] = field(repr=False)

    def __getitem__(self, name: str) -> dict[Hashable, float]:
        """The probability of each value of a variable, by its label, given the one evidence set."""
        if name not in self.variables:
            raise DissonanceError(f"no finite variable named {name!r}.{suggest(name, self.variables)}")
        if self.log_partition.dim():
            raise DissonanceError("many evidence sets were asked about: `marginals` has a row for each.")
        return dict(zip(self.variables[name].finite.labels, self.marginals[name].tolist(), strict=True))

    def most_probable(self) -> tuple[Tensor, list[State | None] | State | None]:
        """max_x log prod_a p_a given the evidence, and an x that attains it as labels: None where none is possible."""
        value, states = self._explain()
        return value, states if value.dim() else states[0]

    def _repr_html_(self) -> str:
        return ask("html", self)

    def __repr__(self) -> str:
        count = len(self.marginals)
        if self.log_partition.dim():
            return f"Posterior({count} variables, {len(self.log_partition)} evidence sets)"
        lines = [f"Posterior({count} variables, log-probability of the evidence {float(self.log_partition):.6g})"]
        for name in list(self.variables)[:SHOWN]:
            values = [f"{label} {p:.4f}" for label, p in list(self[name].items())[:SHOWN]]
            lines.append(f"  {name}: {', '.join(values)}{', ...' * (self.variables[name].size > SHOWN)}")
        return "\n".join(map(visible, lines + [f"  ... {count - SHOWN} more"] * (count > SHOWN)))


class Queries:
    """A PDG made ready to be asked about evidence: plan once, then a call is tensor passes only.

    Every evidence set must fix the `observed` variables and may fix others too; the more are observed, the smaller the
    tables. The work is done on the device of the cpds, or on `device`; on a CPU on evidence sets that have about
    `cells_at_once` cells together, then on the next ones.
    """

    def __init__(
        self,
        pdg: PDG,
        observed: Iterable[str] = (),
        *,
        theta: Theta | None = None,
        budget: int = BUDGET,
        device: torch.device | str | None = None,
        cells_at_once: int = CELLS_AT_ONCE,
    ) -> None:
        self.variables = {v.name: v for v in pdg.variables if v.is_finite}
        sizes = {n: pdg.variable(n).size for n in observed}
        self.observed = tuple(sizes)
        self.budget, self.cells_at_once = budget, cells_at_once
        self.tree = self._tree(pdg)
        pdg.check(theta)
        logs = [a.log_table(theta).detach() for a in pdg.arcs]
        where = torch.device(device) if device is not None else logs[0].device if logs else torch.device("cpu")
        self.messages = Messages(self.tree, where)
        self._factors = self._tabulate(pdg, [x.to(where, numerics.DTYPE).reshape(-1) for x in logs])
        self._codes: dict[str, tuple[int, dict[Hashable, int]]] = {}
        for k, (n, v) in enumerate(self.variables.items()):
            labels = v.finite.labels if n in self.observed else (UNSEEN, *v.finite.labels)
            self._codes[n] = k, {label: i for i, label in enumerate(labels)}
        self._certain = {n: torch.eye(k, dtype=numerics.DTYPE, device=where) for n, k in sizes.items()}
        self._plan_marginals()

    def _tree(self, pdg: PDG) -> Tree:
        """A junction forest of what is not observed, if it fits."""
        sizes = {n: v.size for n, v in self.variables.items() if n not in self.observed}
        scopes = [tuple(v.name for v in a.scope if v.name in sizes) for a in pdg.arcs]
        tree = coarsened(decompose(sizes, scopes), MERGED) if sizes else single({})
        need = (PLAN_BYTES + SET_BYTES) * tree.cells
        if need > self.budget:
            size = (
                f"about {need / 2**30:.3g} GiB for one evidence set" if tree.cells < MOST else "more than will ever fit"
            )
            raise SizeError(
                f"the junction tree has treewidth {tree.treewidth} and {tree.counted} cells, {size}; "
                f"the budget is {self.budget / 2**30:.3g} GiB. "
                "Observe more variables, or give a larger budget."
            )
        return tree

    def _tabulate(self, pdg: PDG, logs: Sequence[Tensor]) -> Factors:
        """The arcs, and for each variable that may be seen a table: ones if it is not, else 1 at its value only."""
        sizes: dict[Hashable, int] = {n: v.size for n, v in self.variables.items()}
        given: list[Hashable] = [n if n in self.observed else ("seen", n) for n in self.variables]
        factors = [LogFactor(tuple(v.name for v in a.scope), log) for a, log in zip(pdg.arcs, logs, strict=True)]
        seen: dict[int, Tensor] = {}
        for n, size in self.tree.sizes.items():
            sizes["seen", n] = size + 1
            if size not in seen:
                values = torch.eye(size, dtype=numerics.DTYPE, device=self.messages.levels.device)
                seen[size] = numerics.log(torch.cat([torch.ones_like(values[:1]), values])).reshape(-1)
            factors.append(LogFactor((("seen", n), n), seen[size]))
        return Factors(self.messages.levels, sizes, given, factors)

    def _plan_marginals(self) -> None:
        """Which rows add up to each value of each variable; variables with as many rows a value go together."""
        levels, sizes = self.messages.levels, self.tree.sizes
        home = dict(zip(sizes, self.tree.homes([(v,) for v in sizes]).tolist(), strict=True))
        together: dict[int, list[str]] = {}
        for v in sizes:
            together.setdefault(levels.cells[home[v]] // sizes[v], []).append(v)

        def rows(v: str) -> Index:
            axes = levels.scopes[home[v]]
            return levels.start[home[v]] + walk((v, *(u for u in axes if u != v)), axes, sizes)

        reads = [(rest, levels.index([rows(v) for v in names])) for rest, names in together.items()]
        self._reads = reads, [(rest, intp(at)) for rest, at in reads]
        self._read_order = [v for names in together.values() for v in names]

    # -- asking ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def __call__(self, evidence: Evidence | Sequence[Evidence] | None = None) -> Posterior:
        """The posterior given one evidence set {variable: label}, or given each of many."""
        evidence = {} if evidence is None else evidence
        if isinstance(evidence, Mapping):
            values, unseen = self._encoded([evidence])
            values = values[:, 0]
        else:
            values, unseen = self._encoded(evidence)
        parts = [self._sums(part, unseen) for part in self._chunks(values)]
        log_z = torch.cat([z for z, _ in parts]) if values.dim() > 1 else parts[0][0]
        table = torch.cat([m for _, m in parts], -1) if len(parts) > 1 else parts[0][1]
        return Posterior(
            log_z, self._named(table, values, log_z), self.variables, lambda: self._explained(values, unseen)
        )

    def _encoded(self, sets: Sequence[Evidence]) -> tuple[Tensor, frozenset[Hashable]]:
        """Codes of the evidence, (variables, sets), and the tables that none of it needs.

        A code is the place of the value; for a variable that need not be observed 0 is unseen, and values follow.
        """
        codes = np.zeros((len(self.variables), len(sets)), dtype=np.int64)
        names = dict.fromkeys(chain(self.observed, *sets))
        for name in names:
            try:
                row, places = self._codes[name]
                codes[row] = [places[e.get(name, UNSEEN)] for e in sets]
            except (KeyError, TypeError):
                raise self._wrong(sets, name) from None
        unseen = frozenset(("seen", n) for n in self.tree.sizes if n not in names)
        return torch.from_numpy(codes).to(self.messages.levels.device), unseen

    def _wrong(self, sets: Sequence[Evidence], name: str) -> DissonanceError:
        """What is wrong with the first bad value of a variable."""
        known = self.variables[name].finite.labels if name in self.variables else ()
        for k, e in enumerate(sets):
            if name in e and name not in self.variables:
                return DissonanceError(f"evidence set {k}: no finite variable {name!r}.{suggest(name, self.variables)}")
            if name in e and e[name] not in known:
                hint = suggest(str(e[name]), map(str, known))
                return DissonanceError(f"evidence set {k}: {name!r} has no value {e[name]!r}.{hint}")
            if name not in e and name in self.observed:
                return DissonanceError(f"evidence set {k} has no value of {name!r}, which is to be observed.")
        raise AssertionError(name)

    def _chunks(self, values: Tensor) -> Sequence[Tensor]:
        if values.dim() == 1:
            return [values]
        room = (self.budget - PLAN_BYTES * self.tree.cells) // SET_BYTES
        if values.device.type == "cpu":
            room = min(room, self.cells_at_once)
        return values.split(max(1, room // self.tree.cells), 1)

    def _sums(self, values: Tensor, unseen: frozenset[Hashable]) -> tuple[Tensor, Tensor]:
        """log Z, and the marginals of all variables one below the other."""
        if values.shape[1:] == (1,):
            log_z, found = self._sums(values[:, 0], unseen)
            return log_z[None], found[:, None]

        def rows(by: Arithmetic, which: Which) -> Array:
            return self._factors.rows(values[..., which], by, unseen)

        def read(marginals: Array, by: Arithmetic) -> Array:
            batch = marginals.shape[1:]
            plan = self._reads[by is ONE]
            parts = [by.total(by.take(marginals, at).reshape(len(at) // rest, rest, *batch), 1) for rest, at in plan]
            return by.join([marginals[:0], *parts])

        one = values.dim() == 1 and values.device.type == "cpu"
        return self.messages.sums(rows, ONE if one else SUM, self._factors.smallest, read)

    def _named(self, table: Tensor, values: Tensor, log_z: Tensor) -> dict[str, Tensor]:
        parts = table.movedim(0, -1).split([self.tree.sizes[v] for v in self._read_order], -1)
        found = dict(zip(self._read_order, parts, strict=True))
        if self.observed:
            possible = (log_z > -torch.inf).to(numerics.DTYPE).unsqueeze(-1)
            for n in self.observed:
                found[n] = self._certain[n][values[self._codes[n][0]]] * possible
        return {n: found[n] for n in self.variables}

    @torch.no_grad()
    def _explained(self, values: Tensor, unseen: frozenset[Hashable]) -> tuple[Tensor, list[State | None]]:
        best: list[Tensor] = []
        states: list[Tensor] = []
        for part in self._chunks(values):
            up = self.messages.upward(self._factors.rows(part, MAX, unseen), MAX)
            best.append(up.log_z)
            states.append(self.messages.states(up).reshape(len(self.tree.sizes), up.log_z.numel()))
        value = torch.cat(best) if values.dim() > 1 else best[0]
        places = dict(zip(self.tree.sizes, torch.cat(states, 1).tolist(), strict=True))
        places |= {n: values[self._codes[n][0]].reshape(-1).tolist() for n in self.observed}
        labels = {n: [v.finite.labels[i] for i in places[n]] for n, v in self.variables.items()}
        return value, [
            {n: labels[n][k] for n in labels} if possible else None
            for k, possible in enumerate((value > -torch.inf).reshape(-1).tolist())
        ]
