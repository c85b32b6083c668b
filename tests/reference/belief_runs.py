"""Runs of belief propagation held against the textbook, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dissonance import Record, Variable
from dissonance.bp import BeliefPropagation
from dissonance.runs import Run
from reference.belief_propagation import Array, Scopes, Textbook, same

EVERY = Record(globally=False, snapshots=1)
ROUNDING = 1e-12

LOOPY = ([2, 3, 2], [(0, 1), (1, 2), (0, 2), (0,)])


def random_tables(cards: Sequence[int], scopes: Scopes, seed: int = 0, zeros: float = 0.0) -> list[Array]:
    """e^N(0, 1), and a share of zeros."""
    rng = np.random.default_rng(seed)
    shapes = [[cards[v] for v in s] for s in scopes]
    return [np.exp(rng.normal(size=s)) * (rng.random(s) >= zeros) for s in shapes]


def named(cards: Sequence[int], scopes: Scopes, tables: Sequence[Array]) -> dict[str, tuple[list[Variable], Array]]:
    """The factors as the library takes them, with the names of the textbook."""
    variables = [Variable(f"X{v}", k) for v, k in enumerate(cards)]
    return {f"f{a}": ([variables[v] for v in s], t) for a, (s, t) in enumerate(zip(scopes, tables, strict=True))}


def check_steps(
    bp: BeliefPropagation, run: Run, book: Textbook, step: Callable | None = None, tol: float = ROUNDING
) -> None:
    """Every step of the run moves one message or belief, to where the textbook takes it."""
    start = dict(book.m)
    beliefs = {r: np.full(bp.graph.region[r].size, 1 / bp.graph.region[r].size) for r in bp.graph.region}
    assert same(bp.beliefs(run.trace.snapshots[0]).messages, start) == 0
    for t, row in enumerate(run.trace.rows[:-1]):
        (moved,) = row.chi
        if moved in book.m:
            book.m[moved] = (step or (lambda old, new: new))(book.m[moved], book.new(moved))
        else:
            region = moved[2:-1]
            beliefs[region] = book.belief(int(region[1:]))
        now = bp.beliefs(run.trace.snapshots[t + 1])
        assert same(now.messages, book.m) < tol, (t, moved)
        assert same(now.beliefs, beliefs) < tol, (t, moved)
