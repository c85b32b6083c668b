"""Losses, rewards and the adapter against torchgfn, on trajectories that torchgfn draws in its HyperGrid."""

import math
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its torch_geometric still calls torch.jit.script
    pytest.importorskip("gfn")
    from gfn.containers import Trajectories
    from gfn.estimators import DiscretePolicyEstimator
    from gfn.gflownet import LogPartitionVarianceGFlowNet, TBGFlowNet
    from gfn.gflownet.losses import ShiftedCoshLoss
    from gfn.gym import HyperGrid
    from gfn.preprocessors import KHotPreprocessor
    from gfn.utils.modules import MLP

from dissonance.errors import CapabilityError, DissonanceError
from dissonance.gflownets.exact import Terminating
from dissonance.gflownets.grids import hyper_grid
from dissonance.gflownets.losses import LIMIT, Clamp, loss_named
from dissonance.gflownets.policy import PolicyShape
from dissonance.gflownets.torchgfn import ModLPVGFlowNet, ModTBGFlowNet, theta_of, trajectories_of
from dissonance.gflownets.trainer import Trainer, TrainingPlan, TrainingRun
from dissonance.gflownets.walk import Walk

ROOT = Path(__file__).parents[3]
DIMENSIONS, HEIGHT, WIDTH, DEPTH, LOG_Z = 3, 8, 16, 2, 2.5
REWARDS = {"original": "original", "cosine": "cosine", "xor": "bitwise_xor", "coprime": "multiplicative_coprime"}
GFLOWNETS = {
    "TB": TBGFlowNet,
    "LPV": LogPartitionVarianceGFlowNet,
    "ModTB": ModTBGFlowNet,
    "ModLPV": ModLPVGFlowNet,
}


def make(name: str, shared: bool = True, activation: str = "relu", **options: object) -> TBGFlowNet:
    """One with a P_F and a learned P_B, on one trunk if it is shared; the same weights for every name."""
    torch.manual_seed(5)
    inputs = KHotPreprocessor(HEIGHT, DIMENSIONS)
    trunk = {"hidden_dim": WIDTH, "n_hidden_layers": DEPTH, "activation_fn": activation}
    forward = MLP(inputs.output_dim, DIMENSIONS + 1, **trunk)
    backward = MLP(inputs.output_dim, DIMENSIONS, **({"trunk": forward.trunk} if shared else trunk))
    pf = DiscretePolicyEstimator(forward, DIMENSIONS + 1, preprocessor=inputs)
    pb = DiscretePolicyEstimator(backward, DIMENSIONS + 1, preprocessor=inputs, is_backward=True)
    return GFLOWNETS[name](pf, pb, **({"init_logZ": LOG_Z} if name.endswith("TB") else {}), **options)


@pytest.fixture(scope="module")
def env() -> HyperGrid:
    return HyperGrid(DIMENSIONS, HEIGHT)


@pytest.fixture(scope="module")
def drawn(env: HyperGrid) -> Trajectories:
    gflownet = make("TB")
    torch.manual_seed(1)
    return gflownet.sample_trajectories(env, n=40)


def lengths(drawn: Trajectories) -> torch.Tensor:
    """Transitions of each trajectory, the exit included: actions that are not padding, counted one by one."""
    return (~drawn.actions.is_dummy).sum(0)


def scores(gflownet: TBGFlowNet, drawn: Trajectories) -> torch.Tensor:
    log_pf, log_pb = gflownet.get_pfs_and_pbs(drawn)
    return log_pf.sum(0) - log_pb.sum(0) - drawn.log_rewards


def gradients(loss: torch.Tensor, gflownet: torch.nn.Module) -> torch.Tensor:
    parameters = list(gflownet.parameters())
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return torch.cat(
        [(torch.zeros_like(p) if g is None else g).reshape(-1) for p, g in zip(parameters, found, strict=True)]
    )


def test_the_trajectories_differ_in_length_and_one_exits_at_once(drawn: Trajectories):
    assert lengths(drawn).min() == 1 and lengths(drawn).max() > 4


@pytest.mark.parametrize("name", list(GFLOWNETS))
def test_losses_and_gradients_are_those_of_torchgfn(name: str, env: HyperGrid, drawn: Trajectories):
    gflownet = make(name)
    theirs = gflownet.loss(env, drawn)
    log_z = gflownet.logZ if name.endswith("TB") else 0.0
    ours = loss_named(name)(scores(gflownet, drawn), lengths(drawn), log_z)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradients(ours, gflownet), gradients(theirs, gflownet), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["ModTB", "ModLPV"])
