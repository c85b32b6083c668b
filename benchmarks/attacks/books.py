"""Random books of beliefs with facts, ranges, comparisons and hard conditionals, under both scores.

No bracket may exclude what `bookmaker.py` proves over all worlds one by one; every bet that is returned
must be fair by its own belief; and in every world that facts allow, all bets together must win `lower`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attacks.bookmaker import Claim, Proved, acceptable, bounds
from dissonance.coherence.beliefs import Belief, BeliefError
from dissonance.coherence.book import BeliefRow, Coherence, coherences
from dissonance.coherence.template import Template

Bools = NDArray[np.bool_]

DRAWS = 3
"""Books of one kind, which are solved together."""

RARE = 100
"""One kind of so many is solved as if no junction tree fitted."""

SLOP = 1e-9
"""What rounding and the tolerance of hard beliefs may do, relative to the gain and to what is won and lost."""


class Said(NamedTuple):
    """An expression, and whether it is true in each world."""

    text: str
    true: Bools


class Kind(NamedTuple):
    """Events and conditions of beliefs, which of them are ranges, and the worlds that facts allow."""

    facts: list[Said]
    events: list[Said]
    given: list[Said | None]
    ranges: list[bool]

    @property
    def worlds(self) -> Bools:
        """The worlds that are possible."""
        return np.logical_and.reduce([np.ones_like(self.events[0].true), *(f.true for f in self.facts)])


def attack(seed: int) -> Iterator[str | None]:
    """Books without end; a line for every answer that is wrong."""
    for k in range(1 << 62):
        rng = np.random.default_rng([seed, k, 33])
        kind = _kind(rng)
        for score in ("log", "brier"):
            books = [_book(rng, kind) for _ in range(DRAWS)]
            solve = past_tree if k % RARE == 0 else coherences
            for i, said in enumerate(judged(kind, books, score, solve)):
                yield said and f"book {i} of kind {k} of seed {seed}, {score}: {said}: {_text(kind, books[i])}"


def past_tree(books: list[list[Belief]], *, score: str) -> list[Coherence]:
    """The answers to books of one kind as if no junction tree fitted."""
    template = Template(books[0])
    template.past_tree = True
    found: list[Coherence] = []
    for book in books:
        said = [b for b in book if not b.is_fact]
        low, high, beta = ([[getattr(b, x) for b in said]] for x in ("low", "high", "beta"))
        gains = template.solve(low, high, beta, score=score, seconds=0.0)
        bets = gains.gain[0].tolist()
        rows = [BeliefRow(b, math.nan, math.nan, *reversed(bet)) for b, bet in zip(said, bets, strict=True)]
        ends = float(gains.lower[0]), float(gains.upper[0]), bool(gains.converged[0])
        found.append(Coherence(tuple(book), *ends, score, tuple(rows), template))
    return found


def judged(
    kind: Kind, books: list[list[Belief]], score: str, solve: Callable[..., list[Coherence]] = coherences
) -> Iterator[str | None]:
    """What is wrong with the answers to books of one kind."""
    facts = [Belief(f.text) for f in kind.facts]
    try:
        results = solve([[*facts, *book] for book in books], score=score)
    except BeliefError as error:
        for _ in books:
            yield _refused(kind, error)
        return
    except Exception as error:
        for _ in books:
            yield repr(error)
        return
    for book, result in zip(books, results, strict=True):
        claims = _claims(kind, book)
        yield bracket(result, bounds(claims, kind.worlds, score)) or bets(result, claims, kind.worlds)


def bracket(result: Coherence, known: Proved) -> str | None:
    """What is wrong with a bracket."""
    found, slop = f"[{result.lower!r}, {result.upper!r}]", SLOP * (1.0 + min(known.upper, 1e300))
    if not 0 <= result.lower <= result.upper:
        return f"{found} is no bracket"
    if not result.lower <= known.upper + slop:
        return f"{found}, and a mu has {known.upper!r}"
    if not result.upper >= known.lower - slop:
        return f"{found}, and bets win {known.lower!r}"
    if (
        not result.converged
        and not result.template.past_tree
        and known.upper - known.lower <= 1e-7 * max(1.0, known.upper)
    ):
        return f"{found} is left open, and [{known.lower!r}, {known.upper!r}] is known"
    return None


def bets(result: Coherence, claims: list[Claim], worlds: Bools) -> str | None:
    """What is wrong with the bets of an answer."""
    if result.lower == math.inf:
        return None
    won, size = np.zeros(len(worlds)), 1.0
    for row, claim in zip(result.rows, claims, strict=True):
        if (off := acceptable(claim, result.score, row.if_true, row.if_false)) > SLOP:
            return f"the bet ({row.if_true!r}, {row.if_false!r}) on {row.belief} wins {off:.3g} too much"
        won = won + np.where(claim.given, np.where(claim.event, row.if_true, row.if_false), 0.0)
        size += max((abs(x) for x in (row.if_true, row.if_false) if math.isfinite(x)), default=0.0)
    least = float(won[worlds].min())
    if not least >= result.lower - 1e-14 * size:
        return f"lower is {result.lower!r}, and the bets win {least!r} in some world"
    if not result.least >= result.lower - 1e-14 * size:
        return f"lower is {result.lower!r}, and least {result.least!r}"
    return None


def _refused(kind: Kind, error: BeliefError) -> str | None:
    """What is wrong with refusing a book: only contradictory facts, and a condition that cannot hold, are refused."""
    return None if _contradictory(kind) else repr(error)


def _contradictory(kind: Kind) -> bool:
    """Whether facts allow no world, or none in which a condition holds."""
    possible = kind.worlds
    return not possible.any() or any(g is not None and not (g.true & possible).any() for g in kind.given)


def _claims(kind: Kind, book: list[Belief]) -> list[Claim]:
    every = np.ones_like(kind.worlds)
    return [
        Claim(e.true, every if g is None else g.true, b.low, b.high, b.beta)
        for e, g, b in zip(kind.events, kind.given, book, strict=True)
    ]


def _text(kind: Kind, book: list[Belief]) -> str:
    return "; ".join([*(f.text for f in kind.facts), *map(str, book)])


# -- drawn -------------------------------------------------------------------------------------------------------------


def _kind(rng: np.random.Generator) -> Kind:
    """Events and facts, of which few contradict each other or a condition."""
    while True:
        found = _drawn(rng)
        if not _contradictory(found) or rng.random() < 0.1:
            return found


def _drawn(rng: np.random.Generator) -> Kind:
    wide = rng.random() < 0.1  # a tree of several clusters
    count = int(rng.integers(5, 8) if wide else rng.integers(1, 5))
    sizes = [3 if rng.random() < 0.1 else 2 for _ in range(count)]
    places = np.indices(sizes).reshape(count, -1)
    leaves = [
        Said(f"V{i}", places[i] == 1) if size == 2 else Said(f"V{i}={value}", places[i] == place)
        for i, size in enumerate(sizes)
        for place, value in enumerate("abc"[:size])
        if size == 3 or place
    ]
    listed = [Said(f"V{i} in {{a, b, c}}", places[i] >= 0) for i, size in enumerate(sizes) if size == 3]
    facts = [_event(rng, leaves, 2) for _ in range(int(rng.choice([0, 0, 0, 1, 1, 2])))]
    events, given, ranges = list[Said](), list[Said | None](), list[bool]()
    for _ in range(int(rng.integers(5, 13) if wide else rng.integers(1, 7))):
        events.append(_event(rng, leaves, 2))
        condition = _event(rng, leaves, 1) if rng.random() < 0.4 else None
        if rng.random() < 0.12:  # a comparison
            other = _event(rng, leaves, 1)
            text = f"exactly 1 of ({events[-1].text}, {other.text})"
            condition = Said(text, events[-1].true != other.true)
        given.append(condition)
        ranges.append(bool(rng.random() < 0.25))
    # variables of three values are known by what a fact lists
    return Kind([*listed, *facts], events, given, ranges)


def _event(rng: np.random.Generator, leaves: list[Said], depth: int) -> Said:
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return leaves[int(rng.integers(len(leaves)))]
    if kind < 0.55:
        inner = _event(rng, leaves, depth - 1)
        return Said(f"not ({inner.text})", ~inner.true)
    if kind < 0.65:
        parts = [_event(rng, leaves, depth - 1) for _ in range(int(rng.integers(2, 5)))]
        number = int(rng.integers(len(parts) + 1))
        how = str(rng.choice(["exactly", "at least", "at most"]))
        held = np.sum([p.true for p in parts], axis=0)
        true = {"exactly": held == number, "at least": held >= number, "at most": held <= number}[how]
        return Said(f"{how} {number} of ({', '.join(p.text for p in parts)})", true)
    a, b = (_event(rng, leaves, depth - 1) for _ in range(2))
    sign = str(rng.choice(["and", "or", "xor", "->", "<->"]))
    true = {
        "and": a.true & b.true,
        "or": a.true | b.true,
        "xor": a.true != b.true,
        "->": ~a.true | b.true,
        "<->": a.true == b.true,
    }[sign]
    return Said(f"({a.text}) {sign} ({b.text})", true)


def _book(rng: np.random.Generator, kind: Kind) -> list[Belief]:
    often = float(rng.choice([0.0, 0.2, 0.5, 0.9]))  # hard beliefs
    widest = float(rng.choice([0.0, 0.5, 2.0]))  # how far confidences differ
    found: list[Belief] = []
    for event, given, wide in zip(kind.events, kind.given, kind.ranges, strict=True):
        low, high = sorted(_probability(rng) for _ in range(2))
        if wide:
            end = rng.random()
            p = (low, 1.0) if end < 0.4 else (0.0, high) if end < 0.7 else (low, high)
        else:
            p = low
        beta = math.inf if rng.random() < often else 0.0 if rng.random() < 0.03 else 10 ** rng.uniform(-widest, widest)
        found.append(replace(Belief(event.text, p, given.text if given else ""), beta=float(beta)))
    return found


def _probability(rng: np.random.Generator) -> float:
    kind = rng.random()
    if kind < 0.12:
        return float(rng.integers(2))
    return float(rng.integers(1, 20) / 20 if kind < 0.7 else rng.uniform(0.001, 0.999))
