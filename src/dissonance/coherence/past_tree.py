"""Books whose junction tree does not fit: a bracket, by `bounds/`, with the bets that prove its lower end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dissonance.attended import Attended
from dissonance.bounds.bracketing import Bracketing
from dissonance.bounds.regions import Bools
from dissonance.coherence.beliefs import BeliefError
from dissonance.coherence.bets import FLOOR
from dissonance.coherence.facts import component, hard_facts
from dissonance.coherence.graph import Graph
from dissonance.costs import BRIER_SCORE, LOG_SCORE, Cost, FlatRows, Floats
from dissonance.problem import Batch
from dissonance.solvers import Bounds
from dissonance.variables import cells, shape


class Bracket(NamedTuple):
    """Bounds of one book; mu(s,t), and the prices, times beta, of every entry of the tables of its beliefs."""

    lower: float
    upper: float
    joint: Floats
    gain: Floats


def book_bracket(graph: Graph, arcs: Batch, book: int, solver: Bounds, cost: Cost = LOG_SCORE) -> Bracket:
    """Return the bracket of one of many books, when the solver stops."""
    held = [h.arc for h in graph.held]
    tables = np.split(arcs.log_p[book], np.cumsum([cells(a.scope) for a in held])[:-1])
    said = [
        Attended(a, t.reshape(shape(a.scope)), b, 0.0)
        for a, t, b in zip(held, tables, arcs.beta[book].tolist(), strict=True)
    ]
    run = Bracketing(solver, component(graph, [*hard_facts(graph), *said]), cost)
    _check(graph, run)
    run.narrow()
    if run.lower == np.inf:
        unknown = np.full(len(arcs.log_p[book]), np.nan)
        return Bracket(run.lower, run.upper, unknown, unknown)
    found = run.solution()
    joint = np.zeros(len(arcs.log_p[book]))
    if found.states is not None:
        joint = np.concatenate([found.states.marginal(*a.scope).numpy().ravel() for a in said])
    won = {a.name: _won(a, found.log_q[a.name], cost) for a in said if a.name in found.log_q} | run.fair_bets()
    return Bracket(found.lower, found.upper, joint, np.concatenate([_gain(a, won.get(a.name), cost) for a in said]))


def _won(arc: Attended, log_q: Floats, cost: Cost) -> Floats:
    """Return what a bet on a soft arc wins at its entries."""
    width = arc.log_p.shape[-1]
    rows = FlatRows.wide(np.full(arc.log_p.size // width, width))
    return arc.beta * cost.price(np.maximum(log_q, FLOOR), arc.log_p.ravel(), rows)


def _gain(arc: Attended, won: Floats | None, cost: Cost) -> Floats:
    """Return what is won at the entries of an arc: inf where it takes them for impossible, 0 without a bet."""
    excluded = (arc.log_p.ravel() == -np.inf) & (arc.beta > 0) & (arc.hard or cost.forbids)
    return np.where(excluded, np.inf, 0.0 if won is None else won)


def _check(graph: Graph, run: Bracketing) -> None:
    """Reject conditions that facts rule out, as far as can be seen from few variables at once."""
    if all(x.any() for x in _asked(graph, run.possible)) or run.regions.empty:
        return
    every = [Attended(h.arc, h.arc.log_table().numpy(), 1.0, 0.0) for h in graph.held]
    # under the Brier score beliefs rule nothing out, so that what is impossible follows from facts alone
    alone = Bracketing(Bounds(seconds=0.0), component(graph, [*hard_facts(graph), *every]), BRIER_SCORE)
    beliefs = [b for b in graph.beliefs if not b.is_fact]
    for b, seen in zip(beliefs, _asked(graph, alone.possible), strict=True):
        if b.source is not None and not seen.any():
            raise BeliefError(graph.beliefs.index(b), f"{b} is about nothing: {b.given} can never hold.")


def _asked(graph: Graph, possible: Mapping[str, Bools]) -> list[Bools]:
    """Return which of the entries that answer a belief are possible, as far as is known."""
    return [possible[h.arc.name][[*h.yes, *h.no]] if h.arc.name in possible else np.ones(1, bool) for h in graph.held]
