"""A solve keeps to the memory it announces."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, Variable
from dissonance.problem import prepare
from dissonance.solvers.convex.support import structure_of
from dissonance.solvers.exact import BYTES_PER_CELL, Newton
from fresh import python

MEASURE = """
import numpy as np
from dissonance import PDG, Arc, Attention, Variable, inconsistency
from dissonance.compiled import engage

def resident(what):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(what))

rng = np.random.default_rng(0)
def rows(*shape):
    p = rng.random(shape)
    return p / p.sum(-1, keepdims=True)

height, width, gamma = {height}, {width}, {gamma}
x = [[Variable(f"X{{i}}_{{j}}", 2) for j in range(width)] for i in range(height)]
arcs = [Arc(f"r{{i}}_{{j}}", x[i][j], x[i][j + 1], rows(2, 2)) for i in range(height) for j in range(width - 1)]
arcs += [Arc(f"d{{i}}_{{j}}", x[i][j], x[i + 1][j], rows(2, 2)) for i in range(height - 1) for j in range(width)]
tiny = PDG(Arc("p", (), Variable("X", 2), [0.5, 0.5]), Arc("q", (), Variable("Y", 2), [0.5, 0.5]))
engage()  # Numba and what is compiled are no part of a solve
inconsistency(tiny)
larger = PDG(*arcs[:40])
inconsistency(larger, Attention.uniform(larger, gamma=gamma))
pdg = PDG(*arcs)
before = resident("VmRSS")
result = inconsistency(pdg, Attention.uniform(pdg, gamma=gamma))
print(resident("VmHWM") - before, int(result.stats["memory"]), result.converged)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("height", "width", "gamma"), [(4, 150, 0.0), (6, 12, 0.5)])
def test_the_peak_is_at_most_what_was_announced(height: int, width: int, gamma: float) -> None:
    code = MEASURE.format(height=height, width=width, gamma=gamma)
    done = python("-c", code)
    used, announced, converged = done.stdout.split()
    assert converged == "True"
    assert int(used) <= int(announced) + 100 * 2**20, (
        f"{int(used) / 2**20:.0f} MiB, announced {int(announced) / 2**20:.0f}"
    )


def crowded() -> Iterator[PDG]:
    """Much of what takes memory besides cells: terms of one cluster, children of one, cells of one, and clusters."""
    rng = np.random.default_rng(0)

    def arc(name: str, *scope: Variable) -> Arc:
        p = rng.random([v.size for v in scope])
        return Arc(name, scope[:-1], scope[-1], p / p.sum(-1, keepdims=True))

    x = [Variable(f"X{i}", 2) for i in range(30)]
    inside = [(*sources, x[5]) for size in range(1, 6) for sources in itertools.combinations(x[:5], size)]
    yield PDG(*(arc(f"a{i}", *scope) for i, scope in enumerate(inside)))
    yield PDG(arc("wide", *x[:8]), *(arc(f"a{i}_{j}", x[j], x[i]) for i in range(8, 30) for j in range(6)))
    yield PDG(*(arc(f"a{i}", a, b) for i, (a, b) in enumerate(itertools.pairwise(x))))


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_refused_is_what_takes_more_than_the_budget(gamma: float, hard: bool) -> None:
    for pdg in crowded():
        beta = {next(iter(pdg)).name: math.inf} if hard else {}
        (component,) = prepare(pdg, Attention.uniform(pdg, gamma=gamma).replace(beta=beta)).parts
        needed = max(structure_of(component, component.tree).bytes, BYTES_PER_CELL * component.tree.cells)
        assert not Newton(budget=needed).refuses(component)
        assert Newton(budget=needed - 1).refuses(component)


def test_a_large_problem_with_small_clusters_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_into(*_: object) -> None:
        raise AssertionError

    x = [Variable(f"X{i}", 2) for i in range(2000)]
    pdg = PDG(*(Arc(f"a{i}", a, b, [[0.7, 0.3], [0.2, 0.8]]) for i, (a, b) in enumerate(itertools.pairwise(x))))
    (component,) = prepare(pdg, Attention.uniform(pdg)).parts
    monkeypatch.setattr(Newton, "structure", looked_into)
    assert not Newton().surely(component) and not Newton().refuses(component)
