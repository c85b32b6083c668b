"""An arc that carries weight, its table as numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt

from dissonance.arc import Arc, Theta
from dissonance.cpds.base import TableCPD
from dissonance.cpds.table import Table, log_tables
from dissonance.distributions.tree import Scope
from dissonance.errors import DissonanceError
from dissonance.focus import Varying

Array = npt.NDArray[np.float64]
Mechanism = tuple[frozenset[str], frozenset[str]]


@dataclass(frozen=True)
class Attended:
    """An arc that matters: its table of log p over (sources..., targets...) as numbers, and its two weights.

    An arc without a table has an empty one: it is linear-Gaussian, or else it can only be drawn from and scored.
    `scope` are the names of the `sources`, then of the `targets`; `hard`: mu must satisfy the cpd.
    """

    arc: Arc
    log_p: Array
    beta: float
    alpha: float
    varying: Varying | None = None
    name: str = field(init=False, repr=False, compare=False)
    scope: Scope = field(init=False, repr=False, compare=False)
    sources: Scope = field(init=False, repr=False, compare=False)
    targets: Scope = field(init=False, repr=False, compare=False)
    hard: bool = field(init=False, repr=False, compare=False)

    def __init__(self, arc: Arc, log_p: Array, beta: float, alpha: float, varying: Varying | None = None) -> None:
        """What dataclasses do, without the detour that freezing takes: a large PDG has many of these."""
        known = self.__dict__
        known["arc"], known["log_p"], known["beta"], known["alpha"], known["varying"] = arc, log_p, beta, alpha, varying
        known["name"], known["scope"], known["hard"] = arc.name, arc.names, beta == math.inf
        known["sources"], known["targets"] = arc.source_names, arc.target_names

    @cached_property
    def deterministic(self) -> bool:
        """Whether the targets are a function of the sources."""
        if self.log_p.size == 0:
            return self.arc.cpd.deterministic
        return bool(((self.log_p == 0) | np.isneginf(self.log_p)).all())

    @property
    def mechanism(self) -> Mechanism:
        """(S, T) as sets: arcs that agree on it share one entropy term, and their weights add up."""
        return self.arc.mechanism


def is_fixed(arc: Arc, theta: Theta | None) -> bool:
    """Whether its cpd is a plain `Table` without derivatives, which theta does not replace."""
    held = arc.cpd.__dict__  # past the look-up of nn.Module: a large PDG has a million of these
    if type(arc.cpd) is not Table or held["_buffers"]["p"].requires_grad:
        return False
    return theta is None or f"{arc.name}.p" not in theta


def tabulated(arcs: Sequence[Arc], theta: Theta | None) -> list[Array]:
    """log p of each as numbers; nothing if an arc has no table but is linear-Gaussian or can be scored."""
    fixed = {k: cast(Table, a.cpd) for k, a in enumerate(arcs) if is_fixed(a, theta)}
    tables, sound = log_tables(fixed.values())
    together = dict(zip(fixed, tables, strict=True))
    found = [together[k] if k in together else _tabulate(a, theta) for k, a in enumerate(arcs)]
    for k, log_p in enumerate(found):
        if not (sound and k in together) and not log_p.max(initial=-math.inf) < math.inf:  # NaN is no probability 0
            arcs[k].check_numbers(theta)  # names the parameter, if it is one that is no number
            raise DissonanceError(f"{arcs[k]}: its table holds NaN or inf.")
    return found


def _tabulate(arc: Arc, theta: Theta | None) -> Array:
    if not isinstance(arc.cpd, TableCPD) and (arc.is_linear_gaussian or arc.is_drawn):
        arc.check_numbers(theta)
        return np.zeros(0)
    return arc.log_table(theta).numpy(force=True)
