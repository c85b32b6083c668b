"""A cpd whose parameter is read from a source variable: p(T | S, Theta) instead of p(T | S; theta)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dissonance.cpds.base import CPD, Values, Variables
from dissonance.cpds.held import Held
from dissonance.errors import CapabilityError
from dissonance.variables import Euclidean

Theta = Mapping[str, Tensor]


class Explicit(CPD):
    """p(T | S, Theta): the family of `cpd` with theta as the value of its last source variable.

    Theta is either Euclidean (the flattened parameters, in the order of `cpd.named_parameters()`) or finite, when a
    list of `settings` is given: value i of Theta then means settings[i], and the cpd can be tabulated.
    The wrapped cpd is not a submodule: its parameters are no longer parameters, they are values of a variable.
    """

    def __init__(self, cpd: CPD, settings: Sequence[Theta] | None = None) -> None:
        super().__init__()
        self._inner = (cpd,)
        self.settings = None if settings is None else tuple(dict(s) for s in settings)

    @property
    def inner(self) -> CPD:
        """The cpd whose parameters became a variable."""
        return self._inner[0]

    @property
    def is_normal(self) -> bool:
        """Whether the inner cpd's targets are Gaussian given its sources."""
        return self.inner.is_normal

    def theta(self, value: Tensor) -> dict[str, Tensor]:
        """The parameters that a value of Theta stands for."""
        if self.settings is not None:
            return self.settings[int(value)]
        named = list(self.inner.named_parameters())
        parts = value.split([p.numel() for _, p in named], dim=-1)
        return {name: part.reshape(p.shape) for (name, p), part in zip(named, parts, strict=True)}

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """The inner cpd was bound to the same arc without Theta; only Theta's domain is left to check."""
        domain = sources[-1].domain
        wanted = sum(p.numel() for p in self.inner.parameters())
        if self.settings is None and (not isinstance(domain, Euclidean) or domain.dim != wanted):
            raise CapabilityError(f"{sources[-1].name} must be Euclidean({wanted}), found {domain}.")
        return self

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """log p(targets | sources; theta) with theta = the last source, which is the same over the batch."""
        *inner, value = sources
        if self.settings is None:
            return Held(self.inner).at(self.theta(_only(value))).log_prob(targets, inner)
        held = Held(self.inner)
        each = torch.stack([held.at(s).log_prob(targets, inner) for s in self.settings], -1)
        index = torch.as_tensor(value, dtype=torch.long).expand(each.shape[:-1])
        return each.gather(-1, index[..., None])[..., 0]

    def normal(self, sources: Values) -> tuple[Tensor, Tensor]:
        """That of the inner cpd, with theta = the last source."""
        *inner, value = sources
        if self.settings is not None:
            raise CapabilityError("an explicit parameter with settings is finite: its Gaussian is one of several.")
        return Held(self.inner).at(self.theta(_only(value))).normal(inner)

    def log_table(self) -> Tensor:
        """The inner tables at every setting, stacked on Theta's axis (after the sources, before the targets)."""
        if self.settings is None:
            raise CapabilityError(
                "its parameter is a Euclidean variable; give a finite list of settings to tabulate it"
            )
        axis = len(getattr(self.inner, "table_shape", ())) - getattr(self.inner, "target_axes", 1)
        held = Held(self.inner)
        tables = [held.at(s).log_table() for s in self.settings]
        return torch.stack(tables, axis)


def _only(value: Tensor) -> Tensor:
    """The one value that a parameter has all over a batch."""
    flat = value.reshape(-1, value.shape[-1])
    if not (flat == flat[0]).all():
        raise CapabilityError("an explicit parameter must have one value in a batch.")
    return flat[0]
