"""Books whose junction tree does not fit: a bracket, by `bounds/`, with the bets that prove its lower end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dissonance.attended import Attended
from dissonance.bounds.bracketing import BoundsAnswer, Bracketing
from dissonance.bounds.regions import Bools
from dissonance.bounds.terms import Floats
from dissonance.coherence.beliefs import BeliefError
from dissonance.coherence.bets import FLOOR
from dissonance.coherence.brier_bounds import SquaredBracketing
from dissonance.coherence.facts import component, hard_facts
from dissonance.coherence.graph import Graph, HeldBelief
from dissonance.problem import Batch
from dissonance.solvers import Bounds


class Bracket(NamedTuple):
    """Bounds of one book; mu(s,t) and beta log q/p of every entry of the tables of its beliefs, one after another."""

    lower: float
    upper: float
    joint: Floats
    gain: Floats


def book_bracket(graph: Graph, arcs: Batch, book: int, solver: Bounds, score: str = "log") -> Bracket:
    """The bracket of one of many books, when the solver stops."""
    held, facts = [h.arc for h in graph.held], hard_facts(graph)
    log_p, beta = arcs.log_p[book], arcs.beta[book]
    shapes = [tuple(v.size for v in a.scope) for a in held]
    at = np.cumsum([0] + [math.prod(s) for s in shapes])
    tables = [log_p[at[i] : at[i + 1]].reshape(s) for i, s in enumerate(shapes)]
    if score == "brier":  # a probability of 0 is no more than a number
        tables = [t if b == math.inf else _open(t, h) for t, h, b in zip(tables, graph.held, beta, strict=True)]
    said = [Attended(a, t, float(b), 0.0) for a, t, b in zip(held, tables, beta, strict=True)]
    whole = component(graph, [*facts, *said])
    if score == "brier":
        p = [np.zeros(0)] * len(facts) + [np.exp(log_p[at[i] : at[i + 1]]) for i in range(len(held))]
        run = SquaredBracketing(solver, whole, p)
    else:
        run = Bracketing(solver, whole)
    _check(graph, run)
    found = solver.narrowed(run)
    if found.lower == math.inf:
        return Bracket(math.inf, math.inf, np.full(len(log_p), math.nan), np.full(len(log_p), math.nan))
    assert isinstance(found, BoundsAnswer)
    wins = run.wins() if isinstance(run, SquaredBracketing) else _wins(found, said)
    wins |= run.fair_bets()
    return Bracket(found.lower, found.upper, _joint(found, said), np.concatenate([_gain(wins, a) for a in said]))


def _gain(wins: Mapping[str, Floats], arc: Attended) -> Floats:
    """What is won at the entries of an arc: inf where it takes them for impossible, 0 where nothing is bet on it."""
    log_p = arc.log_p.ravel()
    return np.where((log_p == -math.inf) & (arc.beta > 0), math.inf, wins.get(arc.name, np.zeros(log_p.size)))


def _open(log_p: Floats, held: HeldBelief) -> Floats:
    """The table with both of its entries possible."""
    found = log_p.copy().ravel()
    found[[*held.yes, *held.no]] = -math.log(2)
    return found.reshape(log_p.shape)


def _check(graph: Graph, run: Bracketing) -> None:
    """Conditions that facts rule out, as far as can be seen from few variables at once, are errors."""
    if all(x.any() for x in _asked(graph, run.possible)) or run.regions.empty:
        return
    solver = Bounds(seconds=0.0)
    every = [Attended(h.arc, _open(h.arc.log_table().numpy(), h), 1.0, 0.0) for h in graph.held]
    alone = Bracketing(solver, component(graph, [*hard_facts(graph), *every]))
    beliefs = [b for b in graph.beliefs if not b.is_fact]
    for b, seen in zip(beliefs, _asked(graph, alone.possible), strict=True):
        if b.source is not None and not seen.any():
            raise BeliefError(graph.beliefs.index(b), f"{b} is about nothing: {b.given} can never hold.")


def _asked(graph: Graph, possible: Mapping[str, Bools]) -> list[Bools]:
    """Which of the entries that answer a belief are possible, as far as is known."""
    return [possible[h.arc.name][[*h.yes, *h.no]] if h.arc.name in possible else np.ones(1, bool) for h in graph.held]


def _joint(found: BoundsAnswer, arcs: Sequence[Attended]) -> Floats:
    if found.states is None:
        return np.zeros(sum(a.log_p.size for a in arcs))
    return np.concatenate([found.states.marginal(*a.scope).numpy().ravel() for a in arcs])


def _wins(found: BoundsAnswer, arcs: Sequence[Attended]) -> dict[str, Floats]:
    """By soft arc, beta log q/p."""
    log_q = found.log_q
    return {a.name: a.beta * (np.maximum(log_q[a.name], FLOOR) - a.log_p.ravel()) for a in arcs if a.name in log_q}
