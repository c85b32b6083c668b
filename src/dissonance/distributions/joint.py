"""The dense joint: one number for every joint setting."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.distributions.base import Distribution
from dissonance.errors import DissonanceError
from dissonance.variables import Variable, shape


class Joint(Distribution):
    """A joint distribution held as one table, axes in the order of `variables`."""

    def __init__(self, variables: Iterable[Variable], table: object) -> None:
        self.variables = tuple(variables)
        self.table = numerics.real(table).clone()
        if tuple(self.table.shape) != shape(self.variables):
            raise DissonanceError(f"the table has shape {tuple(self.table.shape)}, not {shape(self.variables)}.")
        total = float(self.table.detach().sum())
        if not abs(total - 1) <= 1e-6 or bool((self.table < 0).any()):
            raise DissonanceError(f"a joint distribution is non-negative and sums to 1; found the sum {total:.9g}.")

    def _marginal(self, names: tuple[str, ...]) -> Tensor:
        axis = {v.name: i for i, v in enumerate(self.variables)}
        rest = [i for n, i in axis.items() if n not in names]
        table = self.table.sum(rest) if rest else self.table
        kept = [v.name for v in self.variables if v.name in names]
        return table.permute([kept.index(n) for n in names])

    def _entropy(self) -> Tensor:
        return numerics.entropy(self.table)

    def _sample(self, count: int, generator: torch.Generator | None) -> dict[str, Tensor]:
        flat = torch.multinomial(self.table.detach().reshape(-1), count, replacement=True, generator=generator)
        where = torch.unravel_index(flat, self.table.shape)
        return {v.name: i for v, i in zip(self.variables, where, strict=True)}

    def __repr__(self) -> str:
        return self._labelled(f"Joint({', '.join(v.name for v in self.variables)})")
