"""Optimisers of torch.optim as flows: renewed at every step of LIR, or kept from step to step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.adam import Adam
from dissonance.errors import DissonanceError, suggest
from dissonance.lir.flows.base import Flow, Moved
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
class Descent(Flow):
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
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name in the trace."""
        made = self.optimizer if isinstance(self.optimizer, str) else getattr(self.optimizer, "__name__", "optimiser")
        return f"{made.lower()}({self.rate:g} x {self.steps}{', kept' if self.keep else ''})"

    @property
    def in_place(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether theta is moved in place, as torch.optim does: what is to outlive a step must be cloned."""
        return self.keep

    @property
    def whole(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether all parameters are needed: an optimiser that is kept has them from the first step to the last."""
        return self.keep

    def init(self, theta: Mapping[str, Tensor]) -> Optimisers | None:
        """Return the optimisers of a run that keeps them."""
        return Optimisers(self, theta) if self.keep else None

    def step(self, local: Local, theta: Stacked, state: Any = None) -> Moved:
        """Return theta after so many steps, each projected if need be."""
        if self.keep:
            return state.step(local, theta, self.steps)
        moved = Moved(theta)
        chi = {k: x.to(theta[k].device) for k, x in local.narrow.items()}
        leaves = {k: theta[k].detach().clone().requires_grad_() for k in local.free}
        optimizer = self.made(list(leaves.values()))
        for _ in range(self.steps):
            slope = local.slope(moved.theta)
            for k, leaf in leaves.items():
                leaf.grad = torch.where(chi[k] == 0, 0.0, slope[k])
            optimizer.step()
            with torch.no_grad():
                now = {k: numerics.toward(moved.theta[k], leaf, chi[k]) for k, leaf in leaves.items()}
                moved = moved.then(Moved.settled(local.parameters, moved.theta, now))
                for k, leaf in leaves.items():
                    leaf.copy_(moved.theta[k])
        return moved

    def made(self, leaves: list[Tensor]) -> Stepper:
        """Return an optimiser of these tensors."""
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


ADAM = Descent("Adam", 0.05 / 10, 10, {"eps": 1e-8 * BIT})
"""The outer loop of the published runs: Adam's epsilon is 1e-8 on gradients in bits."""


class Optimisers(MutableMapping[str, Any]):
    """The state of a descent that keeps its optimisers: one for each of P runs, over all of its parameters.

    As a mapping it is what the optimisers remember of every parameter that has moved, "run/slot/arc.parameter". A
    parameter that a focus does not control has no gradient: torch.optim then leaves it and its state alone, so that
    players that take turns have each their own.
    """

    def __init__(self, descent: Descent, theta: Mapping[str, Tensor]) -> None:
        self.leaves: list[dict[str, Tensor]] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        for k in range(len(next(iter(theta.values())))):
            leaves = {key: v[k].detach().clone().requires_grad_() for key, v in theta.items()}
            made = descent.made(list(leaves.values()))
            if not isinstance(made, torch.optim.Optimizer):
                raise DissonanceError(
                    f"only optimisers of torch.optim can be kept, found {type(made).__name__}: leave out keep=True."
                )
            self.leaves.append(leaves)
            self.optimizers.append(made)
        self._given = {key: leaf.detach()[None] for key, leaf in self.leaves[0].items()}

    def step(self, local: Local, theta: Stacked, steps: int) -> Moved:
        """Return theta after so many steps, moved in place and projected if need be."""
        moved = Moved(theta, self)
        for _ in range(steps):
            slopes = local.slopes(moved.theta)
            for k, (chi, slope) in enumerate(zip(local.each_chi, slopes, strict=True)):
                self._step(k, chi, moved.theta, slope)
            if len(self.leaves) > 1:
                now = {key: torch.stack([x[key].detach() for x in self.leaves]) for key in local.free}
            else:
                now = {key: self._given[key] for key in local.free}
            moved = moved.then(Moved.settled(local.parameters, moved.theta, now))
        return moved

    @torch.no_grad()
    def _step(self, k: int, moving: Mapping[str, float | Tensor], theta: Stacked, slope: dict[str, Tensor]) -> None:
        """Move the parameters of run k."""
        before: dict[str, Tensor] = {}
        for key, chi in moving.items():
            leaf, g = self.leaves[k][key], slope[key]
            if theta[key] is not self._given[key]:
                leaf.copy_(theta[key][k])
            if isinstance(chi, Tensor) or chi != 1.0:
                before[key] = leaf.clone()
            leaf.grad = torch.where(chi == 0, 0.0, g) if isinstance(chi, Tensor) else g
        self.optimizers[k].step()
        for key, chi in moving.items():
            leaf = self.leaves[k][key]
            leaf.grad = None
            if key in before:
                leaf.copy_(numerics.toward(before[key], leaf, chi))

    # -- as a mapping --------------------------------------------------------------------------------------------------

    def _slots(self, name: str) -> tuple[dict[str, Any], str]:
        """Return what an optimiser remembers of a parameter, and the slot that is named."""
        k, slot, key = name.split("/", 2)
        return self.optimizers[int(k)].state[self.leaves[int(k)][key]], slot

    def __getitem__(self, name: str) -> Any:
        slots, slot = self._slots(name)
        return slots[slot]

    def __setitem__(self, name: str, value: Any) -> None:
        slots, slot = self._slots(name)
        slots[slot] = value

    def __delitem__(self, name: str) -> None:
        slots, slot = self._slots(name)
        del slots[slot]

    def __iter__(self) -> Iterator[str]:
        for k, (leaves, made) in enumerate(zip(self.leaves, self.optimizers, strict=True)):
            for key, leaf in leaves.items():
                yield from (f"{k}/{slot}/{key}" for slot in made.state.get(leaf, ()))

    def __len__(self) -> int:
        return sum(1 for _ in self)
