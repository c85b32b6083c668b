"""Deterministic cpds: a function of the sources, or a single value."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping

import torch
from torch import Tensor, nn

from dissonance import numerics
from dissonance.cpds.base import CPD, Drawn, Values, Variables
from dissonance.cpds.table import Table
from dissonance.errors import CapabilityError, DissonanceError
from dissonance.variables import Euclidean, shape


class Deterministic(CPD):
    """targets = function(sources): a function (or mapping) of labels.

    With one target the function returns its label, with several a tuple of labels. Bound to finite variables it
    becomes a 0/1 table.
    """

    def __init__(self, function: Callable[..., object] | Mapping[object, object]) -> None:
        super().__init__()
        self.function = function

    def _value(self, setting: tuple[Hashable, ...]) -> object:
        if isinstance(self.function, Mapping):
            key = setting[0] if len(setting) == 1 else setting
            try:
                return self.function[key]
            except KeyError:
                raise DissonanceError(f"the mapping has no entry for {key!r}.") from None
        return self.function(*setting)

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """Tabulate the function over the finite sources."""
        if not all(v.is_finite for v in (*sources, *targets)):
            odd = next(v for v in (*sources, *targets) if not v.is_finite)
            raise CapabilityError(f"a Deterministic cpd needs finite variables; {odd.name} is {odd.domain}.")
        p = torch.zeros(shape((*sources, *targets)), dtype=numerics.DTYPE)
        for where in itertools.product(*(range(v.size) for v in sources)):
            setting = tuple(v.finite.labels[i] for v, i in zip(sources, where, strict=True))
            p[where + labels_to_indices(self._value(setting), targets)] = 1.0
        return Table(p).bind(sources, targets)


class PointMass(CPD):
    """All probability on one value: a label (finite targets) or a learnable vector (one Euclidean target).

    The vector is theta: this is the double-headed arrow of the paper. Its density is 0 off the value and infinite on
    it, so only solvers that substitute the value can use it.
    """

    points = deterministic = True

    def __init__(self, value: object) -> None:
        super().__init__()
        self.label = value
        self.value: nn.Parameter | None = None

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """A 0/1 table over finite targets; a learnable vector over a Euclidean one."""
        if len(targets) == 1 and isinstance(targets[0].domain, Euclidean):
            given = self.label if isinstance(self.label, Tensor) else numerics.real(self.label)
            value = given.detach().clone().reshape(-1)
            value = value if value.is_floating_point() else value.to(numerics.DTYPE)
            if value.numel() != targets[0].domain.dim:
                raise DissonanceError(f"{targets[0]} needs {targets[0].domain.dim} numbers, found {value.numel()}.")
            if self.value is None:
                self.value = nn.Parameter(value)
            return self
        return Deterministic(lambda *_: self.label).bind(sources, targets)

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """0 at the value and -inf elsewhere (a density with respect to the point mass itself)."""
        if self.value is None:
            raise CapabilityError("a PointMass must be part of an arc before it is asked for probabilities.")
        hit = (torch.as_tensor(targets[0]) == self.value).all(-1)
        return torch.where(hit, 0.0, -torch.inf).to(numerics.DTYPE)

    def draw(self, sources: Values, count: int, generator: torch.Generator) -> Drawn:
        """The value."""
        if self.value is None:
            raise CapabilityError("a PointMass must be part of an arc before it is drawn.")
        return Drawn((self.value[None, None],), self.value.new_ones(1, 1))


def labels_to_indices(value: object, targets: Variables) -> tuple[int, ...]:
    """One label (single target) or a tuple of labels, as indices into the targets' domains."""
    labels = (value,) if len(targets) == 1 and not (isinstance(value, tuple) and len(value) == 1) else value
    if not isinstance(labels, tuple | list) or len(labels) != len(targets):
        names = ", ".join(v.name for v in targets)
        raise DissonanceError(f"expected one label for each of ({names}), found {value!r}.")
    return tuple(v.finite.index(label) for v, label in zip(targets, labels, strict=True))
