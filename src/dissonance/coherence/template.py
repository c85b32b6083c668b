"""Many books of one kind at once: the events are the same, the probabilities are arrays.

Thousands of forecasters, days or bootstrap replicates are one batch, without a Python object for any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dissonance.answer import DEFAULT_TOL
from dissonance.coherence.beliefs import Belief, BeliefError, GivenBeliefs, as_beliefs
from dissonance.coherence.bets import FLOOR, Bets, by_belief
from dissonance.coherence.brier import Projection
from dissonance.coherence.facts import contradictory
from dissonance.coherence.graph import Graph, HeldBelief
from dissonance.coherence.narrow import LARGE, Narrowing
from dissonance.coherence.past_tree import book_bracket
from dissonance.costs import BRIER_SCORE, LOG_SCORE, SCORES, Cost, FlatRows
from dissonance.errors import DissonanceError
from dissonance.pdg import PDG, Arc
from dissonance.problem import Batch
from dissonance.proof import meeting
from dissonance.solvers import Bounds, Newton
from dissonance.solvers.convex.layout import HARD
from dissonance.solvers.convex.program import Structure
from dissonance.solvers.convex.support import structure_of
from dissonance.solvers.exact import BYTES_PER_CELL, proved_on
from dissonance.variables import Variable, cells, shape

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

TINY = 1e-12
"""The mass below which nothing is known of a conditional."""


@dataclass(frozen=True)
class Gains:
    """P books of one template with B beliefs: the largest gain that is certain lies between `lower` and `upper` (P,).

    `coherent` (P, B) are the reconciled probabilities, `contribution` (P, B) what each belief is away from them, times
    its confidence: what it is to blame for. `gain` (P, B, 2) is what the bet on each belief wins if its event does not
    happen, and if it does; a bet is called off, and wins nothing, where its condition does not hold.
    """

    lower: Floats
    upper: Floats
    coherent: Floats
    contribution: Floats
    gain: Floats

    @property
    def converged(self) -> Bools:
        """Where the bounds meet, (P,)."""
        return meeting(self.lower, self.upper, DEFAULT_TOL)


class Template:
    """Beliefs whose probabilities are given later, in arrays; those that they have are the default.

    Facts hold in all the books. Whether a belief is a range is decided here. `past_tree`: whether the junction
    tree does not fit, so that there are brackets only.

    >>> coins = Template(["P(A) = 0.5", "P(B) = 0.5", "P(A and B) = 0.25"])
    >>> found = coins.solve([[0.5, 0.5, 0.25], [0.5, 0.5, 0.6]])
    >>> found.upper.round(4).tolist(), found.coherent[1].round(4).tolist()
    ([0.0, 0.0136], [0.5337, 0.5337, 0.5337])
    """

    def __init__(self, beliefs: GivenBeliefs, variables: Iterable[Variable] = (), *, tol: float = 1e-9) -> None:
        every, variables = as_beliefs(beliefs), tuple(variables)
        self._made = every, variables, tol
        self.beliefs = tuple(b for b in every if not b.is_fact)
        self.graph = Graph(every, variables)
        self.solver = Newton(tol=tol)
        self.blank = Batch.over(self.graph.variables, [h.arc for h in self.graph.held], facts=self.graph.facts)
        self.past_tree = BYTES_PER_CELL * self.solver.tree(self.blank).cells > self.solver.budget
        self._check(every)

    def __len__(self) -> int:
        return len(self.beliefs)

    def __reduce__(self) -> tuple[object, ...]:
        return _template, self._made

    def _check(self, every: Sequence[Belief]) -> None:
        """Facts that contradict each other, and conditions that cannot hold, are errors."""
        facts = [b for b in every if b.is_fact]
        if self.graph.facts and (self.past_tree or self.solver.structure(self.blank) is None):
            n = contradictory(facts, self.graph.named.values())
            if n is not None:
                what = "contradicts the facts before it" if n else "can never hold"
                raise BeliefError(every.index(facts[n]), f"{facts[n]} {what}.")
        if self.past_tree:
            return
        for b, h in zip(self.beliefs, self.graph.held, strict=True):
            if b.source is not None and not self._can_hold(h):
                raise BeliefError(every.index(b), f"{b} is about nothing: {b.given} can never hold.")

    def _can_hold(self, held: HeldBelief) -> bool:
        """Whether the condition of a belief can hold."""
        s = self.solver.structure(self.blank)
        assert s is not None
        a = next(i for i, h in enumerate(self.graph.held) if h is held)
        seen = s.layout.arc_table[s.layout.arc_cell[a] : s.layout.arc_cell[a + 1]] - s.layout.table_at[a]
        return bool(np.isin(held.yes + held.no, seen).any())

    # -- numbers ---------------------------------------------------------------------------------------------------

    @cached_property
    def _places(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the tables, one after another, say no and yes of every belief, (B, ends); and where each begins."""
        at = np.cumsum([0] + [cells(h.arc.scope) for h in self.graph.held])
        yes, no = (
            np.array([[at[i] + x[0], at[i] + x[-1]] for i, x in enumerate(xs)], dtype=np.int64).reshape(-1, 2)
            for xs in ([h.yes for h in self.graph.held], [h.no for h in self.graph.held])
        )
        return no, yes, at

    @cached_property
    def _logs(self) -> Floats:
        """log p of the tables that the beliefs themselves have, one after another."""
        return np.concatenate([h.arc.log_table().numpy().ravel() for h in self.graph.held] or [np.zeros(0)])

    @cached_property
    def _bets(self) -> Bets:
        return Bets(self.blank, *self._places[:2])

    def arcs(self, p: npt.ArrayLike, high: npt.ArrayLike | None = None, beta: npt.ArrayLike | None = None) -> Batch:
        """Return P books as problems."""
        low = np.atleast_2d(np.asarray(p, dtype=np.float64))
        if low.ndim != 2 or low.shape[1] != len(self):
            raise DissonanceError(
                f"the probabilities have the shape {low.shape}; {len(self)} beliefs a row are needed."
            )
        up = low if high is None else np.where(np.isnan(high_ := np.asarray(high, dtype=np.float64)), low, high_)
        weights = [b.beta for b in self.beliefs] if beta is None else beta
        confidence = np.array(np.broadcast_to(np.asarray(weights, dtype=np.float64), low.shape))
        for x, fine, what in (
            (low, (low >= 0) & (low <= 1), "a probability"),
            (up, (up >= low) & (up <= 1), "the upper end of a range"),
            (confidence, confidence >= 0, "a confidence"),
        ):
            if not fine.all():
                k, i = np.argwhere(~fine)[0].tolist()
                raise DissonanceError(f"row {k}: {what} of {self.beliefs[i].label!r} is {x[k, i]:g}.")
        no, yes, _ = self._places
        logs = np.tile(self._logs, (len(low), 1))
        with np.errstate(divide="ignore"):
            for end, q in ((0, low), (1, up)):  # of no range both are the same place
                logs[:, yes[:, end]], logs[:, no[:, end]] = np.log(q), np.log1p(-q)
        return self.blank.with_numbers(logs, confidence, np.zeros_like(confidence), np.zeros(len(low)))

    def pdgs(self, p: npt.ArrayLike, high: npt.ArrayLike | None = None) -> list[PDG]:
        """The PDG of each of P books, in which the beliefs can move and the facts cannot: for `lirs`, with
        `graph.attention`."""
        at, found = self._places[2], []
        for row in np.exp(self.arcs(p, high).log_p):
            arcs = []
            for i, h in enumerate(self.graph.held):
                table = row[at[i] : at[i + 1]].reshape(*shape(h.arc.scope))
                arcs.append(Arc(h.arc.name, h.arc.sources, h.arc.targets, table))
            pdg = PDG(*self.graph.facts, *arcs, variables=self.graph.named.values())
            found.append(pdg.learnable(*(a.name for a in arcs)))
        return found

    # -- solving ---------------------------------------------------------------------------------------------------

    def solve(
        self,
        p: npt.ArrayLike,
        high: npt.ArrayLike | None = None,
        beta: npt.ArrayLike | None = None,
        *,
        score: str = "log",
        seconds: float = Bounds.seconds,
    ) -> Gains:
        """The certain gain of P books with probabilities `p` (P, B): the lower ends, where `high` (P, B) is an upper
        end (NaN of what is no range); `beta` (P, B) or (B,), by default that of the beliefs.

        `seconds`: how long the bracket of a book is narrowed whose junction tree does not fit."""
        a, cost = self.arcs(p, high, beta), SCORES[score]
        found = Gains(
            *(np.full(len(a.log_p), x) for x in (-math.inf, math.inf)),
            *(np.full((len(a.log_p), len(self), *more), math.nan) for more in ((), (), (2,))),
        )
        if not len(self):
            return replace(found, lower=np.zeros(len(a.log_p)), upper=np.zeros(len(a.log_p)))
        if self.past_tree:
            return self._bracket(a, cost, seconds)
        solve, told = (self._solve, a) if cost.forbids else (self._project, self._numbers(a))
        for some in told.groups():
            part = self._solved(solve, told.take(some), a.take(some))
            for mine, theirs in zip(vars(found).values(), vars(part).values(), strict=True):
                mine[some] = theirs
        return found

    def _numbers(self, a: Batch) -> Batch:
        """The arcs of books under the quadratic score: there only a hard belief makes something impossible."""
        no, yes, _ = self._places
        logs, soft = a.log_p.copy(), np.isfinite(a.beta)[:, :, None]
        for at in (no, yes):
            logs[:, at] = np.where(soft, -math.log(2), logs[:, at])
        return a.with_numbers(logs, a.beta, a.alpha, a.gamma)

    def _solved(self, solve: Callable[[Structure, Batch], Gains], told: Batch, a: Batch) -> Gains:
        """Books `a` of one pattern, which `told` have, with bets that win the lower bound in every world that facts
        allow."""
        s, (count, size) = structure_of(told, self.solver.tree(told)), a.beta.shape
        if s is None:  # what is certain to one belief is impossible by another
            infinite, nothing = np.full(count, math.inf), np.full((count, size), math.nan)
            return Gains(infinite, infinite, nothing, nothing, np.full((count, size, 2), math.nan))
        found = solve(s, a)
        gain, lower = self._bets.certain(told, a, found.gain, found.lower)
        return replace(found, lower=lower, gain=gain)

    def _project(self, s: Structure, a: Batch) -> Gains:
        """The bounds, for the quadratic score, of books of one group; bets (P, entries)."""
        lower, upper, joint, soft, y = Projection(s, *self._places[:2]).solve(a)
        gain = np.where(s.layout.hard[s.arc_of], self._hard_gains(s, a, y), soft)
        return Gains(lower, upper, *self._reconciled(a, joint, BRIER_SCORE), gain)

    def _solve(self, s: Structure, a: Batch) -> Gains:
        """The bounds of books of one group; bets (P, entries)."""
        if s.work > LARGE and not s.hard:
            return self._narrow(s, a)
        found = self.solver.solve(a, quick=True)
        assert found.points is not None
        gain = self._gains(s, a, s.y(found.points))
        return Gains(found.bounds.lower, found.bounds.upper, *self._reconciled(a, found.joint), gain)

    def _bracket(self, a: Batch, cost: Cost, seconds: float) -> Gains:
        """Books that no tree fits, one after another."""
        solver = Bounds(seconds=seconds)
        found = [book_bracket(self.graph, a, k, solver, cost) for k in range(len(a.beta))]
        lower, upper, joint, gain = (np.array(x) for x in zip(*found, strict=True))
        gain = np.where((lower > 0)[:, None, None], by_belief(gain, *self._places[:2]), 0.0)
        return Gains(lower, upper, *self._reconciled(a, joint, cost), gain)

    def _narrow(self, s: Structure, a: Batch) -> Gains:
        """Large books, one after another, on few of their cells."""
        narrowing = Narrowing(a, s)
        found = [narrowing.solve(a.take(np.array([k])), self.solver.tol) for k in range(len(a.beta))]
        low, high = (np.array([getattr(x, name) for x in found]) for name in ("lower", "upper"))
        bounds, gain = (
            proved_on(s, a, low, high, tol=self.solver.tol),
            self._gains(s, a, np.stack([x.y for x in found])),
        )
        return Gains(bounds.lower, bounds.upper, *self._reconciled(a, np.stack([x.joint for x in found])), gain)

    def _reconciled(self, a: Batch, joint: Floats, cost: Cost = LOG_SCORE) -> tuple[Floats, Floats]:
        """mu(event | given) of each belief, its own probability where mu(given) is 0; and what it costs, times beta:
        both (P, B)."""
        no, yes, _ = self._places
        m, logs = (np.stack([x[:, no], x[:, yes]], -1) for x in (joint, a.log_p))  # (P, B, ends, 2)
        m[:, no[:, 0] == no[:, 1], 1] = 0.0  # no range
        pairs, flat = FlatRows.wide(np.full(no.size, 2)), (len(m), -1)
        paid = np.where(m.sum(-1, keepdims=True) > TINY, m, 0.0).reshape(flat)
        off = cost.value(paid, logs.reshape(flat), pairs).reshape(m.shape).sum((-2, -1))
        with np.errstate(divide="ignore", invalid="ignore"):
            total = m.sum(2)
            event = total[..., 1] / total.sum(-1)
            blame = np.where((a.beta > 0) & np.isfinite(a.beta), np.maximum(0.0, a.beta * off), 0.0)
        own = np.exp(a.log_p[:, yes]).mean(-1)
        return np.where(total.sum(-1) > TINY, event, own), blame

    def _gains(self, s: Structure, a: Batch, y: Floats) -> Floats:
        """What is won at the entries of tables, (P, entries): beta log(q/p), for q whose rows sum to 1."""
        lay, soft = s.layout, s.kind != HARD
        q = np.where(soft, np.exp(np.where(soft, y, 0.0)), 0.0)
        with np.errstate(divide="ignore"):
            found = self._spread(s, y - np.log(np.add.reduceat(q, lay.entry_at[:-1], axis=1)[:, lay.row]), -math.inf)
        leader = lay.leader[s.arc_of]
        there = np.arange(found.shape[1]) - lay.table_at[s.arc_of] + lay.table_at[leader]
        log_q = np.where(lay.hard[leader], a.log_p[:, there], found[:, there])
        log_q = np.where(self._bets.possible, np.maximum(log_q, FLOOR), log_q)
        beta = a.beta[:, s.arc_of]
        with np.errstate(invalid="ignore"):
            gain = np.where(beta > 0, beta * (log_q - a.log_p), 0.0)
        return np.where(lay.hard[s.arc_of], self._hard_gains(s, a, y), gain)

    def _hard_gains(self, s: Structure, a: Batch, y: Floats) -> Floats:
        """The fair bets on hard beliefs by the multipliers y: what is won at the entries of tables, (P, entries)."""
        lay = s.layout
        p = np.where(s.kind == HARD, np.exp(a.log_p[:, lay.table]), 0.0)
        mean = np.add.reduceat(p * y, lay.entry_at[:-1], axis=1)[:, lay.row]
        return self._spread(s, mean - y, 0.0)

    @staticmethod
    def _spread(s: Structure, x: Floats, rest: float) -> Floats:
        """Entries of the structure (P, entries) as entries of tables; `rest` where no cell can carry mass."""
        found = np.full((len(x), int(s.layout.table_at[-1])), rest)
        found[:, s.layout.table] = x
        return found


def _template(beliefs: Sequence[Belief], variables: Sequence[Variable], tol: float) -> Template:
    """The template, made anew where it has been sent to."""
    return Template(beliefs, variables, tol=tol)
