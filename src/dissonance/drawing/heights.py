"""How high each element of each column stands: near its neighbours, in its order, at a distance from the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ROUNDS = 60
STRAIGHTENING, SOFT = 4, 12.0
"""How often steep links are made lighter, and what counts as steep: so straight lines come about."""


@dataclass(frozen=True)
class Extent:
    """How far an element reaches up and down from its line; `gap`: the distance it keeps."""

    above: float
    below: float
    gap: float


def heights(
    columns: Sequence[Sequence[int]], links: Sequence[tuple[int, int, float]], extents: Mapping[int, Extent]
) -> dict[int, float]:
    """y for each element: minimises sum w (y_u - y_v)^2 over the links, column by column and round by round.

    In one column, given its neighbours, this is a weighted isotonic regression: exact by pooling adjacent violators.
    Then steep links are made lighter a few times (w / (1 + |y_u - y_v| / s)), so that most lines become level.
    """
    apart = [_apart(c, extents) for c in columns]
    y: dict[int, float] = {}
    for column, offsets in zip(columns, apart, strict=True):
        middle = offsets[-1] / 2 if offsets else 0.0
        y.update((e, o - middle) for e, o in zip(column, offsets, strict=True))
    _settle(y, columns, apart, links, ROUNDS)
    for _ in range(STRAIGHTENING):
        lighter = [(u, v, w * SOFT / (SOFT + abs(y[u] - y[v]))) for u, v, w in links]
        _settle(y, columns, apart, lighter, ROUNDS // 3)
    return y


def _settle(
    y: dict[int, float],
    columns: Sequence[Sequence[int]],
    apart: Sequence[Sequence[float]],
    links: Sequence[tuple[int, int, float]],
    rounds: int,
) -> None:
    """Move the columns one after another, until nothing moves."""
    neighbours: dict[int, list[tuple[int, float]]] = {e: [] for c in columns for e in c}
    for u, v, w in links:
        neighbours[u].append((v, w))
        neighbours[v].append((u, w))
    pulled = [
        [(e, o, sum(w for _, w in neighbours[e]), neighbours[e]) for e, o in zip(column, offsets, strict=True)]
        for column, offsets in zip(columns, apart, strict=True)
    ]
    weights = [[total or 1e-3 for _, _, total, _ in column] for column in pulled]
    for number in range(rounds):
        turn = range(len(columns)) if number % 2 == 0 else range(len(columns) - 1, -1, -1)
        moved = 0.0
        for i in turn:
            wished: list[float] = []
            for e, o, total, near in pulled[i]:
                pull = 0.0
                for n, w in near:
                    pull += w * y[n]
                wished.append((pull / total if total else y[e]) - o)
            for (e, o, _, _), level in zip(pulled[i], isotonic(wished, weights[i]), strict=True):
                moved = max(moved, abs(y[e] - level - o))
                y[e] = level + o
        if moved < 0.05:
            return


def _apart(column: Sequence[int], extents: Mapping[int, Extent]) -> list[float]:
    """Where the elements of a column stand if they are as close as they may be."""
    offsets = [0.0] * len(column)
    for i in range(1, len(column)):
        upper, lower = extents[column[i - 1]], extents[column[i]]
        offsets[i] = offsets[i - 1] + upper.below + lower.above + max(upper.gap, lower.gap)
    return offsets


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence nearest to the values in weighted squares."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, total, count = value, weight, 1
        while blocks and blocks[-1][0] > mean:
            m, t, c = blocks.pop()
            mean, total, count = (m * t + mean * total) / (t + total), t + total, c + count
        blocks.append((mean, total, count))
    return [mean for mean, _, count in blocks for _ in range(count)]
