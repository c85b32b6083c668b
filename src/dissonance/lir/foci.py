"""The foci of P runs as stacked arrays; those of foci that are used again are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from dissonance.focus import Attention, Control, Focus
from dissonance.lir.inner.base import Attentions
from dissonance.lir.local import StackedControl
from dissonance.lir.parameters import Parameters
from dissonance.numerics import DTYPE

REMEMBERED = 8
"""How many foci are remembered: those of players that take turns, say."""


@dataclass(frozen=True, eq=False)
class StackedFocus:
    """(phi, chi) of P runs, and what the rows of their traces say about it."""

    of: tuple[tuple[Attention, Control], ...]
    attention: Attentions
    control: StackedControl
    row_fields: tuple[dict[str, Any], ...]


class Foci:
    """Stacks the foci of P runs; those that are made of the very same objects as before are stacked once."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self._known: dict[tuple[int, ...], StackedFocus] = {}
        self._seen: frozenset[int] = frozenset()

    @cached_property
    def names(self) -> list[str]:
        """The names of the arcs."""
        return [a.name for a in self.parameters.arcs]

    def knows(self, focus: object) -> bool:
        """Whether its very attention and control are among those that are remembered."""
        return isinstance(focus, Focus) and self._seen.issuperset((id(focus.attention), id(focus.control)))

    def stack(self, foci: Sequence[Focus]) -> StackedFocus:
        """The foci of P runs as arrays."""
        key = tuple([id(x) for f in foci for x in (f.attention, f.control)])  # a stack keeps its objects alive
        if key not in self._known:
            self._known[key] = StackedFocus(
                tuple((f.attention, f.control) for f in foci),
                Attentions.of([f.attention for f in foci], self.names),
                StackedControl(self.parameters.control([f.control for f in foci])),
                tuple(_row_fields(f) for f in foci),
            )
            if len(self._known) > REMEMBERED:
                self._known.pop(next(iter(self._known)))
            self._seen = frozenset(x for known in self._known for x in known)
        return self._known[key]


def _row_fields(focus: Focus) -> dict[str, Any]:
    """The weights that are not 0, and the largest chi of each arc."""
    return {
        "beta": {n: b for n, b in focus.attention.beta.items() if b},
        "gamma": focus.attention.gamma,
        "chi": {n: float(torch.as_tensor(c, dtype=DTYPE).max()) for n, c in focus.control.chi.items()},
    }
