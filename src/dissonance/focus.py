"""Focus: what is attended to, and what may move."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, filterfalse
from types import MappingProxyType
from typing import Protocol

from torch import Tensor

from dissonance.arc import bottomless
from dissonance.columns.weights import ColumnWeights
from dissonance.control import Control, belong_to, full_control, number
from dissonance.errors import DissonanceError, suggest
from dissonance.pdg import PDG

__all__ = ["Attention", "Control", "Focus", "Schedules", "Varying", "full_control"]

Weights = Mapping[str, float]

_ASKED = {
    math.inf: " It asks that the targets be some function of the sources: say which by a hard arc (Deterministic).",
    -math.inf: " It is worth -inf unless the targets are a function of the sources already: give a negative number.",
}
"""What an infinite alpha would mean, and what to do."""

LARGEST = 1e100
"""The largest finite weight."""


def _frozen(weights: Mapping[str, float], what: str = "a weight") -> Weights:
    if isinstance(weights, ColumnWeights):  # numbers, and nothing changes them
        return weights
    if not isinstance(weights, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DissonanceError(f"{what} is given arc by arc, as {{'arc': 1.0}}; found {weights!r}.")
    return MappingProxyType({str(name): number(value, f"{what}[{name!r}]") for name, value in weights.items()})


def _odd(weights: Weights) -> Iterator[tuple[str, float]]:
    """Those that are no finite numbers."""
    if isinstance(weights, ColumnWeights) and weights.finite:
        return iter(())
    return ((name, value) for name, value in weights.items() if not math.isfinite(value))


def _largest(weights: Weights) -> float:
    """The largest of the finite ones, in absolute value."""
    if isinstance(weights, ColumnWeights):
        return weights.largest
    return max((abs(value) for value in weights.values() if value < math.inf), default=0.0)


def _constant(weights: Weights, weight: float) -> Weights:
    """One weight for all."""
    return weights.filled(weight) if isinstance(weights, ColumnWeights) else dict.fromkeys(weights, weight)


def _changed(weights: Weights, changes: Weights) -> Weights:
    """The same weights with some changed."""
    return weights | changes if isinstance(weights, ColumnWeights) else dict(weights) | dict(changes)


class Seen(Protocol):
    """What sample-dependent attention may look at: samples of mu, and what the arcs say of each."""

    @property
    def values(self) -> Mapping[str, Tensor]:
        """The values of every variable: (M,) indices, or (M, dim) numbers."""
        ...

    @property
    def weights(self) -> Tensor:
        """How much each sample counts, (M,): they add up to 1."""
        ...

    def log_prob(self, arc: str) -> Tensor:
        """log p_a(t | s) of an arc at each sample, (M,)."""
        ...


@dataclass(frozen=True)
class Varying:
    """A weight that is not the same for everything that may happen: `weight` maps samples x of mu to numbers w(x).

        OInc(mu) = sum_a E_mu[ beta_a w_a(X) log mu(T|S) / p_a(T|S) ]          (eq. 1 if w = 1)

    It may look at what the arcs say: surprise draws attention. `held`: derivatives are taken with the weights fixed, as
    those of any other attention are; if not, through the weights as well.
    """

    weight: Callable[[Seen], Tensor]
    held: bool = True


@dataclass(frozen=True)
class Attention:
    """phi = (beta, alpha, gamma): how much each arc's cpd and each arc's mechanism is believed, and structure overall.

    An arc that is left out keeps its own confidence, beta = `arc.beta` (1 unless the arc says otherwise), and alpha =
    1: `Attention({"survey": 3})` changes one arc; {"survey": 3} alone says the same wherever an attention is asked for.
    `Attention.only(...)` leaves all other arcs out, as a narrow focus does: its `others` is False.

    beta may be 0 (not attended), inf (hard: mu must satisfy the cpd) or negative (disbelief); alpha is finite; gamma >=
    0 is finite. The finite beta of an arc that is `varying` is multiplied with a weight that depends on the sample,
    which needs hard arcs that make mu.

    >>> X = Variable("X", 2)
    >>> pdg = PDG(Arc("p", (), X, [0.9, 0.1]), Arc("q", (), X, [0.2, 0.8], beta=200))
    >>> dict(Attention({"p": float("inf")}).on(pdg).beta)
    {'p': inf, 'q': 200.0}
    >>> dict(Attention.only({"p": 2}).on(pdg).beta)
    {'p': 2.0}
    """

    beta: Weights = field(default_factory=lambda: _frozen({}))
    alpha: Weights = field(default_factory=lambda: _frozen({}))
    gamma: float = 0.0
    varying: Mapping[str, Varying] = field(default_factory=dict)
    others: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", _frozen(self.beta, "beta"))
        object.__setattr__(self, "alpha", _frozen(self.alpha, "alpha"))
        object.__setattr__(self, "gamma", number(self.gamma, "gamma"))
        object.__setattr__(self, "varying", MappingProxyType(dict(self.varying)))
        if not (0 <= self.gamma < math.inf):
            raise DissonanceError(f"gamma must be a finite number >= 0, found {self.gamma}.")
        for name, value in _odd(self.beta):
            if math.isnan(value) or value == -math.inf:
                raise DissonanceError(f"beta[{name!r}] must be a number or inf, found {value}.{bottomless(value)}")
        for name, value in _odd(self.alpha):
            raise DissonanceError(f"alpha[{name!r}] must be finite, found {value}.{_ASKED.get(value, '')}")
        if max(self.gamma, _largest(self.beta), _largest(self.alpha)) > LARGEST:
            raise DissonanceError(
                f"weights are at most {LARGEST:g}, so that their products stay numbers. Give all of them in other "
                "units, or use beta = inf for what must hold."
            )
        for name in self.varying:
            if self.beta.get(name) == math.inf:
                raise DissonanceError(f"beta[{name!r}] is inf: a hard arc does not support a sample-dependent weight.")

    @classmethod
    def only(
        cls,
        beta: Mapping[str, float] | None = None,
        alpha: Mapping[str, float] | None = None,
        gamma: float = 0.0,
        varying: Mapping[str, Varying] | None = None,
    ) -> Attention:
        """These weights, and none on what is left out."""
        return cls(beta or {}, alpha or {}, gamma, varying or {}, others=False)

    @classmethod
    def of(cls, given: Attention | Weights | None, pdg: PDG) -> Attention:
        """What was given for an attention to a PDG, every weight spelled out: nothing, {arc: beta} or an attention."""
        if given is None:
            known = pdg.__dict__  # a PDG does not change
            return known.get("_attention") or known.setdefault("_attention", cls().on(pdg))
        if isinstance(given, Mapping):
            given = cls(given)
        elif not isinstance(given, Attention):  # pyright: ignore[reportUnnecessaryIsInstance]
            hint = " Give focus.attention." if isinstance(given, Focus) else ""
            raise DissonanceError(f"expected an Attention or {{'arc': beta}}, found {given!r}.{hint}")
        return given.on(pdg)

    def on(self, pdg: PDG) -> Attention:
        """This attention to a PDG, every weight spelled out; what is left out of that has none."""
        if not self.others:
            return self
        known: tuple[PDG, Attention] | None = self.__dict__.get("_on")
        if known is None or known[0] is not pdg:
            self.check(pdg)
            beta = _changed(pdg.confidence, self.beta)
            alpha = _changed(_constant(beta, 1.0), self.alpha)
            known = pdg, Attention.only(beta, alpha, self.gamma, self.varying)
            self.__dict__["_on"] = known
        return known[1]

    @classmethod
    def uniform(
        cls, pdg: PDG, *, only: Iterable[str] | None = None, beta: float = 1.0, alpha: float = 1.0, gamma: float = 0.0
    ) -> Attention:
        """The same weight on every arc, or on `only` some and none on the others."""
        every = pdg.confidence if only is None else {pdg[n].name: 1.0 for n in only}
        return cls.only(_constant(every, beta), _constant(every, alpha), gamma)

    def replace(
        self,
        *,
        beta: Mapping[str, float] | None = None,
        alpha: Mapping[str, float] | None = None,
        gamma: float | None = None,
        varying: Mapping[str, Varying] | None = None,
    ) -> Attention:
        """The same attention with some weights changed."""
        if not (beta or alpha or varying) and gamma is None:
            return self
        return Attention(
            {**self.beta, **(beta or {})},
            {**self.alpha, **(alpha or {})},
            self.gamma if gamma is None else gamma,
            {**self.varying, **(varying or {})},
            self.others,
        )

    def without(self, *names: str) -> Attention:
        """The same attention with these arcs out of attention (beta = alpha = 0)."""
        return self.replace(beta=dict.fromkeys(names, 0.0), alpha=dict.fromkeys(names, 0.0))

    def __repr__(self) -> str:
        varying = f", varying={dict(self.varying)}" if self.varying else ""
        which = "Attention" if self.others else "Attention.only"
        return f"{which}(beta={dict(self.beta)}, alpha={dict(self.alpha)}, gamma={self.gamma:g}{varying})"

    def __reduce__(self) -> tuple[object, ...]:
        return Attention, (dict(self.beta), dict(self.alpha), self.gamma, dict(self.varying), self.others)

    def check(self, pdg: PDG) -> None:
        """Raise if a weight names an arc the PDG does not have."""
        named = [weights for weights in (self.beta, self.alpha, self.varying) if not belong_to(weights, pdg)]
        for name in filterfalse(pdg.__contains__, chain(*named)):
            pdg[name]  # the error suggests the nearest name


def facts(attention: Attention) -> frozenset[str]:
    """Return the arcs that are facts under a spelled-out attention: those with beta = inf."""
    return frozenset(name for name, value in _odd(attention.beta) if value == math.inf)


@dataclass(frozen=True)
class Focus:
    """An attention and a control: what a step of LIR looks at, and what it may change.

    `context` puts other values in the place of an arc's buffers, keyed "arc.buffer": a fresh batch of data, say. The
    buffers of a cpd are what `cpd.named_buffers()` lists: `rows0`, `rows1`, ... of `Data`, `p` of a `Table`.

    >>> X = Variable("X", 2)
    >>> pdg = PDG(Arc("p", (), X, SoftmaxTable([0.9, 0.1])), Arc("q", (), X, [0.2, 0.8]))
    >>> focus = Focus(Attention(), full_control("p"))
    >>> from dissonance.refocus import Cycle
    >>> run = lir(pdg, Cycle(focus), steps=1)
    >>> [f"{x:.4f}" for x in run.pdg["p"].cpd.table().tolist()]
    ['0.2000', '0.8000']
    """

    attention: Attention = field(default_factory=Attention.only)
    control: Control = field(default_factory=Control)
    context: Mapping[str, Tensor] = field(default_factory=dict)
    schedules: Schedules = field(default_factory=lambda: NO_SCHEDULES)
    """Narrower foci by name, and in which order they come: what a file holds beside the focus on the whole."""

    def on(self, pdg: PDG) -> Focus:
        """This focus on a PDG, every weight of its attention spelled out."""
        spelled = self.attention.on(pdg)
        return self if spelled is self.attention else Focus(spelled, self.control, self.context, self.schedules)

    def check(self, pdg: PDG) -> None:
        """Raise if the focus names what the PDG does not have."""
        for focus in self.schedules.foci.values():
            focus.check(pdg)
        self.attention.check(pdg)
        self.control.check(pdg)
        self.check_context(pdg)

    def check_context(self, pdg: PDG) -> None:
        """Raise if the context has what is no buffer of an arc."""
        for key, value in self.context.items():
            if not isinstance(value, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DissonanceError(f"context[{key!r}] must be a tensor, found {value!r}.")
            if key not in pdg.buffers:
                near = suggest(key, sorted(pdg.buffers))
                raise DissonanceError(f"context has {key!r}, which is no arc's buffer to fill.{near}")


@dataclass(frozen=True)
class Schedules:
    """Foci by name, and orders in which they come, over and over, by name: `{"em": ("E-step", "M-step")}`."""

    foci: Mapping[str, Focus] = field(default_factory=dict)
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, order in self.orders.items():
            if isinstance(order, str) or not order:
                raise DissonanceError(f"schedule {name!r}: a list of foci is needed, at least one; found {order!r}.")
            for focus in order:
                if focus not in self.foci:
                    raise DissonanceError(f"schedule {name!r}: no focus named {focus!r}.{suggest(focus, self.foci)}")

    def __getitem__(self, name: str) -> list[Focus]:
        """The foci of a schedule, in its order."""
        if name not in self.orders:
            hint = suggest(name, self.orders) if self.orders else " The model has none."
            raise DissonanceError(f"no schedule named {name!r}.{hint}")
        return [self.foci[n] for n in self.orders[name]]


NO_SCHEDULES = Schedules()
