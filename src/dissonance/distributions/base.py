"""What a distribution over all variables of a PDG can be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from math import prod
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.above import ask
from dissonance.errors import DissonanceError, suggest, visible
from dissonance.variables import Variable, shape

if TYPE_CHECKING:
    import pandas as pd

Names = str | Iterable[str]

SHOWN = 8
"""How many variables, and how many values of each, are printed."""


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def sample_count(count: int) -> int:
    """How many samples are asked for, if that is a number of samples."""
    if not isinstance(count, Integral) or count < 0:
        raise DissonanceError(f"a number of samples is a whole number >= 0, found {count!r}.")
    return int(count)


class Distribution(ABC):
    """mu: a joint distribution over finite variables. Subclasses say how marginals, entropy and samples are found."""

    variables: tuple[Variable, ...]

    @abstractmethod
    def _marginal(self, names: tuple[str, ...]) -> Tensor:
        """mu over distinct known variables, axes in that order."""

    @abstractmethod
    def _entropy(self) -> Tensor:
        """H(mu) over all variables."""

    @abstractmethod
    def _sample(self, count: int, generator: torch.Generator | None) -> dict[str, Tensor]:
        """Independent samples as indices."""

    @cached_property
    def _named(self) -> dict[str, Variable]:
        return {v.name: v for v in self.variables}

    def variable(self, name: str) -> Variable:
        """The variable of that name."""
        if name not in self._named:
            raise DissonanceError(f"no variable named {name!r}.{suggest(name, self._named)}")
        return self._named[name]

    def marginal(self, *names: str) -> Tensor:
        """mu over these variables, axes in this order; no names gives the total mass, 1."""
        for n in names:
            self.variable(n)
        if len(set(names)) != len(names):
            raise DissonanceError(f"a marginal is over distinct variables, found {names}.")
        return self._marginal(names)

    def marginals(self, scopes: Sequence[Sequence[str]]) -> list[Tensor]:
        """mu over each of many sets of variables, axes in their order: `marginal`, for all of them at once."""
        return [self.marginal(*names) for names in scopes]

    def rows(self, sources: Iterable[Variable], targets: Iterable[Variable]) -> Tensor:
        """mu(S, T) flattened to (source settings, target settings)."""
        given = [v.name for v in sources]
        joint = self._marginal((*given, *[v.name for v in targets]))
        return joint.reshape(prod(joint.shape[: len(given)]), prod(joint.shape[len(given) :]))

    def __getitem__(self, name: str) -> Any:
        """The probability of each value of a variable, by its label; of a Euclidean one, its marginal."""
        v = self.variable(name)
        p = self.marginal(name)
        return dict(zip(v.finite.labels, p.tolist(), strict=True)) if v.is_finite else p

    def frame(self, *names: str) -> pd.DataFrame | pd.Series:
        """mu over these variables with its labels: of one a Series, else a frame with the last along its columns."""
        if not names:
            raise DissonanceError("a frame is of some variables: name them.")
        return ask("framed", [self.variable(n) for n in names], self.marginal(*names))

    def conditional(self, targets: Names, given: Names | Mapping[str, Hashable] = ()) -> Tensor:
        """mu(targets | given), axes: given in order, then targets in order; uniform where `given` has no mass.

        With values, given={"Age": "old"}, mu(targets | Age = old): the axes are those of the targets.
        """
        if isinstance(given, Mapping):
            index = tuple(self.variable(n).finite.index(x) for n, x in given.items())
            return self.conditional(targets, list(given))[index]
        sources = [self.variable(n) for n in _names(given)]
        wanted = [self.variable(n) for n in _names(targets)]
        if len({v.name for v in (*sources, *wanted)}) < len(sources) + len(wanted):
            raise DissonanceError(f"a conditional is over distinct variables, found {targets!r} given {given!r}.")
        table = numerics.conditional(self.rows(sources, wanted))
        return table.reshape(shape((*sources, *wanted)))

    def probability(self, event: Mapping[str, Hashable]) -> Tensor:
        """mu of an event {variable: label}."""
        index = tuple(self.variable(n).finite.index(label) for n, label in event.items())
        return self.marginal(*event)[index]

    def entropy(self, *names: str) -> Tensor:
        """H of these variables, in nats; of all of them if none is named."""
        return numerics.entropy(self.marginal(*names)) if names else self._entropy()

    def sample(self, count: int, generator: torch.Generator | None = None) -> dict[str, list[Hashable]]:
        """Independent samples as labels, one list a variable."""
        drawn = self._sample(sample_count(count), generator)
        return {v.name: [v.finite.labels[i] for i in drawn[v.name].tolist()] for v in self.variables}

    def _labelled(self, heading: str) -> str:
        """The heading, and below it the marginals of the first variables with their labels."""
        lines = [heading]
        for v in self.variables[:SHOWN]:
            if not v.is_finite:
                lines.append(f"  {v.name}: {v.domain}")
                continue
            shown = [f"{label} {p:.4f}" for label, p in list(self[v.name].items())[:SHOWN]]
            lines.append(f"  {v.name}: {', '.join(shown)}{', ...' if v.size > SHOWN else ''}")
        more = len(self.variables) - SHOWN
        return "\n".join(map(visible, lines + [f"  ... {more} more"] * (more > 0)))

    def _repr_html_(self) -> str:
        return ask("html", self)
