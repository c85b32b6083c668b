"""Random PDGs: no bracket may exclude that of the dense joint (`dense.py`), or what Clarabel says.

What is claimed as attained is held against mu itself, scored by the same plain formulas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib import import_module

import numpy as np

from attacks.dense import Array
from attacks.drawn import Drawn, draw, skeleton
from dissonance.answer import DEFAULT_TOL
from dissonance.inconsistency import Inconsistency, inconsistencies

DRAWS = 40
"""PDGs of one structure, solved together."""
MOST = 81
"""Joint states."""
SLOP = 1e-12
"""What rounding may do to plain sums of a few hundred terms, relative to the weights."""


def attack(seed: int) -> Iterator[str | None]:
    """Structures without end; a line for every bracket that is wrong."""
    for k in range(1 << 62):
        rng = np.random.default_rng([seed, k])
        drawn = draw(rng, skeleton(rng, MOST), DRAWS)
        results = inconsistencies([drawn.pdg(i) for i in range(DRAWS)], [drawn.attention(i) for i in range(DRAWS)])
        known = reference(drawn)
        for i, result in enumerate(results):
            odd = judged(result, *(x[i] for x in known))
            if odd is None and i == 0:
                odd = mu_scores(result, drawn, 0) or (_by_clarabel(result) if k % 25 == 0 else None)
            yield odd and f"draw {i} of structure {k} of seed {seed}: {odd}"


def reference(drawn: Drawn) -> tuple[Array, Array, Array]:
    """Bounds from the dense joint, and what rounding may do to them, (K,) each; inf where no joint is possible."""
    if drawn.hidden is None:
        high, dense = np.full(len(drawn), math.inf), drawn.dense()
        return high, high, SLOP * (1.0 + dense.weight)
    dense = drawn.dense()
    low, high = dense.bounds(drawn.hidden)
    return low, high, SLOP * (1.0 + dense.weight)


def judged(result: Inconsistency, low: float, high: float, slop: float) -> str | None:
    """What is wrong with a bracket. That of hard arcs that hold within 1e-8 only is of an infimum over more mu."""
    found = f"[{result.lower!r}, {result.upper!r}]"
    if not result.lower <= result.upper:
        return f"{found} is no bracket"
    scale = 1.0 + sum(1.0 + abs(s.upper) for s in result.answers)
    if result.converged and math.isfinite(scale) and result.upper - result.lower > DEFAULT_TOL * scale:
        return f"{found} is called converged"
    if result.lower > high + slop:
        return f"{found}, and a joint has {high!r}"
    if not result.within and result.upper < low - slop:
        return f"{found}, and no joint has less than {low!r}"
    return None


def mu_scores(result: Inconsistency, drawn: Drawn, i: int) -> str | None:
    """What mu of problem i scores, if that is not `upper` (at gamma = 0 it is chosen near the one that attains it)."""
    if not math.isfinite(result.upper) or result.within:
        return None
    mu = result.mu.marginal(*(v.name for v in drawn.of.variables)).detach().numpy().reshape(-1)
    if (outside := float(mu[~drawn.possible].sum())) > 0:
        return f"whose mu has {outside!r} where nothing is possible"
    dense = drawn.dense().take(np.array([i]))
    mu = np.maximum(mu[drawn.possible], 1e-300)[None]
    scored, allowed = float(dense.at(mu).value[0]), 1e-6 * (1.0 + float(dense.weight[0]))
    if abs(scored - result.upper) > allowed:
        return f"[{result.lower!r}, {result.upper!r}], whose mu scores {scored!r}"
    rows = dense.constraints()[0, 1:]
    if len(rows) and (amiss := float(np.abs(rows @ mu[0]).max())) > 1e-8:
        return f"whose mu breaks a hard arc by {amiss!r}"
    return None


def _by_clarabel(result: Inconsistency) -> str | None:
    """What Clarabel finds on the dense program, if that is outside."""
    theirs = import_module("reference.convex").solve(result.pdg, result.attention)  # in tests/
    if theirs.value == result.upper == math.inf or not theirs.accurate:
        return None
    if result.lower - theirs.slop <= theirs.value <= result.upper + theirs.slop:
        return None
    return f"[{result.lower!r}, {result.upper!r}], and Clarabel finds {theirs.value!r} +- {theirs.slop:.1g}"
