"""Brackets: one at once, and narrower ones as long as there is time."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dissonance.answer import DEFAULT_TOL, Answer
from dissonance.bounds.descent import StateDescent
from dissonance.bounds.dual import RelaxedDual
from dissonance.bounds.larger import helpful
from dissonance.bounds.mu import JointStates
from dissonance.bounds.oracle import EXTRA, installed
from dissonance.bounds.regions import Regions, carried, regions_of
from dissonance.bounds.spanning import SpanningOrder
from dissonance.bounds.states import Sampler, States
from dissonance.bounds.terms import HARD, SOFT, Floats, Scope, Terms, terms_of
from dissonance.bounds.worlds import Worlds
from dissonance.compiled import clock
from dissonance.costs import LOG_SCORE, Cost
from dissonance.distributions import Distribution
from dissonance.errors import SizeError
from dissonance.problem import EPS, Batch
from dissonance.timed import TimedBounds

if TYPE_CHECKING:
    from dissonance.bounds.solver import Bounds

_log = logging.getLogger(__name__)

NAME = "bounds"
"""What results call the solver."""

FIRST, LAST, COOLER = 0.1, 1e-6, 0.3
"""Temperatures at which minima are smoothed, times a typical beta: the first, the last, and the ratio of two."""

STEPS = 200
"""Steps of L-BFGS at a temperature."""

FEWEST, MOST = 256, 16384
"""States at first, and at most."""

VALUES = 100_000_000
"""Values of all states together."""

ENOUGH = 0.01
"""What moving all states must take from the gap, as a share of it, to be worth going on with as many of them."""

SEARCHED, SHARE, PATIENCE = 100, 0.4, 30
"""Variables up to which the cheapest joint state is searched for, the time that is left to the relaxation if so, and
how many searches in a row may gain nothing."""

GROWING = 0.6
"""The part of the time after which larger regions are not looked for: nothing could be made of them."""

BYTES = 250
"""What a cell of a region takes, roughly."""


WHY = "the junction tree does not fit"
"""Why bounds need not meet."""


@dataclass(frozen=True, eq=False)
class BoundsAnswer(Answer):
    """A bracket: `mu` is joint states (at gamma > 0 a mixture of products), `log_q` the bets of the lower bound on each
    soft arc."""

    states: Distribution | None = field(default=None, repr=False)
    log_q: dict[str, Floats] = field(default_factory=dict, repr=False)

    kind = "samples"

    @cached_property
    def joint(self) -> Floats:
        """mu(s,t) of every entry of every table, (1, entries)."""
        tables = [self.mu.marginal(*a.names) for a in self.part.beliefs] if self.states is not None else []
        return np.concatenate([x.numpy().ravel() for x in tables])[None] if tables else np.zeros_like(self.part.log_p)

    @property
    def mu(self) -> Distribution:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The mu that attains the upper bound."""
        assert self.states is not None
        return self.states


