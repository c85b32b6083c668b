"""Many short straight pieces of lines, found by where they are: which of them cross, which lie in a rectangle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dissonance.drawing.curves import Corners

STEP = 8.0
"""The length of the longest piece."""
ROW = 1 << 24
"""Squares of the plane are numbered column by column, so many in each."""


def _no_points() -> NDArray[np.complex128]:
    return np.zeros(0, dtype=np.complex128)


@dataclass(frozen=True)
class Segments:
    """Pieces from `start` to `end`, none longer than `STEP`, in the order of the squares that their middles lie in.

    Two that cross have middles at most a step apart, and so in the same or in neighbouring squares.
    """

    start: NDArray[np.complex128] = field(default_factory=_no_points)
    end: NDArray[np.complex128] = field(default_factory=_no_points)
    line: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The number of the line that each is of."""
    square: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def along(cls, lines: Sequence[NDArray[np.complex128]]) -> Segments:
        """The pieces of lines, given by points that are not more than a step apart."""
        start = np.concatenate([_no_points(), *(x[:-1] for x in lines)])
        end = np.concatenate([_no_points(), *(x[1:] for x in lines)])
        line = np.repeat(np.arange(len(lines)), [len(x) - 1 for x in lines])
        middle = (start + end) / (2 * STEP)
        square = np.floor(middle.real).astype(np.int64) * ROW + np.floor(middle.imag).astype(np.int64)
        return cls(start, end, line, square)._sorted()

    def joined(self, other: Segments) -> Segments:
        """These and others, whose lines are numbered after these."""
        after = int(self.line.max(initial=-1)) + 1
        return Segments(
            np.concatenate([self.start, other.start]),
            np.concatenate([self.end, other.end]),
            np.concatenate([self.line, other.line + after]),
            np.concatenate([self.square, other.square]),
        )._sorted()

    def crossings(self, other: Segments) -> int:
        """How many pairs, one of these and one of others, cross: the ends of each are on either side of the other."""
        around = np.concatenate([other.square - ROW, other.square, other.square + ROW])
        first = np.searchsorted(self.square, around - 1, "left")
        last = np.searchsorted(self.square, around + 1, "right")
        count = last - first
        mine = np.arange(count.sum()) + np.repeat(first - (count.cumsum() - count), count)
        theirs = np.repeat(np.tile(np.arange(len(other.start)), 3), count)
        p, q, r, s = self.start[mine], self.end[mine], other.start[theirs], other.end[theirs]
        return int(((_left(p, q, r) != _left(p, q, s)) & (_left(r, s, p) != _left(r, s, q))).sum())

    def within(self, frame: Corners) -> int:
        """How many lines have a point in a rectangle."""
        left, top, right, bottom = frame
        inside = np.zeros(len(self.start), dtype=np.bool_)
        for end in (self.start, self.end):
            inside |= (end.real > left) & (end.real < right) & (end.imag > top) & (end.imag < bottom)
        return len(np.unique(self.line[inside]))

    def _sorted(self) -> Segments:
        order = np.argsort(self.square, kind="stable")
        return Segments(self.start[order], self.end[order], self.line[order], self.square[order])


def _left(u: NDArray[np.complex128], v: NDArray[np.complex128], w: NDArray[np.complex128]) -> NDArray[np.bool_]:
    """Whether w lies left of the line from u to v."""
    return ((v - u).conjugate() * (w - u)).imag > 0
