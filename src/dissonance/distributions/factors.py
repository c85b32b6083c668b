"""Products of tables as the rows of a junction forest, where the values of some variables are given."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.distributions.levels import Index, Levels, strides, walk
from dissonance.distributions.messages import ONE, SUM, Arithmetic, Array


@dataclass(frozen=True)
class LogFactor:
    """A table of logarithms over some variables, flat in C order."""

    scope: tuple[Hashable, ...]
    log: Tensor


@dataclass(frozen=True)
class Cut:
    """What is left of a factor once the given variables have values: rows `part` of all cuts, with these axes."""

    rows: slice
    shape: tuple[int, ...]
    broadcast: tuple[int, ...]
    part: slice


@dataclass(frozen=True)
class Shifts:
    """How far each factor with given variables is moved by their values: sum_v stride_v value_v, its terms in a row."""

    start: Any
    owner: Any
    variable: Any
    stride: Any

    def on(self, device: torch.device) -> Shifts:
        """The same as tensors."""
        return Shifts(*(torch.from_numpy(x).to(device) for x in (self.start, self.owner, self.variable, self.stride)))

    def one(self, values: Index) -> Index:
        """Of one evidence set, in numpy."""
        return np.add.reduceat(self.stride * values[self.variable], self.start) if len(self.start) else self.start

    def many(self, values: Tensor) -> Tensor:
        """(factors, problems), from values (given, problems)."""
        terms = self.stride.view(-1, *[1] * (values.dim() - 1)) * values.index_select(0, self.variable)
        return terms.new_zeros(len(self.start), *values.shape[1:]).index_add_(0, self.owner, terms)


class Factors:
    """Factors over the variables of a tree and over `given` variables.

    Factors without given variables are multiplied once. Of the others, a given value shifts where the table is read:
    the cell is its place at the first values + sum_v stride_v value_v.
    """

    def __init__(
        self, levels: Levels, sizes: Mapping[Hashable, int], given: Sequence[Hashable], factors: Sequence[LogFactor]
    ) -> None:
        self.levels = levels
        self.cuts: dict[tuple[Hashable, ...], list[Cut]] = {}
        number = {v: k for k, v in enumerate(given)}
        insides = [[str(v) for v in f.scope if v not in number] for f in factors]
        homes = levels.tree.homes(insides)
        logs = torch.cat([torch.zeros(0, dtype=numerics.DTYPE, device=levels.device), *(f.log for f in factors)])
        log = logs.cpu().numpy()
        base = np.zeros(sum(levels.cells))
        at: list[Index] = [np.zeros(0, dtype=np.int64)]
        terms: list[tuple[int, int, int]] = []
        read = count = first = 0
        for f, inside, home in zip(factors, insides, homes.tolist(), strict=True):
            axes = levels.scopes[home]
            rows = slice(levels.start[home], levels.start[home] + levels.cells[home])
            if len(inside) == len(f.scope):
                base[rows] += log[first + walk(axes, f.scope, sizes)]
            else:
                cells = walk([v for v in axes if v in inside], f.scope, sizes)
                part = slice(read, read + len(cells))
                shape = tuple(sizes[v] for v in axes)
                cut = Cut(rows, shape, tuple(k if v in inside else 1 for v, k in zip(axes, shape, strict=True)), part)
                self.cuts.setdefault(tuple(v for v in f.scope if v in number), []).append(cut)
                terms += [(count, number[v], step) for v, step in strides(f.scope, sizes).items() if v in number]
                at.append(first + cells)
                read, count = part.stop, count + 1
            first += len(f.log)
        owner, variable, stride = np.array(terms, dtype=np.int64).reshape(-1, 3).T.copy()
        self.shifts = Shifts(np.searchsorted(owner, np.arange(count)), owner, variable, stride)
        index = np.concatenate(at)
        self._read = index, np.repeat(np.arange(count), [len(x) for x in at[1:]])
        self._logs = torch.from_numpy(base).to(levels.device), logs
        self._numbers = tuple(x.exp() for x in self._logs)
        self.smallest = _lowest(log, [len(f.log) for f in factors], homes, len(levels.cells))
        """A lower bound of the logarithm of every positive row."""

    @cached_property
    def _numpy(self) -> tuple[Array, Array]:
        return self._numbers[0].numpy(), self._numbers[1].numpy()

    @cached_property
    def _torch(self) -> tuple[Tensor, Tensor, Shifts]:
        index, owner = (torch.from_numpy(x).to(self.levels.device) for x in self._read)
        return index, owner, self.shifts.on(self.levels.device)

    def rows(self, values: Tensor, by: Arithmetic, unseen: frozenset[Hashable] = frozenset()) -> Array:
        """The product of all factors at the given values, (given,) or (given, problems), as numbers or as logarithms.

        Factors over `unseen` given variables are left out.
        """
        batch = values.shape[1:]
        if by is ONE:
            (base, tables), (index, owner) = self._numpy, self._read
            cuts, rows = tables[index + self.shifts.one(values.numpy())[owner]], base.copy()
        else:
            base, tables = self._numbers if by is SUM else self._logs
            index, owner, shifts = self._torch
            cuts = tables.take(index.view(-1, *[1] * len(batch)) + shifts.many(values).index_select(0, owner))
            rows = base.view(-1, *[1] * len(batch)).expand(-1, *batch).clone()
        for names, found in self.cuts.items():
            if unseen.isdisjoint(names):
                for cut in found:
                    table = rows[cut.rows].reshape((*cut.shape, *batch))
                    table[...] = by.times(table, cuts[cut.part].reshape((*cut.broadcast, *batch)))
        return rows


def _lowest(log: Array, lengths: Sequence[int], homes: Index, clusters: int) -> float:
    """The least that the finite numbers of the factors of any one cluster add up to."""
    low = np.zeros(clusters)
    if lengths:
        start = np.cumsum([0, *lengths[:-1]])
        np.add.at(low, homes, np.minimum.reduceat(np.where(log == -inf, 0.0, log), start))
    return float(low.min()) if clusters else 0.0
