"""Events: what can be true of a world, written as people write it.

Two kinds are enough. `Is` says that a variable has one of some values; `Count` that the number of its parts that hold
is one of some numbers: none of one part is its negation, all of n their conjunction, 1 to n their disjunction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dissonance.coherence.tokens import Tokens
from dissonance.errors import DissonanceError

Bools = npt.NDArray[np.bool_]
Worlds = Mapping[str, npt.NDArray[np.object_]]
"""The values of variables, as text, in each of many worlds; None where unknown."""

YES, NO = "yes", "no"
NONE, SAME = frozenset({0}), frozenset({0, 2})
"""How many parts of a negation hold, and of an equivalence."""

T = TypeVar("T")


@dataclass(frozen=True)
class Is:
    """A variable has one of these values; `plain` if only its name was written, which says that it is `yes`."""

    variable: str
    values: tuple[str, ...] = (YES,)
    plain: bool = False


@dataclass(frozen=True)
class Count:
    """How many of the parts hold is one of these numbers."""

    parts: tuple[Event, ...]
    allowed: frozenset[int]


Event = Is | Count


def negation(event: Event) -> Event:
    """The negation of the event."""
    if isinstance(event, Count) and len(event.parts) == 1 and event.allowed == NONE:
        return event.parts[0]
    return Count((event,), NONE)


def conjunction(*events: Event) -> Event:
    """The conjunction of the events."""
    return events[0] if len(events) == 1 else Count(events, frozenset({len(events)}))


def disjunction(*events: Event) -> Event:
    """At least one of them."""
    return events[0] if len(events) == 1 else Count(events, frozenset(range(1, len(events) + 1)))


def names(event: Event) -> Iterator[str]:
    """The variables it mentions, in order, some perhaps again."""
    for leaf in leaves(event):
        yield leaf.variable


def leaves(event: Event) -> Iterator[Is]:
    """The variables it mentions with the values it asks them to have."""
    if isinstance(event, Is):
        yield event
    else:
        for part in event.parts:
            yield from leaves(part)


def renamed(event: Event, name: Mapping[str, str]) -> Event:
    """The same event of other variables."""
    if isinstance(event, Is):
        return Is(name[event.variable], event.values, event.plain)
    return Count(tuple([renamed(p, name) for p in event.parts]), event.allowed)


def text_of(event: Event) -> str:
    """The event as an expression.

    >>> text_of(parsed("~(A & B=no) or one of(C, D, E)"))
    'not (A and B=no) or exactly 1 of (C, D, E)'
    """
    if isinstance(event, Is):
        name, values = _word(event.variable), [_word(v) for v in event.values]
        equal = f"={values[0]}" if len(values) == 1 else f" in {{{', '.join(values)}}}"
        return name if event.plain else f"{name}{equal}"
    parts, n = [text_of(p) for p in event.parts], len(event.parts)
    least, most = min(event.allowed), max(event.allowed)
    if event.allowed == NONE and n == 1:
        return f"not {_closed(event.parts[0], parts[0])}"
    if event.allowed != frozenset(range(least, most + 1)):
        return " <-> ".join(_closed(e, p) for e, p in zip(event.parts, parts, strict=True))
    if (least, most) in ((n, n), (1, n)):
        join = " and " if least == n else " or "
        return join.join(p if _binds(e, least == n) else f"({p})" for e, p in zip(event.parts, parts, strict=True))
    how = f"exactly {least}" if least == most else f"at most {most}" if least == 0 else f"at least {least}"
    return f"{how} of ({', '.join(parts)})"


def _binds(event: Event, conjunction: bool) -> bool:
    """Whether an event may stand without parentheses in a conjunction, or in a disjunction."""
    if isinstance(event, Is) or event.allowed == NONE:
        return True
    return not conjunction and event.allowed != SAME


def _closed(event: Event, text: str) -> str:
    return text if isinstance(event, Is) else f"({text})"


def _word(text: str) -> str:
    """A name or a value, in quotes if it is not one word."""
    tokens = Tokens(text)
    plain = tokens.kind in ("word", "real") and tokens.now == text
    return text if plain else f'"{text}"' if '"' not in text else f"'{text}'"


def truth(event: Event, world: Worlds) -> tuple[Any, Any]:
    """Whether it surely holds, and whether it possibly does, in each world: the same where all it asks for is known.

    Parts are taken one by one: `A or not A` is not seen to hold where A is unknown.
    """
    if isinstance(event, Is):
        value = world[event.variable]
        one_of = np.isin(value.astype(str), event.values)
        unknown = np.array([x is None for x in value.tolist()], dtype=np.bool_)
        return one_of & ~unknown, one_of | unknown
    sure, possible = zip(*(truth(p, world) for p in event.parts), strict=True)
    least, most = sum(np.asarray(x, dtype=np.int64) for x in sure), sum(np.asarray(x, dtype=np.int64) for x in possible)
    allowed = np.array([n in event.allowed for n in range(len(event.parts) + 1)])
    before = np.concatenate([[0], np.cumsum(allowed)])
    found = before[np.asarray(most) + 1] - before[np.asarray(least)]
    return found == np.asarray(most) - np.asarray(least) + 1, found > 0


# -- reading -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=100_000)
def parsed(text: str) -> Event:
    """The event that an expression says.

    >>> parsed("A and not B")
    Count(parts=(Is(variable='A', values=('yes',), plain=True), Count(parts=(Is(variable='B', values=('yes',), \
plain=True),), allowed=frozenset({0}))), allowed=frozenset({2}))
    """
    tokens = Tokens(text)
    found = expression(tokens)
    if tokens.kind != "end":
        raise tokens.unexpected("an operator (and, or, ->, ...) or the end")
    return found


def expression(tokens: Tokens) -> Event:
    """A whole expression; what follows it is left."""
    try:
        return _expression(tokens)
    except RecursionError:
        raise DissonanceError("an expression is nested too deeply to be read.") from None


def _expression(tokens: Tokens) -> Event:
    left = _implication(tokens)
    while tokens.take("<->"):
        left = Count((left, _implication(tokens)), SAME)
    return left


def _implication(tokens: Tokens) -> Event:
    left = _either(tokens)
    return disjunction(negation(left), _implication(tokens)) if tokens.take("->") else left


def _either(tokens: Tokens) -> Event:
    parts: list[Event] = [_all(tokens)]
    while word := tokens.take("or", "xor"):
        if word == "xor":
            parts = [Count((disjunction(*parts), _all(tokens)), frozenset({1}))]
        else:
            parts.append(_all(tokens))
    return disjunction(*parts)


def _all(tokens: Tokens) -> Event:
    parts = [_one(tokens)]
    while tokens.take("and"):
        parts.append(_one(tokens))
    return conjunction(*parts)


def _one(tokens: Tokens) -> Event:
    if tokens.take("not"):
        return negation(_one(tokens))
    if tokens.take("("):
        found = _expression(tokens)
        tokens.expect(")")
        return found
    if tokens.kind == "how many":
        return _counted(tokens)
    name = tokens.word("an event")
    if sign := tokens.take("=", "!="):
        found = Is(name, (tokens.word("a value"),))
        return found if sign == "=" else negation(found)
    if tokens.take("in"):
        return Is(name, _listed(tokens))
    return Is(name, plain=True)


def _listed(tokens: Tokens) -> tuple[str, ...]:
    """{a, b, c}"""
    tokens.expect("{")
    found = [tokens.word("a value")]
    while tokens.take(","):
        found.append(tokens.word("a value"))
    tokens.expect("}")
    return tuple(found)


def _counted(tokens: Tokens) -> Event:
    """exactly 1 of A, B, C; the list may stand in parentheses."""
    how, number = tokens.counted()
    closed = tokens.take("(")
    parts = [_expression(tokens)]
    while tokens.take(","):
        parts.append(_expression(tokens))
    if closed:
        tokens.expect(")")
    n = len(parts)
    number = n if number is None else number
    if number > n:
        raise DissonanceError(f"{how} {number} of {n} is not possible.")
    least, most = {"exactly": (number, number), "at least": (number, n), "at most": (0, number)}[how]
    return Count(tuple(parts), frozenset(range(least, most + 1)))
