"""Gibbs sampling, compiled: every variable of every joint state drawn once, given the others.

Where the variables around one have few states together, its chances are tabulated beforehand, for all states and as
long as beliefs stay as they are. Drawing then is a look into a table, without an exponential.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dissonance.bounds.terms import Floats, Ints
from dissonance.compiled import compiled

Chances = npt.NDArray[np.uint32]

FORBIDDEN = -50.0
"""The logarithm that an impossible cell has while states are drawn."""

LEAST_BELIEF = 1e-9
"""The least belief in a cell that is possible."""

KNOWN = 256
"""States of the variables around one up to which its chances are tabulated."""


class GibbsTables(NamedTuple):
    """What is around each variable: the tables it is in, and how far apart its values lie there; and, where these have
    few states together (`known`, 0 if they have many), the other variables of these tables. A state of them is one
    number, with a stride for each; chances of the variable's values are kept from `chance_at` on."""

    sizes: Ints
    touch_at: Ints
    touch: Ints
    apart: Ints
    known: Ints
    around_at: Ints
    around: Ints
    around_stride: Ints
    chance_at: Ints


@compiled
def weigh(v: int, value: Any, near: Any, where: Any, logs: Floats, weight: Floats) -> None:
    """Chances of the values of v, cumulative, with the other variables at `value`, in which v itself is 0."""
    scope_at, scope, stride, table_at = where
    size = near.sizes[v]
    for k in range(size):
        weight[k] = 0.0
    for j in range(near.touch_at[v], near.touch_at[v + 1]):
        r = near.touch[j]
        cell = table_at[r]
        for i in range(scope_at[r], scope_at[r + 1]):
            cell += stride[i] * np.int64(value[scope[i]])
        for k in range(size):
            weight[k] += logs[cell + k * near.apart[j]]
    top = np.max(weight[:size])
    whole = 0.0
    for k in range(size):
        whole += np.exp(weight[k] - top)
        weight[k] = whole
    for k in range(size):
        weight[k] /= whole


@compiled
def tabulate(near: Any, where: Any, logs: Floats, chances: Chances) -> None:
    """The chances of each variable for all states of the variables around it, in parts of 2^32."""
    value, weight = np.zeros(len(near.sizes), dtype=np.int64), np.empty(np.max(near.sizes))
    for v in range(len(near.sizes)):
        at, first, last = near.chance_at[v], near.around_at[v], near.around_at[v + 1]
        for state in range(near.known[v]):
            for i in range(first, last):
                value[near.around[i]] = state // near.around_stride[i] % near.sizes[near.around[i]]
            weigh(v, value, near, where, logs, weight)
            for k in range(near.sizes[v] - 1):
                chances[at] = np.uint32(min(weight[k] * 4294967296.0, 4294967295.0))
                at += 1
        for i in range(first, last):
            value[near.around[i]] = 0


@compiled
def scrambled(number: Any) -> Any:
    """32 bits that look random, of a number of 32 bits."""
    few = np.uint64(0xFFFFFFFF)
    number ^= number >> np.uint64(16)
    number = (number * np.uint64(0x7FEB352D)) & few
    number ^= number >> np.uint64(15)
    number = (number * np.uint64(0x846CA68B)) & few
    return number ^ (number >> np.uint64(16))


@compiled
def sweep(states: Any, near: Any, where: Any, logs: Floats, chances: Chances, seed: int) -> None:
    """Draw every variable once in every state, (variables, states), given the others."""
    number, few = states.shape[1], np.uint64(0xFFFFFFFF)
    seen, weight = np.empty(number, dtype=np.int32), np.empty(np.max(near.sizes))
    for v in range(len(near.sizes)):
        size, own, at = near.sizes[v], states[v], near.chance_at[v]
        start = scrambled(np.uint64(seed) ^ scrambled(np.uint64(v))) * np.uint64(number)
        if near.known[v] > 0:
            seen[:] = 0
            for i in range(near.around_at[v], near.around_at[v + 1]):
                beside, step = states[near.around[i]], np.int32(near.around_stride[i])
                for n in range(number):
                    seen[n] += step * np.int32(beside[n])
            if size == 2:
                for n in range(number):
                    own[n] = scrambled((start + np.uint64(n)) & few) >= np.uint64(chances[at + seen[n]])
            else:
                for n in range(number):
                    drawn, row, k = scrambled((start + np.uint64(n)) & few), at + seen[n] * (size - 1), 0
                    for j in range(size - 1):
                        k += drawn >= np.uint64(chances[row + j])
                    own[n] = k
        else:
            for n in range(number):
                own[n] = 0
                weigh(v, states[:, n], near, where, logs, weight)
                drawn, k = np.float64(scrambled((start + np.uint64(n)) & few)) / 4294967296.0, 0
                while k < size - 1 and drawn >= weight[k]:
                    k += 1
                own[n] = k
