"""Independent parts, one over finite and one over Euclidean variables."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from dissonance.distributions.base import Distribution, Names
from dissonance.errors import CapabilityError
from dissonance.variables import Variable


class Product(Distribution):
    """mu(x) = prod_i mu_i(x_i): parts over disjoint variables, each asked about its own."""

    def __init__(self, variables: Iterable[Variable], parts: Sequence[Distribution]) -> None:
        self.variables = tuple(variables)
        self.parts = tuple(parts)
        self._part = {v.name: p for p in parts for v in p.variables}

    def part(self, names: Iterable[str]) -> Distribution:
        """The part that holds these variables."""
        held = {id(p): p for p in (self._part[self.variable(n).name] for n in names)}
        if len(held) > 1:
            raise CapabilityError(
                "finite and Euclidean variables have no table or Gaussian in common: they are independent, ask apart."
            )
        return next(iter(held.values()), self.parts[0])

    def marginal(self, *names: str) -> Tensor:
        """mu over these variables, as their part has it: a table, or a Gaussian."""
        return self.part(names).marginal(*names)

    def marginals(self, scopes: Sequence[Sequence[str]]) -> list[Tensor]:
        """mu over each of many sets of variables, as their parts have them."""
        homes = [self.part(names) for names in scopes]
        found: dict[int, Tensor] = {}
        for p in self.parts:
            inside = [k for k, home in enumerate(homes) if home is p]
            found |= zip(inside, p.marginals([scopes[k] for k in inside]), strict=True)
        return [found[k] for k in range(len(scopes))]

    def _marginal(self, names: tuple[str, ...]) -> Tensor:
        return self.part(names)._marginal(names)

    def entropy(self, *names: str) -> Tensor:
        """H of these variables, in nats; of all of them if none is named."""
        return self.part(names).entropy(*names) if names else self._entropy()

    def _entropy(self) -> Tensor:
        return torch.stack([p.entropy() for p in self.parts]).sum()

    def conditional(self, targets: Names, given: Names | Mapping[str, Hashable] = ()) -> Tensor:
        """mu(targets | given), as their part has it."""
        wanted, names = ([n] if isinstance(n, str) else list(n) for n in (targets, given))
        return self.part([*wanted, *names]).conditional(wanted, given)

    def sample(self, count: int, generator: torch.Generator | None = None) -> dict[str, list[Hashable]]:
        """Independent samples, each variable as its part has it."""
        drawn = {name: x for p in self.parts for name, x in p.sample(count, generator).items()}
        return {v.name: drawn[v.name] for v in self.variables}

    def _sample(self, count: int, generator: torch.Generator | None) -> dict[str, Tensor]:
        return {name: x for p in self.parts for name, x in p._sample(count, generator).items()}

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.parts))})"


def part(mu: Distribution, names: Iterable[str]) -> Distribution:
    """The part of mu that holds these variables: all of it, unless it is a product."""
    return mu.part(names) if isinstance(mu, Product) else mu
