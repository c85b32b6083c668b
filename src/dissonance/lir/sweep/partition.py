"""Foci cut into blocks: which block visits which, which tables it holds for that, and which it tells whom.

A block holds a copy of every table that its foci look at. In a sweep a table is visited by one focus of each of some
colours, so that it has a round of visits, (colour, block) by (colour, block), and then again from the first. After each
of them the table is sent to the block of the next visit, if that is another one, and to nobody else. So every block has
the present table when it looks at it. A table that cannot move is never sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from dissonance.columns import ColumnarPDG
from dissonance.lir.sweep.neighbourhoods import FociBatch
from dissonance.lir.sweep.sweeping import Floats, Ints, ShapeSpec, SweepTables
from dissonance.solvers import Newton

FEWEST, MOST, ARCS = 8, 256, 1 << 17
"""How many blocks there are at least and at most, and arcs of a block from which on there are more. Whatever the
workers: with more blocks the scheduler would have more to do than they."""


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """All that a block needs to know beside its tables.

    `held`: the arcs it holds, in order; from here on these are numbered from 0. `own`: those that it is the last to
    visit in a sweep. `foci`: by colour, shapes (numbers of `specs`) and arcs (foci, arcs). `gives` and `takes`: by
    colour, the arcs whose tables go to other blocks after it, and come from them. `begin`: log p of its
    own at the start.
    """

    held: Ints
    beta: Floats
    chi: Floats
    own: Ints
    specs: list[ShapeSpec]
    foci: list[list[tuple[int, Ints]]]
    gives: list[dict[int, Ints]]
    takes: list[dict[int, Ints]]
    begin: list[Floats]
    solver: Newton
    tol: float

    @property
    def state(self) -> dict[str, Any]:
        """As plain values and tensors."""
        of, solver = torch.from_numpy, self.solver
        return {
            **{name: of(getattr(self, name)) for name in ("held", "beta", "chi", "own")},
            "specs": [(s.columns, s.scopes, s.cuts, s.sizes) for s in self.specs],
            "foci": [[(k, of(arcs)) for k, arcs in colour] for colour in self.foci],
            "gives": [{b: of(arcs) for b, arcs in colour.items()} for colour in self.gives],
            "takes": [{b: of(arcs) for b, arcs in colour.items()} for colour in self.takes],
            "begin": [of(x) for x in self.begin],
            "solver": (solver.tol, solver.budget, solver.device),
            "tol": self.tol,
        }

    @classmethod
    def of(cls, state: dict[str, Any]) -> BlockPlan:
        """From them."""
        held, beta, chi, own = (state[name].numpy() for name in ("held", "beta", "chi", "own"))
        gives, takes = (
            [{b: x.numpy() for b, x in colour.items()} for colour in state[name]] for name in ("gives", "takes")
        )
        specs = [ShapeSpec(*s) for s in state["specs"]]
        foci = [[(k, arcs.numpy()) for k, arcs in colour] for colour in state["foci"]]
        begin, solver = [x.numpy() for x in state["begin"]], Newton(*state["solver"])
        return cls(held, beta, chi, own, specs, foci, gives, takes, begin, solver, state["tol"])


class Partition:
    """The foci of a PDG in columns, cut into blocks."""

    def __init__(
        self,
        pdg: ColumnarPDG,
        tables: SweepTables,
        colours: Sequence[Sequence[FociBatch]],
        solver: Newton,
        tol: float,
        blocks: int | None = None,
    ) -> None:
        self.blocks = min(MOST, max(FEWEST, -(-len(pdg) // ARCS))) if blocks is None else blocks
        self.pdg, self.tables, self.colours = pdg, tables, colours
        self.solver, self.tol = solver, tol
        block = _blocks(pdg, colours, self.blocks)
        self.block_of = [[block[batch.variables[:, 0]] for batch in batches] for batches in colours]
        self.sent, self.last = self._rounds()

    @property
    def foci(self) -> int:
        """How many there are."""
        return sum(len(batch) for batches in self.colours for batch in batches)

    def _rounds(self) -> tuple[Ints, Ints]:
        """What is sent, in rows of colour, from, to and arc; and the block of the last visit of each arc, -1: none."""
        found: list[Ints] = [np.zeros((0, 3), dtype=np.int64)]
        for k, (batches, blocks) in enumerate(zip(self.colours, self.block_of, strict=True)):
            for batch, block in zip(batches, blocks, strict=True):
                arcs = batch.arcs.ravel()
                visits = np.stack([arcs, np.full(len(arcs), k), np.repeat(block, batch.arcs.shape[1])], 1)
                found.append(visits[self.tables.chi[arcs] > 0])
        visits = np.concatenate(found)
        visits = visits[np.lexsort((visits[:, 1], visits[:, 0]))]
        arc, colour, block = visits.T
        first = np.flatnonzero(np.diff(arc, prepend=-1))
        size = np.diff(np.append(first, len(arc)))
        after = np.arange(1, len(arc) + 1)
        after[first + size - 1] = first  # and then again
        moves = block[after] != block
        last = np.full(len(self.tables.chi), -1)
        last[arc[first]] = block[first + size - 1]
        return np.stack([colour, block, block[after], arc], 1)[moves], last

    @cached_property
    def sources(self) -> list[dict[int, list[int]]]:
        """By colour and block: the blocks that tell it something after that colour."""
        found: list[dict[int, list[int]]] = [{} for _ in self.colours]
        for k, a, b in np.unique(self.sent[:, :3], axis=0).tolist():
            found[k].setdefault(b, []).append(a)
        return found

    @cached_property
    def busy(self) -> list[set[int]]:
        """By colour: the blocks that have foci of it."""
        return [{int(b) for block in blocks for b in np.unique(block)} for blocks in self.block_of]

    @property
    def traffic(self) -> int:
        """Bytes that blocks send each other in a sweep."""
        sizes = np.array([x[0].nbytes if len(x) else 0 for x in self.tables.log_p])
        return int(sizes[self.tables.column_of(self.sent[:, 3])].sum())

    def plan(self, block: int) -> BlockPlan:
        """What a block needs to know."""
        specs: dict[ShapeSpec, int] = {}
        foci: list[list[tuple[int, Ints]]] = []
        for batches, blocks in zip(self.colours, self.block_of, strict=True):
            foci.append([])
            for batch, owner in zip(batches, blocks, strict=True):
                mine = batch.arcs[owner == block]
                if len(mine):
                    spec = ShapeSpec.of(self.pdg, self.tables, batch)
                    foci[-1].append((specs.setdefault(spec, len(specs)), mine))
        every = [arcs.ravel() for colour in foci for _, arcs in colour]
        held = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *every]))
        own = np.flatnonzero(self.last[held] == block)
        gives, takes = (self._told(block, held, mine, other) for mine, other in ((1, 2), (2, 1)))
        return BlockPlan(
            held,
            self.tables.beta[held],
            self.tables.chi[held],
            own,
            list(specs),
            [[(k, np.searchsorted(held, arcs)) for k, arcs in colour] for colour in foci],
            gives,
            takes,
            self.tables.take(held[own]).log_p,
            self.solver,
            self.tol,
        )

    def _told(self, block: int, held: Ints, mine: int, other: int) -> list[dict[int, Ints]]:
        """By colour: the arcs that go to other blocks, or come from them, in the order in which they are sent."""
        rows = self.sent[self.sent[:, mine] == block]
        rows = rows[np.lexsort((rows[:, 3], rows[:, other], rows[:, 0]))]
        found: list[dict[int, Ints]] = [{} for _ in self.colours]
        cuts = np.flatnonzero(np.diff(rows[:, 0]) | np.diff(rows[:, other])) + 1
        for some in np.split(rows, cuts) if len(rows) else []:
            found[int(some[0, 0])][int(some[0, other])] = np.searchsorted(held, some[:, 3])
        return found


def _blocks(pdg: ColumnarPDG, colours: Sequence[Sequence[FociBatch]], count: int) -> Ints:
    """The block of every variable: consecutive ones, in an order in which neighbours are near each other, and with
    about as many foci as the others."""
    at, scopes = pdg.scopes
    n = len(pdg.sizes)
    ends = np.repeat(scopes[at[:-1]], np.diff(at)), scopes
    near = coo_array((np.ones(len(scopes), dtype=np.int8), ends), shape=(n, n)).tocsr()
    order = reverse_cuthill_mckee((near + near.T).tocsr(), symmetric_mode=True)
    weight = np.zeros(n, dtype=np.int64)
    for batch in (batch for batches in colours for batch in batches):
        weight += np.bincount(batch.variables[:, 0], minlength=n)
    before = np.cumsum(weight[order]) - weight[order]
    found = np.zeros(n, dtype=np.int64)
    found[order] = np.minimum(before * count // max(1, int(weight.sum())), count - 1)
    return found
