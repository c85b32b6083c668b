"""Random PDGs, hundreds over the same arcs at a time, solved in rows as runs of LIR are: see `solvers/front.py`.

No bracket may exclude that of `dense.py`; at gamma = 0 mu(s,t) of the arcs must score what `upper` says. One problem
of a draw is also solved by itself, and so is every one whose bounds do not meet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from attacks.brackets import judged, mu_scores, reference
from attacks.dense import Array
from attacks.drawn import Drawn, draw, skeleton
from dissonance.answer import Answer
from dissonance.inconsistency import inconsistency
from dissonance.problem import Batch
from dissonance.solvers import Newton
from dissonance.solvers.front import solve_rows

DRAWS, KINDS = 128, 3
"""Problems with the same zeros and hard arcs, and how many such draws are solved together."""
MOST = 18
"""Joint states."""


def attack(seed: int) -> Iterator[str | None]:
    """Structures without end; a line for every bracket that is wrong."""
    for k in range(1 << 62):
        rng = np.random.default_rng([seed, k, 1])
        of = skeleton(rng, MOST)
        drawn = [draw(rng, of, DRAWS) for _ in range(KINDS)]
        for some in drawn:
            together = [d for d in drawn if d.of == some.of]
            if some is together[0]:
                for d, answers in zip(together, solved(together), strict=True):
                    yield from _judged(d, answers, f"structure {k} of seed {seed}")


def solved(together: list[Drawn]) -> Iterator[Answer]:
    """The answers to problems over the same arcs."""
    first = together[0].pdg(0)
    beta, alpha, gamma = (np.concatenate([getattr(d, name) for d in together]) for name in ("beta", "alpha", "gamma"))
    log_p = np.concatenate([np.concatenate(d.log_p, 1) for d in together])
    batch = Batch.over(first.variables, first.arcs, len(log_p)).with_numbers(log_p, beta, alpha, gamma)
    found, at = solve_rows(batch, Newton(device="cpu")), 0
    for d in together:
        yield found.take(np.arange(at, at := at + len(d)))


def _judged(d: Drawn, answers: Answer, where: str) -> Iterator[str | None]:
    low, high, slop = reference(d)
    lower, upper, left = answers.bounds.lower, answers.bounds.upper, ~answers.bounds.met
    scored = _scored(d, answers.joint)
    for i in range(len(d)):
        found = f"[{lower[i]!r}, {upper[i]!r}]"
        line = None
        if not lower[i] <= upper[i] or lower[i] > high[i] + slop[i] or upper[i] < low[i] - slop[i]:
            line = f"{found} in rows, and the dense joint has [{low[i]!r}, {high[i]!r}]"
        elif math.isfinite(upper[i]) and abs(scored[i] - upper[i]) > 1e-9 + 1e3 * slop[i]:
            line = f"{found} in rows, and its mu(s,t) score {scored[i]!r}"
        elif left[i] or i == 0:
            line = _alone(d, i, (low[i], high[i], slop[i]), None if left[i] else float(upper[i]))
        yield line and f"draw {i} of {where}: {line}"


def _scored(d: Drawn, joint: Array) -> Array:
    """What mu(s,t) of the arcs, one after another, cost at gamma = 0, (K,); NaN at gamma > 0: mu itself matters."""
    total, at = np.where(d.gamma > 0, math.nan, 0.0), 0
    for j, (s, t) in enumerate(d.of.scopes):
        rows, width = (math.prod(d.of.sizes(places)) for places in (s, t))
        m = joint[:, at : (at := at + rows * width)].reshape(len(d), rows, width)
        if d.is_hard(j):
            continue
        row = m.sum(2, keepdims=True)
        with np.errstate(all="ignore"):
            cost = np.where(m > 0, m * (np.log(m / row) - d.log_p[j].reshape(m.shape)), 0.0)
        total = total + np.where(d.beta[:, j] > 0, d.beta[:, j] * cost.sum((1, 2)), 0.0)
    return total


def _alone(d: Drawn, i: int, known: tuple[float, float, float], upper: float | None) -> str | None:
    """What is wrong with problem i solved by itself: beside the reference, its own mu, and `upper` found in rows."""
    result = inconsistency(d.pdg(i), d.attention(i))
    if odd := judged(result, *known) or mu_scores(result, d, i):
        return f"alone: {odd}"
    if upper is None or not result.converged or result.within or upper == result.upper:
        return None
    apart = abs(upper - result.upper) - known[2]
    return None if apart <= 2e-7 * max(1.0, abs(upper)) else f"{upper!r} in rows, {result.upper!r} alone"
