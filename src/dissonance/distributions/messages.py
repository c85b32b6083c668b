"""Message passing on a junction forest: sums, marginals, most probable states and lower bounds of many problems.

A problem is a number log f_C(x_C) for every cell of every cluster C; all problems share the tree. With
F(x) = prod_C f_C(x_C) the passes find

    log Z = log sum_x F(x),    the cluster marginals of F / Z,    max_x log F(x) and an x that attains it.

Clusters of one level and one shape are handled together, each step in one tensor operation for all problems. Sums are
of numbers, not of logarithms: each message is divided by its largest entry, and a pass can tell for which problems a
product may have left the range of float64. Only those are done again, in logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import EllipsisType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.distributions.levels import Levels
from dissonance.distributions.tree import Tree

Array = Any
"""A Tensor, or a numpy array."""

Which = Tensor | EllipsisType
"""Problems: an index of the last axis, or `...` for all."""

SMALLEST = 1e-300
"""What is larger has all digits of a float64."""

BYTES_PER_CELL = 96
"""What a cell of a cluster costs message passing: a dozen numbers, logarithms and sums and places among them."""

BYTES_PER_MEETING = 28
"""What a cell costs it for every child of its cluster: which message meets it going up, and which it is part of."""


def message_bytes(tree: Tree) -> int:
    """What message passing holds at its peak, roughly: no pair of cells is ever looked at."""
    cells = [prod(s) for s in tree.shapes]
    return BYTES_PER_CELL * sum(cells) + BYTES_PER_MEETING * sum(cells[p] for p in tree.parent if p >= 0)


@dataclass(frozen=True)
class Arithmetic:
    """How messages are multiplied, added up and divided; 0 / 0 = 0, and nothing else is divided by 0."""

    times: Callable[[Array, Array], Array]
    total: Callable[[Array, int], Array]
    top: Callable[[Array, int], Array]
    over: Callable[[Array, Array], Array]
    log: Callable[[Array], Array]
    take: Callable[[Array, Array], Array]
    join: Callable[[list[Array]], Array]


def _log_sum(x: Tensor, dim: int) -> Tensor:
    top = x.detach().amax(dim, keepdim=True)
    top = torch.where(top == -math.inf, 0.0, top)
    return numerics.log((x - top).exp().sum(dim)) + top.squeeze(dim)


def _minus(x: Tensor, y: Tensor) -> Tensor:
    return x - torch.where(y == -math.inf, 0.0, y)


def _top(x: Tensor, dim: int) -> Tensor:
    return x.detach().amax(dim, keepdim=True)


def _take(x: Tensor, index: Tensor) -> Tensor:
    return x.index_select(0, index)


SUM = Arithmetic(torch.mul, torch.sum, _top, lambda x, y: x / y.clamp_min(SMALLEST), numerics.log, _take, torch.cat)
LOG_SUM = Arithmetic(torch.add, _log_sum, _top, _minus, lambda x: x, _take, torch.cat)
MAX = replace(LOG_SUM, total=torch.amax)


def _numpy_log(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(x)


ONE = Arithmetic(
    np.multiply,
    np.add.reduce,
    lambda x, axis: np.maximum.reduce(x, axis, keepdims=True),
    lambda x, y: x / np.maximum(y, SMALLEST),
    _numpy_log,
    lambda x, index: x[index],
    np.concatenate,
)
"""SUM for one problem on the CPU, in numpy: its operations on small arrays start sooner."""

Read = Callable[[Array, Arithmetic], Array]
Rows = Callable[[Arithmetic, Which], Array]


@dataclass(frozen=True)
class Upward:
    """What an upward pass leaves: log Z; for each group its tables with all that came from below, and their sums over
    what is not in the separator, (clusters, states, rest, problems) and (clusters, states, problems); all messages."""

    log_z: Array
    tables: list[list[Array]]
    sums: list[list[Array]]
    messages: list[Array]


class Messages:
    """The passes of one tree, planned once.

    `log_partition`, `calibrate`, `most_probable` and `minimum` take the plain layout (problems, cells), or (cells,) for
    one problem: clusters in the tree's order, each in C order of its axes. The passes themselves work on the rows of
    `levels`, (rows, problems).
    """

    def __init__(self, tree: Tree, device: torch.device | str = "cpu") -> None:
        self.levels = Levels(tree, device)
        order = self.levels.order()
        self._order = self.levels.index([order])
        self._back = self.levels.index([np.argsort(order)])

    # -- the plain layout --------------------------------------------------------------------------------------------

    def log_partition(self, log_cells: Tensor) -> Tensor:
        """log Z of each problem; -inf where nothing is possible."""
        return self._sums(log_cells, None)[0]

    def calibrate(self, log_cells: Tensor) -> tuple[Tensor, Tensor]:
        """log Z, and the marginals in every cell; all 0 where nothing is possible. Differentiable."""
        back = self._back
        log_z, cells = self._sums(log_cells, lambda rows, by: by.take(rows, back if by is not ONE else back.numpy()))
        return log_z, cells.movedim(0, -1)

    def most_probable(self, log_cells: Tensor) -> tuple[Tensor, Tensor]:
        """max_x log F(x) of each problem, and the values of the variables (in the order of the tree's sizes) there."""
        up = self.upward(self._rows(log_cells), MAX)
        return up.log_z, self.states(up).movedim(0, -1)

    def minimum(self, costs: Tensor) -> Tensor:
        """min_x sum_C cost_C(x_C) of each problem, the min-sum pass; +inf forbids a cell."""
        return -self.upward(self._rows(-costs), MAX).log_z

    def _rows(self, cells: Tensor) -> Tensor:
        return cells.movedim(-1, 0).index_select(0, self._order)

    def _sums(self, log_cells: Tensor, read: Read | None) -> tuple[Tensor, Tensor]:
        log_rows = self._rows(log_cells)
        top = log_rows.detach().amax(0)
        top = torch.where(top == -math.inf, 0.0, top)
        shifted = log_rows - top
        smallest = torch.where(shifted == -math.inf, 0.0, shifted.detach()).amin(0)
        plain = log_rows.dim() == 1 and log_rows.device.type == "cpu" and not log_rows.requires_grad

        def rows(by: Arithmetic, which: Which) -> Array:
            chosen = shifted[..., which]
            return chosen if by is LOG_SUM else chosen.exp().numpy() if by is ONE else chosen.exp()

        log_z, found = self.sums(rows, ONE if plain else SUM, float(smallest) if plain else smallest, read)
        return log_z + len(self.levels.cells) * top, found

    # -- rows: (rows,) for one problem, (rows, problems) for many ----------------------------------------------------

    def sums(self, rows: Rows, by: Arithmetic, smallest: Tensor | float, read: Read | None) -> tuple[Tensor, Tensor]:
        """log Z, and what `read` makes of the marginals (nothing, if it is None).

        `rows` gives the problems asked for, as numbers or as logarithms; `smallest` is the logarithm of the smallest
        positive row; `by` is SUM, or ONE.
        """
        up, found = self._run(rows, ..., by, read)
        doubtful = torch.as_tensor(self._doubtful(up, by, smallest))
        if not doubtful.any():
            return torch.as_tensor(up.log_z), torch.as_tensor(found)
        which = doubtful.nonzero()[:, 0] if doubtful.dim() else ...
        again, refound = self._run(rows, which, LOG_SUM, read)
        if isinstance(which, Tensor):
            return up.log_z.index_copy(0, which, again.log_z), found.index_copy(-1, which, refound)
        return again.log_z, refound

    def _run(self, rows: Rows, which: Which, by: Arithmetic, read: Read | None) -> tuple[Upward, Array]:
        up = self.upward(rows(by, which), by)
        if read is None:
            return up, up.log_z
        marginals = self.downward(up, by)
        found = read(marginals.exp(), SUM) if by is LOG_SUM else read(marginals, by)
        return up, found * (up.log_z > -math.inf)  # one impossible component makes the whole impossible

    def upward(self, rows: Array, by: Arithmetic) -> Upward:
        """From the leaves to the roots: what each cluster knows of itself and of all below it."""
        batch = rows.shape[1:]
        scales: list[Array] = []
        messages: list[Array] = []
        all_tables: list[list[Array]] = []
        all_sums: list[list[Array]] = []
        for level in reversed(self.levels.numpy if by is ONE else self.levels.groups):
            tables: list[Array] = []
            sums: list[Array] = []
            sent: list[Array] = []
            for g in level:
                table = rows[g.rows]
                for index in g.spread:
                    table = by.times(table, by.take(messages[-1], index))
                table = table.reshape(len(g.clusters), g.states, g.rest, *batch)
                total = by.total(table, 2)
                scale = total if g.collect is None else by.top(total, 1)
                scales.append(scale[:, 0])
                sent.append(by.over(total, scale).reshape(len(g.clusters) * g.states, *batch))
                tables.append(table)
                sums.append(total)
            messages.append(by.join(sent) if len(sent) > 1 else sent[0])
            all_tables.append(tables)
            all_sums.append(sums)
        return Upward(by.log(by.join(scales)).sum(0), all_tables[::-1], all_sums[::-1], messages)

    def downward(self, up: Upward, by: Arithmetic) -> Array:
        """From the roots to the leaves: the marginals of all clusters (their logarithms, where `by` is of those)."""
        batch = up.log_z.shape
        done: list[Array] = []
        levels = self.levels.numpy if by is ONE else self.levels.groups
        for level, tables, sums in zip(levels, up.tables, up.sums, strict=True):
            found: list[Array] = []
            for g, table, total in zip(level, tables, sums, strict=True):
                if g.collect is None:
                    share = by.over(by.over(total, total), total)  # 1 / Z, or 0 if Z is
                else:
                    above = by.take(done[-1], g.collect).reshape(len(g.clusters), g.states, g.others, *batch)
                    share = by.over(by.total(above, 2), total)
                found.append(by.times(table, share[:, :, None]).reshape(g.rows.stop - g.rows.start, *batch))
            done.append(by.join(found) if len(found) > 1 else found[0])
        return by.join(done)

    def _doubtful(self, up: Upward, by: Arithmetic, smallest: Tensor | float) -> Array:
        """Where a product of an upward pass of numbers may have lost digits.

        A product is a positive row, at least exp(smallest), times one entry of a message a child. Downwards digits are
        lost only of marginals below 1e-300.
        """
        logs, bound = by.log(by.join(up.messages)), math.log(SMALLEST)
        short = smallest + max(1, self.levels.most_children) * logs < bound
        return (short & (logs > -math.inf)).any(0) | (smallest < bound)

    def states(self, up: Upward) -> Tensor:
        """The values of the variables at a maximum, after an upward pass with MAX: (variables, problems)."""
        batch = up.log_z.shape
        chosen = torch.zeros((len(self.levels.cells), *batch), dtype=torch.long, device=self.levels.device)
        number = torch.arange(len(chosen), device=self.levels.device).view(-1, *[1] * len(batch))
        picks = number.expand_as(chosen)  # the separator state of each cluster of the level, among its messages
        for level, tables in zip(self.levels.groups, up.tables, strict=True):
            following = torch.zeros_like(chosen)
            first, sent = 0, 0
            for g, table in zip(level, tables, strict=True):
                count = len(g.clusters)
                row = picks[first : first + count] - sent
                cell = row * g.rest + table.flatten(0, 1).argmax(1).gather(0, row)
                for index, place in zip(g.spread, g.places, strict=True):
                    following.index_copy_(0, place.long(), index.long()[cell])
                chosen[list(g.clusters)] = cell - number[:count] * (g.states * g.rest)
                first, sent = first + count, sent + count * g.states
            picks = following
        return self._decoded(chosen)

    def _decoded(self, chosen: Tensor) -> Tensor:
        """The value of each variable, from the cell chosen in each cluster."""
        sizes = self.levels.tree.sizes
        homes = [self.levels.home((v,)) for v in sizes]
        after = [self.levels.scopes[h][self.levels.scopes[h].index(v) + 1 :] for v, h in zip(sizes, homes, strict=True)]
        strides = [prod(sizes[u] for u in a) for a in after]

        def column(numbers: Sequence[int]) -> Tensor:
            return torch.tensor(numbers, dtype=torch.long, device=chosen.device).view(-1, *[1] * (chosen.dim() - 1))

        return chosen[column(homes).reshape(-1)] // column(strides) % column(list(sizes.values()))


def calibrate(tree: Tree, log_tables: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """log Z and the cluster marginals of mu(x) proportional to prod_C exp(log_tables[C](x_C)), for one problem.

    Differentiable. -inf is allowed; if nothing is possible log Z = -inf and the marginals are 0.
    """
    log_cells = torch.cat([t.reshape(-1) for t in log_tables])
    log_z, cells = Messages(tree, log_cells.device).calibrate(log_cells)
    parts = cells.split([prod(s) for s in tree.shapes])
    return log_z, [part.view(s) for part, s in zip(parts, tree.shapes, strict=True)]


def broadcast_over(table: Tensor, scope: Sequence[str], tree: Tree, cluster: int) -> Tensor:
    """A table over some variables, shaped to broadcast over a cluster that contains them."""
    inside = [v for v in tree.clusters[cluster] if v in scope]
    ordered = table.permute([scope.index(v) for v in inside])
    return ordered.reshape([tree.sizes[v] if v in scope else 1 for v in tree.clusters[cluster]])


def gathered(tree: Tree, tables: Iterable[tuple[Sequence[str], Tensor]]) -> list[Tensor]:
    """Sums of tables over (scope, table), cluster by cluster, each in the first cluster that contains its scope."""
    tables = list(tables)
    found = [torch.zeros([1] * len(s), dtype=numerics.DTYPE) for s in tree.shapes]
    homes = [tree.home(scope) for scope, _ in tables]
    for (scope, table), home in zip(tables, homes, strict=True):
        assert home is not None
        found[home] = found[home] + broadcast_over(table, scope, tree, home)
    return [x.expand(s) for x, s in zip(found, tree.shapes, strict=True)]
