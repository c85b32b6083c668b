"""mu* over all variables of a PDG, put together of the answers about its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dissonance.answer import Answer
from dissonance.distributions import CliqueTree, Distribution, Product
from dissonance.distributions.extended import Extended
from dissonance.distributions.gaussian import combined
from dissonance.problem import BUDGET
from dissonance.solvers import select
from dissonance.variables import Euclidean, Variable


def selected(variables: Sequence[Variable], answers: Sequence[Answer]) -> tuple[Distribution, float]:
    """Return mu*, at gamma = 0 the gamma -> 0+ selection among the minimisers, and how far off its tables may be.

    It is a product of what is known over the finite variables, over the Euclidean ones, and of samples.
    """
    drawn: list[Distribution] = [s.mu for s in answers if s.kind == "samples"]
    known = {v.name for x in drawn for v in x.variables}
    euclidean = [v for v in variables if isinstance(v.domain, Euclidean) and v.name not in known]
    finite = [v for v in variables if v.is_finite and v.name not in known]
    tables, error = _finite(finite, [s for s in answers if s.kind == "tables"])
    parts: list[Distribution] = [tables] if finite or not (euclidean or drawn) else []
    parts += drawn
    if euclidean:
        gaussian: list[Any] = [s.mu for s in answers if s.kind == "gaussian"]
        parts.append(combined(euclidean, gaussian))
    return parts[0] if len(parts) == 1 else Product(tuple(variables), parts), error


def _finite(variables: Sequence[Variable], solved: Sequence[Answer]) -> tuple[CliqueTree, float]:
    """Return mu* over the finite variables, on one forest or extended along loose ends, and how far off it may be."""
    chosen = [_chosen(p) for s in solved for p in s.solved]
    parts, error = [mu for mu, _ in chosen], max((off for _, off in chosen), default=0.0)
    ends = [end for s in solved for end in s.ends]
    if ends:
        return Extended(variables, parts, ends, max((s.budget for s in solved), default=BUDGET)), error
    return CliqueTree.combined(variables, parts), error


def _chosen(s: Answer) -> tuple[CliqueTree, float]:
    """Return mu* of what was solved, at gamma = 0 the gamma -> 0+ selection, and how far off it may be."""
    assert s.on is not None
    tables, error = s.on.tables, 0.0
    if not (s.unique or s.part.gamma[0] > 0 or s.part.kinds) and s.part.convex.all():
        known = s.converged and not s.within  # of one that stopped early, or that breaks hard arcs, nothing is
        tables, error = select(s) if known else (tables, 1.0)
    return CliqueTree(s.part.variables, s.on.tree, [t.detach() for t in tables]), error
