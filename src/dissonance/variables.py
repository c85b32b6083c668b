"""Variables: a name with a domain. Finite domains have labelled values; the others say what they are."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from numbers import Integral

from dissonance.errors import CapabilityError, DissonanceError, suggest, visible

__all__ = ["Euclidean", "Finite", "Opaque", "Variable"]


@dataclass(frozen=True)
class Finite:
    """Finitely many labelled values; base measure: counting."""

    labels: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        if not self.labels:
            raise DissonanceError("a finite domain needs at least one value.")
        try:
            different = len(set(self.labels))
        except TypeError as error:
            raise DissonanceError(f"a finite domain needs values that can be told apart: {error}.") from None
        if different != len(self.labels):
            raise DissonanceError(f"a finite domain needs distinct values, found {list(self.labels)}.")

    @cached_property
    def _position(self) -> dict[Hashable, int]:
        return {label: i for i, label in enumerate(self.labels)}

    @property
    def size(self) -> int:
        """How many values there are."""
        return len(self.labels)

    def index(self, label: Hashable) -> int:
        """The position of a label."""
        try:
            return self._position[label]
        except (KeyError, TypeError):
            raise DissonanceError(f"no value {label!r}.{suggest(str(label), map(str, self.labels))}") from None

    @property
    def measure(self) -> str:
        """The base measure densities refer to."""
        return "counting"

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.labels[:6]))
        return f"{{{shown}{', ...' if self.size > 6 else ''}}}"


@dataclass(frozen=True)
class Euclidean:
    """R^dim; base measure: Lebesgue."""

    dim: int

    def __post_init__(self) -> None:
        if not isinstance(self.dim, Integral) or self.dim < 1:
            raise DissonanceError(f"a Euclidean domain needs a whole number dim >= 1, found {self.dim!r}.")

    @property
    def measure(self) -> str:
        """The base measure densities refer to."""
        return "Lebesgue"

    def __str__(self) -> str:
        return f"Euclidean({self.dim})"


@dataclass(frozen=True)
class Opaque:
    """Values without a base measure of their own: tensors of any shape, one a value (images, sequences, trajectories).

    Data, functions of it and modules that take it as a source are about such variables; none has a density.
    """

    description: str = "anything"

    @property
    def measure(self) -> str:
        """The base measure densities refer to."""
        return "unspecified"

    def __str__(self) -> str:
        return f"Opaque({self.description})"


Domain = Finite | Euclidean | Opaque


@dataclass(frozen=True)
class Variable:
    """A name with a domain.

    The domain may be given as a number of values, as their labels, or as a domain object; `is_finite` if it is one of
    finitely many values:

    >>> Variable("Coin", 2), Variable("Smokes", ["no", "yes"]), Variable("Height", Euclidean(1))
    (Coin{0, 1}, Smokes{no, yes}, Height: Euclidean(1))
    """

    name: str
    domain: Domain = field(default=Finite((0, 1)))
    is_finite: bool = field(init=False, repr=False, compare=False)

    def __init__(self, name: str, domain: Domain | int | Sequence[Hashable]) -> None:
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DissonanceError(f"a variable needs a non-empty name, found {name!r}.")
        if isinstance(domain, Integral) and domain is not True and domain is not False:
            domain = Finite(tuple(range(int(domain))))
        elif not isinstance(domain, Finite | Euclidean | Opaque):
            if isinstance(domain, str | bytes | set | frozenset):
                raise DissonanceError(f"variable {name!r}: {_not_a_list(domain)}")
            if not isinstance(domain, Iterable):
                raise DissonanceError(f"variable {name!r}: its values, or how many there are; found {domain!r}.")
            domain = Finite(tuple(domain))
        self.__dict__.update(name=name, domain=domain, is_finite=isinstance(domain, Finite))

    @cached_property
    def size(self) -> int:
        """The number of values of a finite variable."""
        return self.finite.size

    @property
    def finite(self) -> Finite:
        """The domain, if it is finite."""
        if isinstance(self.domain, Finite):
            return self.domain
        raise CapabilityError(f"variable {self.name!r} is {self.domain}, not finite: it has no number of values.")

    def __repr__(self) -> str:
        return visible(f"{self.name}{self.domain}" if self.is_finite else f"{self.name}: {self.domain}")


def _not_a_list(domain: str | bytes | Set[Hashable]) -> str:
    """What is wrong with values given as a text or a set, and what may have been meant."""
    if isinstance(domain, Set):
        return f"its values have an order, and a set has none: give a list, [{', '.join(map(repr, domain))}]."
    words = [w for w in re.split(r"[\s,;|/]+", domain) if w] if isinstance(domain, str) else [domain]
    meant = ", ".join(map(repr, words)) + ", ..." * (len(words) < 2)
    return f"its values are a list of labels, found the text {domain!r}: did you mean [{meant}]?"


def as_tuple(variables: Variable | Iterable[Variable]) -> tuple[Variable, ...]:
    """One variable or several, as a tuple."""
    single = isinstance(variables, Variable | str) or not isinstance(variables, Iterable)  # pyright: ignore[reportUnnecessaryIsInstance]
    found: tuple[Variable, ...] = (variables,) if single else tuple(variables)  # pyright: ignore[reportAssignmentType, reportArgumentType]
    for v in found:
        if isinstance(v, str):
            raise DissonanceError(f"expected a variable, found the name {v!r}: make it with Variable({v!r}, [...]).")
        if not isinstance(v, Variable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DissonanceError(f"expected a variable, found {v!r}; for none at all give ().")
    return found


def shape(variables: Iterable[Variable]) -> tuple[int, ...]:
    """The sizes of finite variables, in order."""
    return tuple([v.size for v in variables])


def are_numbers(labels: Sequence[Hashable]) -> bool:
    """Whether labels are the numbers 0, 1, 2, ...; False and 0.0 are equal to 0, and are not that number."""
    return all(isinstance(x, Integral) and not isinstance(x, bool) and x == i for i, x in enumerate(labels))  # pyright: ignore[reportUnnecessaryIsInstance]


def label_texts(variable: Variable) -> list[str]:
    """The labels as texts, no two alike: as they read, or as Python writes them where two read alike (1 and "1")."""
    labels = variable.finite.labels
    for texts in ([str(x) for x in labels], [repr(x) for x in labels]):
        if len(set(texts)) == len(texts):
            return texts
    return [f"{x!r} ({i})" for i, x in enumerate(labels, 1)]


def setting_texts(variables: Sequence[Variable]) -> Iterator[str]:
    """The joint settings as texts, no two alike: labels with commas between them, quoted where one has such a mark."""
    for texts in product(*map(label_texts, variables)):
        if len(texts) == 1:
            yield texts[0]
        else:
            yield ", ".join(['"' + x.replace('"', '""') + '"' if "," in x or '"' in x else x for x in texts])


def cells(variables: Iterable[Variable]) -> int:
    """How many joint settings finite variables have (1 for none)."""
    return prod(shape(variables))
