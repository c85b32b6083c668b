"""Books of beliefs, scored: what is certain to be gained from them, by which bets, whose fault it is, and what would be
coherent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dissonance.coherence.beliefs import Belief, GivenBeliefs, as_beliefs
from dissonance.coherence.events import names, renamed
from dissonance.coherence.outcomes import Scores, forecast_scores, realised, settled
from dissonance.coherence.template import Gains, Template
from dissonance.errors import CapabilityError, DissonanceError
from dissonance.solvers import Bounds
from dissonance.variables import Variable, cells
from dissonance.workers.base import Here, Watch
from dissonance.workers.cluster import to_cluster

if TYPE_CHECKING:
    import pandas as pd

MOST_WORLDS = 4096
"""Worlds of a book that are looked at one by one."""

_RECENT: dict[object, Template] = {}
REMEMBERED, SMALL = 32, 50
"""Templates that are remembered, and the most beliefs that one of them has."""

TOGETHER = 1000
"""Books of one kind that are one piece of work."""


@dataclass(frozen=True)
class BeliefRow:
    """One belief of a book, reconciled, and the bet on it.

    `coherent` is its reconciled probability, `contribution` what it is to blame for, `if_true` and `if_false` what the
    bet on it wins; where its condition does not hold the bet is called off.
    """

    belief: Belief
    coherent: float
    contribution: float
    if_true: float
    if_false: float

    @property
    def stake(self) -> float:
        """What is lost if the bet is lost: positive for a bet on the event, negative for one against it."""
        lost = max(0.0, -min(self.if_true, self.if_false))
        return lost if self.if_true >= self.if_false else -lost


@dataclass(frozen=True)
class World:
    """A world that is possible, and what all the bets together win in it."""

    values: dict[str, str]
    gain: float


@dataclass(frozen=True)
class Coherence:
    """The largest gain that is certain from betting against beliefs: between `lower` and `upper`, both proved.

    It is the inconsistency of the beliefs (in nats, for the log score). `rows` has the bets whose gain is at least
    `lower` in every possible world, blame, and reconciled probabilities, in the order of the beliefs.
    """

    beliefs: tuple[Belief, ...]
    lower: float
    upper: float
    converged: bool
    score: str
    rows: tuple[BeliefRow, ...]
    template: Template = field(repr=False)

    @property
    def unit(self) -> str:
        """What the gain is measured in."""
        return "nats" if self.score == "log" else "points"

    @property
    def is_bracket(self) -> bool:
        """Whether no more is known than `lower` and `upper`: the junction tree does not fit."""
        return self.template.past_tree and not self.converged

    @cached_property
    def worlds(self) -> tuple[World, ...] | None:
        """The possible worlds, the worst first; None if there are too many to look at."""
        scope = tuple(self.template.graph.named.values())
        if cells(scope) > MOST_WORLDS or not math.isfinite(self.upper):
            return None
        can = self.template.graph.possible_worlds
        rows = np.array([[r.if_true, r.if_false] for r in self.rows]).reshape(-1, 2, 1)
        gains = np.where(can.asked, np.where(can.true, rows[:, 0], rows[:, 1]), 0.0).sum(0)
        own = tuple(_names(self.beliefs))
        order = np.argsort(gains, kind="stable").tolist()
        return tuple([World(dict(zip(own, can.values[k], strict=True)), float(gains[k])) for k in order])

    @property
    def least(self) -> float:
        """The gain in the worst possible world; its proved bound, if there are too many worlds."""
        return self.worlds[0].gain if self.worlds else self.lower

    @cached_property
    def outcomes(self) -> np.ndarray:
        """1, 0, NaN if unknown, -1 if called off, of every belief: see `outcomes.settled`."""
        said = [b for b in self.beliefs if not b.is_fact]
        return settled(said, [[math.nan if b.outcome is None else float(b.outcome) for b in said]])[0]

    @property
    def realised(self) -> float:
        """What the bets won; NaN where some outcome is unknown."""
        gain = np.array([[r.if_false, r.if_true] for r in self.rows]).reshape(-1, 2)
        return float(realised(gain, self.outcomes))

    @property
    def before(self) -> Scores:
        """How good the beliefs were."""
        return forecast_scores(
            [r.belief.p if isinstance(r.belief.p, float) else math.nan for r in self.rows], self.outcomes
        )

    @property
    def after(self) -> Scores:
        """How good they would have been, reconciled."""
        known = [r.coherent if isinstance(r.belief.p, float) else math.nan for r in self.rows]
        return forecast_scores(known, self.outcomes)

    def frame(self) -> pd.DataFrame:
        """A data frame with a row for each belief."""
        try:
            import pandas
        except ImportError:
            raise CapabilityError("frame() needs pandas: pip install 'dissonance[pandas]'.") from None
        return pandas.DataFrame([record(r) for r in self.rows])

    def __repr__(self) -> str:
        flag = "" if self.converged else ", NOT converged"
        if self.is_bracket:
            return f"Coherence(between {self.lower:.6g} and {self.upper:.6g} {self.unit}{flag})"
        return f"Coherence({self.upper:.6g} {self.unit} in [{self.lower:.9g}, {self.upper:.9g}]{flag})"


def record(row: BeliefRow) -> dict[str, Any]:
    """A row with the names of columns."""
    b = row.belief
    p = {"p": b.p} if not isinstance(b.p, tuple) else {"p": None, "low": b.low, "high": b.high}
    return {
        **{"belief": b.event, "given": b.given or None, **p, "beta": b.beta, "name": b.name or None},
        **{"coherent": row.coherent, "contribution": row.contribution, "stake": row.stake},
        **{"if_true": row.if_true, "if_false": row.if_false},
    }


def coherence(
    beliefs: GivenBeliefs | pd.DataFrame,
    variables: Iterable[Variable] = (),
    *,
    score: str = "log",
    seconds: float = Bounds.seconds,
) -> Coherence:
    """Whether beliefs fit together: the gain that is certain from betting against them, by which bets, and whose fault.

    Beliefs are `Belief` objects or lines of the text form, or a text of such lines, or {event: probability}, or a data
    frame with their columns. `seconds`: how long the bounds of a book are narrowed that is too tangled for an exact
    answer.

    >>> result = coherence(["P(Rain) = 0.5", "P(Wind) = 0.5", "P(Rain and Wind) = 0.6"])
    >>> print(f"{result.lower:.4f} to {result.upper:.4f}, at least {result.least:.4f} in each world")
    0.0136 to 0.0136, at least 0.0136 in each world
    >>> [f"{row.belief.event}: {row.coherent:.3f}, stake {row.stake:+.3f}" for row in result.rows]
    ['Rain: 0.534, stake +0.070', 'Wind: 0.534, stake +0.070', 'Rain and Wind: 0.534, stake -0.117']
    """
    return coherences([beliefs], variables, score=score, seconds=seconds)[0]


def coherences(
    books: Iterable[GivenBeliefs | pd.DataFrame],
    variables: Iterable[Variable] = (),
    *,
    score: str = "log",
    seconds: float = Bounds.seconds,
    progress: Callable[[int, int], None] | None = None,
    cluster: Any = None,
) -> list[Coherence]:
    """The same for many books, apart from each other: those that differ in numbers and names only are solved together.

    `progress(done, total)` is called now and then. On a `cluster` (an address, "local:4", or a `distributed.Client`)
    they are solved there.
    """
    if score not in ("log", "brier"):
        raise DissonanceError(f"no score named {score!r}. Known: log, brier.")
    variables = tuple(variables)
    every = [_beliefs(b) for b in books]
    alike: dict[object, list[int]] = {}
    for k, book in enumerate(every):
        alike.setdefault((variables, _kind(book) if not variables else tuple(_said(book))), []).append(k)
    found: dict[int, Coherence] = {}
    sent: list[tuple[Template, list[int]]] = []

    def parts() -> Iterator[_Books]:
        for kind, some in alike.items():
            template = _template(kind, every[some[0]], variables)
            for here in (some[i : i + TOGETHER] for i in range(0, len(some), TOGETHER)):
                said = [[b for b in every[k] if not b.is_fact] for k in here]
                numbers = [np.array([[getattr(b, x) for b in row] for row in said]) for x in ("low", "high", "beta")]
                sent.append((template, here))
                yield _Books(template, [x.reshape(len(here), len(template)) for x in numbers], score, seconds)

    def finished(i: int, gains: Gains) -> None:
        template, here = sent[i]
        found.update({k: _report(every[k], template, gains, j, score) for j, k in enumerate(here)})
        if progress is not None:
            progress(len(found), len(every))

    with nullcontext(Here()) if cluster is None else to_cluster(cluster) as workers:
        workers.each(_gains, parts(), finished)
    return [found[k] for k in range(len(every))]


def _template(kind: object, book: list[Belief], variables: Sequence[Variable]) -> Template:
    """Return the template of a kind of books; those of small books that were used last are remembered."""
    found = _RECENT.pop(kind, None)
    if found is None:
        found = Template(book, variables)
    if len(book) <= SMALL:
        _RECENT[kind] = found
        if len(_RECENT) > REMEMBERED:
            _RECENT.pop(next(iter(_RECENT)))
    return found


class _Books(NamedTuple):
    """Books of one template: low and high ends and confidence of their beliefs, (P, B) each."""

    template: Template
    numbers: Sequence[np.ndarray]
    score: str
    seconds: float


def _gains(books: _Books, watch: Watch) -> Gains:
    return books.template.solve(*books.numbers, score=books.score, seconds=books.seconds)


def check(events: Sequence[str], probabilities: Sequence[float], facts: Sequence[str] = ()) -> Coherence:
    """Strings and numbers in, a report out: an event is an expression, or `event | given`.

    >>> check(["Rain", "Rain and Wind", "Wind | Rain"], [0.5, 0.2, 0.9]).upper > 0.05
    True
    """
    pairs = zip(events, probabilities, strict=True)
    return coherence([*(Belief.about(e, p) for e, p in pairs), *(Belief(f) for f in facts)])


def _beliefs(beliefs: Any) -> list[Belief]:
    if hasattr(beliefs, "columns"):
        from dissonance.coherence.files import of_frame

        return of_frame(beliefs)
    return as_beliefs(beliefs)


def _said(book: Sequence[Belief]) -> list[object]:
    return [(b.target, b.source, b.is_fact, isinstance(b.p, tuple)) for b in book]


def _names(book: Iterable[Belief]) -> list[str]:
    """The variables of a book, in the order in which they are mentioned."""
    return list(dict.fromkeys(n for b in book for e in (b.target, b.source) if e is not None for n in names(e)))


def _kind(book: Sequence[Belief]) -> object:
    """Equal for books that differ in their numbers and names only."""
    number = {name: str(i) for i, name in enumerate(_names(book))}
    return tuple(
        (renamed(b.target, number), b.source and renamed(b.source, number), b.is_fact, isinstance(b.p, tuple))
        for b in book
    )


def _report(book: Sequence[Belief], template: Template, batch: Gains, k: int, score: str) -> Coherence:
    said = [b for b in book if not b.is_fact]
    columns = batch.coherent[k], batch.contribution[k], batch.gain[k, :, 1], batch.gain[k, :, 0]
    rows = tuple(BeliefRow(b, *map(float, x)) for b, *x in zip(said, *columns, strict=True))
    bounds = float(batch.lower[k]), float(batch.upper[k]), bool(batch.converged[k])
    return Coherence(tuple(book), *bounds, score, rows, template)
