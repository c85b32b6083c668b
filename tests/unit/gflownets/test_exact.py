"""Exact evaluation against brute force over trajectories, and against what samples say."""

import itertools

import pytest
import torch

from dissonance.gflownets.exact import Fit, sampled
from dissonance.gflownets.grids import hyper_grid
from dissonance.gflownets.paths import terminating
from dissonance.gflownets.plain import forward_logits
from dissonance.gflownets.trainer import Trainer, TrainingPlan, TrainingRun


def brute_force(dag, policy: torch.Tensor) -> torch.Tensor:
    """Add up the probability of every trajectory, one at a time."""
    found = torch.zeros(dag.states, dtype=torch.float64)

    def walk(state: int, probability: float) -> None:
        for move, p in enumerate(policy[state].tolist()):
            if p == 0:
                continue
            if move == dag.actions:
                found[state] += probability * p
            else:
                walk(int(dag.after[state, move]), probability * p)

    walk(dag.start, 1.0)
    return found


def test_the_terminating_distribution_is_the_sum_over_trajectories():
    grid = hyper_grid(3, 3, "cosine")
    trainer = Trainer([TrainingRun(seed=s) for s in range(2)], [grid, grid], TrainingPlan(width=16))
    trainer.theta *= 3  # far from uniform
    states = torch.arange(grid.states).expand(2, -1)
    policy = forward_logits(trainer.parts, trainer.walk, states).double().softmax(-1)
    found = trainer.terminating()
    for i in range(2):
        torch.testing.assert_close(found[i], brute_force(grid, policy[i]), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found.sum(1), torch.ones(2, dtype=torch.float64))


def test_samples_fall_as_the_terminating_distribution_says():
    grid = hyper_grid(2, 12, "original")
    trainer = Trainer([TrainingRun(seed=1)], [grid], TrainingPlan(width=32, depth=2))
    expected = trainer.terminating()[0]
    n = 20_000
    ends = trainer.rollout(torch.rand(1, n, grid.longest, generator=trainer.generators[0])).ends()[0]
    counts = torch.bincount(ends, minlength=grid.states).double()
    big = expected * n >= 5
    chi_square = ((counts - expected * n).square() / (expected * n))[big].sum()
    rest = (counts[~big].sum() - n * expected[~big].sum()).square() / (n * expected[~big].sum())
    degrees = int(big.sum())  # the rest is one more cell
    assert float(chi_square + rest) < degrees + 4 * (2 * degrees) ** 0.5


def test_divergences_are_those_of_the_textbook_and_zero_at_the_target():
    p = torch.tensor([[0.5, 0.25, 0.25, 0.0]], dtype=torch.float64)
    q = torch.tensor([[0.25, 0.25, 0.25, 0.25]], dtype=torch.float64)
    modes = torch.tensor([[True, False, False, False]])
    fit = Fit.of(q, p, modes)
    middle = [(a + b) / 2 for a, b in zip(p[0].tolist(), q[0].tolist(), strict=True)]

    def kl(a, b):
        return sum(x * torch.tensor(x / y).log().item() for x, y in zip(a, b, strict=True) if x > 0)

    assert fit.l1.item() == pytest.approx(0.5)
    assert fit.kl.item() == pytest.approx(kl(p[0].tolist(), q[0].tolist()))
    assert fit.jsd.item() == pytest.approx((kl(p[0].tolist(), middle) + kl(q[0].tolist(), middle)) / 2, rel=1e-6)
    assert fit.mode_mass.item() == pytest.approx(0.5)
    same = Fit.of(p, p, modes)
    assert (same.l1.item(), same.jsd.item(), same.kl.item(), same.mode_mass.item()) == (0, 0, 0, 1)


def test_the_noise_floor_of_sampled_metrics_is_that_of_the_true_distribution():
    grid = hyper_grid(2, 8, "original")
    target = grid.target.unsqueeze(0)
    found = sampled(target, 2000, torch.Generator().manual_seed(0))
    l1 = Fit.of(found, target, grid.modes.unsqueeze(0)).l1.item()
    expected = sum((2 * p * (1 - p) / torch.pi / 2000) ** 0.5 for p in grid.target.tolist())  # E|binomial - mean|
    assert found.sum().item() == pytest.approx(1)
    assert l1 == pytest.approx(expected, rel=0.25)


def test_a_policy_of_the_true_flows_terminates_at_the_reward():
    grid = hyper_grid(2, 4, "xor")
    flow = torch.zeros(grid.states, dtype=torch.float64)
    policy = torch.zeros(grid.states, grid.actions + 1, dtype=torch.float64)
    reward = grid.log_reward.exp()
    for state in reversed(list(itertools.chain(*[layer.tolist() for layer in grid.layers]))):
        flow[state] = reward[state] + sum(
            flow[c] / (grid.before[c] >= 0).sum() for c in grid.after[state].tolist() if c >= 0
        )
        for move, child in enumerate(grid.after[state].tolist()):
            if child >= 0:
                policy[state, move] = flow[child] / (grid.before[child] >= 0).sum() / flow[state]
        policy[state, -1] = reward[state] / flow[state]
    torch.testing.assert_close(brute_force(grid, policy), grid.target)
    torch.testing.assert_close(terminating(grid, lambda states: policy[states].log()), grid.target)


def test_the_fit_of_each_run_is_that_to_its_own_reward():
    grids = [hyper_grid(2, 8, "original"), hyper_grid(2, 8, "cosine")]
    trainer = Trainer(
        [TrainingRun("TB"), TrainingRun("ModLPV")], grids, TrainingPlan(batch=4, capacity=0, width=16, depth=2)
    )
    trainer.theta[:, -1] = 2.5
    found = trainer.fit()
    ends = trainer.terminating()
    for i, grid in enumerate(grids):
        assert found["l1"][i] == pytest.approx(float((ends[i] - grid.target).abs().sum()))
        assert found["mode_mass"][i] == pytest.approx(float(ends[i][grid.modes].sum() / grid.target[grid.modes].sum()))
    assert found["log_z_error"][0] == pytest.approx(2.5 - grids[0].log_partition)
    assert found["log_z_error"][1].isnan()  # its loss has no log Z


def test_coverage_is_the_share_of_modes_that_training_ended_in():
    grid = hyper_grid(2, 8, "original")
    trainer = Trainer(
        [TrainingRun(seed=s) for s in (1, 2)], [grid, grid], TrainingPlan(batch=40, capacity=40, width=16, depth=2)
    )
    assert trainer.fit()["coverage"].tolist() == [0, 0]
    ended: list[set[int]] = [set(), set()]
    for _ in range(3):
        trainer._shake()
        for seen, ends in zip(ended, trainer.rollout(trainer.fresh).ends().tolist(), strict=True):
            seen.update(ends)
        trainer._draw()
    modes = set(grid.modes.nonzero().flatten().tolist())
    expected = [len(seen & modes) / len(modes) for seen in ended]
    assert trainer.fit()["coverage"].tolist() == pytest.approx(expected)
    assert 0 < min(expected) <= max(expected) < 1
