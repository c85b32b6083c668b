"""exp: what a step of LIR does to theta, d theta/dt = -chi . grad <<phi . M(theta)>> for unit time.

A flow moves the parameters with finite control; those with chi = inf go to their fixed point by `FullControl`, first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from dissonance.errors import DissonanceError, suggest
from dissonance.lir.full_control import FullControl, Moved
from dissonance.lir.local import Local, narrow
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
    given = {k: narrow(chi) for k, chi in local.control.items()}
    largest = [float(chi.max()) for chi in given.values() if chi.numel()]
    if 0 < max(largest, default=0.0) < math.inf:
        return flow(local, theta)
    moved = Moved.still(theta)
    full = {k: chi == math.inf for k, chi in given.items()}
    parts: tuple[tuple[Flow, Stacked], ...] = ((FullControl(), full), (flow, {k: ~x for k, x in full.items()}))
    for kind, chosen in parts:
        control = {k: torch.where(chosen[k], chi, 0.0) for k, chi in given.items()}
        if any(bool(chi.any()) for chi in control.values()):
            part = replace(local, control={k: chi.expand_as(local.control[k]) for k, chi in control.items()})
            moved = moved.then(kind(part, moved.theta))
            local.solves, local.steps, local.first = part.solves, part.steps, part.first
    return moved


def _settled(local: Local, theta: Stacked) -> Moved:
    """theta, brought back to the parameter space if it has left it."""
    theta, left = local.parameters.admissible(theta)
    return Moved(theta, left, torch.zeros(len(left), dtype=torch.float64))


@dataclass(frozen=True)
class Step:
    """A single gradient step theta - chi grad: what every flow comes to for small chi."""

    name: str = "step"

    def __call__(self, local: Local, theta: Stacked) -> Moved:
        """One step of length chi."""
        _, slope = local.gradient(theta)
        chi = {k: narrow(c) for k, c in local.control.items()}
        return _settled(local, {k: torch.addcmul(v, chi[k], slope[k], value=-1.0) for k, v in theta.items()})


class Stepper(Protocol):
    """What LIR asks of an optimiser: a step along the gradients of its tensors."""

    def step(self) -> object:
        """Move the tensors."""
        ...


class _Adam:
    """m <- .9 m + .1 g, v <- .999 v + .001 g^2, x <- x - rate m^ / (sqrt v^ + eps), with ^ unbiased."""

    def __init__(self, leaves: list[Tensor], rate: float, eps: float = 1e-8) -> None:
        self.leaves, self.rate, self.eps, self.count = leaves, rate, eps, 0
        self.moments = [(torch.zeros_like(x), torch.zeros_like(x)) for x in leaves]

    @torch.no_grad()
    def step(self) -> None:
        """Move the tensors."""
        self.count += 1
        for x, (m, v) in zip(self.leaves, self.moments, strict=True):
            assert x.grad is not None
            m.lerp_(x.grad, 0.1)
            v.mul_(0.999).addcmul_(x.grad, x.grad, value=0.001)
            spread = (v / (1 - 0.999**self.count)).sqrt_().add_(self.eps)
            x.addcdiv_(m, spread, value=-self.rate / (1 - 0.9**self.count))


@dataclass(frozen=True)
class Descent:
    """`steps` steps of a torch.optim optimiser, renewed at every step of LIR; each is scaled by chi.

    The published runs took 10 steps of Adam at learning rate 0.05/10. Adam is no gradient flow: it goes as fast where
    the inconsistency is flat as where it is steep. `optimizer`: a name in torch.optim, or a function that makes an
    optimiser of a list of tensors; it must treat components apart, as all but LBFGS do. Plain "Adam" is written out
    here: importing torch.optim takes seconds.
    """

    optimizer: str | Callable[[list[Tensor]], Stepper] = "Adam"
    rate: float = 0.005
    steps: int = 10
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the trace calls it."""
        made = self.optimizer if isinstance(self.optimizer, str) else getattr(self.optimizer, "__name__", "optimiser")
        return f"{made.lower()}({self.rate:g} x {self.steps})"

    def _make(self, leaves: list[Tensor]) -> Stepper:
        if not isinstance(self.optimizer, str):
            return self.optimizer(leaves)
        if self.optimizer.lower() == "adam" and set(self.options) <= {"eps"}:
            return _Adam(leaves, self.rate, **self.options)
        known = {n.lower(): n for n in dir(torch.optim) if n[0].isupper() and n not in ("Optimizer", "LBFGS")}
        if self.optimizer.lower() not in known:
            raise DissonanceError(
                f"torch.optim has no {self.optimizer!r} here.{suggest(self.optimizer, known.values())}"
            )
        return getattr(torch.optim, known[self.optimizer.lower()])(leaves, lr=self.rate, **self.options)

    def __call__(self, local: Local, theta: Stacked) -> Moved:
        """So many steps, each projected if need be."""
        moved = Moved.still(theta)
        leaves = {k: v.detach().clone().requires_grad_() for k, v in theta.items()}
        optimizer = self._make(list(leaves.values()))
        for _ in range(self.steps):
            _, slope = local.gradient(moved.theta)
            for k, leaf in leaves.items():
                leaf.grad = torch.where(local.control[k] == 0, 0.0, slope[k])
            optimizer.step()
            with torch.no_grad():
                now = {k: v + local.control[k] * (leaves[k] - v) for k, v in moved.theta.items()}
                moved = moved.then(_settled(local, now))
                for k, leaf in leaves.items():
                    leaf.copy_(moved.theta[k])
        return moved


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
        free = [k for k, chi in local.control.items() if bool(chi.any())]

        def speed(time: Tensor, at: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            nonlocal left
            here, outside = local.parameters.admissible({**theta, **dict(zip(free, at, strict=True))})
            left = left | outside
            slope = local.gradient(here)[1]
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
        moved = _settled(local, {**theta, **{k: x[-1] for k, x in zip(free, path, strict=True)}})
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
