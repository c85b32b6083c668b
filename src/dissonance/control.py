"""Control: which parameters may move, and how freely."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import torch
from torch import Tensor

from dissonance.columns.weights import ColumnWeights
from dissonance.errors import DissonanceError, suggest
from dissonance.pdg import PDG

Chi = Mapping[str, float | Tensor]


def number(value: object, what: str) -> float:
    """Return a weight as a float; an error that says what it is a weight of if it is no number."""
    try:
        if isinstance(value, str):
            raise TypeError
        return float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, RuntimeError):
        raise DissonanceError(f"{what} must be a number, found {value!r}.") from None


def belong_to(weights: Mapping[str, object], pdg: PDG) -> bool:
    """Whether they are weights of all arcs of the PDG, whose names need no check."""
    return isinstance(weights, ColumnWeights) and weights.belong_to(pdg)


@dataclass(frozen=True)
class Control:
    """chi: how freely each arc's parameters may move. 0 fixed (also if left out), inf to the fixed point.

    A weight is one number, or a tensor of the shape of the parameter, keyed "arc" or "arc.parameter"; a key that is the
    name of an arc is about that arc.
    """

    chi: Chi = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.chi, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DissonanceError(f"control is given arc by arc, as {{'arc': 1.0}}; found {self.chi!r}.")
        if isinstance(self.chi, ColumnWeights):
            return
        object.__setattr__(self, "chi", MappingProxyType(dict(self.chi)))
        for name, value in self.chi.items():
            low = min(value.flatten().tolist(), default=0.0) if isinstance(value, Tensor) else value
            low = number(low, f"control[{name!r}]")
            if not low >= 0:
                raise DissonanceError(f"control[{name!r}] must be >= 0, found {low}.")

    @classmethod
    def of(cls, given: Control | Chi) -> Control:
        """What was given for a control: one, or {arc: chi}."""
        return given if isinstance(given, Control) else cls(given)

    def __repr__(self) -> str:
        return f"Control({dict(self.chi)})"

    def __reduce__(self) -> tuple[object, ...]:
        return Control, (dict(self.chi),)

    def __getitem__(self, name: str) -> float | Tensor:
        return self.chi.get(name, 0.0)

    def check(self, pdg: PDG) -> None:
        """Raise if a weight names an arc or parameter the PDG does not have, or has not the shape of a parameter."""
        if belong_to(self.chi, pdg):
            return
        for name, value in self.chi.items():
            if name in pdg and not isinstance(value, Tensor):
                continue
            arc = pdg.holder(name)
            if arc is None:
                near = suggest(name, [*pdg.theta, *(a.name for a in pdg.arcs)])
                raise DissonanceError(f"control: no arc named {name!r}, and no parameter.{near}")
            if not isinstance(value, Tensor):
                continue
            for own, p in arc.cpd.named_parameters():
                if name in (arc.name, key := f"{arc.name}.{own}"):
                    _check_shape(name, value, key, p)

    def on(self, pdg: PDG) -> Control:
        """This control of a PDG: it knows which arc each key is about, also where the names of arcs have dots."""
        self.check(pdg)
        if isinstance(self.chi, ColumnWeights):
            return self
        found, own = Control(self.chi), dict[str, list[str]]()
        for key in self.chi:
            arc = None if key in pdg else pdg.holder(key)
            own.setdefault(key if arc is None else arc.name, []).append(key)
        found.__dict__["_own"] = own
        return found

    def largest(self, pdg: PDG) -> dict[str, float]:
        """Return the largest weight of each arc that is named, over its parameters and their components."""
        if isinstance(self.chi, ColumnWeights):
            return dict(self.chi)
        own: dict[str, list[str]] = self.on(pdg).__dict__["_own"]
        return {name: self._largest(pdg, name, keys) for name, keys in own.items()}

    def _largest(self, pdg: PDG, name: str, keys: Collection[str]) -> float:
        """The largest weight of one arc: a key of a parameter goes before the key of its arc."""
        given = [self[name]]
        if any(key != name for key in keys):
            parameters = [f"{name}.{own}" for own, _ in pdg[name].cpd.named_parameters()]
            given = [self[key if key in keys else name] for key in parameters]
        return max(float(torch.as_tensor(chi).max()) for chi in given)

    def within(self, names: Iterable[str]) -> Control:
        """The control of these arcs only."""
        if isinstance(self.chi, ColumnWeights):  # no single parameters
            return Control({name: self.chi[name] for name in names if name in self.chi})
        own: dict[str, list[str]] | None = self.__dict__.get("_own")
        if own is None:  # without a PDG: by arc, or what may be the name of one: what is given for it
            own = self.__dict__["_own"] = {}
            for key in self.chi:
                for name in (key, *(key[:i] for i, c in enumerate(key) if c == ".")):
                    own.setdefault(name, []).append(key)
        return Control({key: self.chi[key] for name in names for key in own.get(name, ())})


def _check_shape(name: str, chi: Tensor, key: str, parameter: Tensor) -> None:
    try:
        fits = torch.broadcast_shapes(chi.shape, parameter.shape) == parameter.shape
    except RuntimeError:
        fits = False
    if not fits:
        found, wanted = tuple(chi.shape), tuple(parameter.shape)
        raise DissonanceError(f"control[{name!r}] has the shape {found}; the parameter {key!r} has {wanted}.")


def full_control(*names: str) -> Control:
    """chi = inf on these arcs, 0 on the others."""
    return Control(dict.fromkeys(names, math.inf))
