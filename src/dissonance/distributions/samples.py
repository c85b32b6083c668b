"""mu as weighted samples: of what hard arcs with densities determine."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dissonance.distributions.base import Distribution
from dissonance.errors import CapabilityError
from dissonance.numerics import DTYPE
from dissonance.variables import Variable, shape


class Samples(Distribution):
    """M joint values with weights (M,) that add up to 1: `values[name]` is (M,) indices or (M, dim) numbers."""

    def __init__(self, variables: tuple[Variable, ...], values: Mapping[str, Tensor], weights: Tensor) -> None:
        self.variables, self.values, self.weights = variables, dict(values), weights

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        return f"Samples({len(self)} of {', '.join(v.name for v in self.variables)})"

    def mean(self, name: str) -> Tensor:
        """The mean of a Euclidean variable."""
        return (self.weights[:, None] * self.values[self.variable(name).name]).sum(0)

    def _marginal(self, names: tuple[str, ...]) -> Tensor:
        sizes = shape(self.variable(n) for n in names)  # a finite variable has a size; another says it is not finite
        flat = torch.zeros(len(self.weights), dtype=torch.long, device=self.weights.device)
        for n, size in zip(names, sizes, strict=True):
            flat = flat * size + self.values[n]
        total = torch.zeros(int(torch.tensor(sizes).prod()), dtype=DTYPE, device=self.weights.device)
        return total.index_add(0, flat, self.weights.to(DTYPE)).reshape(sizes)

    def _entropy(self) -> Tensor:
        raise CapabilityError("samples have no entropy: ask for that of finite variables by name.")

    def _sample(self, count: int, generator: torch.Generator | None) -> dict[str, Tensor]:
        chosen = torch.multinomial(self.weights, count, replacement=True, generator=generator)
        return {n: v[chosen] for n, v in self.values.items()}
