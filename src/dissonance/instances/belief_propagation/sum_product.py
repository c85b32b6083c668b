"""Two-phase flooding compiled: every message of a sweep at once, factors of one shape together, on a CPU or a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.instances.belief_propagation.beliefs import Beliefs
from dissonance.instances.belief_propagation.blocks import FactorBlock, block, blocks_of
from dissonance.instances.belief_propagation.factor_graph import FactorGraph, Scoped
from dissonance.instances.belief_propagation.instance import all_powers
from dissonance.instances.belief_propagation.log_odds import Binary
from dissonance.instances.belief_propagation.region_edges import (
    FEW_NEIGHBOURS,
    RegionEdges,
    exclusive,
    exclusive_by_logarithms,
    region_edges,
)
from dissonance.pdg import PDG
from dissonance.variables import shape

Edges = dict[tuple[int, int], Tensor]
"""Messages (states, factors) by block and slot."""


@dataclass(frozen=True, eq=False)
class Flooded:
    """Messages after so many sweeps, normalised: `told` from factors, `asked` from regions, by block and slot.

    `change` is the largest change of a message in the last sweep, NaN if it was not asked for.
    """

    plan: SumProduct
    told: Edges
    asked: Edges
    sweeps: int
    change: float

    @cached_property
    def by_size(self) -> dict[int, tuple[Tensor, Tensor]]:
        """For each size k the numbers of the regions (N,), and their beliefs (k, N)."""
        found: dict[int, tuple[Tensor, Tensor]] = {}
        for k, g in self.plan.region_edges.items():
            table = self.plan.empty(k, len(self.plan.sizes)).fill_(1.0)
            for key in g.spans:
                power = self.plan.blocks[key[0]].power
                x = self.told[key] if power is None else self.told[key] ** (1 / power)
                _multiply(table, self.plan.blocks[key[0]].regions[key[1]], x)
            found[k] = g.regions, _normal(table[:, g.regions])
        return found

    def belief(self, region: int) -> Tensor:
        """The belief about one region."""
        regions, table = self.by_size[int(self.plan.sizes[region])]
        return table[:, int((regions == region).nonzero()[0])]

    @cached_property
    def beliefs(self) -> Beliefs:
        """Everything by name; for plans made from a `FactorGraph`."""
        graph, names = self.plan.named
        messages: dict[str, Tensor] = {}
        for b, members in enumerate(names):
            for f, a in enumerate(members):
                for slot, r in enumerate(graph.around[a]):
                    sizes = shape(r.variables)
                    messages[f"{a}->{r.name}"] = self.told[b, slot][:, f].reshape(sizes)
                    messages[f"{r.name}->{a}"] = self.asked[b, slot][:, f].reshape(sizes)
        column = torch.zeros(len(self.plan.sizes), dtype=torch.long)
        for regions, _ in self.by_size.values():
            column[regions.cpu()] = torch.arange(len(regions))
        own = {
            r.name: self.by_size[r.size][1][:, column[i]].reshape(shape(r.variables))
            for i, r in enumerate(graph.regions)
        }
        return Beliefs(graph, messages, own, self.plan.powers)


class SumProduct:
    """Two-phase flooding on arrays: the messages of `belief_propagation(..., "flooding")`, sweep by sweep.

    Made from a `FactorGraph`, or by `SumProduct.arrays` from index arrays when there are too many factors to name.
    Messages are numbers, not logarithms, in arrays (states, edges); positive binary factors of at most two variables
    are done in log-odds. `device` and `dtype` are where and how; how many threads is up to the caller.
    """

    def __init__(
        self,
        factors: FactorGraph | PDG | Mapping[str, Scoped] | Iterable[Scoped],
        *,
        damping: float = 0.0,
        confidence: float = 1.0,
        power: float | Mapping[str, float] = 1.0,
        log_odds: bool = True,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float64,
    ) -> None:
        """The options are those of `belief_propagation`; here confidence may also be 0, its textbook limit.

        `log_odds`: positive binary factors of at most two variables are done in log-odds, which is quicker.
        """
        graph = FactorGraph.of(factors)
        self.powers = all_powers(graph, power)
        sizes, blocks, names = blocks_of(graph, self.powers)
        self._named: tuple[FactorGraph, list[list[str]]] | None = (graph, names)
        self.log_odds = log_odds
        self._plan(torch.tensor(sizes, dtype=torch.long), blocks, damping, confidence, torch.device(device), dtype)

    @classmethod
    def arrays(
        cls,
        sizes: Sequence[int] | Tensor,
        factors: Iterable[tuple[Tensor, Tensor]],
        *,
        damping: float = 0.0,
        confidence: float = 1.0,
        log_odds: bool = True,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float64,
    ) -> SumProduct:
        """From the sizes of variables 0, 1, ... and pairs of scopes (F, r) and tables (F, k_1, ..., k_r)."""
        made = cls.__new__(cls)
        made.powers, made._named, made.log_odds = {}, None, log_odds
        known = torch.as_tensor(sizes)
        blocks = [block(torch.as_tensor(s), torch.as_tensor(t), known) for s, t in factors]
        made._plan(known, blocks, damping, confidence, torch.device(device), dtype)
        return made

    def _plan(
        self,
        sizes: Tensor,
        blocks: Sequence[FactorBlock],
        damping: float,
        confidence: float,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        if not (0 <= damping < 1 and confidence >= 0):
            raise DissonanceError(f"damping in [0, 1) and confidence >= 0, found {damping} and {confidence}.")
        self.sizes, self.damping, self.confidence = sizes, damping, confidence
        self.device, self.dtype = device, dtype
        self.blocks = [b.to(device, dtype) for b in blocks]
        self.powered = any(b.power is not None for b in blocks)
        self.tables = [b.tables if b.power is None else b.tables**b.power for b in self.blocks]
        self.region_edges = region_edges(sizes, blocks, frozenset(), device)

    @cached_property
    def apart(self) -> frozenset[int]:
        """Blocks of one slot: their messages are always the same, so that they are not recomputed in every sweep."""
        return frozenset(b for b, x in enumerate(self.blocks) if len(x.axes) == 1)

    @cached_property
    def quick(self) -> dict[int, RegionEdges]:
        """The regions without the edges of factors that have one slot."""
        return region_edges(self.sizes, self.blocks, self.apart, self.device) if self.apart else self.region_edges

    @property
    def named(self) -> tuple[FactorGraph, list[list[str]]]:
        """The graph, and the names of the factors of each block."""
        if self._named is None:
            raise DissonanceError("this plan was made from arrays, which have no names: use `by_size` or `belief`.")
        return self._named

    def empty(self, *shape: int) -> Tensor:
        """Room for numbers of this plan's kind, where it works."""
        return torch.empty(*shape, device=self.device, dtype=self.dtype)

    @torch.no_grad()
    def run(self, sweeps: int = 100, *, tol: float | None = None) -> Flooded:
        """So many sweeps from uniform messages, or until no message changes by more than `tol`."""
        if sweeps < 1:
            raise DissonanceError(f"at least one sweep, found {sweeps}.")
        state = EdgeMessages(self, self.region_edges)
        done, change = 0, math.nan
        if sweeps > 1 and tol is None and not self.damping and not self.powered:
            done = sweeps - 1  # the last one is done in full, for everybody's messages
            state.put(Binary(self).told(done) if self.log_odds and Binary.fits(self) else self._quickly(done))
        while done < sweeps:
            before = {} if tol is None else {k: x.clone() for k, x in state.told.items()}
            state.ask()
            state.tell()
            done += 1
            if tol is not None:
                change = max((float((x - before[k]).abs().max()) for k, x in state.told.items()), default=0.0)
                if change <= tol:
                    break
        self._check(state.edges(state.told), done)
        asked = {key: _normal(x) for key, x in state.edges(state.asked).items()}
        return Flooded(self, state.edges(state.told), asked, done, change)

    def _quickly(self, sweeps: int) -> Edges:
        """The messages to regions after so many sweeps; those of factors with one slot are computed once."""
        state = EdgeMessages(self, self.quick)
        state.ask()
        state.tell()
        local = {(b, 0): _normal(self.tables[b].reshape(-1, len(self.blocks[b]))) for b in self.apart}
        state.base = {k: self.locals(k, g, local) for k, g in self.quick.items()}
        for _ in range(sweeps - 1):
            state.ask()
            state.tell()
        return state.edges(state.told) | local

    def locals(self, k: int, g: RegionEdges, local: Edges) -> list[Tensor | None]:
        """For each group the product of what its regions are told by factors with one slot, (k, N)."""
        product = self.empty(k, len(self.sizes)).fill_(1.0)
        some = False
        for (b, slot), x in local.items():
            if len(x) == k:
                some = True
                _multiply(product, self.blocks[b].regions[slot], x)
        return [product[:, group.regions] if some else None for group in g.groups]

    def _check(self, edges: Edges, sweeps: int) -> None:
        for (b, slot), x in edges.items():
            if not torch.isfinite(x).all():
                f = int((~torch.isfinite(x).all(0)).nonzero()[0])
                who = f"factor {self._named[1][b][f]!r}" if self._named else f"factor {f} of block {b}"
                raise DissonanceError(
                    f"{who} has nothing possible left to say in slot {slot} after {sweeps} sweeps: the factors "
                    "contradict each other, or their products leave the range of the numbers."
                )


