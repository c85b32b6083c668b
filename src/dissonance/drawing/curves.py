"""Curves made of cubic Bezier pieces; points of the plane are complex numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Cubic = tuple[complex, complex, complex, complex]
Curve = tuple[Cubic, ...]
Corners = tuple[float, float, float, float]
"""Left, top, right and bottom of an upright rectangle."""

_T = np.linspace(0.0, 1.0, 25)
_BASIS = np.stack([(1 - _T) ** 3, 3 * _T * (1 - _T) ** 2, 3 * _T**2 * (1 - _T), _T**3], axis=1)  # (samples, 4)


def straight(a: complex, b: complex) -> Cubic:
    """The straight line from a to b."""
    return a, a + (b - a) / 3, b - (b - a) / 3, b


def moved_curve(curve: Curve, by: complex) -> Curve:
    """The same curve elsewhere."""
    return tuple((a + by, b + by, c + by, d + by) for a, b, c, d in curve)


def points(curve: Curve) -> NDArray[np.complex128]:
    """Some points along a curve, in order."""
    return (np.array(curve, dtype=np.complex128) @ _BASIS.T).reshape(-1)


def bounding_box(curve: Curve) -> Corners:
    """The rectangle around a curve."""
    found = points(curve)
    return float(found.real.min()), float(found.imag.min()), float(found.real.max()), float(found.imag.max())


def hits(curve: Curve, rectangles: NDArray[np.float64]) -> list[int]:
    """Which of the rectangles (a row of corners each) a curve enters: their numbers."""
    found = points(curve)[:, None]
    left, top, right, bottom = rectangles.T
    inside = (found.real > left) & (found.real < right) & (found.imag > top) & (found.imag < bottom)
    return np.flatnonzero(inside.any(0)).tolist()


def split_cubic(piece: Cubic, t: float) -> tuple[Cubic, Cubic]:
    """The two parts of a cubic, before and after t (de Casteljau)."""
    a, b, c, d = piece
    ab, bc, cd = a + t * (b - a), b + t * (c - b), c + t * (d - c)
    abc, bcd = ab + t * (bc - ab), bc + t * (cd - bc)
    middle = abc + t * (bcd - abc)
    return (a, ab, abc, middle), (middle, bcd, cd, d)


def cut(curve: Curve, length: float) -> tuple[Curve, complex]:
    """The curve without its last `length`, and the direction in which it would have gone on to its end."""
    tip = curve[-1][3]
    kept = list(curve)
    while len(kept) > 1 and abs(tip - kept[-1][0]) < length:
        kept.pop()
    low, high = 0.0, 1.0
    for _ in range(24):
        t = (low + high) / 2
        low, high = (low, t) if abs(tip - split_cubic(kept[-1], t)[0][3]) < length else (t, high)
    kept[-1] = split_cubic(kept[-1], low)[0]
    return tuple(kept), direction(tip - kept[-1][3])


def direction(step: complex) -> complex:
    """The step with length 1."""
    return step / abs(step) if abs(step) > 1e-9 else 1 + 0j


def offset(curve: Curve, distance: float) -> Curve:
    """A curve beside this one: to its right for positive distances (y points downwards)."""
    moved: list[Cubic] = []
    for a, b, c, d in curve:
        start, end = direction(b - a) * 1j * distance, direction(d - c) * 1j * distance
        moved.append((a + start, b + start, c + end, d + end))
    return tuple(moved)


def through(stations: Sequence[tuple[complex, complex]]) -> Curve:
    """A smooth curve through points with given directions there (of length 1)."""
    pieces: list[Cubic] = []
    for (a, u), (b, v) in itertools.pairwise(stations):
        ahead = ((b - a) * u.conjugate()).real  # how far b lies in the direction of a's departure
        reach = 0.45 * abs(ahead) if ahead > 0 else 0.0
        reach = max(reach, min(0.35 * abs(b - a), 28.0)) if ahead > 0 else min(40.0, max(24.0, 0.35 * abs(b - a)))
        pieces.append((a, a + reach * u, b - reach * v, b))
    return tuple(pieces)


def at_abscissa(curve: Curve, x: float) -> tuple[complex, complex]:
    """The point of a curve nearest to the vertical line at x, and the direction there."""
    found = points(curve)
    i = int(np.abs(found.real - x).argmin())
    before, after = found[max(0, i - 1)], found[min(len(found) - 1, i + 1)]
    return complex(found[i]), direction(complex(after - before))


def dense(curve: Curve, step: float = 3.0) -> NDArray[np.complex128]:
    """Points along a curve at equal distances, not more than `step` apart."""
    found = points(curve)
    length = np.concatenate([[0.0], np.abs(np.diff(found)).cumsum()])
    at = np.linspace(0.0, length[-1], max(2, int(length[-1] / step) + 2))
    return np.interp(at, length, found.real) + 1j * np.interp(at, length, found.imag)


def at_distance(along: NDArray[np.complex128], spot: complex, shift: float) -> tuple[complex, complex] | None:
    """The point `shift` further along than the one nearest to a spot, and the direction there; None beyond the ends."""
    step = float(np.abs(np.diff(along)).mean())
    i = int(np.abs(along - spot).argmin()) + round(shift / max(step, 1e-9))
    if not 0 <= i < len(along):
        return None
    return complex(along[i]), direction(complex(along[min(len(along) - 1, i + 1)] - along[max(0, i - 1)]))
