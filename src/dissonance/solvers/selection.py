"""mu* at gamma = 0: the limit of the minimisers as gamma -> 0+, from a small gamma."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError
from torch import Tensor

from dissonance.distributions import Tree
from dissonance.problem import Component
from dissonance.solvers.assemble import assemble
from dissonance.solvers.base import Solution
from dissonance.solvers.certificate import agree, satisfy
from dissonance.solvers.exact import dense
from dissonance.solvers.newton import cold, limit, newton

GAMMA, LESS, MORE = 1e-7, 1e-8, 1e-6
"""The gamma at which mu* of gamma = 0 is looked for, and those to try where it is too large or lost in rounding; times
the least weight of an arc."""

CLOSE = 1e-4
"""How far off mu* may be without trying another gamma."""

SETTLED = 1e-7
"""How far the last Newton step may move mu_g."""


def select(solution: Solution) -> tuple[list[Tensor], float]:
    """The gamma -> 0+ minimiser at gamma = 0, and how far off it may be (largest total variation over the clusters).

    Among the minimisers of OInc it minimises SDef. The minimiser mu_g of OInc + g SDef is within O(g) of it, and linear
    in g near 0: extrapolate to mu_g - g dmu_g/dg, and report the distance from mu_g, and by how much rounding moves it,
    as the error. Where that is large, g is too large for the least cost of a state without mass, or too small for the
    largest beta.
    """
    component, tree = solution.component, solution.tree
    assert tree is not None
    least = min((a.beta / max(1.0, a.alpha) for a in component.arcs if a.beta > 0 and not a.hard), default=1.0)
    found = near_zero(component, tree, GAMMA * least)
    if found.error > CLOSE:
        other = near_zero(component, tree, (MORE if found.rounding > found.slope else LESS) * least)
        found = min(found, other, key=lambda x: x.error)
    return found.tables, found.error


@dataclass(frozen=True)
class NearZero:
    """mu at gamma -> 0+ as it looks from a small gamma: how far it is from mu there, and how far rounding moves it."""

    tables: list[Tensor]
    slope: float
    rounding: float

    @property
    def error(self) -> float:
        """How far off it may be."""
        return min(1.0, self.slope + 2 * self.rounding)


def near_zero(component: Component, tree: Tree, gamma: float) -> NearZero:
    """mu at gamma -> 0+, extrapolated from mu and its derivative at one gamma."""
    program, twice = (assemble(replace(component, gamma=g), tree) for g in (gamma, 2 * gamma))
    assert program is not None and twice is not None
    now = newton(program, cold(program), 1e-6 * gamma, settle=SETTLED)
    first = satisfy(program, agree(program, now.mu))
    try:
        ahead = limit(program, twice, now)
    except (LinAlgError, RuntimeError):  # singular to working precision
        ahead = np.full_like(first, np.nan)
    if not np.isfinite(ahead).all():
        return NearZero(dense(program, first), 0.0, 1.0)
    mu = satisfy(program, agree(program, ahead))
    away = np.add.reduceat(np.abs(mu - first), program.offsets[:-1])
    return NearZero(dense(program, mu), 0.5 * float(away.max(initial=0.0)), now.moved)
