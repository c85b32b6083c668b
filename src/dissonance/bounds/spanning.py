"""States drawn along a spanning order from what the dual believes: exact where regions hang together as a tree.

Variable by variable, b(x) prod_r b_r(x | those of r before it) / b(x) over the largest regions r that hold it.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from dissonance.bounds.states import SECONDS, Sampler, States
from dissonance.bounds.terms import Floats, Ints
from dissonance.compiled import compiled, expect

LARGE = 1e100
"""The most that a region may raise the chance of a value, before it is compared with the others."""


@compiled
def draw_along(
    states: States,
    order: Ints,
    size: Ints,
    own_at: Ints,
    own: Floats,
    factor_at: Ints,
    table_at: Ints,
    tables: Floats,
    before_at: Ints,
    before: Ints,
    stride: Ints,
    seed: int,
) -> None:
    """Draw every variable of every state, given those before it in the order."""
    weight = np.empty(np.max(size))
    for j in range(len(order)):
        v = order[j]
        count = size[v]
        chance = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(j + 1) * np.uint64(0xBF58476D1CE4E5B9)
        for n in range(states.shape[1]):
            for k in range(count):
                weight[k] = own[own_at[v] + k]
            for f in range(factor_at[j], factor_at[j + 1]):
                cell = table_at[f]
                for i in range(before_at[f], before_at[f + 1]):
                    cell += stride[i] * np.int64(states[before[i], n])
                top = 1.0 / LARGE
                for k in range(count):
                    weight[k] *= tables[cell + k]
                    top = max(top, weight[k])
                for k in range(count):
                    weight[k] /= top
            whole = 0.0
            for k in range(count):
                whole += weight[k]
            chance ^= chance << np.uint64(13)
            chance ^= chance >> np.uint64(7)
            chance ^= chance << np.uint64(17)
            left = np.float64(chance >> np.uint64(11)) / 9007199254740992.0 * whole
            k = 0
            while k < count - 1 and left >= weight[k]:
                left -= weight[k]
                k += 1
            states[v, n] = k


class SpanningOrder:
    """The chances of each variable given those before it, from the masses of all cells."""

    def __init__(self, sampler: Sampler, mass: Floats) -> None:
        self.sampler = sampler
        r, sizes, (at, scope, _) = sampler.regions, sampler.sizes, sampler.lists
        dense = sampler.dense(mass)
        holding: list[list[int]] = [[] for _ in sizes]
        for i in range(len(at) - 1):
            if at[i + 1] - at[i] > 1 and not r.parents[i]:
                for v in scope[at[i] : at[i + 1]]:
                    holding[v].append(i)
        done = [False] * len(sizes)
        factors, tables, before_at, before, stride = [0], [], [0], [], []
        order = _order(sampler)
        for v in order:
            own = dense[r.dense_at[sampler.single[v]] :][: sizes[v]]
            for i in holding[v]:
                variables = scope[at[i] : at[i + 1]]
                earlier = [u for u in variables if done[u]]
                if not earlier:
                    continue
                table = dense[r.dense_at[i] : r.dense_at[i + 1]].reshape([sizes[u] for u in variables])
                table = table.sum(axis=tuple(k for k, u in enumerate(variables) if u != v and not done[u]))
                table = np.moveaxis(table, [u for u in variables if done[u] or u == v].index(v), -1)
                with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                    ratio = table / table.sum(-1, keepdims=True) / own
                ratio = np.where(ratio == ratio, np.minimum(ratio, LARGE), 0.0)  # 0 / 0 = 0
                step = sizes[v]
                steps = []
                for u in reversed(earlier):
                    steps.append(step)
                    step *= sizes[u]
                tables.append(ratio.ravel())
                before += earlier
                stride += reversed(steps)
                before_at.append(len(before))
            factors.append(len(tables))
            done[v] = True
        lengths = np.cumsum([0] + [len(t) for t in tables])
        start = [r.dense_at[i] for i in sampler.single]
        self._arrays = (
            *(np.array(x, dtype=np.int64) for x in (order, sizes, start)),
            dense,
            *(np.array(x, dtype=np.int64) for x in (factors, lengths)),
            np.concatenate(tables) if tables else np.zeros(0),
            *(np.array(x, dtype=np.int64) for x in (before_at, before, stride)),
        )

    def states(self, count: int, generator: np.random.Generator) -> States:
        """Draw so many joint states along the spanning forest."""
        found = np.zeros((len(self.sampler.base), count), dtype=self.sampler.dtype)
        expect(SECONDS * found.size)
        draw_along(found, *self._arrays, int(generator.integers(1, 2**40)))  # pyright: ignore[reportCallIssue]
        return found


def _order(sampler: Sampler) -> list[int]:
    """Variables, those of largest degree first, and then what is next to what came before."""
    at, scope, _ = sampler.lists
    near: list[list[int]] = [[] for _ in sampler.sizes]
    for r in range(len(at) - 1):
        for v in scope[at[r] : at[r + 1]]:
            near[v] += scope[at[r] : at[r + 1]]
    found: dict[int, None] = {}
    for v in sorted(range(len(near)), key=lambda v: -len(near[v])):
        waiting = deque([v])
        while waiting:
            u = waiting.popleft()
            if u not in found:
                found[u] = None
                waiting += [w for w in near[u] if w not in found]
    return list(found)