def test_the_adapter_is_the_formula(name: str, env: HyperGrid, drawn: Trajectories):
    gflownet = make(name)
    s = scores(gflownet, drawn).tolist()
    center = -LOG_Z if name == "ModTB" else math.fsum(s) / len(s)
    each = [(x - center) ** 2 / n for x, n in zip(s, lengths(drawn).tolist(), strict=True)]
    torch.testing.assert_close(gflownet.loss(env, drawn), torch.tensor(math.fsum(each) / len(each)))
    torch.testing.assert_close(gflownet.loss(env, drawn, reduction="none"), torch.tensor(each), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gflownet.loss(env, drawn, reduction="sum"), torch.tensor(math.fsum(each)))


@pytest.mark.parametrize("name", ["ModTB", "ModLPV"])
def test_only_the_weights_differ_from_torchgfn(name: str, env: HyperGrid, drawn: Trajectories):
    plain = make(name.removeprefix("Mod"), loss_fn=ShiftedCoshLoss())
    weighed = make(name, loss_fn=ShiftedCoshLoss())
    own = torch.linspace(-1, 1, len(drawn))
    expected = plain.loss(env, drawn, reduction="none", log_rewards=own) / lengths(drawn)
    torch.testing.assert_close(weighed.loss(env, drawn, reduction="none", log_rewards=own), expected)


@pytest.mark.parametrize("clamp", list(Clamp))
@pytest.mark.parametrize("name", ["ModTB", "ModLPV"])
def test_clamps_are_those_of_the_library(name: str, clamp: Clamp, env: HyperGrid, drawn: Trajectories):
    gflownet = make(name, clamp=clamp.value)
    far = torch.linspace(-150, 150, len(drawn))  # log rewards that put the mean and some of the trajectories above 100
    theirs = gflownet.loss(env, drawn, log_rewards=far)
    score = scores(gflownet, drawn) + drawn.log_rewards - far
    ours = loss_named(name)(score, lengths(drawn), gflownet.logZ if name == "ModTB" else 0.0, clamp)
    torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=0)
    moved = gradients(theirs, gflownet)
    assert bool(moved.any()) is (clamp is not Clamp.batch)
    assert (theirs.item() > LIMIT) is (clamp is Clamp.none)
    torch.testing.assert_close(moved, gradients(ours, gflownet), rtol=1e-3, atol=1e-3)


def test_a_batch_clamp_needs_the_mean(env: HyperGrid, drawn: Trajectories):
    with pytest.raises(DissonanceError, match="found reduction='none'"):
        make("ModTB", clamp="batch").loss(env, drawn, reduction="none")
    with pytest.raises(DissonanceError, match="Did you mean 'batch'"):
        make("ModTB", clamp="batches")


@pytest.mark.parametrize("name", ["ModTB", "ModLPV"])
def test_torchgfn_trains_with_the_adapter(name: str, env: HyperGrid):
    gflownet = make(name, clamp="trajectory")
    optimiser = torch.optim.Adam(gflownet.parameters(), lr=1e-2)
    torch.manual_seed(2)
    losses: list[float] = []
    for _ in range(60):
        loss = gflownet.loss_from_trajectories(env, gflownet.sample_trajectories(env, n=32))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])


@pytest.mark.parametrize("name", list(GFLOWNETS))
def test_the_trainer_has_the_gradient_of_torchgfn(name: str, env: HyperGrid, drawn: Trajectories):
    gflownet = make(name)
    plan = TrainingPlan(batch=len(drawn), width=WIDTH, depth=DEPTH)
    trainer = Trainer([TrainingRun(name)], [hyper_grid(DIMENSIONS, HEIGHT)], plan)
    trainer.theta.copy_(theta_of(gflownet))
    loss, gradient = trainer.gradient(trajectories_of(drawn, trainer.walk.longest))
    theirs = gflownet.loss(env, drawn)
    theirs.backward()
    torch.testing.assert_close(loss[0], theirs.detach())
    torch.testing.assert_close(gradient[0], theta_of(gflownet, gradient=True), rtol=1e-4, atol=1e-5)


