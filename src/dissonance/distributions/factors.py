"""Products of tables as the rows of a junction forest, where the values of some variables are given."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.distributions.levels import Index, Levels, intp, strides, walk
from dissonance.distributions.messages import ONE, SUM, Arithmetic, Array


@dataclass(frozen=True)
class Factor:
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


class Factors:
    """Factors over the variables of a tree and over `given` variables.

    Factors without given variables are multiplied once. Of the others, a given value shifts where the table is read:
    the cell is its place at the first values + sum_v stride_v value_v.
    """

    def __init__(
        self, levels: Levels, sizes: Mapping[Hashable, int], given: Sequence[Hashable], factors: Iterable[Factor]
    ) -> None:
        self.levels = levels
        self.cuts: dict[tuple[Hashable, ...], list[Cut]] = {}
        base = torch.zeros(sum(levels.cells), dtype=numerics.DTYPE, device=levels.device)
        low = [0.0] * len(levels.cells)
        tables = [base[:0]]
        at: list[Index] = [np.zeros(0, dtype=np.int64)]
        owner: list[Index] = [np.zeros(0, dtype=np.int64)]
        shift: list[list[int]] = []
        read = held = 0
        outside = set(given)
        for f in factors:
            inside = [str(v) for v in f.scope if v not in outside]
            home = levels.home(inside)
            axes = levels.scopes[home]
            rows = slice(levels.start[home], levels.start[home] + levels.cells[home])
            low[home] += float(torch.where(f.log == -inf, 0.0, f.log).amin())
            if len(inside) == len(f.scope):
                base[rows] += f.log.index_select(0, levels.index([walk(axes, f.scope, sizes)]))
                continue
            cells = walk([v for v in axes if v in inside], f.scope, sizes)
            part = slice(read, read + len(cells))
            cut = Cut(rows, tuple(sizes[v] for v in axes), tuple(sizes[v] if v in inside else 1 for v in axes), part)
            self.cuts.setdefault(tuple(v for v in f.scope if v in outside), []).append(cut)
            step = strides(f.scope, sizes)
            shift.append([step.get(v, 0) for v in given])
            at.append(held + cells)
            owner.append(np.full(len(cells), len(shift) - 1))
            tables.append(f.log)
            read, held = part.stop, held + len(f.log)
        index = torch.from_numpy(np.concatenate(at)).to(levels.device)
        shifts = torch.tensor(shift, dtype=numerics.DTYPE, device=levels.device).view(-1, len(given))
        self._read = index, levels.index(owner), shifts
        self._logs = base, torch.cat(tables)
        self._numbers = tuple(x.exp() for x in self._logs)
        self.smallest = min(low, default=0.0)
        """A lower bound of the logarithm of every positive row."""

    @cached_property
    def _numpy(self) -> tuple[Array, ...]:
        index, owner, shifts = self._read
        return *(x.numpy() for x in self._numbers), index.numpy(), intp(owner), shifts.numpy().astype(np.int64)

    def rows(self, values: Tensor, by: Arithmetic, unseen: frozenset[Hashable] = frozenset()) -> Array:
        """The product of all factors at the given values, (given,) or (given, problems), as numbers or as logarithms.

        Factors over `unseen` given variables are left out.
        """
        batch = values.shape[1:]
        if by is ONE:
            base, tables, index, owner, shifts = self._numpy
            cuts, rows = tables[index + (shifts @ values.numpy())[owner]], base.copy()
        else:
            base, tables = self._numbers if by is SUM else self._logs
            index, owner, shifts = self._read
            shift = (shifts @ values.to(numerics.DTYPE)).long().index_select(0, owner)  # exact: integers below 2^53
            cuts = tables.take(index.view(-1, *[1] * len(batch)) + shift)
            rows = base.view(-1, *[1] * len(batch)).expand(-1, *batch).clone()
        for names, found in self.cuts.items():
            if unseen.isdisjoint(names):
                for cut in found:
                    table = rows[cut.rows].reshape((*cut.shape, *batch))
                    table[...] = by.times(table, cuts[cut.part].reshape((*cut.broadcast, *batch)))
        return rows
