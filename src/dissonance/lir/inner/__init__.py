"""The inner problem of LIR: the inconsistency of P runs at once, and its derivatives."""

from __future__ import annotations

from dissonance.focus import Attention
from dissonance.lir.inner.base import Attentions, Inner, Solved
from dissonance.lir.inner.batched import Batched
from dissonance.lir.inner.compromise import Compromise
from dissonance.lir.inner.one_by_one import OneByOne
from dissonance.lir.inner.published import Published, Unconverged
from dissonance.lir.parameters import Parameters
from dissonance.solvers import Paper, Solver


def inner_for(parameters: Parameters, solver: Solver, base: Attention) -> Inner:
    """Return the inner problem of runs: of tables all runs together, of others run by run."""
    if not parameters.tabular or base.varying:
        return OneByOne(parameters, solver)
    return Unconverged(parameters, Published.of(solver)) if isinstance(solver, Paper) else Batched(parameters, solver)


__all__ = ["Attentions", "Compromise", "Inner", "Solved", "inner_for"]
