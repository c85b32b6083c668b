"""A solve keeps to the memory it announces."""

from __future__ import annotations

import sys

import pytest

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
