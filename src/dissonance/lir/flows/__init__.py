"""exp: what a step of LIR does to theta, d theta/dt = -chi . grad <<phi . M(theta)>> for unit time.

A flow moves the parameters with finite control; those with chi = inf go to their fixed point by `FullControl`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch

from dissonance.errors import DissonanceError, suggest
from dissonance.lir.flows.base import Flow, Movement
from dissonance.lir.flows.descent import Descent
from dissonance.lir.flows.following import Following
from dissonance.lir.flows.full_control import FullControl
from dissonance.lir.flows.natural import Natural
from dissonance.lir.flows.ode import ODE
from dissonance.lir.flows.step import Step
from dissonance.lir.local import Local, StackedControl
from dissonance.lir.parameters import Stacked
from dissonance.options import check_options


def exp(local: Local, theta: Stacked, flow: Flow) -> Movement:
    """exp_theta{ -chi . grad <<phi . M(theta)>> }: full control where chi = inf, the flow where it is finite.

    Where there are both, what is under full control follows the flow: the limit of a large chi, and at its argmin in
    the end.
    """
    if 0 < local.chi.largest < math.inf:
        return flow(local, theta)
    given = local.chi.narrow
    full = {k: torch.where(chi == math.inf, chi, 0.0) for k, chi in given.items()}
    rest = {k: torch.where(chi == math.inf, 0.0, chi) for k, chi in given.items()}
    parts = [_reaching(local, chi) for chi in (full, rest)]
    if not parts[0].chi.free:
        return Movement(theta)
    if not parts[1].chi.free:
        moved, seen = FullControl()(parts[0], theta), parts[0]
    else:
        seen = Following(local.parameters, local.inner, local.attention, parts[1].chi, local.tol, full_part=parts[0])
        moved = flow(seen, theta)
        moved = moved.then(seen.led(moved.theta))
    local.solves, local.steps, local.first = seen.solves, seen.steps, seen.first
    return moved


def _reaching(local: Local, chi: Stacked) -> Local:
    """The same under another control, (P, 1, ...) or (P, ...)."""
    return replace(local, chi=StackedControl({k: x.expand_as(local.chi.chi[k]) for k, x in chi.items()}))


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
    """The flow of that name, with its default options."""
    if not isinstance(flow, str):
        kind = flow if isinstance(flow, type) else type(flow)
        if kind.__module__.startswith("torch.optim"):
            made = f'flow=Descent("{kind.__name__}", rate=...)'
            raise DissonanceError(f"{kind.__name__} is an optimiser of torch, which a flow makes by itself: {made}.")
        if isinstance(flow, type):
            raise DissonanceError(f"{kind.__name__} is a class of flows: make one, {kind.__name__}().")
        if not callable(flow) or not hasattr(flow, "name"):
            raise DissonanceError(f"expected a flow, or the name of one, found {flow!r}.{suggest('', FLOWS)}")
        check_options(flow)
        return flow
    if flow not in FLOWS:
        raise DissonanceError(f"no flow named {flow!r}.{suggest(flow, FLOWS)}")
    return FLOWS[flow]()


__all__ = ["FLOWS", "ODE", "Descent", "Flow", "FullControl", "Movement", "Natural", "Step", "exp", "flow_named"]
