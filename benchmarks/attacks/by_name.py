"""Random PDGs by every solver of exact semantics that takes them: no bracket may exclude that of the dense joint."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attacks.brackets import MOST, judged, reference
from attacks.drawn import draw, skeleton
from dissonance.errors import CapabilityError
from dissonance.inconsistency import inconsistency
from dissonance.solvers import Bounds, Solver, solver_named

DRAWS = 4
"""PDGs of one structure."""
NAMES = ("newton", "clique-tree", "joint", "pinned", "sum-product", "given", "pooled")


def attack(seed: int) -> Iterator[str | None]:
    """Structures without end; a line for every bracket that is wrong."""
    solvers: list[Solver] = [*map(solver_named, NAMES), Bounds(seconds=0.0)]
    for k in range(1 << 62):
        rng = np.random.default_rng([seed, k])
        drawn = draw(rng, skeleton(rng, MOST), DRAWS)
        known = reference(drawn)
        for i in range(DRAWS):
            pdg, attention = drawn.pdg(i), drawn.attention(i)
            for solver in solvers:
                try:
                    found = inconsistency(pdg, attention, solver=solver)
                except CapabilityError:
                    continue
                odd = judged(found, *(x[i] for x in known))
                yield odd and f"{solver.name}, draw {i} of structure {k} of seed {seed}: {odd}"
