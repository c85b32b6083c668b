"""Beliefs about events, in Python and in the text form: one a line, `#` begins a comment.

Rain -> Wet                           a fact
P(Rain & ~Wind | Autumn) = 0.3 @ 2    a probability (also 30%), with the confidence beta = 2
farmer: P(Rain) = 0.3 +- 0.05         a name; a standard error s is the confidence p(1-p)/s^2
P(Wind | Rain) in [0.2, 0.4]          a range; also >= 0.2 and <= 0.4
P(Rain) >= P(Wind)                    a comparison
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from dissonance.coherence.events import Count, Event, conjunction, disjunction, expression, negation, parsed, text_of
from dissonance.coherence.tokens import Tokens
from dissonance.errors import DissonanceError, FormatError


class BeliefError(DissonanceError):
    """A belief does not fit the others; `belief` is its place among them."""

    def __init__(self, belief: int, message: str) -> None:
        super().__init__(message)
        self.belief = belief


@dataclass(frozen=True)
class Belief:
    """How probable an event is, given another: a number, a range (low, high), or, left out, a fact.

    It is silent about worlds in which `given` does not hold. `beta` is the confidence in it, inf to insist on it;
    `outcome` whether the event happened, if that is known.

    >>> Belief("Rain and not Wind", 0.3, given="Autumn")
    Belief('P(Rain and not Wind | Autumn) = 0.3')
    """

    event: str
    p: float | tuple[float, float] | None = None
    given: str = ""
    beta: float = 1.0
    name: str = ""
    outcome: bool | None = None

    def __post_init__(self) -> None:
        if self.p is not None:
            try:
                p = tuple(map(float, self.p)) if isinstance(self.p, tuple | list) else float(self.p)
            except (TypeError, ValueError):
                p = ()
            if isinstance(p, tuple) and len(p) != 2:
                needed = "a number, or a range (low, high)"
                raise DissonanceError(f"the probability of {self.event!r} must be {needed}; found {self.p!r}.")
            object.__setattr__(self, "p", p)
        for x in (self.low, self.high):
            if not 0 <= x <= 1:
                raise DissonanceError(f"the probability of {self.event!r} is {x:g}; it must be between 0 and 1.")
        if self.low > self.high:
            raise DissonanceError(f"the range of {self.event!r} is empty: {self.low:g} is above {self.high:g}.")
        if not self.beta >= 0:
            raise DissonanceError(f"the confidence in {self.event!r} is {self.beta:g}; it must not be negative.")

    @property
    def is_fact(self) -> bool:
        """Whether it has no probability: it holds in every world."""
        return self.p is None

    @property
    def low(self) -> float:
        """The lower end of its range."""
        return 1.0 if self.p is None else self.p[0] if isinstance(self.p, tuple) else self.p

    @property
    def high(self) -> float:
        """The upper end of its range."""
        return 1.0 if self.p is None else self.p[1] if isinstance(self.p, tuple) else self.p

    @cached_property
    def target(self) -> Event:
        """The event that the belief is about."""
        return parsed(self.event)

    @cached_property
    def source(self) -> Event | None:
        """The event that the belief is conditional on."""
        return parsed(self.given) if self.given else None

    @cached_property
    def fact(self) -> Event:
        """What holds in every world if this is a fact: the event, where `given` does."""
        return self.target if self.source is None else disjunction(negation(self.source), self.target)

    @property
    def label(self) -> str:
        """Its name, or what it is about."""
        return self.name or (f"{self.event} | {self.given}" if self.given else self.event)

    def __str__(self) -> str:
        if self.is_fact:
            return text_of(self.fact)
        inside = f"{self.event} | {self.given}" if self.given else self.event
        value = f"= {self.p}" if not isinstance(self.p, tuple) else f"in [{self.low}, {self.high}]"
        return f"P({inside}) {value}" + (f" @ {self.beta:g}" if self.beta != 1 else "")

    def __repr__(self) -> str:
        return f"Belief({str(self)!r})"

    @classmethod
    def about(cls, text: str, p: float | tuple[float, float] | None) -> Belief:
        """A belief about `event`, or `event | given`."""
        tokens = Tokens(text)
        event, given = _part(tokens), _part(tokens) if tokens.take("|") else ""
        _end(tokens)
        return cls(event, p, given)

    @classmethod
    def read(cls, text: str) -> Belief:
        """A belief in the text form.

        >>> Belief.read("P(Rain | Autumn) = 0.3 @ 2")
        Belief('P(Rain | Autumn) = 0.3 @ 2')
        """
        name, rest = _named(text)
        if not _PROBABILITY.match(rest):
            parsed(rest)
            return cls(rest, name=name)
        tokens = Tokens(rest)
        event, given = _probability(tokens)
        sign = tokens.take("=", ">=", "<=", "in")
        if not sign:
            raise tokens.unexpected("=, >=, <= or in")
        if sign in (">=", "<=") and tokens.now == "P":
            return _comparison((event, given), sign, tokens, name or rest)
        p = _value(tokens, sign)
        beta = 1.0
        if tokens.take("+-"):
            beta = _confidence(p, tokens.number("a standard error"))
        if tokens.take("@"):
            beta *= tokens.number("a confidence")
        _end(tokens)
        return cls(event, p, given, beta, name)


_PROBABILITY = re.compile(r"P\s*\(")
_NAME = re.compile(r"\s*([^:(){}=\"']+?)\s*:(?!:)\s*(.*)", re.DOTALL)


def _named(text: str) -> tuple[str, str]:
    """The name before a belief, if there is one, and the rest."""
    found = _NAME.fullmatch(text)
    return (found[1], found[2].strip()) if found else ("", text.strip())


def _probability(tokens: Tokens) -> tuple[str, str]:
    """P(event | given)"""
    tokens.advance()
    tokens.expect("(")
    event, given = _part(tokens), _part(tokens) if tokens.take("|") else ""
    tokens.expect(")")
    return event, given


def _part(tokens: Tokens) -> str:
    start = tokens.start
    expression(tokens)
    return tokens.text[start : tokens.stop]


def _value(tokens: Tokens, sign: str) -> float | tuple[float, float]:
    """A probability, or the range that a sign makes of one."""
    if sign != "in":
        p = tokens.probability()
        return p if sign == "=" else (p, 1.0) if sign == ">=" else (0.0, p)
    tokens.expect("[")
    low = tokens.probability()
    tokens.expect(",")
    high = tokens.probability()
    tokens.expect("]")
    return low, high


def _confidence(p: float | tuple[float, float], error: float) -> float:
    """How many cases a frequency p with this standard error is taken from: p(1-p)/n = error^2."""
    if isinstance(p, tuple) or not error > 0:
        raise DissonanceError("+- is for a probability, and the standard error after it must be positive.")
    return p * (1 - p) / error**2 if 0 < p < 1 else math.inf


def _comparison(left: tuple[str, str], sign: str, tokens: Tokens, name: str) -> Belief:
    """P(A) >= P(B) is P(A | exactly one of A, B) >= 1/2: what they share does not count."""
    event, given = _probability(tokens)
    beta = tokens.number("a confidence") if tokens.take("@") else 1.0
    _end(tokens)
    if (parsed(given) if given else None) != (parsed(left[1]) if left[1] else None):
        raise DissonanceError(f"{name!r} compares probabilities given different things.")
    source: Event = Count((parsed(left[0]), parsed(event)), frozenset({1}))
    if given:
        source = conjunction(source, parsed(given))
    return Belief(left[0], (0.5, 1.0) if sign == ">=" else (0.0, 0.5), text_of(source), beta, name)


def _end(tokens: Tokens) -> None:
    if tokens.kind != "end":
        raise tokens.unexpected("the end")


def read_beliefs(text: str) -> list[Belief]:
    """The beliefs of a text, one a line; `#` begins a comment.

    >>> read_beliefs('''
    ... Rain -> Wet          # a fact
    ... P(Rain) = 0.4
    ... ''')
    [Belief('not Rain or Wet'), Belief('P(Rain) = 0.4')]
    """
    return [b for _, b in read_lines(text)]


def read_lines(text: str) -> Iterator[tuple[int, Belief]]:
    """The same with the number of each line."""
    for number, line in enumerate(text.splitlines(), 1):
        found = _SAID.fullmatch(line)
        said = (line if found is None else found[1]).strip()
        if said:
            try:
                yield number, Belief.read(said)
            except DissonanceError as error:
                raise FormatError(str(error), number) from None


_SAID = re.compile(r"((?:\"[^\"]*\"|'[^']*'|[^#\"'])*)(?:#.*)?")


GivenBeliefs = str | Mapping[str, float | tuple[float, float] | None] | Iterable[Belief | str]
"""Beliefs as they are given: a text; {event, or `event | given`: probability}; or beliefs and lines."""


def as_beliefs(beliefs: GivenBeliefs) -> list[Belief]:
    """The beliefs that are given.

    >>> as_beliefs({"Rain": 0.3, "Wind | Rain": 0.9})
    [Belief('P(Rain) = 0.3'), Belief('P(Wind | Rain) = 0.9')]
    """
    if isinstance(beliefs, str):
        return read_beliefs(beliefs)
    if isinstance(beliefs, Mapping):
        return [Belief.about(str(event), p) for event, p in beliefs.items()]
    every = list(beliefs) if isinstance(beliefs, Iterable) else [beliefs]  # pyright: ignore[reportUnnecessaryIsInstance]
    for b in every:
        if not isinstance(b, str | Belief):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DissonanceError(f'a belief is a Belief, or a line such as "P(Rain) = 0.3"; found {b!r}.')
    return [b if isinstance(b, Belief) else Belief.read(b) for b in every]