class Bracketing(TimedBounds):
    """The brackets of one component: iterating yields them, each at least as narrow as the one before."""

    def __init__(self, solver: Bounds, component: Batch, cost: Cost = LOG_SCORE) -> None:
        super().__init__(solver.seconds, solver.tol)
        self.solver, self.component, self.cost, self.unit = solver, component, cost, cost.unit
        self.terms = self._terms()
        self.regions = self._regions(())
        self.best = np.zeros(0)
        self.dual: RelaxedDual | None = None
        self.descent: StateDescent | None = None
        self.searched: dict[int, Floats] | None = None
        self.drawn = False
        self.grown: tuple[Scope, ...] = ()
        self.states: States | None = None
        self.steps = 0
        self.generator = np.random.default_rng(solver.seed)

    @cached_property
    def searchable(self) -> bool:
        """Whether the cheapest joint state may be found."""
        return self.attainable and bool(self.terms.soft) and 1 < len(self.terms.base) <= SEARCHED

    @cached_property
    def scale(self) -> float:
        """A typical cost of a soft arc: temperatures are shares of it."""
        soft = self.component.beta[~self.component.hard & (self.component.beta > 0)]
        return self.cost.unit * float(np.median(soft)) if len(soft) else 1.0

    @cached_property
    def attainable(self) -> bool:
        """Whether joint states can satisfy the hard arcs: those that are no function of their sources need real mu."""
        return all(t.kind != HARD for t in self.terms.terms)

    @property
    def possible(self) -> dict[str, npt.NDArray[np.bool_]]:
        """Which entries of the table of each soft arc some cell is left for."""
        r = self.regions
        number = {s: i for i, s in enumerate(r.scopes)}
        alive = r.alive
        found: dict[str, npt.NDArray[np.bool_]] = {}
        for t in self.terms.terms:
            if t.kind == SOFT:
                at = number[t.scope]
                open_ = np.zeros(len(t.log_p), dtype=np.bool_)
                open_[t.entry[alive[r.dense_at[at] : r.dense_at[at + 1]]]] = True
                found |= {self.component.arcs[a].name: open_ for a in t.arcs}
        return found

    def _terms(self) -> Terms:
        return terms_of(self.component, self.cost)

    def _regions(self, added: tuple[Scope, ...]) -> Regions:
        cells = sum(math.prod(self.terms.sizes[v] for v in s) for s in {t.scope for t in self.terms.terms})
        if BYTES * cells > self.solver.budget:
            raise SizeError(f"the tables have {cells:.3g} cells: too many for the budget, whatever the solver.")
        return regions_of(self.terms, added)

    def narrow(self) -> None:
        """Narrow the bracket until the bounds meet, nothing helps, the time is over, or somebody interrupts."""
        with self.interruptible():
            for _ in self:
                self.tell()

    def __iter__(self) -> Iterator[tuple[float, float]]:
        """Brackets, until they are close, nothing helps any more, or the time is over."""
        search = self.searchable and installed()
        yield from self._relaxed(self.limit * (SHARE if search else 1.0))
        if self.close() or self.late or not self.searchable or self.states is None:
            return
        if search:
            yield from self._search()
        else:
            _log.info("the bounds do not meet; a search for the cheapest joint state may help: %s", EXTRA)

    def _search(self) -> Iterator[tuple[float, float]]:
        """Lower bounds by the cheapest joint state at prices that are best against those that are known."""
        assert self.states is not None
        worlds = Worlds(Sampler(self.terms, self.regions), self.states)
        patience = PATIENCE
        for bound, blur, log_q in worlds.bounds(self.scale, max(1.0, 0.1 * (self.limit - self.seconds))):
            patience, before = patience - 1, self.lower
            if self.rise(bound, blur):
                patience = PATIENCE if self.lower > before + 0.01 * (self.upper - before) else patience
                self.searched = log_q
                yield self.lower, self.upper
            if self.close() or self.late or patience < 0:
                return

    def _relaxed(self, seconds: float) -> Iterator[tuple[float, float]]:
        """Brackets with lower bounds by regions that multipliers make agree."""
        if not self.regions.scopes:  # deterministic arcs make everything of nothing, and nothing else is said
            self.lower, self.upper, self.states = 0.0, 0.0, np.zeros((0, 1), dtype=np.uint8)
            yield self.lower, self.upper
            return
        added: tuple[Scope, ...] = ()
        eps, x = FIRST * self.scale, None
        while not self.regions.empty:
            dual = RelaxedDual(self.regions)
            x = dual.start if x is None else x
            while True:
                x = self._raise(dual, x, eps, self.began + 0.7 * seconds if self.drawn else math.inf)
                if self.lower == math.inf:
                    yield self.lower, self.upper
                    return
                if eps <= 0.011 * self.scale:
                    if self.attainable:
                        self._draw(dual, x, eps)
                    self.drawn = True
                    yield self.lower, self.upper
                if self.close() or (self.seconds >= seconds and self.drawn) or eps <= LAST * self.scale:
                    break
                if eps < 5e-4 * self.scale and self._grow(dual, x, eps, added):
                    break
                eps *= COOLER
            if self.close() or self.seconds >= seconds or not self.grown:
                return
            before, added = self.regions, (*added, *self.grown)
            self.regions = self._regions(added)
            x, eps = carried(x, before, self.regions), min(10 * eps, 0.01 * self.scale)
        self.contradict()
        yield self.lower, self.upper

    def _grow(self, dual: RelaxedDual, x: Floats, eps: float, added: tuple[Scope, ...]) -> bool:
        """Whether larger regions help, which are then `grown`."""
        room = int(self.solver.budget / BYTES) - len(self.regions.cell)
        most = min(room, 2 * len(self.regions.cell) + 10000)
        deadline = self.began + GROWING * self.limit
        self.grown = tuple(helpful(self.terms, self.regions, dual.smoothed(x, eps)[2], added, most, deadline))
        return bool(self.grown)

    def _raise(self, dual: RelaxedDual, x: Floats, eps: float, deadline: float) -> Floats:
        x, steps = dual.raised(x, eps, STEPS, deadline)
        self.steps += steps
        if dual.contradictory(x):
            self.contradict()
        elif self.rise(*dual.certified(x)):
            self.best, self.dual = x, dual
        return x

    def _draw(self, dual: RelaxedDual, x: Floats, eps: float) -> None:
        """States as the dual point has them, or those of before, moved down; the upper bounds that they prove."""
        sampler = Sampler(self.terms, self.regions)
        if not sampler.base:
            self._prove(sampler, np.zeros((0, 1), dtype=np.uint8))
            return
        if self.descent is None:
            first = SpanningOrder(sampler, dual.smoothed(x, eps)[2]).states(FEWEST, self.generator)
            self._prove(sampler, sampler.possible(first))
            self.descent = StateDescent(sampler, first, self.generator)
        down, size = self.descent, len(sampler.base)
        most = min(MOST, VALUES // size, self.solver.budget // (4 * size))
        deadline = self.began + self.seconds + 0.3 * max(0.0, self.limit - self.seconds)
        while not self.close():
            before = self.upper
            down.round(deadline if self.drawn else math.inf)
            self._prove(down.sampler, down.sampler.possible(down.states))
            if clock() > deadline:
                return
            if before - self.upper < ENOUGH * (before - self.lower):
                if 2 * down.states.shape[1] <= most:
                    down.double()
                return

    def _prove(self, sampler: Sampler, states: States) -> None:
        """Keep states and what they cost, if that is least."""
        if states.shape[1]:
            value, weights = sampler.cost(states), float(self.component.beta[~self.component.hard].sum())
            if self.fall(value, 16 * EPS * (abs(value) + weights)):
                self.states = states.copy()

    def solution(self) -> BoundsAnswer:
        """The bounds that were found, as a solution."""
        component = self.component
        return BoundsAnswer(
            component,
            component.proved(self.lower, self.upper, tol=DEFAULT_TOL),
            NAME,
            bracket=WHY,
            steps=self.steps,
            memory=BYTES * len(self.regions.cell),
            states=self._mu(),
            log_q=self._log_q(),
        )

    def _mu(self) -> Distribution | None:
        """The mu of the upper bound, if there is one."""
        return None if self.states is None else JointStates(self.component.variables, self.terms, self.states)

    def _log_q(self) -> dict[str, Floats]:
        """What the lower bound bets on, arc by arc."""
        log_q: dict[str, Floats] = {}
        if self.searched is not None:
            log_q = {
                self.component.arcs[a].name: self.searched[k] for k in self.searched for a in self.terms.terms[k].arcs
            }
        elif self.dual is not None:
            values, term, entry = self.dual.bets(self.best)
            tables = [np.full(len(t.log_p), -math.inf) for t in self.terms.terms]
            at = np.cumsum([0] + [len(t) for t in tables])
            flat = np.concatenate(tables) if tables else np.zeros(0)
            flat[at[term] + entry] = values
            for k, t in enumerate(self.terms.terms):
                for a in t.arcs if t.kind == SOFT else ():
                    log_q[self.component.arcs[a].name] = flat[at[k] : at[k + 1]]
        return log_q

    def fair_bets(self) -> dict[str, Floats]:
        """Return, by hard arc, what the bet on it that the lower bound is made of wins at the entries of its table.

        It is lam(s,t) - sum_t p(t|s) lam(s,t): nothing on average, if the arc holds.
        """
        found: dict[str, Floats] = {}
        if self.dual is not None:
            at = 0
            multipliers = self.best[self.dual.r.hard]
            for t in (t for t in self.terms.terms if t.kind == HARD):
                lam = multipliers[at : at + len(t.log_p)].reshape(-1, t.width)
                p = np.exp(t.log_p).reshape(lam.shape)
                found[self.component.arcs[t.arcs[0]].name] = (lam - (p * lam).sum(1, keepdims=True)).ravel()
                at += lam.size
        return found
