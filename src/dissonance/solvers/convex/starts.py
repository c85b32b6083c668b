"""Where an iteration begins, compiled: cold, or inside of a point that is known. `I`, `X` and `L`: see `room.py`."""

from __future__ import annotations

import math

import numpy as np

from dissonance.compiled import compiled
from dissonance.solvers.convex.certificate import normalise, slack
from dissonance.solvers.convex.dense import TINY
from dissonance.solvers.convex.layout import HARD, Floats, Ints
from dissonance.solvers.convex.room import AT

SLACK, UNIFORM_SLACK, LEANING, LEAST = 0.05, 0.2, 0.5, 0.05
"""A cold start: its slack at a cell of mean mass, and where there are hard arcs; how much mu leans to cells that cost
less; and, in units of the largest, the mass below which no cell falls."""


@compiled
def cold(I: Ints, X: Floats, L: Ints) -> None:
    """A cold start, from the tables alone: in every cluster mu falls with c, and mu z is the same everywhere.

    With hard arcs mu is uniform: what costs less may be what they forbid.
    """
    n_clusters, n_terms, n_unknowns, i_cell_at = L[AT.clusters], L[AT.terms], L[AT.unknowns], L[AT.cell_at]
    i_kind, i_row_at, i_entry_at, x_p, x_mu = L[AT.kind], L[AT.row_at], L[AT.entry_at], L[AT.p], L[AT.mu]
    x_z, x_y, x_d, x_c = L[AT.z], L[AT.y], L[AT.d], L[AT.c]
    leaning, slack_of_mean = LEANING, SLACK
    for t in range(n_terms):
        if I[i_kind + t] == HARD:
            leaning, slack_of_mean = 0.0, UNIFORM_SLACK
        for e in range(I[i_entry_at + I[i_row_at + t]], I[i_entry_at + I[i_row_at + t + 1]]):
            X[x_y + e] = 0.0 if I[i_kind + t] == HARD else math.log(max(X[x_p + e], TINY))
    for u in range(n_unknowns):
        X[x_d + u] = 0.0
    for k in range(n_clusters):
        first, stop = I[i_cell_at + k], I[i_cell_at + k + 1]
        cheapest, total = np.inf, 0.0
        for i in range(first, stop):
            cheapest = min(cheapest, X[x_c + i])
        for i in range(first, stop):
            X[x_mu + i] = max(math.exp(leaning * (cheapest - X[x_c + i])), LEAST)
            total += X[x_mu + i]
        for i in range(first, stop):
            X[x_z + i] = slack_of_mean * total / ((stop - first) * X[x_mu + i])
            X[x_mu + i] /= total


@compiled
def inside(I: Ints, X: Floats, L: Ints, gap: float, mix: float) -> None:
    """Shift a point whose bounds are `gap` apart inside, in place; `mix`: how much of the uniform it takes in.

    Used as it is, it would be slower than a cold start: its slack is too close to 0, and a cell that had nearly no
    mass, but is about to need some, would take dozens of steps to get it.
    """
    n_clusters, n_cells, i_cell_at, x_mu, x_z = L[AT.clusters], L[AT.cells], L[AT.cell_at], L[AT.mu], L[AT.z]
    x_r = L[AT.r]
    normalise(I, X, L)
    slack(I, X, L, x_r, 1.0, 0.0)
    for k in range(n_clusters):
        first, stop = I[i_cell_at + k], I[i_cell_at + k + 1]
        for i in range(first, stop):
            X[x_mu + i] = (1 - mix) * max(X[x_mu + i], 0.0) + mix / (stop - first)
            X[x_z + i] = max(X[x_r + i], 0.0) + gap / n_cells
