"""Crossings of lines that are found by squares of the plane are all there are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dissonance.drawing.segments import STEP, Segments


def walk(seed: int, length: int) -> np.ndarray:
    """A random line in steps that are no longer than a piece may be."""
    random = np.random.default_rng(seed)
    steps = random.uniform(0.1, STEP, length) * np.exp(2j * np.pi * random.random(length))
    return np.concatenate([[random.uniform(-8, 8) + 1j * random.uniform(-8, 8)], steps]).cumsum()


def crosses(p: complex, q: complex, r: complex, s: complex) -> bool:
    """Whether two pieces cross, by solving p + t (q - p) = r + u (s - r) for t and u."""
    matrix = np.array([[(q - p).real, (r - s).real], [(q - p).imag, (r - s).imag]])
    t, u = np.linalg.solve(matrix, [(r - p).real, (r - p).imag])
    return 0 < t < 1 and 0 < u < 1


@pytest.mark.parametrize("seed", range(5))
def test_crossings_are_those_of_all_pairs(seed: int):
    taken, others = [walk(3 * seed, 60), walk(3 * seed + 1, 40)], walk(3 * seed + 2, 50)
    expected = sum(
        crosses(*a, *b) for line in taken for a in itertools.pairwise(line) for b in itertools.pairwise(others)
    )
    found = Segments.along(taken[:1]).joined(Segments.along(taken[1:]))
    assert expected > 0
    assert found.crossings(Segments.along([others])) == expected


def test_lines_in_a_rectangle_are_counted_once():
    lines = [np.array([0j, 5 + 0j, 10 + 0j]), np.array([100 + 0j, 104 + 0j])]
    assert Segments.along(lines).within((-1, -1, 11, 1)) == 1
    assert Segments.along(lines).within((-1, -1, 111, 1)) == 2
    assert Segments().within((-1, -1, 11, 1)) == 0
    assert Segments().crossings(Segments.along(lines)) == 0
