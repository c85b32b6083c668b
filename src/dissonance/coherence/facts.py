"""Facts that leave no possible world: which of them is the first to contradict those before it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from dissonance.attended import Attended, tabulated
from dissonance.bounds.regions import regions_of
from dissonance.bounds.terms import terms_of
from dissonance.coherence.beliefs import Belief
from dissonance.coherence.graph import Graph
from dissonance.problem import BUDGET, Batch
from dissonance.solvers.exact import BYTES_PER_CELL, Newton
from dissonance.variables import Variable


def contradictory(facts: Sequence[Belief], variables: Iterable[Variable], budget: int = BUDGET) -> int | None:
    """The place of the first fact with which no world is left; None if all can hold.

    Where no junction tree of the facts fits the budget it is None, too, if looking at few variables at once does not
    show that they contradict each other.
    """
    variables = tuple(variables)

    def fails(count: int) -> bool:
        return _impossible(Graph(facts[:count], variables), budget)

    if not facts or not fails(len(facts)):
        return None
    return bisect_left(range(1, len(facts)), True, key=fails)


def _impossible(graph: Graph, budget: int) -> bool:
    """Whether no world is left."""
    blank, solver = Batch.over(graph.variables, (), facts=graph.facts), Newton(budget=budget)
    if BYTES_PER_CELL * solver.tree(blank).cells <= budget:
        return solver.structure(blank) is None
    return regions_of(terms_of(component(graph, hard_facts(graph)))).empty


def hard_facts(graph: Graph) -> list[Attended]:
    """The arcs that define, and those of facts."""
    tables = tabulated(graph.facts, None)
    return [Attended(a, p, float("inf"), 0.0) for a, p in zip(graph.facts, tables, strict=True)]


def component(graph: Graph, arcs: Sequence[Attended]) -> Batch:
    """Arcs of a book as a problem, in one piece or not."""
    seen = {name for a in arcs for name in a.scope}
    return Batch.of(tuple(v for v in graph.variables if v.name in seen), arcs, 0.0)
