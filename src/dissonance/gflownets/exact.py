"""Exact evaluation: the terminating distribution of a policy, and how far it is from the reward's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dissonance.gflownets.dag import Dag
from dissonance.gflownets.plain import forward_logits
from dissonance.gflownets.policy import Parts
from dissonance.gflownets.walk import Walk

CHUNK = 1 << 20  # rows of the network evaluated at once


@dataclass(frozen=True, eq=False)
class Terminating:
    """Finds the terminating distributions of policies on one graph, by one sweep over its states in order.

    pi(s) = P(reach s) P_F(exit | s),    P(reach s') = sum over parents s of P(reach s) P_F(s' | s)

    Sums are float64; the network is evaluated in float32, without shortened products.
    """

    walk: Walk
    layers: tuple[tuple[Tensor, Tensor, Tensor], ...]  # states, states before them, the moves that led here

    @classmethod
    def of(cls, dag: Dag, walk: Walk) -> Terminating:
        """The sweep over this graph, on the device of its tables."""
        device = walk.after.device
        layers = tuple((s, dag.before[s].T, dag.move[s].T) for s in dag.layers[1:])
        return cls(walk, tuple((s.to(device), b.to(device), m.to(device)) for s, b, m in layers))

    @torch.no_grad()
    def __call__(self, parts: Parts) -> Tensor:
        """The terminating distribution of each run, (runs, states) in float64."""
        runs, device = len(parts["log_z"]), self.walk.after.device
        states = torch.arange(self.walk.states, device=device)
        with _full_precision(device):
            policy = torch.cat(
                [
                    forward_logits(parts, self.walk, chunk.expand(runs, -1)).double().softmax(-1)
                    for chunk in states.split(max(1, CHUNK // runs))
                ],
                1,
            )
        reach = torch.zeros(runs, self.walk.states, dtype=torch.float64, device=device)
        reach[:, self.walk.start] = 1
        for here, before, moves in self.layers:
            inflow = reach[:, before] * policy[:, before, moves] * (before >= 0)
            reach[:, here] = inflow.sum(1)
        return reach * policy[..., -1]


@dataclass(frozen=True)
class Fit:
    """How far a distribution over states is from the target p = R / Z, for each run."""

    l1: Tensor  # sum |pi - p|
    jsd: Tensor  # Jensen-Shannon divergence, nats
    kl: Tensor  # KL(p || pi), nats
    mode_mass: Tensor  # pi(modes) / p(modes); nan if there are none

    @classmethod
    def of(cls, found: Tensor, target: Tensor, modes: Tensor) -> Fit:
        """Compare distributions (runs, states) with targets and modes of the same shape."""
        middle = (found + target) / 2
        return cls(
            l1=(found - target).abs().sum(-1),
            jsd=(_divergence(found, middle) + _divergence(target, middle)) / 2,
            kl=_divergence(target, found),
            mode_mass=(found * modes).sum(-1) / (target * modes).sum(-1),
        )


def _divergence(p: Tensor, q: Tensor) -> Tensor:
    return (torch.xlogy(p, p) - torch.where(p > 0, torch.xlogy(p, q), 0)).sum(-1)


def sampled(found: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """The frequencies of so many samples from each distribution (runs, states): what published metrics are made of."""
    rows = [torch.multinomial(row, samples, replacement=True, generator=generator) for row in found]
    counts = [torch.bincount(row, minlength=found.shape[1]) for row in rows]
    return torch.stack(counts).double() / samples


class _full_precision:  # noqa: N801
    """Matrix products of float32 that keep all 24 bits."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"

    def __enter__(self) -> None:
        if self.cuda:
            self.before = torch.backends.cuda.matmul.allow_tf32
            torch.backends.cuda.matmul.allow_tf32 = False

    def __exit__(self, *_: object) -> None:
        if self.cuda:
            torch.backends.cuda.matmul.allow_tf32 = self.before
