"""exp: what a step of LIR does to theta, d theta/dt = -chi . grad <<phi . M(theta)>> for unit time.

A flow moves the parameters with finite control; those with chi = inf go to their fixed point by `FullControl`, first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from dissonance.errors import DissonanceError, suggest
from dissonance.lir.descent import Descent
from dissonance.lir.full_control import FullControl, Moved
from dissonance.lir.local import Local, Reach
from dissonance.lir.natural import Natural
from dissonance.lir.parameters import Stacked


class Flow(Protocol):
    """Anything that moves theta for unit time under the control of a focus."""

    @property
    def name(self) -> str:
        """What the trace calls it."""
        ...

    def __call__(self, local: Local, theta: Stacked) -> Moved:
        """theta a unit of time later."""
        ...


def exp(local: Local, theta: Stacked, flow: Flow) -> Moved:
    """exp_theta{ -chi . grad <<phi . M(theta)>> }: full control where chi = inf, the flow where it is finite."""
    if 0 < local.reach.largest < math.inf:
        return flow(local, theta)
    given = local.reach.narrow
    moved = Moved(theta)
    full = {k: chi == math.inf for k, chi in given.items()}
    parts: tuple[tuple[Flow, Stacked], ...] = ((FullControl(), full), (flow, {k: ~x for k, x in full.items()}))
    for kind, chosen in parts:
        control = {k: torch.where(chosen[k], chi, 0.0) for k, chi in given.items()}
        if any(bool(chi.any()) for chi in control.values()):
            spread = {k: chi.expand_as(local.control[k]) for k, chi in control.items()}
            part = replace(local, reach=Reach(spread))
            moved = moved.then(kind(part, moved.theta))
            local.solves, local.steps, local.first = part.solves, part.steps, part.first
    return moved


@dataclass(frozen=True)
class Step:
    """A single gradient step theta - chi grad: what every flow comes to for small chi."""

    name: str = "step"

    def __call__(self, local: Local, theta: Stacked) -> Moved:
        """One step of length chi."""
        slope, reach = local.slope(theta), local.reach
        moved: Stacked = {}
        for k in reach.free:
            number = reach.each[0][k] if len(reach.each) == 1 else None
            if isinstance(number, float):
                moved[k] = theta[k].sub(slope[k], alpha=number)
            else:
                moved[k] = torch.addcmul(theta[k], reach.narrow[k], slope[k], value=-1.0)
        return Moved.settled(local.parameters, theta, moved)


STIFF = {"lsoda": "LSODA", "bdf": "BDF", "radau": "Radau"}
"""Methods of scipy's that are implicit where need be."""

FIXED = ("euler", "midpoint", "rk4", "heun3")
"""Methods of torchdiffeq's with fixed steps."""

STEPS = 1000
"""How many steps an explicit method may take for a unit of time before the flow counts as stiff."""


@dataclass(frozen=True)
class ODE:
    """The flow itself, integrated by torchdiffeq: dopri5, rk4, euler or another of its methods; or LSODA, BDF, Radau.

    By default dopri5 if all arcs are tables. Flows of Gaussians are stiff (a slope moves by 1/E[s^2] of what a shift
    does), and for them it is LSODA, which changes to an implicit method where it must. `steps`: how many a method with
    fixed steps takes. Adaptive methods take each run by itself, so that runs do not depend on their company.
    """

    method: str | None = None
    rtol: float = 1e-5
    atol: float = 1e-7
    steps: int = 10

    @property
    def name(self) -> str:
        """What the trace calls it."""
        return "ode" if self.method is None else f"ode({self.method})"

    def __call__(self, local: Local, theta: Stacked) -> Moved:
        """theta(1) of d theta/dt = -chi grad, theta(0) = theta."""
        method = self.method or ("dopri5" if local.parameters.tabular else "LSODA")
        if method in FIXED or len(local.parameters) == 1:
            return self._integrate(local, theta, method)
        alone = [local.alone(k) for k in range(len(local.parameters))]
        each = [{key: v[k : k + 1] for key, v in theta.items()} for k in range(len(alone))]
        moved = [self._integrate(one, mine, method) for one, mine in zip(alone, each, strict=True)]
        local.count(alone)
        return Moved.stacked(moved)

    def _integrate(self, local: Local, theta: Stacked, method: str) -> Moved:
        from torchdiffeq import odeint

        left = torch.zeros(len(local.parameters), dtype=torch.bool)
        free = local.reach.free

        def speed(time: Tensor, at: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            nonlocal left
            here, outside = local.parameters.admissible({**theta, **dict(zip(free, at, strict=True))})
            left = left | outside
            slope = local.slope(here)
            return tuple(-local.control[k] * slope[k] for k in free)

        options: dict[str, Any] = {"max_num_steps": STEPS}
        if method in FIXED:
            options = {"step_size": 1 / self.steps}
        elif method.lower() in STIFF:
            options, method = {"solver": STIFF[method.lower()]}, "scipy_solver"
        unit = torch.tensor([0.0, 1.0], dtype=torch.float64)
        try:
            with torch.no_grad():
                start = tuple(theta[k] for k in free)
                path: Any = odeint(speed, start, unit, rtol=self.rtol, atol=self.atol, method=method, options=options)
        except (AssertionError, ValueError) as error:
            raise DissonanceError(f"{self.name} did not get through a step of LIR: {error}. {ADVICE}") from None
        moved = Moved.settled(local.parameters, theta, {k: x[-1] for k, x in zip(free, path, strict=True)})
        return Moved(moved.theta, moved.projected | left, moved.residual)


ADVICE = "The flow may be stiff: lower chi, or use ODE('LSODA') or Natural()."


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


def by_name(flow: Flow | str) -> Flow:
    """The flow of that name, with its default options."""
    if not isinstance(flow, str):
        return flow
    if flow not in FLOWS:
        raise DissonanceError(f"no flow named {flow!r}.{suggest(flow, FLOWS)}")
    return FLOWS[flow]()
