"""The entropy of a set of variables that hard arcs make: what it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dissonance.attended import Attended
from dissonance.problem import EVEN
from dissonance.variables import Variable

Names = frozenset[str]


class Makes(Protocol):
    """Variables and the arcs about them."""

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables of the part."""
        ...

    @property
    def arcs(self) -> Any:
        """All arcs of the part, soft and hard."""
        ...


@dataclass(frozen=True)
class Entropy:
    """H of a set of variables: of finite ones by a table, of others by E[-log q] of the hard arcs that make them.

    `why` it is needed; `refused` if it is not known; `left_out` if it has that of points.
    """

    finite: tuple[str, ...] = ()
    makers: tuple[str, ...] = ()
    why: str = ""
    refused: bool = False
    left_out: bool = False


def _points(made: Makes, makers: Sequence[Attended]) -> Names:
    """The variables that only points make, from nothing or from finite variables: their entropy is left out."""
    found = {v.name for v in made.variables if v.is_finite}
    only: set[str] = set()
    for a in makers:
        if a.arc.cpd.points and found.issuperset(a.sources):
            found |= set(a.targets)
            only |= set(a.targets)
    return frozenset(only)


def entropy_of(made: Makes, makers: Sequence[Attended], names: Names) -> Entropy:
    """H(A), by a table if A is finite, else by the hard arcs that make it."""
    inside = tuple(v for v in made.variables if v.name in names)
    if all(v.is_finite for v in inside):
        return Entropy(finite=tuple(v.name for v in inside))
    points = _points(made, makers)
    rest = names - points
    known = names  # a point tells which setting of finite variables made it
    for a in makers:
        if a.arc.cpd.points and not names.isdisjoint(a.targets) and all(v.is_finite for v in a.arc.sources):
            known = known.union(a.sources)
    parts = [a for a in makers if rest.issuperset(a.targets)]
    reached = frozenset(t for a in parts for t in a.targets)
    odd = next((a for a in made.arcs if not a.hard and names in (frozenset(a.scope), frozenset(a.sources))), None)
    what = f"the entropy of ({', '.join(sorted(names))}) is needed{f' for {odd.arc}' if odd else ''}"
    if reached == rest and all(known.issuperset(a.sources) for a in parts):
        return Entropy(makers=tuple(a.name for a in parts), why=what, left_out=bool(names & points))
    why = (
        f"{what}, and no hard arcs make these variables by themselves: they have no density. Have gamma alpha = beta "
        "for that arc, or make it an arc to all the variables that depend on each other."
    )
    return Entropy(why=why, refused=True)


def entropies(
    made: Makes, makers: Sequence[Attended], given: Mapping[Names, float]
) -> tuple[dict[Names, float], dict[Names, Entropy]]:
    """What is counted, with its weight, and how each of it is found.

    H(S,T) that is not known by itself is H(S) + H(T|S) if a hard arc S -> T makes T: E[-log q] of that arc, which goes
    under the name "T | S".
    """
    weights = dict(given)
    every = {names: entropy_of(made, makers, names) for names in weights}
    for a in reversed(makers):
        names = frozenset(a.scope)
        if names in weights and every[names].refused and not a.arc.cpd.points:
            weight, sources = weights.pop(names), frozenset(a.sources)
            key = frozenset([f"{', '.join(a.targets)} | {', '.join(a.sources)}"])
            weights[key], every[key] = weight, Entropy(makers=(a.name,), why=every.pop(names).why)
            rest = weights.pop(sources, 0.0) + weight
            if abs(rest) > EVEN * abs(weight):
                weights[sources] = rest
                every[sources] = entropy_of(made, makers, sources)
    return weights, {names: every[names] for names in weights}
