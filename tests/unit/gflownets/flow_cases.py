"""Graphs of states, and random policies on them with the PDG they make."""

from __future__ import annotations

import pytest
import torch

from dissonance.gflownets import (
    Backward,
    Dag,
    Forward,
    StateFlow,
    bit_strings,
    flow_pdg,
    hyper_grid,
)
from dissonance.gflownets.balance import BALANCES
from dissonance.gflownets.paths import all_trajectories
from reference import gflownets as reference


def real(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def uneven() -> Dag:
    edges = {"s": {"l": "a", "r": "b"}, "a": {"x": "b", "y": "d"}, "b": {"x": "c", "y": "d"}, "c": {"x": "d"}, "d": {}}
    reward = {"s": None, "a": 1.0, "b": None, "c": 0.5, "d": 3.0}
    return Dag.from_moves("s", edges.__getitem__, reward.__getitem__)


DAGS = {
    "uneven": uneven,
    "grid": lambda: hyper_grid(2, 3, "cosine"),
    "bits": lambda: bit_strings(2, lambda w: 1.0 + w.sum(1)),
}
each_dag = pytest.mark.parametrize("dag", [make() for make in DAGS.values()], ids=list(DAGS))
each_balance = pytest.mark.parametrize("name", list(BALANCES))


class Case:
    """Random policies, flows, log Z and Q on a Dag, and the PDG they make."""

    def __init__(self, dag: Dag, name: str = "ModTB", seed: int = 0, uniform: bool = False) -> None:
        torch.manual_seed(seed)
        self.dag, self.name, balance = dag, name, BALANCES[name]
        self.rows = all_trajectories(dag)
        n = len(self.rows)
        self.q = torch.full((n,), 1 / n, dtype=torch.float64) if uniform else torch.softmax(real(n), 0)
        self.forward = Forward(dag, real(dag.states, dag.actions + 1))
        self.backward = Backward(dag, real(*dag.before.shape), partition=balance.partition)
        self.flow = StateFlow(dag) if balance.states else None
        with torch.no_grad():
            if self.backward.log_z is not None:
                self.backward.log_z.fill_(0.7)
            if self.flow is not None:
                self.flow.log_flow.copy_(real(dag.states))
        self.pdg = flow_pdg(dag, self.rows, self.q, self.forward, self.backward, self.flow)

    def by_hand(self, **changes) -> torch.Tensor:
        walks = {tuple(s for s in row.tolist() if s < self.dag.states): float(p) for row, p in zip(
            self.rows, self.q, strict=True)}  # fmt: skip
        log_flow = None if self.flow is None else self.flow.log_flow
        given = {"log_z": 0.0 if self.backward.log_z is None else self.backward.log_z, "log_flow": log_flow, **changes}
        assert self.forward.logits is not None and self.backward.logits is not None
        return reference.loss(self.name, self.dag, walks, self.forward.logits, self.backward.logits, **given)

    def slopes(self, value: torch.Tensor) -> list[torch.Tensor]:
        return list(torch.autograd.grad(value, list(self.pdg.parameters()), allow_unused=True, materialize_grads=True))
