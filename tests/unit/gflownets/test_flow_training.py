"""Runs of LIR that train the policy of a flow network."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from flow_cases import each_balance
from torch import nn

from dissonance.gflownets import (
    Backward,
    Forward,
    flow_network,
    hyper_grid,
)
from dissonance.gflownets.balance import BALANCES
from dissonance.gflownets.losses import LOSSES
from dissonance.gflownets.paths import draw_trajectories, path_lengths

inf = float("inf")


@pytest.mark.parametrize("batch", [None, 16])
@pytest.mark.parametrize(("name", "chi"), [("ModTB", 1.0), ("LPV", 0.4), ("DB", 2.0)])
def test_lir_trains_the_policy_until_it_ends_in_proportion_to_the_reward(name, chi, batch):
    dag = hyper_grid(2, 3, "cosine")
    instance = flow_network(dag, balance=name, batch=batch, control=chi)
    before = instance.answer(0)
    after = instance.answer(120)
    assert before.distance > 0.5
    assert after.distance < before.distance / 4
    assert after.evidence <= dag.log_partition + 1e-12
    assert after.evidence == pytest.approx(dag.log_partition, abs=0.02)
    assert (after.log_partition is None) == (name == "LPV")


def test_control_may_include_the_backward_policy_and_differ_for_log_z():
    dag = hyper_grid(2, 3, "cosine")
    backward = Backward(dag, torch.zeros(dag.before.shape, dtype=torch.float64))
    instance = flow_network(dag, backward=backward, explore=0.2, control={"F": 1.0, "B": 0.5, "B.log_z": 3.0})
    done = instance.answer(100)
    assert done.distance < 0.1
    assert done.log_partition == pytest.approx(dag.log_partition, abs=0.02)
    assert not torch.equal(done.pdg["B"].cpd.logits, backward.logits)
    fixed = flow_network(dag, backward=backward, control={"F": 1.0}).answer(3)
    assert fixed.log_partition == 0 and torch.equal(fixed.pdg["B"].cpd.logits, backward.logits)


def test_attention_is_held_unless_it_is_not_to_be():
    """The first step is chi times one half of the gradient of the loss, or all of it."""
    dag = hyper_grid(2, 3, "cosine")
    half, default, whole = (
        flow_network(dag, control=0.1, **held).answer(1).pdg["F"].cpd.logits.detach()
        for held in ({"held": True}, {}, {"held": False})
    )
    assert half.abs().max() > 1e-3
    torch.testing.assert_close(default, half, rtol=0, atol=0)
    torch.testing.assert_close(whole, 2 * half, rtol=1e-12, atol=1e-12)


def test_who_explores_walks_uniformly_so_often():
    """With a policy that exits at once, longer walks are those of uniform choices alone."""
    dag = hyper_grid(2, 3, "cosine")
    logits = torch.zeros(dag.states, dag.actions + 1, dtype=torch.float64)
    logits[:, -1] = 50.0
    allowed = torch.cat([dag.after >= 0, dag.exits[:, None]], 1)
    for explore in (0.0, 0.3, 1.0):
        for batch in (None, 4000):
            instance = flow_network(dag, forward=Forward(dag, logits), explore=explore, batch=batch)
            generator = np.random.default_rng(0)
            context = instance.refocus.context(instance.pdg, None, generator)
            rows = context["at.rows"] if batch else instance.pdg["at"].cpd.get_buffer("rows")
            q = context["Q.p"] if batch is None else torch.full((batch,), 1 / batch)
            at_once = float(q[path_lengths(dag, rows) == 1].sum())
            uniform = 1 / float(allowed[dag.start].sum())
            expected = 1 - explore + explore * uniform
            assert at_once == pytest.approx(expected, abs=1e-9 if batch is None else 0.03)


@each_balance
def test_policies_in_balance_are_consistent_and_stay(name):
    """P_F(s'|s) = F(s') P_B(s|s') / F(s), with flows added up backwards from the reward."""
    dag, balance = hyper_grid(2, 3, "cosine"), BALANCES[name]
    back = Backward(dag, partition=balance.partition)
    flow, logits = dag.log_reward.exp().tolist(), torch.zeros(dag.states, dag.actions + 1, dtype=torch.float64)
    for layer in reversed(dag.layers):
        for s in layer.tolist():
            logits[s, -1] = dag.log_reward[s]
            for a, t in enumerate(dag.after[s].tolist()):
                if t >= 0:
                    part = flow[t] / int((dag.before[t] >= 0).sum())
                    logits[s, a] = torch.tensor(part).log()
                    flow[s] += part
    instance = flow_network(dag, balance=name, forward=Forward(dag, logits), backward=back)
    with torch.no_grad():
        if back.log_z is not None:
            back.log_z.fill_(dag.log_partition)
        if balance.states:
            instance.pdg["flow"].cpd.log_flow.copy_(torch.tensor(flow, dtype=torch.float64).log())
    done = instance.answer(1)
    assert done.run.trace.rows[0].local_upper == pytest.approx(0, abs=1e-12)
    assert done.distance == pytest.approx(0, abs=1e-6)
    assert done.evidence == pytest.approx(dag.log_partition, abs=1e-6)
    for key, moved in done.run.theta.items():
        torch.testing.assert_close(moved, instance.pdg.theta[key].detach(), rtol=0, atol=1e-6)


class Heads(nn.Module):
    def __init__(self, trunk: nn.Module, outputs: int) -> None:
        super().__init__()
        self.trunk, self.head = trunk, nn.Linear(12, outputs)

    def forward(self, x):
        return self.head(self.trunk(x))


@pytest.mark.parametrize("name", ["ModTB", "ModLPV"])
def test_a_step_of_networks_with_a_common_trunk_is_that_of_gradient_descent_on_the_same_batch(name):
    dag = hyper_grid(2, 4, "original")
    torch.manual_seed(5)
    trunk = nn.Sequential(nn.Linear(dag.inputs, 12), nn.ReLU())
    forward, backward = Forward(dag, Heads(trunk, 3).double()), Backward(dag, Heads(trunk, 2).double())
    chi = 0.05
    run = flow_network(dag, balance=name, batch=8, forward=forward, backward=backward, control=chi).run(2, seed=9)
    f, b = copy.deepcopy((forward, backward))
    own = [*{id(p): p for m in (f, b) for p in m.parameters()}.values()]
    generator = np.random.default_rng(9)
    for _ in range(2):
        walks = torch.Generator().manual_seed(int(generator.integers(2**62)))
        rows = draw_trajectories(dag, f.choose, 8, walks)
        generator.integers(2**62)  # the seed of the samples, of which there are none
        score = []
        for row in rows.tolist():
            path = torch.tensor([s for s in row if s < dag.states])
            onward = torch.cat([path[1:], torch.tensor([dag.states])])
            last = b.log_prob([path[-1:]], [onward[-1:]]) + b.log_z
            back = b.log_prob([path[:-1]], [onward[:-1]]).sum() if len(path) > 1 else 0.0
            score.append(f.log_prob([onward], [path]).sum() - back - last[0])
        loss = LOSSES[name](torch.stack(score), path_lengths(dag, rows), b.log_z)
        slopes = torch.autograd.grad(loss, own, allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            for p, g in zip(own, slopes, strict=True):
                p -= chi * 0.5 * g
    for arc, module in (("F", f), ("B", b)):
        for n, p in module.named_parameters():
            torch.testing.assert_close(run.theta[f"{arc}.{n}"], p.detach(), rtol=0, atol=1e-12)


def test_a_run_draws_the_same_walks_from_the_same_seed():
    dag = hyper_grid(2, 3, "cosine")
    one, same, other = (flow_network(dag, batch=8).run(3, seed=s).theta["F.logits"] for s in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)


def test_a_run_that_was_stopped_goes_on_with_the_walks_it_would_have_had(tmp_path):
    instance, kept = flow_network(hyper_grid(2, 3, "cosine"), batch=8), tmp_path / "run"
    whole = instance.run(6, seed=3)
    instance.run(3, seed=3, checkpoint=kept)
    resumed = instance.run(6, seed=3, checkpoint=kept)
    assert all(torch.equal(v, resumed.theta[key]) for key, v in whole.theta.items())
