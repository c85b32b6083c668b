"""Optimisers of torch.optim as flows: renewed at every step of LIR, or kept from step to step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.adam import Adam
from dissonance.errors import DissonanceError, suggest
from dissonance.lir.flows.base import Movement
from dissonance.lir.local import Local
from dissonance.lir.parameters import Stacked
from dissonance.solvers.paper import BIT


class Stepper(Protocol):
    """What LIR asks of an optimiser: a step along the gradients of its tensors."""

    def step(self) -> object:
        """Move the tensors."""
        ...


class Renewed:
    """Adam on some tensors, for one step of LIR."""

    def __init__(self, leaves: list[Tensor], rate: float, eps: float = 1e-8) -> None:
        self.rate, self.leaves = rate, [(x, Adam.fresh(x, eps)) for x in leaves]

    @torch.no_grad()
    def step(self) -> None:
        """Move the tensors."""
        for x, adam in self.leaves:
            assert x.grad is not None
            x.sub_(adam.direction(x.grad), alpha=self.rate)


@dataclass(frozen=True)
class Descent:
    """`steps` steps of a torch.optim optimiser, each scaled by chi; it is renewed at every step of LIR, or kept.

    The published runs took 10 steps of Adam at learning rate 0.05/10, renewed. With `keep` the run keeps the optimiser,
    so that `steps=1` is training as torch.optim does it, moments and all. Adam is no gradient flow: it goes as fast
    where the inconsistency is flat as where it is steep. `optimizer`: a name in torch.optim, or a function that makes
    an optimiser of a list of tensors; it must treat components apart, as all but LBFGS do. Plain "Adam" that is renewed
    is the library's own: importing torch.optim takes seconds.
    """

    optimizer: str | Callable[[list[Tensor]], Stepper] = "Adam"
    rate: float = 0.005
    steps: int = 10
    options: Mapping[str, Any] = field(default_factory=dict)
    keep: bool = False

    @property
    def name(self) -> str:
        """What the trace calls it."""
        made = self.optimizer if isinstance(self.optimizer, str) else getattr(self.optimizer, "__name__", "optimiser")
        return f"{made.lower()}({self.rate:g} x {self.steps}{', kept' if self.keep else ''})"

    def begin(self) -> Descent | Kept:
        """What moves the parameters of a run from its first step to its last."""
        return Kept(self) if self.keep else self

    def made(self, leaves: list[Tensor]) -> Stepper:
        """The optimiser of these tensors."""
        if not isinstance(self.optimizer, str):
            return self.optimizer(leaves)
        if self.optimizer.lower() == "adam" and set(self.options) <= {"eps"} and not self.keep:
            return Renewed(leaves, self.rate, **self.options)
        known = {n.lower(): n for n in dir(torch.optim) if n[0].isupper() and n not in ("Optimizer", "LBFGS")}
        if self.optimizer.lower() not in known:
            raise DissonanceError(
                f"torch.optim has no {self.optimizer!r} here.{suggest(self.optimizer, known.values())}"
            )
        return getattr(torch.optim, known[self.optimizer.lower()])(leaves, lr=self.rate, **self.options)

    def __call__(self, local: Local, theta: Stacked) -> Movement:
        """So many steps, each projected if need be."""
        moved = Movement(theta)
        chi = {k: x.to(theta[k].device) for k, x in local.chi.narrow.items()}
        leaves = {k: theta[k].detach().clone().requires_grad_() for k in local.chi.free}
        optimizer = self.made(list(leaves.values()))
        for _ in range(self.steps):
            slope = local.slope(moved.theta)
            for k, leaf in leaves.items():
                leaf.grad = torch.where(chi[k] == 0, 0.0, slope[k])
            optimizer.step()
            with torch.no_grad():
                now = {k: numerics.toward(moved.theta[k], leaf, chi[k]) for k, leaf in leaves.items()}
                moved = moved.then(Movement.settled(local.parameters, moved.theta, now))
                for k, leaf in leaves.items():
                    leaf.copy_(moved.theta[k])
        return moved


ADAM = Descent("Adam", 0.05 / 10, 10, {"eps": 1e-8 * BIT})
"""The outer loop of the published runs: Adam's epsilon is 1e-8 on gradients in bits."""


