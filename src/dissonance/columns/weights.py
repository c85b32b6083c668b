"""A weight for every arc of a PDG in columns: a mapping from names whose numbers are one array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dissonance.columns.numbered import Numbered
from dissonance.pdg import PDG


class ColumnWeights(Mapping[str, float]):
    """Weights of arcs by name, `numbers` (arcs,) in the order of the arcs; NaN: the arc is left out."""

    def __init__(self, names: Numbered[Any], numbers: npt.NDArray[np.float64]) -> None:
        self.names, self.numbers = names, numbers

    def __getitem__(self, name: str) -> float:
        value = float(self.numbers[self.names.index(name)])
        if value != value:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return (n for n, out in zip(self.names, np.isnan(self.numbers).tolist(), strict=True) if not out)

    @cached_property
    def _count(self) -> int:
        return int(np.count_nonzero(~np.isnan(self.numbers)))

    def __len__(self) -> int:
        return self._count

    def __or__(self, changes: Mapping[str, float]) -> ColumnWeights:
        """The same weights with some changed."""
        values = self.numbers.copy()
        for name, value in changes.items():
            values[self.names.index(name)] = value
        return ColumnWeights(self.names, values)

    def filled(self, weight: float) -> ColumnWeights:
        """The same weight for every arc that has one."""
        return ColumnWeights(self.names, np.where(np.isnan(self.numbers), np.nan, weight))

    def belong_to(self, pdg: PDG) -> bool:
        """Whether they are weights of the arcs of this PDG."""
        return self.names is pdg.__dict__["_arc"]

    @property
    def largest(self) -> float:
        """The largest of the finite ones, in absolute value."""
        finite = self.numbers[np.isfinite(self.numbers)]
        return float(np.abs(finite).max(initial=0.0))

    @property
    def finite(self) -> bool:
        """Whether all of them are finite numbers."""
        return not np.isinf(self.numbers).any()

    @property
    def fingerprinted(self) -> object:
        """What says all of it: the arcs are those of the PDG."""
        return self.numbers
