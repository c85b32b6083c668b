"""The kernels compute what `plain` does: on a GPU, or interpreted by Triton (as .ci/run does)."""

import os

import pytest
import torch

from dissonance.errors import CapabilityError
from dissonance.gflownets import plain
from dissonance.gflownets.bits import bit_strings
from dissonance.gflownets.grids import hyper_grid
from dissonance.gflownets.policy import PolicyShape
from dissonance.gflownets.trainer import Trainer, TrainingPlan, TrainingRun
from dissonance.gflownets.trajectories import TransitionRows, padded
from dissonance.gflownets.walk import Walk

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("no GPU, and TRITON_INTERPRET=1 is not set", allow_module_level=True)
kernels = pytest.importorskip("dissonance.gflownets.kernels", reason="needs Triton 3.4", exc_type=ImportError)

GRIDS = [hyper_grid(2, 6, "original"), hyper_grid(2, 6, "cosine")]
STRINGS = [bit_strings(4, lambda bits: bits.sum(-1) + 1.0)] * 2
CASES = [(GRIDS, 3), (GRIDS, 1), (STRINGS, 2)]


def uniform(runs: int, count: int, longest: int) -> torch.Tensor:
    return torch.rand(runs, count, longest, generator=torch.Generator().manual_seed(0)).to(DEVICE)


@pytest.mark.parametrize(("dags", "depth"), CASES)
def test_a_rollout_in_one_launch_walks_like_the_plain_one(dags, depth: int):
    walk = Walk.of(dags, DEVICE)
    shape = PolicyShape.of(dags[0], width=32, depth=depth)
    parts = shape.split(shape.fresh([0, 1]).to(DEVICE) * 2)
    numbers = uniform(2, 150, walk.longest)  # more than one block, and not a multiple of it
    expected, found = plain.rollout(parts, walk, numbers), kernels.rollout(parts, walk, numbers)
    assert torch.equal(found.length, expected.length)
    real = torch.arange(walk.longest, device=DEVICE) < expected.length.unsqueeze(-1)
    assert torch.equal(found.states[real], expected.states[real])
    assert torch.equal(found.moves[real], expected.moves[real])


@pytest.mark.parametrize(("dags", "depth"), CASES)
def test_scores_and_their_gradients_are_the_plain_ones_within_float16(dags, depth: int):
    walk = Walk.of(dags, DEVICE)
    shape = PolicyShape.of(dags[0], width=32, depth=depth)
    parts = shape.split(shape.fresh([0, 1]).to(DEVICE) * 2)
    tau = plain.rollout(parts, walk, uniform(2, 40, walk.longest))
    rows = TransitionRows.of(walk, tau, padded(int(tau.most())) + 256)  # whole blocks of padding
    leaves = {name: part.clone().requires_grad_() for name, part in parts.items() if name != "log_z" and part.numel()}
    rest = {name: part for name, part in parts.items() if name not in leaves}
    expected = rows.total(plain.transition_scores(leaves | rest, walk, rows))
    found = rows.total(kernels.transition_scores(leaves | rest, walk, rows))
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).to(DEVICE) * 1e-3
    ours = torch.autograd.grad((found * weights).sum(), list(leaves.values()))
    theirs = torch.autograd.grad((expected * weights).sum(), list(leaves.values()))
    for name, a, b in zip(leaves, ours, theirs, strict=True):
        assert float((a - b).norm() / b.norm()) < 5e-3, name


def test_a_trainer_with_kernels_follows_the_one_without():
    runs, plan = (
        [TrainingRun("ModTB", 0), TrainingRun("LPV", 1)],
        TrainingPlan(iterations=5, batch=32, capacity=64, width=32),
    )
    fast, slow = (Trainer(runs, GRIDS, plan, DEVICE, kernels=k) for k in (True, False))
    for _ in range(5):
        torch.testing.assert_close(fast.step(), slow.step(), rtol=1e-2, atol=1e-2)


@pytest.mark.skipif(DEVICE == "cpu", reason="no GPU to record launches on")
def test_recorded_launches_do_what_fresh_ones_do():
    runs, plan = (
        [TrainingRun("ModTB", 0), TrainingRun("LPV", 1)],
        TrainingPlan(iterations=12, batch=32, capacity=64, width=32),
    )
    recorded = Trainer(runs, GRIDS, plan, DEVICE)
    fresh = Trainer(runs, GRIDS, plan, DEVICE, recorded_batch=0)
    assert recorded._moving.active and not fresh._moving.active
    for _ in range(12):
        torch.testing.assert_close(recorded.step(), fresh.step(), rtol=1e-3, atol=1e-3)
    assert recorded._moving.graphs[4096,] is not None
    assert recorded.adam.steps == recorded.iteration == 12 and recorded.replay.written == 12 * 32
    torch.testing.assert_close(recorded.theta, fresh.theta, rtol=1e-2, atol=1e-3)
    assert torch.equal(recorded.visited, fresh.visited)


def test_huge_policies_saturate_and_never_leave_the_graph():
    walk = Walk.of(GRIDS, DEVICE)
    shape = PolicyShape.of(GRIDS[0], width=32)
    parts = shape.split(shape.fresh([0, 1]).to(DEVICE) * 1e4)
    tau = kernels.rollout(parts, walk, uniform(2, 30, walk.longest))
    assert bool((tau.length >= 1).all()) and bool((tau.length <= walk.longest).all())
    assert bool(plain.rollout(parts, walk, uniform(2, 30, walk.longest)).length.ge(1).all())


def test_networks_the_kernels_cannot_take_are_refused_if_they_are_asked_for():
    with pytest.raises(CapabilityError, match="width of 32, 64, 128 or 256"):
        Trainer([TrainingRun()], GRIDS[:1], TrainingPlan(width=48), DEVICE, kernels=True)
    assert Trainer([TrainingRun()], GRIDS[:1], TrainingPlan(width=48), DEVICE).kernels is None