class Kept:
    """A descent whose optimisers last as long as the run: one for each of P runs, over all of its parameters.

    A parameter that a focus does not control has no gradient: torch.optim then leaves it and its state alone, so that
    players that take turns have each their own. The parameters are moved in place, as torch.optim does: what is to
    outlive a step must be cloned. `dump` has the states, for checkpoints.
    """

    def __init__(self, descent: Descent) -> None:
        self.descent = descent
        self._leaves: list[dict[str, Tensor]] = []
        self._optimizers: list[torch.optim.Optimizer] = []
        self._given: Stacked = {}

    @property
    def name(self) -> str:
        """What the trace calls it."""
        return self.descent.name

    def __call__(self, local: Local, theta: Stacked) -> Movement:
        """So many steps, each projected if need be."""
        self._begin(theta)
        moved = Movement(theta)
        for _ in range(self.descent.steps):
            slopes = local.slopes(moved.theta)
            for k, (moving, slope) in enumerate(zip(local.chi.each, slopes, strict=True)):
                self._step(k, moving, moved.theta, slope)
            if len(self._leaves) > 1:
                now = {key: torch.stack([x[key].detach() for x in self._leaves]) for key in local.chi.free}
            else:
                now = {key: self._given[key] for key in local.chi.free}
            moved = moved.then(Movement.settled(local.parameters, moved.theta, now))
        return moved

    @torch.no_grad()
    def _step(self, k: int, moving: Mapping[str, float | Tensor], theta: Stacked, slope: dict[str, Tensor]) -> None:
        """Move the parameters of run k."""
        before: dict[str, Tensor] = {}
        for key, chi in moving.items():
            leaf, g = self._leaves[k][key], slope[key]
            if theta[key] is not self._given[key]:
                leaf.copy_(theta[key][k])
            if isinstance(chi, Tensor) or chi != 1.0:
                before[key] = leaf.clone()
            leaf.grad = torch.where(chi == 0, 0.0, g) if isinstance(chi, Tensor) else g
        self._optimizers[k].step()
        for key, chi in moving.items():
            leaf = self._leaves[k][key]
            leaf.grad = None
            if key in before:
                leaf.copy_(numerics.toward(before[key], leaf, chi))

    def _begin(self, theta: Stacked) -> None:
        """Make the optimisers, at the first step."""
        if self._leaves:
            return
        for k in range(len(next(iter(theta.values())))):
            leaves = {key: v[k].detach().clone().requires_grad_() for key, v in theta.items()}
            made = self.descent.made(list(leaves.values()))
            if not isinstance(made, torch.optim.Optimizer):
                raise DissonanceError(
                    f"only optimisers of torch.optim can be kept, found {type(made).__name__}: leave out keep=True."
                )
            self._leaves.append(leaves)
            self._optimizers.append(made)
        self._given = {key: leaf.detach()[None] for key, leaf in self._leaves[0].items()}

    def dump(self) -> list[dict[str, dict[str, Any]]]:
        """The state of every parameter of every run that has moved."""
        runs = zip(self._leaves, self._optimizers, strict=True)
        return [{key: dict(made.state[x]) for key, x in leaves.items() if x in made.state} for leaves, made in runs]

    def restore(self, theta: Stacked, known: list[dict[str, dict[str, Any]]]) -> None:
        """The inverse of `dump`, for a run that stands at theta."""
        if known:
            self._begin(theta)
        for leaves, made, states in zip(self._leaves, self._optimizers, known, strict=True):
            made.state.update({leaves[key]: state for key, state in states.items()})
