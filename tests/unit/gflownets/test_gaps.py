"""Losses of transitions in training: against loops over trajectories and transitions, one number at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dissonance.errors import CapabilityError, FormatError
from dissonance.gflownets import Dag, Trained, hyper_grid, subsets, train
from dissonance.gflownets.balance import Parts, WholeTrajectories
from dissonance.gflownets.losses import LIMIT
from dissonance.gflownets.policy import logits, logits_and_flows
from dissonance.gflownets.trainer import Trainer, TrainingPlan, TrainingRun
from dissonance.gflownets.trajectories import Trajectories

GRID = hyper_grid(2, 4, "cosine")
SMALL = TrainingPlan(iterations=30, batch=24, capacity=100, width=16, depth=2)


@dataclass
class Tables:
    """The network of one run at every state: log P_F (states, moves + exit), log P_B (states, parents), log F."""

    forward: Tensor
    backward: Tensor
    flow: Tensor

    @classmethod
    def of(cls, trainer: Trainer, parts: dict[str, Tensor]) -> Tables:
        dag = trainer.dags[0]
        found, flow = logits_and_flows(parts, dag.active[None])
        allowed = torch.cat([dag.after >= 0, dag.exits[:, None]], 1)
        f = torch.where(allowed, found[0, :, : dag.actions + 1], -torch.inf)
        b = torch.where(dag.before >= 0, found[0, :, dag.actions + 1 :], -torch.inf)
        return cls(f.log_softmax(-1), b.log_softmax(-1), flow[0])


def gaps(trainer: Trainer, tables: Tables, tau: Trajectories, i: int, matching: bool) -> list[Tensor]:
    """gap(tau, 0), gap(tau, 1), ... of one trajectory."""
    dag, found = trainer.dags[0], list[Tensor]()
    for t in range(int(tau.length[0, i])):
        s, a = int(tau.states[0, i, t]), int(tau.moves[0, i, t])
        out = tables.flow[s] + tables.forward[s, a]
        if a == dag.actions:
            found.append(out - dag.log_reward[s].float())
            continue
        there = int(dag.after[s, a])
        if matching:
            edges = [
                tables.flow[p] + tables.forward[p, m]
                for p, m in zip(dag.before[there].tolist(), dag.move[there].tolist(), strict=True)
                if p >= 0
            ]
            found.append(torch.stack(edges).logsumexp(0) - tables.flow[there])
        else:
            back = dag.before[there].tolist().index(s)
            found.append(out - tables.flow[there] - tables.backward[there, back])
    return found


def by_loops(loss: str, each: list[Tensor]) -> Tensor:
    """The loss of one trajectory, from its gaps."""
    n = len(each)
    if loss in ("DB", "FM"):
        return torch.stack(each).square().sum() / n
    pairs = [(j, k) for j in range(n) for k in range(j + 1, n + 1)]
    weights = torch.tensor([0.9 ** (k - j) for j, k in pairs])
    parts = torch.stack([torch.stack(each[j:k]).sum() for j, k in pairs])
    return (weights * parts.square()).sum() / weights.sum()


@pytest.mark.parametrize("loss", ["DB", "SubTB", "FM"])
@pytest.mark.parametrize("dag", [GRID, subsets(4, 3, lambda s: 1.0 + s[:, 0])], ids=["grid", "sets"])
def test_losses_and_gradients_are_those_of_loops(loss: str, dag: Dag):
    trainer = Trainer([TrainingRun(loss, seed=2)], [dag], SMALL)
    trainer.theta[0, -1] = 0.7  # log Z
    tau = trainer.batch()
    value, gradient = trainer.gradient(tau)
    leaves = {name: part.detach().requires_grad_() for name, part in trainer.parts.items()}
    tables = Tables.of(trainer, leaves)
    plain = torch.stack(
        [by_loops(loss, gaps(trainer, tables, tau, i, loss == "FM")) for i in range(SMALL.batch)]
    ).mean()
    found = torch.autograd.grad(plain, list(leaves.values()), allow_unused=True, materialize_grads=True)
    torch.testing.assert_close(value[0], plain.detach(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(gradient[0], torch.cat([g.flatten() for g in found]), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["TB", "LPV", "ModTB", "ModLPV"])
def test_a_balance_of_whole_trajectories_is_the_loss_of_its_name(name: str):
    """The general way and the quick one agree, and so do their gradients."""
    own = WholeTrajectories(name.startswith("Mod"), "LPV" in name)
    quick, general = (Trainer([TrainingRun(loss, seed=3)], [GRID], SMALL) for loss in (name, own))
    tau = quick.batch()
    for mine, theirs in zip(general.gradient(tau), quick.gradient(tau), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_a_run_does_not_depend_on_the_losses_beside_it():
    runs = [TrainingRun(loss, seed=k, clamp="trajectory") for k, loss in enumerate(("TB", "DB", "FM", "SubTB"))]
    together = train(runs, GRID, SMALL)
    for k, run in enumerate(runs):
        alone = train([run], GRID, SMALL)
        torch.testing.assert_close(alone.record.losses[0], together.record.losses[k], rtol=1e-3, atol=1e-4)


@dataclass(frozen=True)
class Huber:
    """A loss of one's own: |gap| - 1/2 beyond 1, and half the square within, of every transition."""

    states = True
    partition = False

    def __call__(self, gap: Tensor, inside: Tensor, q: Tensor) -> Tensor:
        size = gap.abs()
        return torch.where(size < 1, gap / 2, gap.sign() * (1 - 0.5 / size.clamp(min=1)))


