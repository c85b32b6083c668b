"""A step of P runs: the foci they choose, and the flow under them, in view of all arcs or of those in focus alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dissonance.errors import DissonanceError
from dissonance.focus import Focus
from dissonance.lir import guards
from dissonance.lir.flows import exp
from dissonance.lir.flows.base import Movement
from dissonance.lir.foci import StackedFocus
from dissonance.lir.local import Local
from dissonance.lir.parameters import stacked
from dissonance.lir.part import Part

if TYPE_CHECKING:
    from dissonance.lir.run import Algorithm


def refocus(state: Algorithm) -> list[Focus]:
    """The next focus of every run, which may depend on its trace and draw from its generator."""
    asked = zip(state.setting.refocus, state.parameters.pdgs, state.generators, state.traces, strict=True)
    return [guards.refocused(state, *each) for each in asked]


def flow(state: Algorithm, foci: Sequence[Focus]) -> tuple[StackedFocus, Local, Movement]:
    """Move theta under these foci, in view of all arcs or, where they are few, of those in focus alone."""
    part = state.parts.of(foci[0])
    if part is None:
        found = _on_all(state, foci)
        state.observer.forget()
        state.theta = state.moved = state.parameters.moved(found[2].theta)
        return found
    found = _on_part(state, foci, part)
    state.observer.follow(part, part.theta(state.theta), found[2].theta)
    state.theta.update({part.key_of[own]: x for own, x in found[2].theta.items()})
    state.moved = tuple(part.key_of.values())
    return found


def _on_all(state: Algorithm, foci: Sequence[Focus]) -> tuple[StackedFocus, Local, Movement]:
    """A step in view of all arcs."""
    focus, theta, inner = state.foci.stack(foci), stacked(state.theta), state.inner
    guards.surround(state, inner, foci, focus)
    if state.setting.record.globally:
        inner = inner.fork()
    local = Local(state.parameters, inner, focus.attention, focus.control, state.setting.tol)
    try:
        moved = exp(local, theta, state.flow)
    except DissonanceError:
        guards.refuse_nonfinite(state)  # which says more
        raise
    local.solve_once(theta)
    guards.refuse_infinite(state, foci, local)
    return focus, local, moved


def _on_part(state: Algorithm, foci: Sequence[Focus], part: Part) -> tuple[StackedFocus, Local, Movement]:
    """A step that looks at nothing but the arcs in focus."""
    focus, before = part.foci.stack(foci), part.theta(state.theta)
    local = Local(part.parameters, part.inner(), focus.attention, focus.control, state.setting.tol)
    moved = exp(local, before, state.flow)
    lower, upper = local.solve_once(before)
    gamma = float(focus.attention.gamma)
    outside = gamma * (state.parts.settings - part.settings) if gamma else 0.0
    local.first = [x - outside for x in lower], [x - outside for x in upper]
    return focus, local, moved
