"""Flows: what a step of LIR does to theta, d theta/dt = -chi . grad <<phi . M(theta)>> for unit time.

A flow moves the parameters with finite control; those with chi = inf go to their fixed point by `FullControl`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dissonance.errors import DissonanceError, suggest
from dissonance.lir.flows.base import Flow, Moved, State
from dissonance.lir.flows.descent import Descent
from dissonance.lir.flows.following import exp
from dissonance.lir.flows.full_control import FullControl
from dissonance.lir.flows.natural import Natural
from dissonance.lir.flows.ode import ODE
from dissonance.lir.flows.step import Step
from dissonance.options import check_options

FLOWS: dict[str, Callable[[], Flow]] = {
    "natural": Natural,
    "adam": Descent,
    "sgd": lambda: Descent("SGD", 0.1),
    "ode": ODE,
    "dopri5": lambda: ODE("dopri5"),
    "lsoda": lambda: ODE("LSODA"),
    "rk4": lambda: ODE("rk4"),
    "euler": lambda: ODE("euler"),
    "step": Step,
    "full": FullControl,
}


def flow_named(flow: Flow | str) -> Flow:
    """Return the flow of a name, with its default options, or one that was passed, checked."""
    if isinstance(flow, str):
        if flow not in FLOWS:
            raise DissonanceError(f"no flow named {flow!r}.{suggest(flow, FLOWS)}")
        return FLOWS[flow]()
    given: Any = flow
    kind = given if isinstance(given, type) else type(given)
    if kind.__module__.startswith("torch.optim"):
        made = f'flow=Descent("{kind.__name__}", rate=...)'
        raise DissonanceError(f"{kind.__name__} is an optimiser of torch, which a flow makes by itself: {made}.")
    if kind is given:
        raise DissonanceError(f"{kind.__name__} is a class of flows: make one, {kind.__name__}().")
    lacking = [name for name in ("name", "in_place", "whole", "step") if name not in dir(given)]
    if {"name", "step"}.intersection(lacking):
        raise DissonanceError(f"expected a flow, or the name of one, found {given!r}.{suggest('', FLOWS)}")
    if lacking:
        raise DissonanceError(f"the flow {given.name!r} does not say {lacking[0]!r}: derive it from flows.Flow.")
    check_options(flow)
    return flow


__all__ = ["FLOWS", "ODE", "Descent", "Flow", "FullControl", "Moved", "Natural", "State", "Step", "exp", "flow_named"]
