"""The gradient flow itself, by an integrator of ordinary differential equations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.lir.flows.base import Flow, Moved, State
from dissonance.lir.local import Local
from dissonance.lir.parameters import Stacked

STIFF = {"lsoda": "LSODA", "bdf": "BDF", "radau": "Radau"}
"""Methods of scipy's that are implicit where need be."""

FIXED = ("euler", "midpoint", "rk4", "heun3")
"""Methods of torchdiffeq's with fixed steps."""


@dataclass(frozen=True)
class ODE(Flow):
    """The flow itself, integrated by torchdiffeq: dopri5, rk4, euler or another of its methods; or LSODA, BDF, Radau.

    By default dopri5 if all arcs are tables. Flows of Gaussians are stiff (a slope moves by 1/E[s^2] of what a shift
    does), and for them it is LSODA, which changes to an implicit method where it must. `steps`: how many a method with
    fixed steps takes; `most`: how many an adaptive explicit one may take before the flow counts as stiff. Adaptive
    methods take each run by itself, so that runs do not depend on their company.
    """

    method: str | None = None
    rtol: float = 1e-5
    atol: float = 1e-7
    steps: int = 10
    most: int = 1000

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name in the trace."""
        return "ode" if self.method is None else f"ode({self.method})"

    def step(self, local: Local, theta: Stacked, state: State | None = None) -> Moved:
        """Return theta(1) of d theta/dt = -chi grad, theta(0) = theta."""
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
        free = local.free
        zero = {k: theta[k] == -math.inf for k in free}  # logarithms of 0 stay; an integrator would make NaN of them

        def placed(at: Sequence[Tensor]) -> Stacked:
            return {k: torch.where(zero[k], -math.inf, x) for k, x in zip(free, at, strict=True)}

        def speed(time: Tensor, at: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            nonlocal left
            here, outside = local.parameters.admissible({**theta, **placed(at)})
            left = left | outside
            with torch.enable_grad():  # the integrator has switched it off
                slope = local.slope(here)
            return tuple(-local.chi[k] * slope[k] for k in free)

        options: dict[str, Any] = {"max_num_steps": self.most}
        if method in FIXED:
            options = {"step_size": 1 / self.steps}
        elif method.lower() in STIFF:
            options, method = {"solver": STIFF[method.lower()]}, "scipy_solver"
        unit = torch.tensor([0.0, 1.0], dtype=torch.float64)
        try:
            with torch.no_grad():
                start = tuple(torch.where(zero[k], 0.0, theta[k]) for k in free)
                path: Any = odeint(speed, start, unit, rtol=self.rtol, atol=self.atol, method=method, options=options)
        except (AssertionError, ValueError) as error:
            raise DissonanceError(f"{self.name} did not get through a step of LIR: {error}. {ADVICE}") from None
        moved = Moved.settled(local.parameters, theta, placed([x[-1] for x in path]))
        return Moved(moved.theta, projected=moved.projected | left)


ADVICE = "The flow may be stiff: lower chi, or use ODE('LSODA') or Natural()."
