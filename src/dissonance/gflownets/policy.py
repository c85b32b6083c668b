"""Policies of several runs: one network each, evaluated together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod, sqrt

import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.gflownets.dag import Dag

Parts = dict[str, Tensor]


@dataclass(frozen=True)
class PolicyShape:
    """The network: k-hot inputs, hidden layers of one width with ReLU, and a head for P_F beside one for P_B; with
    `flows` a third one, for the flow through a state."""

    inputs: int
    moves: int  # logits of P_F, the exit included
    parents: int  # logits of P_B
    width: int = 256
    depth: int = 3  # hidden layers
    flows: bool = False

    def __post_init__(self) -> None:
        if self.width < 1 or self.depth < 1:
            raise DissonanceError(
                f"a policy needs at least one hidden layer of width 1 or more, found {self.depth} of width {self.width}"
            )

    @classmethod
    def of(cls, dag: Dag, width: int = 256, depth: int = 3, flows: bool = False) -> PolicyShape:
        """The network that fits this graph."""
        return cls(dag.inputs, dag.actions + 1, dag.before.shape[1], width, depth, flows)

    @cached_property
    def parts(self) -> dict[str, tuple[int, ...]]:
        """The shape of each part of one run's parameters."""
        outputs = self.moves + self.parents
        return {
            "input": (self.inputs, self.width),
            "input_bias": (self.width,),
            "hidden": (self.depth - 1, self.width, self.width),
            "hidden_bias": (self.depth - 1, self.width),
            "heads": (self.width, outputs),
            "heads_bias": (outputs,),
            **({"flow": (self.width, 1), "flow_bias": (1,)} if self.flows else {}),
            "log_z": (),
        }

    @property
    def size(self) -> int:
        """How many parameters a run has, log Z included."""
        return sum(prod(shape) for shape in self.parts.values())

    def slices(self) -> Iterator[tuple[str, slice, tuple[int, ...]]]:
        """Where each part lies among a run's parameters."""
        at = 0
        for name, shape in self.parts.items():
            yield name, slice(at, at + prod(shape)), shape
            at += prod(shape)

    def split(self, flat: Tensor) -> Parts:
        """The parts, as views of the parameters of all runs (runs, size)."""
        return {name: flat[:, where].reshape(len(flat), *shape) for name, where, shape in self.slices()}

    def fresh(self, seeds: Sequence[int]) -> Tensor:
        """Parameters to start from: uniform within 1/sqrt(fan-in) as in `torch.nn.Linear`, and log Z = 0."""
        flat = torch.empty(len(seeds), self.size)
        for row, seed in zip(flat, seeds, strict=True):
            generator = torch.Generator().manual_seed(seed)
            for name, where, _ in self.slices():
                fan_in = self.inputs if name.startswith("input") else self.width
                row[where].uniform_(-1 / sqrt(fan_in), 1 / sqrt(fan_in), generator=generator)
        flat[:, -1] = 0  # log Z
        return flat


def k_hot(active: Tensor, inputs: int, dtype: torch.dtype) -> Tensor:
    """Inputs of the network: 1 where active, (..., k) to (..., inputs)."""
    return torch.zeros(*active.shape[:-1], inputs, dtype=dtype, device=active.device).scatter_(-1, active, 1)


def logits(parts: Parts, active: Tensor) -> Tensor:
    """Logits of P_F and of P_B beside them at states given by their active inputs (runs, rows, k).

    The trunk is evaluated once for both.
    """
    return torch.baddbmm(parts["heads_bias"].unsqueeze(1), _trunk(parts, active), parts["heads"])


def logits_and_flows(parts: Parts, active: Tensor) -> tuple[Tensor, Tensor]:
    """The same, and log F of these states, (runs, rows): log Z and what the network adds to it."""
    h = _trunk(parts, active)
    found = torch.baddbmm(parts["heads_bias"].unsqueeze(1), h, parts["heads"])
    flow = torch.baddbmm(parts["flow_bias"].unsqueeze(1), h, parts["flow"]).squeeze(-1)
    return found, parts["log_z"].unsqueeze(1) + flow


def _trunk(parts: Parts, active: Tensor) -> Tensor:
    h = k_hot(active, parts["input"].shape[1], parts["input"].dtype)
    h = torch.baddbmm(parts["input_bias"].unsqueeze(1), h, parts["input"]).relu_()
    for bias, weight in zip(parts["hidden_bias"].unbind(1), parts["hidden"].unbind(1), strict=True):
        h = torch.baddbmm(bias.unsqueeze(1), h, weight).relu_()
    return h