def test_a_loss_of_ones_own():
    trainer = Trainer([TrainingRun(Huber(), seed=4)], [GRID], SMALL)
    tau = trainer.batch()
    tables = Tables.of(trainer, trainer.parts)
    each = [torch.stack(gaps(trainer, tables, tau, i, False)) for i in range(SMALL.batch)]
    plain = [torch.nn.functional.huber_loss(g, torch.zeros_like(g)) for g in each]
    torch.testing.assert_close(trainer.gradient(tau)[0][0], torch.stack(plain).mean(), rtol=1e-4, atol=1e-6)


def test_all_losses_approach_the_reward():
    grid = hyper_grid(2, 6, "original")
    plan = TrainingPlan(iterations=300, batch=64, capacity=1000, width=64, depth=2)
    losses = ("DB", "SubTB", "FM", Parts(2.0), Huber())
    trained = train([TrainingRun(x, seed=0, learning_rate=0.01, log_z_rate=10.0) for x in losses], grid, plan)
    assert max(trained.record.last("l1")) < 0.08
    assert max(map(abs, trained.record.last("log_z_error"))) < 0.05


def test_losses_of_transitions_are_cut_off_like_the_others():
    runs = [TrainingRun("DB", seed=5, clamp=clamp) for clamp in ("none", "trajectory", "batch")]
    trainer = Trainer(runs, [GRID] * 3, SMALL)
    trainer.theta[:, -1] = 40.0
    loss, _ = trainer.gradient(trainer.batch())
    assert loss[0] > LIMIT and loss[1] < loss[0] and loss[2] == LIMIT


def test_another_loss_is_another_training(tmp_path: Path):
    kept = tmp_path / "kept"
    train([TrainingRun(Parts(0.5))], GRID, SMALL, checkpoint=kept)
    train([TrainingRun(Parts(0.5))], GRID, SMALL, checkpoint=kept)
    with pytest.raises(FormatError, match="other runs"):
        train([TrainingRun(Parts(0.6))], GRID, SMALL, checkpoint=kept)
    with pytest.raises(CapabilityError, match="without flows"):
        Trainer([TrainingRun("DB")], [GRID], TrainingPlan(width=32), kernels=True)


def test_policies_that_were_trained():
    trained = train([TrainingRun("DB", seed=1), TrainingRun("LPV", seed=1)], GRID, SMALL)
    assert isinstance(trained, Trained) and len(repr(trained)) < 100
    one, other = trained.policies
    assert str(one).startswith("Policy(2-dimensional grid of height 4 (cosine), DB, seed 1:") and len(repr(one)) < 100
    assert other.log_partition is None
    assert one.log_partition == pytest.approx(GRID.log_partition + trained.record.last("log_z_error")[0], abs=1e-5)
    assert one.distance == pytest.approx(trained.record.last("l1")[0], abs=1e-9)
    frame = one.frame()
    assert frame["probability"].tolist() == sorted(frame["probability"], reverse=True) and len(frame) == GRID.states
    assert [sum(frame[c]) for c in ("probability", "target")] == pytest.approx([1, 1])
    drawn = one.sample(20_000, torch.Generator().manual_seed(0))
    often = torch.bincount(drawn, minlength=GRID.states) / len(drawn)
    assert float((often - one.terminating).abs().max()) < 0.02
    assert logits(trained.trainer.parts, GRID.active[None].expand(2, -1, -1)).shape[-1] == 5
