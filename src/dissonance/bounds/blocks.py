"""Blocks of few variables that are drawn together, given all others: single ones, and those of a rule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dissonance.bounds.states import Sampler, States, concatenated_lists
from dissonance.bounds.tally import BROKEN, CellTally, EntryTally, put
from dissonance.bounds.terms import Ints
from dissonance.compiled import compiled

LARGEST = 64
"""Cells of a region up to which its variables are drawn together, if some of its cells are impossible."""


class Blocks(NamedTuple):
    """The variables of each block, the values that they may have together, the terms about them; by term and choice,
    how far its cell lies from the one with 0 for all of the block. Of each, where a block begins, and all of them."""

    block_at: Ints
    block: Ints
    choice_at: Ints
    choice: Ints
    touch_at: Ints
    touch: Ints
    shift_at: Ints
    shift: Ints

    @classmethod
    def of(cls, sampler: Sampler, tally: CellTally) -> Blocks:
        """Every variable, and the variables of every region in which some cells are impossible."""
        blocks = [([v], sampler.possible_values(r)) for v, r in enumerate(sampler.single)]
        for r, s in enumerate(sampler.scopes):
            choices = sampler.possible_values(r)
            if len(s) > 1 and len(choices) <= LARGEST and len(choices) < np.prod([sampler.sizes[v] for v in s]):
                blocks.append((s, choices))
        at, scope, stride = (x.tolist() for x in tally.tables.where[:3])
        touch, shifts = [], []
        for block, choices in blocks:
            place = {v: i for i, v in enumerate(block)}
            touch.append(sorted({t for v in block for t in tally.holding[v]}))
            found = np.zeros((len(touch[-1]), len(choices)), dtype=np.int64)
            for k, t in enumerate(touch[-1]):
                for i in range(at[t], at[t + 1]):
                    if scope[i] in place:
                        found[k] += stride[i] * choices[:, place[scope[i]]]
            shifts.append(found.ravel())
        each = [b for b, _ in blocks], [c.ravel() for _, c in blocks], touch, shifts
        return cls(*(x for lists in each for x in concatenated_lists(lists)))


@compiled
def move_blocks(
    states: States,
    first: int,
    last: int,
    blocks: Blocks,
    tally: EntryTally,
    temperature: float,
    broken: float,
    seed: int,
) -> None:
    """Draw these blocks once in every state, given all else."""
    block_at, block, choice_at, choice, touch_at, touch, shift_at, shift = blocks
    scope_at, scope, stride, table_at = tally.scope_at, tally.scope, tally.stride, tally.table_at
    entry, prices = tally.entry, tally.prices
    most, widest = 1, 1
    for b in range(first, last):
        most = max(most, (choice_at[b + 1] - choice_at[b]) // (block_at[b + 1] - block_at[b]))
        widest = max(widest, touch_at[b + 1] - touch_at[b])
    cost, base, held = np.empty(most), np.empty(widest, dtype=np.int64), np.empty(widest, dtype=np.int64)
    for b in range(first, last):
        at, width = block_at[b], block_at[b + 1] - block_at[b]
        start, choices = choice_at[b], (choice_at[b + 1] - choice_at[b]) // width
        touched = touch_at[b + 1] - touch_at[b]
        chance = np.uint64(seed + 1) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b + 1) * np.uint64(0xBF58476D1CE4E5B9)
        for n in range(states.shape[1]):
            now = 0
            while now < choices:
                i = 0
                while i < width and states[block[at + i], n] == choice[start + now * width + i]:
                    i += 1
                if i == width:
                    break
                now += 1
            for k in range(choices):
                cost[k] = 0.0
            shifted = shift_at[b]
            for j in range(touched):
                t = touch[touch_at[b] + j]
                cell = table_at[t]
                for i in range(scope_at[t], scope_at[t + 1]):
                    cell += stride[i] * np.int64(states[scope[i], n])
                e = entry[cell]
                if now < choices:
                    cell -= shift[shifted + now]
                else:  # none of them: what there is breaks a rule
                    for i in range(scope_at[t], scope_at[t + 1]):
                        for v in range(at, at + width):
                            if block[v] == scope[i]:
                                cell -= stride[i] * np.int64(states[scope[i], n])
                base[j], held[j] = cell, e
                for k in range(choices):
                    other = entry[cell + shift[shifted + k]]
                    if other >= 0:
                        cost[k] += prices[1, e] if other == e else prices[0, other]
                    elif other == BROKEN:
                        cost[k] += broken
                shifted += choices
            chance ^= chance << np.uint64(13)
            chance ^= chance >> np.uint64(7)
            chance ^= chance << np.uint64(17)
            low, whole, new = np.min(cost[:choices]), 0.0, 0
            for k in range(choices):
                whole += np.exp((low - cost[k]) / temperature)
                cost[k] = whole
            drawn = whole * np.float64(chance >> np.uint64(11)) / 9007199254740992.0
            while new < choices - 1 and drawn >= cost[new]:
                new += 1
            if new == now:
                continue
            for i in range(width):
                states[block[at + i], n] = choice[start + new * width + i]
            shifted = shift_at[b] + new
            for j in range(touched):
                other = entry[base[j] + shift[shifted + j * choices]]
                if other != held[j]:
                    put(held[j], other, tally)  # pyright: ignore[reportArgumentType]
