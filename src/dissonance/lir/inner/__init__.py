"""The inner problem of LIR: the inconsistency of P runs at once, and its derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dissonance.focus import Attention
from dissonance.lir.inner.base import Attentions, Inner, Solved
from dissonance.lir.inner.batched import Batched
from dissonance.lir.inner.compromise import Compromise
from dissonance.lir.inner.one_by_one import OneByOne
from dissonance.lir.inner.published import Published, Unconverged
from dissonance.lir.parameters import Parameters
from dissonance.solvers import Solver


def inner_for(parameters: Parameters, solver: Solver, base: Attention) -> Inner:
    """The way of solving many runs at once that a solver has, where it applies; run by run, where it does not."""
    together = TOGETHER.get(solver.name) if parameters.tabular and not base.varying else None
    return (together and together(parameters, solver, base)) or OneByOne(parameters, solver)


def _newton(parameters: Parameters, solver: Any, base: Attention) -> Inner | None:
    batched = Batched(parameters, solver)
    return batched if batched.fits() else None


def _auto(parameters: Parameters, solver: Any, base: Attention) -> Inner | None:
    batched = Batched(parameters, solver)
    return batched if batched.fits() and not batched.loose(base) else None


def _paper(parameters: Parameters, solver: Any, base: Attention) -> Inner:
    return Unconverged(parameters, Published.of(solver))


TOGETHER: dict[str, Callable[[Parameters, Any, Attention], Inner | None]] = {
    "newton": _newton,
    "auto": _auto,
    "paper": _paper,
}
"""Solvers, by name, that solve tables of many runs together."""

__all__ = ["Attentions", "Compromise", "Inner", "Solved", "inner_for"]
