"""What a name of arcs stands for: an arc, the arcs of an origin, or those that fit a pattern with * and ?.

The more exact name goes first: an arc before an origin of the same name, and both before a pattern; of two patterns the
one with more letters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from dissonance.errors import DissonanceError, suggest
from dissonance.pdg import PDG

X = TypeVar("X")


@dataclass(frozen=True)
class ArcNames:
    """The names that stand for arcs of a PDG.

    `origins`: the arcs of each file; `facts`: the arcs that patterns of weights pass over.
    """

    pdg: PDG
    origins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    facts: Collection[str] = ()

    def arcs(self, name: str) -> tuple[str, ...]:
        """Return the arcs that a name stands for; an error if there are none."""
        if name in self.pdg:
            return (name,)
        if name in self.origins:
            return tuple(self.origins[name])
        if found := self._fitting(name):
            return found
        known = dict.fromkeys([*self.origins, *self.pdg.arc_names])
        raise DissonanceError(f"no arc or source named {name!r}.{suggest(name, known)}")

    def soft(self, name: str) -> tuple[str, ...]:
        """Return the arcs that a name stands for, without the facts if the name is a pattern."""
        found = self.arcs(name)
        if not self._is_pattern(name):
            return found
        if not (soft := tuple(n for n in found if n not in self.facts)):
            raise DissonanceError(
                f"the pattern {name!r} fits facts only (beta = inf), and patterns pass over these: name {found[0]!r}."
            )
        return soft

    def weights(self, given: Mapping[str, X]) -> dict[str, X]:
        """Return the weight of every arc that is named; of several names of one arc the most exact decides."""
        ordered = sorted(given, key=self._exactness)
        return {arc: given[name] for name in ordered for arc in self.soft(name)}

    def all(self, names: Iterable[str]) -> set[str]:
        """Return the arcs that any of these names stands for."""
        return {arc for name in names for arc in self.arcs(name)}

    def _is_pattern(self, name: str) -> bool:
        return name not in self.pdg and name not in self.origins

    def _exactness(self, name: str) -> tuple[int, int]:
        kind = 2 if name in self.pdg else 1 if name in self.origins else 0
        return kind, len(name) - name.count("*") - name.count("?")

    def _fitting(self, pattern: str) -> tuple[str, ...]:
        """Return the arcs whose names, or whose origin's name, fit a pattern."""
        if "*" not in pattern and "?" not in pattern:
            return ()
        parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
        fits = re.compile("".join(parts), re.DOTALL).fullmatch
        found = {n for origin, arcs in self.origins.items() if fits(origin) for n in arcs}
        return tuple(n for n in self.pdg.arc_names if n in found or fits(n))
