"""Errors that stop a step of LIR: values that became non-finite, and contexts or attention that cannot be used."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dissonance.arc import Theta
from dissonance.errors import CapabilityError, DissonanceError
from dissonance.focus import Attention, Focus
from dissonance.inconsistency import inconsistency
from dissonance.pdg import PDG

if TYPE_CHECKING:
    from dissonance.lir.foci import StackedFocus
    from dissonance.lir.inner import Inner
    from dissonance.lir.local import Local
    from dissonance.lir.refocus import Refocus
    from dissonance.lir.run import Algorithm
    from dissonance.lir.trace import Trace


def surround(state: Algorithm, inner: Inner, foci: Sequence[Focus], focus: StackedFocus) -> None:
    """Give the inner problem the contexts of the foci and, where it draws samples, a seed for each run."""
    contexts = [f.context for f in foci]
    if focus.attention.varying and not inner.supports_varying:
        raise CapabilityError(
            "the refocus makes attention vary with the sample, and the run's own attention does not: give lir "
            'an `attention` that does, or solver="sampled".'
        )
    if inner.random or any(contexts):
        seeds = [int(g.integers(2**62)) for g in state.generators]
        inner.surround(contexts, seeds, focus.control.free)


def refocused(state: Algorithm, refocus: Refocus, pdg: PDG, generator: np.random.Generator, trace: Trace) -> Focus:
    """The focus that a refocus chooses, with every weight given explicitly, checked against the PDG. Of a focus that
    was checked before, only the context is checked again."""
    focus: object = refocus(pdg, state.step, generator, trace)
    try:
        if not isinstance(focus, Focus):  # pyright: ignore[reportUnnecessaryIsInstance]
            control = "trace.base.control" if isinstance(focus, Attention) else "control"
            raise DissonanceError(f"it returned {_short(focus)}, not a focus: return Focus(attention, {control}).")
        spelled = focus.on(pdg)
        if state.foci.knows(spelled):
            spelled.check_context(pdg)
        else:
            spelled.check(pdg)
        return spelled
    except DissonanceError as error:
        name = getattr(refocus, "name", getattr(refocus, "__name__", type(refocus).__name__))
        raise type(error)(f"the refocus {name!r}, step {state.step}: {error}") from None


def _short(value: object) -> str:
    return "None" if value is None else f"{'an' if type(value).__name__[0] in 'AEIOU' else 'a'} {type(value).__name__}"


def refuse_infinite(state: Algorithm, foci: Sequence[Focus], local: Local) -> None:
    """Raise if an average over samples is infinite or NaN at the theta before a step; the error names the arc."""
    if not state.parameters.drawn or local.first is None:  # tables may be infinite
        return
    for k, upper in enumerate(local.first[1]):
        if not math.isfinite(upper):
            refuse_nonfinite(state)
            theta = {**state.parameters.of(k, state.theta), **foci[k].context}
            why = impossible(state.parameters.pdgs[k], foci[k].attention, theta)
            raise DissonanceError(f"step {state.step}: the inconsistency is {upper}: {why}")


def refuse_nonfinite(state: Algorithm, keys: Collection[str] | None = None, written: bool = True) -> None:
    """Raise if a parameter, one of `keys` or any, is NaN or infinite. In a table the logarithm of 0 may be -inf.

    With samples, steps that are not `written` to a checkpoint are not checked: the next draw raises the error.
    """
    random = state.parameters.drawn
    if random and not written:
        return
    found = state.parameters.nonfinite(state.theta if keys is None else {key: state.theta[key] for key in keys})
    for key in found:
        v = state.theta[key]
        wrong = ~torch.isfinite(v)
        wrong &= torch.isfinite(state.parameters.theta0[key]) if random else v != -math.inf
        if bool(wrong.any()):
            arc = state.parameters.pdgs[0][state.parameters.arc_of[key]]
            if state.step == 0:
                raise DissonanceError(f"{arc}: the parameter {key!r} holds {float(v[wrong][0])}.")
            raise DissonanceError(
                f"step {state.step - 1}: {arc} would move to a {key!r} that is not finite. Lower its chi, or scale "
                "what it is given; the last checkpoint is from before this step."
            )


@torch.no_grad()
def impossible(pdg: PDG, attention: Attention, theta: Theta) -> str:
    """The first arc that gives density 0, or an infinite one, to samples that the hard arcs make, and what to do."""
    for s in inconsistency(pdg, attention, theta=theta).answers:
        if s.kind != "samples":
            continue
        mu: Any = s.mu  # samples
        for a in s.part.arcs:
            if a.hard or a.beta == 0:
                continue
            targets, sources = ([mu.values[v.name] for v in side] for side in (a.arc.targets, a.arc.sources))
            infinite = torch.isinf(a.arc.call("log_prob", theta, targets, sources))
            if bool(infinite.any()):
                return (
                    f"{a.arc} has density 0, or an infinite one, at {int(infinite.sum())} of {len(mu)} samples. Have "
                    "the hard arcs make values inside of its support (scale the data, squash the outputs), or widen it."
                )
    return "beliefs contradict each other outright."