class EdgeMessages:
    """All messages of a plan, in arrays (states, edges); `told` has a last column for the empty edge.

    `base`: for each size and group what every region hears beside its edges.
    """

    def __init__(self, plan: SumProduct, places: Mapping[int, RegionEdges]) -> None:
        self.plan, self.places = plan, places
        self.told = {k: plan.empty(k, g.edges + 1).fill_(1 / k) for k, g in places.items()}
        self.asked = {k: plan.empty(k, g.edges).fill_(1 / k) for k, g in places.items()}
        self.base: dict[int, list[Tensor | None]] = {k: [None] * len(g.groups) for k, g in places.items()}
        self._met = {k: plan.empty(k, sum(len(x.index) for x in g.groups)) for k, g in places.items()}
        self._heard = {k: [plan.empty(k, len(x.index)) for x in g.groups] for k, g in places.items()}
        self._scratch = {k: torch.empty_like(x) for k, x in self.told.items()}
        self._weight = {k: self._weights(g) for k, g in places.items()} if plan.powered else {}
        for x in self.told.values():
            x[:, -1] = 1.0

    def _weights(self, g: RegionEdges) -> Tensor:
        """1/alpha of every edge, and 1 for the empty one."""
        found = self.plan.empty(g.edges + 1).fill_(1.0)
        for (b, _), span in g.spans.items():
            power = self.plan.blocks[b].power
            if power is not None:
                found[span] = 1 / power
        return found

    def put(self, edges: Edges) -> None:
        """Set the messages to regions."""
        for k, g in self.places.items():
            for key, span in g.spans.items():
                self.told[k][:, span] = edges[key]

    def edges(self, by_size: Mapping[int, Tensor]) -> Edges:
        """Messages by block and slot."""
        return {key: by_size[k][:, span] for k, g in self.places.items() for key, span in g.spans.items()}

    def ask(self) -> None:
        """m_{X->a} ~ prod_{b != a} m_{b->X}: every region to every neighbour."""
        for k, g in self.places.items():
            if not g.edges:
                continue
            start = 0
            for group, heard, base in zip(g.groups, self._heard[k], self.base[k], strict=True):
                if group.degree:
                    out = self._met[k][:, start : start + len(group.index)].view(k, *group.shape)
                    self._meet(group.index, heard, out, base, k)
                start += len(group.index)
            if self.plan.damping:
                new = _normal(self._met[k].index_select(1, g.back))
                self.asked[k] = mixed(self.asked[k], new, self.plan.damping, self.plan.confidence)
            else:
                torch.index_select(self._met[k], 1, g.back, out=self.asked[k])

    def _meet(self, index: Tensor, heard: Tensor, out: Tensor, base: Tensor | None, k: int) -> None:
        torch.index_select(self.told[k], 1, index, out=heard)
        here = heard.view(out.shape)
        if self._weight:
            out.copy_(exclusive_by_logarithms(here, base, self._weight[k][index].view(out.shape[1:])))
        elif out.shape[1] > FEW_NEIGHBOURS:
            out.copy_(exclusive_by_logarithms(here, base))
        else:
            exclusive(here, out, base)

    def tell(self) -> None:
        """m_{a->X} ~ sum over the rest of phi_a prod_{Y != X} m_{Y->a}: every factor to every region."""
        spans = {key: (k, span) for k, g in self.places.items() for key, span in g.spans.items()}
        target = self._scratch if self.plan.damping else self.told
        for b, made in enumerate(self.plan.blocks):
            slots = range(len(made.axes))
            if not slots or (b, 0) not in spans:
                continue
            heard = [self.asked[spans[b, i][0]][:, spans[b, i][1]] for i in slots]
            for slot in slots:
                k, span = spans[b, slot]
                target[k][:, span] = made.tell(slot, heard, self.plan.tables[b])
        for k, g in self.places.items():
            if self.plan.damping:
                new = _normal(target[k][:, : g.edges])
                old = self.told[k][:, : g.edges]
                self.told[k][:, : g.edges] = mixed(old, new, self.plan.damping, self.plan.confidence)
            else:
                x = target[k][:, : g.edges]
                x /= x.sum(0)


def mixed(old: Tensor, new: Tensor, damping: float, confidence: float) -> Tensor:
    """Where the natural flow of a message takes it under finite control: see `belief_propagation`."""
    if confidence == math.inf:
        return _normal(old**damping * new ** (1 - damping))
    aim = new
    if confidence > 0:
        aim = _normal(old ** (confidence / (1 + confidence)) * new ** (1 / (1 + confidence)))
    return damping * old + (1 - damping) * aim


def _normal(x: Tensor) -> Tensor:
    return x / x.sum(0)


def _multiply(product: Tensor, regions: Tensor, x: Tensor) -> None:
    """product[:, r] *= x[:, e] for every edge e at region r; a region may have several."""
    order = torch.argsort(regions, stable=True)
    _, counts = torch.unique_consecutive(regions[order], return_counts=True)
    rank = torch.arange(len(regions), device=regions.device)
    rank = rank - torch.repeat_interleave(torch.cumsum(counts, 0) - counts, counts)
    for d in range(int(counts.max())):
        some = order[rank == d]
        product[:, regions[some]] *= x[:, some]
