"""Exact marginals of large trees: one pass to the root and one back, all factors of a level at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.instances.belief_propagation.blocks import block

Index = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]

LevelPart = tuple[int, int, Index, bool]
"""A block, the slot towards the root, which factors, and whether no two of them have the same variable there."""

MANY_MESSAGES = 1024
"""Messages from which on they are added up by counting, which looks at every variable."""


def tree_marginals(
    sizes: Sequence[int] | Tensor, factors: Iterable[tuple[Tensor, Tensor]]
) -> dict[int, tuple[Tensor, Tensor]]:
    """The marginals of all variables of a factor graph without loops, in time and memory linear in its size.

    Arguments as of `SumProduct.arrays`. For each size k the numbers of the variables (N,), and their marginals (k, N).
    The number of steps is twice the depth of the tree, rooted in its middle: fewest on a bushy tree.
    """
    known = torch.as_tensor(sizes)
    made = [block(torch.as_tensor(s), torch.as_tensor(t), known) for s, t in factors]
    found = TreePass(known.numpy(), [(b.tables.double().numpy(), [r.numpy() for r in b.regions]) for b in made])
    return {k: (torch.from_numpy(mine), torch.from_numpy(p)) for k, (mine, p) in found.marginals().items()}


class TreePass:
    """The two passes, in numpy, whose operations on small arrays start sooner: a deep tree has many small levels.

    `total` (k, N) is the logarithm of what each variable has heard so far, up to scale, and `zeros` how many of its
    messages say that a state is impossible: zeros are counted, so that they can be taken out again.
    """

    def __init__(self, sizes: Index, blocks: Sequence[tuple[Array, list[Index]]]) -> None:
        self.sizes = sizes
        self.tables = [np.ascontiguousarray(t) for t, _ in blocks]  # (k_1, ..., k_r, factors)
        self.scopes = [scopes for _, scopes in blocks]
        self.members = {int(k): np.flatnonzero(sizes == k) for k in np.unique(sizes)}
        place = np.zeros(len(sizes), dtype=np.int64)
        for mine in self.members.values():
            place[mine] = np.arange(len(mine))
        self.place = [[place[r] for r in scopes] for scopes in self.scopes]
        self.total = {k: np.zeros((k, len(m))) for k, m in self.members.items()}
        self.zeros = {k: np.zeros((k, len(m))) for k, m in self.members.items()}
        self.positive = all(bool((t > 0).all()) for t in self.tables)  # then there are no zeros to count
        self.told = [[np.ones((k, t.shape[-1])) for k in t.shape[:-1]] for t in self.tables]

    def marginals(self) -> dict[int, tuple[Index, Array]]:
        """For each size the variables and their marginals."""
        levels = self._levels()
        with np.errstate(divide="ignore"):
            for b, t in enumerate(self.tables):
                if t.ndim == 2:  # factors of one variable have nothing to wait for
                    self._tell(b, 0, slice(None), [], False)
            for level in reversed(levels):
                for b, parent, some, distinct in level:
                    heard = [None if i == parent else self._asked(b, i, some) for i in range(len(self.scopes[b]))]
                    self._tell(b, parent, some, heard, distinct)
            for level in levels:
                for b, parent, some, _ in level:
                    slots = range(len(self.scopes[b]))
                    more = len(slots) > 2
                    heard = [self._asked(b, i, some, i == parent) if more or i == parent else None for i in slots]
                    for slot in slots:
                        if slot != parent:
                            self._tell(b, slot, some, heard, True)  # every child has one parent
        found: dict[int, tuple[Index, Array]] = {}
        for k, mine in self.members.items():
            p = self._numbers(self.total[k], self.zeros[k])
            mass = p.sum(0)
            if not (mass > 0).all():
                odd = int(mine[np.flatnonzero(~(mass > 0))[0]])
                raise DissonanceError(f"the factors contradict each other: no state of variable {odd} is possible.")
            found[k] = mine, p / mass
        return found

    def _asked(self, b: int, slot: int, some: Index, without: bool = False) -> Array:
        """What a variable has to say to these factors: all it has heard, or all `without` what they said themselves."""
        k = self.tables[b].shape[slot]
        at = self.place[b][slot][some]
        total, zeros = self.total[k][:, at], None if self.positive else self.zeros[k][:, at]
        if without:
            own = self.told[b][slot][:, some]
            if zeros is None:
                total -= np.log(own)
            else:
                none = own == 0
                total, zeros = total - np.where(none, 0.0, np.log(own)), zeros - none
        return self._numbers(total, zeros)

    def _numbers(self, total: Array, zeros: Array | None) -> Array:
        """exp of logarithms, the largest of each column 1, and 0 where something is impossible."""
        logs = total if zeros is None or self.positive else np.where(zeros > 0, -np.inf, total)
        return np.exp(logs - np.maximum(logs.max(0), -1e300))

    def _tell(self, b: int, slot: int, some: Any, heard: Sequence[Array | None], distinct: bool) -> None:
        """sum over the others of phi prod m, to the variables of one slot; `distinct`: no two factors tell the same."""
        table = self.tables[b][..., some]
        for i in reversed(range(len(self.scopes[b]))):
            m = heard[i] if i != slot else None
            if m is not None:
                after = table.ndim - 2 - i
                table = (table * m.reshape(len(m), *[1] * after, m.shape[-1])).sum(i)
        out = table / np.maximum(table.max(0), 1e-300)
        k, at = len(out), self.place[b][slot][some]
        if self.positive:
            out = np.maximum(out, 1e-300)
            _add(self.total[k], at, np.log(out), distinct)
        else:
            none = out == 0
            _add(self.total[k], at, np.where(none, 0.0, np.log(out)), distinct)
            _add(self.zeros[k], at, none, distinct)
        self.told[b][slot][:, some] = out

    def _levels(self) -> list[list[LevelPart]]:
        """Factors by their distance from the root."""
        counts = [t.shape[-1] for t in self.tables]
        regions, count = len(self.sizes), sum(counts)
        first = np.cumsum([regions, *counts])
        ends = [(r, first[i] + np.arange(len(r))) for i, scopes in enumerate(self.scopes) for r in scopes]
        rows, columns = (np.concatenate(x) for x in zip(*ends, strict=True))
        depth, up = _rooted(rows, columns, regions, regions + count)
        found: dict[int, list[LevelPart]] = {}
        for i, scopes in enumerate(self.scopes):
            if len(scopes) == 1:
                continue
            mine = slice(first[i], first[i] + counts[i])
            level, above = depth[mine], up[mine]
            towards = np.stack([r == above for r in scopes]).argmax(0)
            order = np.lexsort((towards, level))
            cuts = (np.flatnonzero(np.diff(level[order]) | np.diff(towards[order])) + 1).tolist()
            for start, stop in zip([0, *cuts], [*cuts, len(order)], strict=True):
                some = order[start:stop]
                distinct = len(set(above[some].tolist())) == len(some)
                found.setdefault(int(level[some[0]]), []).append((i, int(towards[some[0]]), some, distinct))
        return [found[d] for d in sorted(found)]


def _add(sums: Array, at: Index, added: npt.NDArray[Any], distinct: bool) -> None:
    """sums[:, at] += added, where a place may occur several times unless they are distinct."""
    if distinct:
        sums[:, at] += added
        return
    for row, x in zip(sums, added, strict=True):
        if len(at) > MANY_MESSAGES:
            row += np.bincount(at, x, len(row))
        else:
            np.add.at(row, at, x)


def _rooted(rows: Index, columns: Index, regions: int, nodes: int) -> tuple[Index, Index]:
    """The depth and the parent of every node of a forest whose trees are rooted in the middle, at a region."""
    ones = np.ones(len(rows), dtype=np.int8)
    graph = coo_array((ones, (rows, columns)), shape=(nodes, nodes)).tocsr()
    trees, label = connected_components(graph, directed=False)
    if len(rows) != nodes - trees:
        raise DissonanceError(
            "this factor graph has loops: exact passes need a tree. Use SumProduct(...).run(...), or a clique tree."
        )
    roots = np.unique(label[:regions], return_index=True)[1]
    for halfway in (False, True):  # the middle of a longest path: from anywhere to an end, from there to the other
        depth, up = _search(rows, columns, nodes, roots)
        order = np.lexsort((depth, label))
        far = order[np.append(np.flatnonzero(np.diff(label[order])), len(order) - 1)]
        roots = far
        if halfway:
            roots = np.array([_climb(int(u), int(depth[u]) // 2, up, regions) for u in far])
    return _search(rows, columns, nodes, roots)


def _climb(node: int, steps: int, up: Index, regions: int) -> int:
    for _ in range(steps):
        node = int(up[node])
    return node if node < regions else int(up[node])


def _search(rows: Index, columns: Index, nodes: int, roots: Index) -> tuple[Index, Index]:
    """Breadth first from all roots together, which hang on one more node."""
    r = np.concatenate([rows, roots])
    c = np.concatenate([columns, np.full(len(roots), nodes)])
    graph = coo_array((np.ones(len(r), dtype=np.int8), (r, c)), shape=(nodes + 1, nodes + 1)).tocsr()
    order, up = breadth_first_order(graph, nodes, directed=False)
    depth = np.zeros(nodes + 1, dtype=np.int64)
    for node in order[1:].tolist():
        depth[node] = depth[up[node]] + 1
    return depth[:nodes], up[:nodes].astype(np.int64)
