"""Block Gibbs sampling, compiled: every block of every state drawn once, given the others."""

from __future__ import annotations

import numpy as np

from dissonance.compiled import compiled
from dissonance.solvers.bounds.states import States
from dissonance.solvers.bounds.terms import Floats, Ints

FORBIDDEN = -50.0
"""The logarithm that an impossible cell has while states are drawn."""

LEAST_BELIEF = 1e-9
"""The least belief in a cell that is possible."""

KNOWN = 256
"""States of the variables around a block up to which its chances are kept in a sweep."""


@compiled
def sweep(
    states: States,
    block_at: Ints,
    block: Ints,
    choice_at: Ints,
    choice: Ints,
    choice_count: Ints,
    touch_at: Ints,
    touch: Ints,
    shift_at: Ints,
    shifts: Ints,
    surroundings: Ints,
    around_at: Ints,
    around: Ints,
    around_stride: Ints,
    scope_at: Ints,
    scope: Ints,
    stride: Ints,
    table_at: Ints,
    logs: Floats,
    seed: int,
) -> None:
    """Draw every block once in every state, given the others: what its choices cost in the regions that it touches, of
    which the cells lie `shifts` apart. Where the variables around it have few states, each is looked at once, before
    anything is drawn."""
    most = np.max(choice_count)
    shares, known = np.empty((KNOWN, most)), np.zeros(KNOWN, dtype=np.bool_)
    number = states.shape[1]
    seen = np.zeros(number, dtype=np.int64)
    for b in range(len(block_at) - 1):
        first, width, choices, c = block_at[b], block_at[b + 1] - block_at[b], choice_count[b], choice_at[b]
        chance = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b + 1) * np.uint64(0xBF58476D1CE4E5B9)
        few = surroundings[b] > 0
        seen[:] = 0
        if few:
            known[: surroundings[b]] = False
            for i in range(around_at[b], around_at[b + 1]):
                beside, step = states[around[i]], around_stride[i]
                for n in range(number):
                    seen[n] += step * np.int64(beside[n])
        for n in range(number):
            at = seen[n]
            weight = shares[at]
            if not (few and known[at]):
                known[at] = True
                for i in range(width):
                    states[block[first + i], n] = 0
                for k in range(choices):
                    weight[k] = 0.0
                shift = shift_at[b]
                for j in range(touch_at[b], touch_at[b + 1]):
                    r = touch[j]
                    cell = table_at[r]
                    for i in range(scope_at[r], scope_at[r + 1]):
                        cell += stride[i] * np.int64(states[scope[i], n])
                    for k in range(choices):
                        weight[k] += logs[cell + shifts[shift + k]]
                    shift += choices
                top = np.max(weight[:choices])
                whole = 0.0
                for k in range(choices):
                    whole += np.exp(weight[k] - top)
                    weight[k] = whole
                for k in range(choices):
                    weight[k] /= whole
            if few:
                continue
            chance ^= chance << np.uint64(13)
            chance ^= chance >> np.uint64(7)
            chance ^= chance << np.uint64(17)
            drawn = np.float64(chance >> np.uint64(11)) / 9007199254740992.0
            k = 0
            while k < choices - 1 and drawn >= weight[k]:
                k += 1
            for i in range(width):
                states[block[first + i], n] = choice[c + k * width + i]
        for n in range(number if few else 0):
            chance ^= chance << np.uint64(13)
            chance ^= chance >> np.uint64(7)
            chance ^= chance << np.uint64(17)
            drawn = np.float64(chance >> np.uint64(11)) / 9007199254740992.0
            k = 0
            for j in range(choices - 1):
                k += drawn >= shares[seen[n], j]
            for i in range(width):
                states[block[first + i], n] = choice[c + k * width + i]
