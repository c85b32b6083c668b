"""mu* over all variables of a PDG, put together of the solutions of its components."""

from __future__ import annotations

from collections.abc import Sequence

from dissonance.bounds.bracketing import BoundsSolution
from dissonance.distributions import CliqueTree, Distribution, Product
from dissonance.distributions.extended import Extended
from dissonance.distributions.gaussian import combined
from dissonance.gaussians.solver import GaussianSolution
from dissonance.sampling.solver import SampledSolution
from dissonance.solvers import Solution, select
from dissonance.solvers.peeled import PeeledSolution
from dissonance.variables import Euclidean, Variable


def selected(variables: Sequence[Variable], solutions: Sequence[Solution]) -> tuple[Distribution, float]:
    """mu*, at gamma = 0 the gamma -> 0+ selection among the minimisers, and how far off its tables may be.

    A product of what is known over the finite variables, over the Euclidean ones, and of samples, if there are any.
    """
    drawn = [s.mu for s in solutions if _drawn(s)]
    known = {v.name for x in drawn for v in x.variables}
    euclidean = [v for v in variables if isinstance(v.domain, Euclidean) and v.name not in known]
    tables, error = _finite(variables, solutions)
    parts: list[Distribution] = [tables] if tables.variables or not (euclidean or drawn) else []
    parts += drawn
    if euclidean:
        parts.append(combined(euclidean, [s.mu for s in solutions if isinstance(s, GaussianSolution)]))
    return parts[0] if len(parts) == 1 else Product(tuple(variables), parts), error


def _finite(variables: Sequence[Variable], solutions: Sequence[Solution]) -> tuple[CliqueTree, float]:
    """mu* over the finite variables that are not drawn, on one forest or extended along loose ends, and how far off it
    may be."""
    drawn = {v.name for s in solutions if _drawn(s) for v in s.component.variables}
    finite = tuple(v for v in variables if v.is_finite and v.name not in drawn)
    solved = [s for s in solutions if not (_drawn(s) or s.component.is_euclidean)]
    peeled = [s for s in solved if isinstance(s, PeeledSolution)]
    chosen = [_chosen(p) for s in solved for p in s.parts]
    parts, error = [mu for mu, _ in chosen], max((off for _, off in chosen), default=0.0)
    if peeled:
        ends = [end for s in peeled for end in s.conditionals]
        return Extended(finite, parts, ends, max(s.budget for s in peeled)), error
    return CliqueTree.combined(finite, parts), error


def _drawn(s: Solution) -> bool:
    """Whether its mu is samples, or joint states."""
    return s.component.is_drawn or isinstance(s, SampledSolution | BoundsSolution)


def _chosen(s: Solution) -> tuple[CliqueTree, float]:
    """mu* of what was solved, at gamma = 0 the gamma -> 0+ selection, and how far off it may be."""
    assert s.tree is not None
    tables, error = s.tables, 0.0
    if not s.unique and s.component.convex:
        known = s.converged and not s.within  # of one that stopped early, or that breaks hard arcs, nothing is
        tables, error = select(s) if known else (s.tables, 1.0)
    return CliqueTree(s.component.variables, s.tree, [t.detach() for t in tables]), error
