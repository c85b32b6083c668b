"""Arcs: a named cpd from source variables to target variables, at its own parameters or at others."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from dissonance.above import ask
from dissonance.cpds import CPD, Table
from dissonance.cpds.held import Held, HeldByOne
from dissonance.errors import CapabilityError, DissonanceError, visible
from dissonance.numerics import check_unlabelled
from dissonance.variables import Euclidean, Variable, as_tuple, shape

Theta = Mapping[str, Tensor]
"""Parameters of arcs, and what stands in the place of their buffers, keyed "arc.parameter"."""

Names = str | Variable | Iterable[str | Variable]


def bottomless(beta: object) -> str:
    """Why beta cannot be -inf; nothing to say of other numbers."""
    why = " Boundless disbelief is worth -inf as soon as the cpd can be broken at all: give a negative number."
    return why if beta == -math.inf else ""


def arc_ends(sources: tuple[Variable, ...], targets: tuple[Variable, ...]) -> dict[str, Any]:
    """What an arc holds of its variables."""
    scope = sources + targets
    names = tuple([v.name for v in scope])
    found = {"sources": sources, "targets": targets, "scope": scope, "names": names}
    return found | {"source_names": names[: len(sources)], "target_names": names[len(sources) :]}


@dataclass(frozen=True, eq=False)
class Arc:
    """A named cpd from a set of source variables to a set of target variables, a : S -> T.

    >>> Smokes, Cancer = Variable("Smokes", ["no", "yes"]), Variable("Cancer", ["no", "yes"])
    >>> Arc("study", Smokes, Cancer, [[0.99, 0.01], [0.90, 0.10]])
    <arc 'study' (Smokes -> Cancer): Table>
    """

    name: str
    sources: tuple[Variable, ...]
    targets: tuple[Variable, ...]
    cpd: CPD
    beta: float = 1.0
    counts: Tensor | None = None
    scope: tuple[Variable, ...] = field(init=False)
    """The sources, then the targets."""
    names: tuple[str, ...] = field(init=False)
    """Names of the sources, then of the targets."""
    source_names: tuple[str, ...] = field(init=False)
    """Names of the sources."""
    target_names: tuple[str, ...] = field(init=False)
    """Names of the targets."""

    def __init__(
        self,
        name: str,
        sources: Variable | Iterable[Variable],
        targets: Variable | Iterable[Variable],
        cpd: object,
        *,
        beta: float = 1.0,
        counts: Tensor | None = None,
    ) -> None:
        """`cpd` may be a CPD or anything a fixed `Table` can be made of.

        `beta` is the confidence where an attention does not say otherwise. `counts`, of the shape of the table: how
        often each setting was observed, if the table is the relative frequencies of a sample.
        """
        try:
            sources, targets = as_tuple(sources), as_tuple(targets)
        except DissonanceError as error:
            raise DissonanceError(f"arc {name!r}: {error}") from None
        self.__dict__.update(arc_ends(sources, targets), name=name, beta=beta, counts=counts)
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DissonanceError(f"an arc needs a non-empty name, found {name!r}.")
        if not targets:
            raise DissonanceError(
                f"{self} has no targets: it would say nothing, at no cost, whatever mu is. Name a target."
            )
        names = self.names
        if len(set(names)) != len(names):
            twice = next(n for n in names if names.count(n) > 1)
            both = twice in self.source_names and twice in self.target_names
            copy = f" Make a copy of it a target, and a hard arc {twice} -> copy: see docs/corners.md." if both else ""
            raise DissonanceError(f"{self} mentions {twice!r} twice.{copy}")
        try:
            bound = (cpd if isinstance(cpd, CPD) else Table(cpd)).bind(sources, targets)
        except DissonanceError as error:
            raise type(error)(f"{self}: {error}") from None
        self.__dict__["cpd"] = bound
        if beta != 1.0 or counts is not None:
            self._check_confidence()

    @classmethod
    def from_table(
        cls,
        name: str,
        table: object,
        *,
        given: Names = (),
        of: Names | None = None,
        counts: bool | float | None = None,
        confidence: float | None = None,
        values: str | None = None,
        pseudocount: float = 0.0,
        variables: Iterable[Variable] = (),
        learnable: bool = False,
    ) -> Arc:
        """The arc of a table with labels, which say where a number belongs; its order does not matter.

        A crosstab (a frame with named axes), a Series, a long frame (a column a variable, and one headed p, percent or
        count, or named by `values`), a wide one (columns headed `Buys=yes`), rows of data, or a mapping: {label: p},
        {(label, label): p} or {label: {label: p}}, which needs `of`, the variables it is about (after those `given`).

        `given`: what the belief is conditional on; columns headed `given X` say it, and so do rows that each sum to 1.
        `of`: the variables the belief is about, all others by default; the rest of a joint table is added up.
        `counts`: True if the numbers are counts, or the size of the sample that proportions are from; whole numbers
        that do not sum to 1 or 100 are counts unasked. Counts n are believed with beta = n, the sum of all, unless
        `confidence` says otherwise; `pseudocount` is added to each. Values are those of `variables`, or else the labels
        in the order of the table. `learnable`: it is a `SoftmaxTable`, which can move.

        >>> survey = Arc.from_table("survey", {"never": 30, "often": 10}, of="Buys")
        >>> survey.cpd.table(), survey.beta
        (tensor([0.7500, 0.2500], dtype=torch.float64), 40.0)
        """
        how = {"given": given, "of": of, "counts": counts, "confidence": confidence, "values": values}
        arc: Arc = ask("from_table", name, table, **how, pseudocount=pseudocount, variables=tuple(variables))
        return arc.learnable() if learnable else arc

    def _check_confidence(self) -> None:
        beta, counts = self.beta, self.counts
        if isinstance(beta, bool) or not isinstance(beta, Real) or math.isnan(beta) or beta == -math.inf:
            raise DissonanceError(f"{self}: beta must be a number or inf, found {beta!r}.{bottomless(beta)}")
        self.__dict__["beta"] = float(beta)
        check_unlabelled(counts)
        if counts is not None and tuple(counts.shape) != shape(self.scope):
            found, wanted = tuple(counts.shape), shape(self.scope)
            raise DissonanceError(f"{self}: the counts have shape {found}, the table has {wanted}.")

    def with_cpd(self, cpd: object) -> Arc:
        """The same arc with another cpd; its counts are no longer what the table says, and are left out."""
        return Arc(self.name, self.sources, self.targets, cpd, beta=self.beta)

    @cached_property
    def mechanism(self) -> tuple[frozenset[str], frozenset[str]]:
        """(S, T) as sets: arcs that agree on it share one entropy term, and their weights add up."""
        return frozenset(self.source_names), frozenset(self.target_names)

    @property
    def is_euclidean(self) -> bool:
        """Whether every variable of the arc is Euclidean."""
        return all(isinstance(v.domain, Euclidean) for v in self.scope)

    @cached_property
    def is_linear_gaussian(self) -> bool:
        """Whether the cpd is linear-Gaussian."""
        return self.cpd.can("linear_gaussian")

    @cached_property
    def is_drawn(self) -> bool:
        """Whether the cpd has no table and is not linear-Gaussian: it can only be drawn from and scored."""
        return not (self.has_table or self.is_linear_gaussian)

    @cached_property
    def has_table(self) -> bool:
        """Whether the cpd is a table: finite variables, and a cpd that has one."""
        return all([v.is_finite for v in self.scope]) and self.cpd.can("log_table")

    def log_table(self, theta: Theta | None = None) -> Tensor:
        """log p(T|S) as a table (source sizes..., target sizes...), at `theta` if given."""
        if theta and self.cpd.softmax and (moved := theta.get(f"{self.name}.{self.cpd.stored}")) is not None:
            return self.cpd.log_rows(moved.flatten(-len(self.targets))).reshape(moved.shape)
        try:
            return self.call("log_table", theta)
        except CapabilityError as error:
            odd = [f"{v.name} is {v.domain}" for v in self.scope if not v.is_finite]
            raise CapabilityError(f"{self} cannot be tabulated: {'; '.join(odd) or error}.") from None

    def linear_gaussian(self, theta: Theta | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """A, b and Sigma of p(t|s) = N(A s + b, Sigma), at `theta` if given."""
        try:
            return self.call("linear_gaussian", theta)
        except CapabilityError as error:
            raise CapabilityError(f"{self}: {error}") from None

    def call(self, method: str, theta: Theta | None, *arguments: object) -> Any:
        """A method of the cpd, at `theta` if given: it may stand for parameters and for buffers."""
        if theta is None:
            return getattr(self.cpd, method)(*arguments)
        return getattr(self.held.at(theta), method)(*arguments)

    def at(self, theta: Theta | None) -> CPD:
        """The cpd with theta in the place of what it holds; the cpd itself is not touched."""
        return self.cpd if theta is None else self.held.at(theta)

    def holds(self, theta: Theta) -> bool:
        """Whether theta has a value for anything the cpd holds."""
        return self.held.any_in(theta)

    @cached_property
    def held(self) -> Held[CPD]:
        """The parameters and buffers of the cpd, and the cpd at other values of them."""
        return Held(self.cpd, self.name)

    def for_one(self) -> Arc:
        """The same arc for a single user, who asks for its cpd at one theta after another: it is copied only once."""
        own = copy.copy(self)
        own.__dict__["held"] = HeldByOne(self.cpd, self.name)
        return own

    def learnable(self) -> Arc:
        """The same belief with parameters that can move; itself if it has them already, or cannot have any."""
        cpd = self.cpd.learnable()
        return self if cpd is None else self.with_cpd(cpd)

    def check_numbers(self, theta: Theta | None = None) -> None:
        """Raise if a parameter, or what theta has for it, is NaN or infinite; -inf is a logarithm of 0 in a table."""
        for key, own in self.held.tensors.items():
            value = own if theta is None else theta.get(key, own)
            if value is own and not isinstance(own, nn.Parameter):
                continue
            odd = ~torch.isfinite(value.detach())
            if self.cpd.can("log_table"):
                odd &= value.detach() != -math.inf
            if bool(odd.any()):
                found = float(value.detach()[odd][0])
                raise DissonanceError(f"{self}: the parameter {key!r} holds {found}; it must be finite.")

    def __str__(self) -> str:
        left = ", ".join(v.name for v in self.sources)
        return visible(f"arc {self.name!r} ({left + ' ' if left else ''}-> {', '.join(v.name for v in self.targets)})")

    def __repr__(self) -> str:
        return f"<{self}: {type(self.cpd).__name__}>"


def frozen(arcs: Iterable[Arc], theta: Theta | None) -> Theta | None:
    """The present parameters of these arcs, copied, theta in the place of what it names; None if there are none."""
    found: dict[str, Tensor] = {}
    for arc in arcs:
        if type(arc.cpd) is Table and (theta is None or f"{arc.name}.p" not in theta):
            continue
        for key, own in arc.held.tensors.items():
            value = own if theta is None else theta.get(key, own)
            if value is not own or isinstance(own, nn.Parameter):
                found[key] = value.detach().clone()
    return found or None
