"""mu as joint states, kept small: what is made of other variables is made when it is asked for."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dissonance.bounds.states import States
from dissonance.bounds.terms import Ints, Terms, places
from dissonance.distributions.base import Distribution
from dissonance.variables import Variable, shape


class JointStates(Distribution):
    """N joint states, all with the same mass: `states` (base variables, N) has those of variables that are not made of
    others."""

    def __init__(self, variables: tuple[Variable, ...], terms: Terms, states: States) -> None:
        self.variables, self.terms, self.states = variables, terms, states
        self._number = {v.name: i for i, v in enumerate(variables)}
        self._place = {v: i for i, v in enumerate(terms.base)}

    def __len__(self) -> int:
        return self.states.shape[1]

    def values(self, name: str) -> Ints:
        """The value of a variable in each state, as its number."""
        v = self._number[name]
        if v in self._place:
            return self.states[self._place[v]].astype(np.int64)
        scope, values = self.terms.made[v]
        at = places(
            tuple(self.terms.sizes[b] for b in scope), [self.states[self._place[b]].astype(np.int64) for b in scope]
        )
        return np.broadcast_to(values[at], (len(self),))

    def _marginal(self, names: tuple[str, ...]) -> Tensor:
        sizes = shape(self.variable(n) for n in names)
        flat = np.broadcast_to(places(sizes, [self.values(n) for n in names]), (len(self),))
        return torch.from_numpy(np.bincount(flat, minlength=int(np.prod(sizes))) / len(self)).reshape(sizes)

    def _entropy(self) -> Tensor:
        counts = np.unique(self.states, axis=1, return_counts=True)[1] / len(self)
        return torch.tensor(-float((counts * np.log(counts)).sum()), dtype=torch.float64)

    def _sample(self, count: int, generator: torch.Generator | None) -> dict[str, Tensor]:
        chosen = torch.randint(len(self), (count,), generator=generator)
        return {v.name: torch.from_numpy(self.values(v.name).copy())[chosen] for v in self.variables}

    def __repr__(self) -> str:
        return self._labelled(f"JointStates of {len(self)} states")
