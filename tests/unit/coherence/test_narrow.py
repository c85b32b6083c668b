"""A problem on few of its cells has the bounds of all of them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dissonance.coherence import narrow
from dissonance.coherence.narrow import Narrowing
from dissonance.forecasts import Belief, Template


def grid(side: int, seed: int = 0) -> list[Belief]:
    rng = np.random.default_rng(seed)
    at = [(i, j) for i in range(side) for j in range(side)]
    pairs = [(a, b) for a in at for b in ((a[0] + 1, a[1]), (a[0], a[1] + 1)) if b in at]
    name = "x{0[0]}{0[1]}".format
    found = [Belief(name(a), rng.uniform(0.1, 0.9)) for a in at]
    found += [Belief(f"{name(a)} and {name(b)}", rng.uniform(0.1, 0.9)) for a, b in pairs]
    return found + [Belief(name(a), rng.uniform(0.1, 0.9), name(b)) for a, b in pairs[::2]]


@pytest.mark.parametrize("seed", [0, 1])
def test_few_cells_prove_what_all_of_them_do(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(narrow, "FIRST", 100)
    monkeypatch.setattr(narrow, "MORE", 60)
    template = Template(grid(4, seed))
    p = [[b.low for b in template.beliefs]]
    every = template.solve(p)
    monkeypatch.setattr(sys.modules[Template.__module__], "LARGE", 0.0)
    few = template.solve(p)
    assert few.upper[0] - few.lower[0] <= 1e-8 * few.upper[0]
    assert few.upper[0] == pytest.approx(every.upper[0], rel=1e-8)
    assert few.coherent == pytest.approx(every.coherent, abs=1e-3)


def test_the_cheapest_world_is_found_and_what_others_cost_more():
    template = Template(grid(3))
    whole = template.solver.structure(template.blank)
    assert whole is not None
    narrowing = Narrowing(template.blank, whole)
    price = np.random.default_rng(0).normal(size=len(whole.layout.own))
    least, excess = narrowing.cheapest(price)
    for cells, _ in narrowing._clusters:
        assert excess[cells].min() == pytest.approx(0, abs=1e-12)  # the cheapest world passes through every cluster
    dearer = price.copy()
    cell = int(np.argmax(excess))
    dearer[cell] -= excess[cell] + 1.0
    assert narrowing.cheapest(dearer)[0] == pytest.approx(least - 1.0)
