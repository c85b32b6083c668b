"""Which of mu hard arcs determine: those that make variables, sources first, and the scopes that follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from dissonance.attended import Attended
from dissonance.distributions.tree import Scope


def makers(hard: Sequence[Attended]) -> tuple[Attended, ...] | None:
    """Hard arcs with distinct targets, sources first; None if a source is no target of theirs, or they form a cycle."""
    maker: dict[str, Attended] = {}
    for a in hard:
        if any(t in maker for t in a.targets):
            continue  # a second hard belief about a determined variable is a check, not a maker
        maker |= dict.fromkeys(a.targets, a)
    by_name = {a.name: a for a in maker.values()}
    graph: TopologicalSorter[str] = TopologicalSorter()
    for a in by_name.values():
        if any(s not in maker for s in a.sources):
            return None
        graph.add(a.name, *dict.fromkeys(maker[s].name for s in a.sources))
    try:
        return tuple(by_name[n] for n in graph.static_order())
    except CycleError:
        return None


def determined(scopes: Iterable[Scope], makers: Sequence[Attended]) -> bool:
    """Whether hard arcs, listed with sources first, leave only one choice of mu over each of some scopes."""
    return all(_determined(scope, makers) for scope in scopes)


def _determined(scope: Scope, makers: Sequence[Attended]) -> bool:
    """Whether they leave only one over a scope.

    From the last maker back: a function of its sources may be replaced by them; any other target must have nothing of
    the scope beside it but its sources and functions of them, since how it depends on the rest is free.
    """
    left = set(scope)
    for a in reversed(makers):
        if left.isdisjoint(a.targets):
            continue
        left -= set(a.targets)
        if left.issubset(a.sources):
            left = set(a.sources)
        elif a.deterministic:
            left |= set(a.sources)
        elif left <= _functions(a.sources, makers):
            left = set(a.sources)
        else:
            return False
    return True


def _functions(sources: Scope, makers: Sequence[Attended]) -> set[str]:
    """The sources and every variable that is a function of them."""
    known = set(sources)
    for a in makers:
        if a.deterministic and known.issuperset(a.sources):
            known |= set(a.targets)
    return known
