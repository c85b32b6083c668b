"""Books whose junction tree does not fit: a bracket, by `bounds/`, with the bets that prove its lower end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dissonance.attended import Attended
from dissonance.bounds.bracketing import BoundsSolution, Bracketing
from dissonance.bounds.terms import Floats
from dissonance.coherence.beliefs import BeliefError
from dissonance.coherence.brier_bounds import SquaredBracketing
from dissonance.coherence.facts import component, hard_facts
from dissonance.coherence.graph import Graph, HeldBelief
from dissonance.solvers import Bounds
from dissonance.solvers.convex.program import Arcs


class Bracket(NamedTuple):
    """Bounds of one book; mu(s,t) and beta log q/p of every entry of the tables of its beliefs, one after another."""

    lower: float
    upper: float
    joint: Floats
    gain: Floats


def book_bracket(graph: Graph, arcs: Arcs, book: int, solver: Bounds, score: str = "log") -> Bracket:
    """The bracket of one of many books, when the solver stops."""
    held, facts = [h.arc for h in graph.held], hard_facts(graph)
    log_p, beta = arcs.log_p[book], arcs.beta[book]
    shapes = [tuple(v.size for v in a.scope) for a in held]
    at = np.cumsum([0] + [math.prod(s) for s in shapes])
    tables = [log_p[at[i] : at[i + 1]].reshape(s) for i, s in enumerate(shapes)]
    if score == "brier":  # a probability of 0 is no more than a number
        tables = [t if b == math.inf else _open(t, h) for t, h, b in zip(tables, graph.held, beta, strict=True)]
    # what is certain, and silent, of a conditional is 0 in log_p; the rest of such a row is impossible
    said = [
        _silenced(Attended(h.arc, t, float(b), 0.0), h.silent) for h, t, b in zip(graph.held, tables, beta, strict=True)
    ]
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
    assert isinstance(found, BoundsSolution)
    if isinstance(run, SquaredBracketing):
        wins = run.wins()
        gain = [wins.get(a.name, np.zeros(a.log_p.size)) for a in said]
        return Bracket(found.lower, found.upper, _joint(found, said), np.concatenate(gain))
    return Bracket(found.lower, found.upper, _joint(found, said), _gains(found, said))


def _open(log_p: Floats, held: HeldBelief) -> Floats:
    """The table with both of its entries possible."""
    found = log_p.copy().ravel()
    found[[*held.yes, *held.no]] = -math.log(2)
    return found.reshape(log_p.shape)


def _silenced(arc: Attended, silent: Sequence[int]) -> Attended:
    if not silent:
        return arc
    width = arc.log_p.shape[-1]
    table = arc.log_p.reshape(-1, width).copy()
    for place in silent:
        row, column = divmod(place, width)
        table[row] = -math.inf
        table[row, column] = 0.0
    on = np.setdiff1d(np.arange(len(table)), [place // width for place in silent])
    table[on, silent[0] % width] = -math.inf
    return Attended(arc.arc, table.reshape(arc.log_p.shape), arc.beta, arc.alpha)


def _check(graph: Graph, run: Bracketing) -> None:
    """Conditions that cannot hold, as far as can be seen from few variables at once, are errors."""
    if run.regions.empty:
        return
    possible = run.possible
    beliefs = [b for b in graph.beliefs if not b.is_fact]
    for b, h in zip(beliefs, graph.held, strict=True):
        if b.source is not None and h.arc.name in possible and not possible[h.arc.name][[*h.yes, *h.no]].any():
            raise BeliefError(graph.beliefs.index(b), f"{b} is about nothing: {b.given} can never hold.")


def _joint(found: BoundsSolution, arcs: Sequence[Attended]) -> Floats:
    if found.states is None:
        return np.zeros(sum(a.log_p.size for a in arcs))
    return np.concatenate([found.states.marginal(*a.scope).numpy().ravel() for a in arcs])


def _gains(found: BoundsSolution, arcs: Sequence[Attended]) -> Floats:
    """beta log q/p: 0 of beliefs that nothing is bet on, inf where a thing is bet on that is thought impossible."""
    gains = []
    for a in arcs:
        log_q, log_p = found.log_q.get(a.name), a.log_p.ravel()
        if log_q is None or a.beta in (0.0, math.inf):
            gains.append(np.zeros(log_p.size))
            continue
        with np.errstate(invalid="ignore"):
            gains.append(np.where(np.isneginf(log_p), math.inf, a.beta * (log_q - log_p)))
    return np.concatenate(gains)