def test_a_policy_of_torchgfn_ends_where_its_samples_do(env: HyperGrid):
    gflownet, dag = make("ModTB"), hyper_grid(DIMENSIONS, HEIGHT)
    shape = PolicyShape.of(dag, WIDTH, DEPTH)
    exact = Terminating.of(dag, Walk.of([dag], "cpu"))(shape.split(theta_of(gflownet).unsqueeze(0)))[0]
    torch.manual_seed(3)
    n = 10_000
    tau = trajectories_of(gflownet.sample_trajectories(env, n=n), dag.longest)
    seen = torch.bincount(tau.ends()[0], minlength=dag.states) / n
    noise = (exact * (1 - exact) / n).sqrt().sum() * math.sqrt(2 / math.pi)  # E |seen - exact|, summed
    assert (seen - exact).abs().sum() == pytest.approx(noise.item(), rel=0.2)


@pytest.mark.parametrize("options", [{"shared": False}, {"activation": "tanh"}], ids=["two trunks", "tanh"])
def test_other_networks_are_not_taken(options: dict[str, object]):
    with pytest.raises(CapabilityError, match=r"MLP\(..., trunk=forward.trunk\)"):
        theta_of(make("TB", **options))


def test_other_environments_are_not_taken():
    with pytest.raises(CapabilityError, match="found SimpleNamespace"):
        trajectories_of(SimpleNamespace(env=SimpleNamespace()), 3)


def test_the_example_in_the_documents_runs():
    page = (ROOT / "docs" / "gflownets.md").read_text(encoding="utf-8")
    section = page.partition("## With torchgfn\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"^```py\n(.*?)^```", section, flags=re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    exec(compile(code, "gflownets.md", "exec"), names)
    assert names["after"] < 0.5 * names["before"]


def test_the_benchmark_compares_the_two():
    options = ["--height", "8", "--dimensions", "2", "--batch", "16", "--iterations", "2", "--width", "16"]
    command = [sys.executable, ROOT / "benchmarks" / "gflownet.py", *options, "--loss", "ModTB"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    apart = re.search(r"gradients apart by (\S+)", done.stdout)
    assert apart and float(apart[1]) < 1e-5 and "ratio" in done.stdout


def rewarded(dimensions: int, height: int, reward: str) -> tuple[HyperGrid, torch.Tensor]:
    """torchgfn's grid as it comes, which gives every reward the base 0.1, and all its states in our order."""
    env = HyperGrid(dimensions, height, REWARDS[reward], validate_modes=False)
    return env, torch.cartesian_prod(*[torch.arange(height)] * dimensions).reshape(-1, dimensions)


@pytest.mark.parametrize(("dimensions", "height"), [(4, 24), (3, 9), (2, 300)])
@pytest.mark.parametrize("reward", list(REWARDS))
def test_rewards_are_those_of_torchgfn(reward: str, dimensions: int, height: int):
    env, states = rewarded(dimensions, height, reward)
    theirs = env.reward(env.States(states))
    ours = hyper_grid(dimensions, height, reward)
    torch.testing.assert_close(ours.log_reward.exp(), theirs.double(), rtol=1e-5, atol=1e-6)
    assert ours.log_partition == pytest.approx(theirs.double().sum().log().item(), rel=1e-5)


@pytest.mark.parametrize(("dimensions", "height"), [(4, 24), (2, 300)])
@pytest.mark.parametrize("reward", ["original", "xor", "coprime"])
def test_modes_are_those_of_torchgfn(reward: str, dimensions: int, height: int):
    env, states = rewarded(dimensions, height, reward)
    assert torch.equal(hyper_grid(dimensions, height, reward).modes, env.mode_mask(env.States(states)))


def test_torchgfn_sees_no_mode_of_the_cosine_where_its_grid_misses_the_peak():
    env, states = rewarded(4, 24, "cosine")  # it asks for 0.8 of 2 / sqrt(2 pi), we for 0.8 of the best on the grid
    assert not env.mode_mask(env.States(states)).any() and hyper_grid(4, 24, "cosine").modes.sum() == 1280


def test_torchgfn_without_a_base_is_the_reward_of_the_paper():
    env = HyperGrid(2, 24, "bitwise_xor", reward_fn_kwargs={}, validate_modes=False)
    states = torch.cartesian_prod(torch.arange(24), torch.arange(24))
    ours = hyper_grid(2, 24, "xor", base=0)
    torch.testing.assert_close(
        torch.where(ours.modes, ours.log_reward.exp(), 0.0), env.reward(env.States(states)).double()
    )
