"""Losses against the textbook formulas, one trajectory at a time."""

import pytest
import torch

from dissonance.errors import DissonanceError
from dissonance.gflownets.losses import LIMIT, LOSSES, Clamp, Kinds, loss_named

SCORE = torch.tensor([-9.0, -11.5, -10.2, 4.0], dtype=torch.float64)
LENGTH = torch.tensor([3, 1, 7, 12])
LOG_Z = 10.4


def textbook(name: str, score: torch.Tensor, log_z: float, clamp: str) -> torch.Tensor:
    center = -log_z if name.endswith("TB") else sum(score) / len(score)
    each = [
        (s - center) ** 2 / (float(n) if name.startswith("Mod") else 1.0) for s, n in zip(score, LENGTH, strict=True)
    ]
    if clamp == "trajectory":
        each = [x if x < LIMIT else x.detach() * 0 + LIMIT for x in each]
    mean = sum(each) / len(each)
    return mean if clamp != "batch" or mean < LIMIT else mean.detach() * 0 + LIMIT


@pytest.mark.parametrize("clamp", list(Clamp))
@pytest.mark.parametrize("name", list(LOSSES))
def test_a_loss_and_its_gradient_are_those_of_the_textbook(name: str, clamp: str):
    ours, theirs = (SCORE.clone().requires_grad_() for _ in range(2))
    value = loss_named(name)(ours, LENGTH, LOG_Z, clamp)
    expected = textbook(name, theirs, LOG_Z, clamp)
    torch.testing.assert_close(value, expected)
    if not expected.requires_grad:
        assert torch.autograd.grad(value, ours)[0].abs().max() == 0
        return
    torch.testing.assert_close(torch.autograd.grad(value, ours)[0], torch.autograd.grad(expected, theirs)[0])


def test_losses_of_several_runs_are_those_of_each_alone():
    pairs = [(loss, clamp) for loss in LOSSES.values() for clamp in Clamp]
    kinds = Kinds.of([p[0] for p in pairs], [p[1] for p in pairs])
    score = torch.randn(len(pairs), 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 20
    length = torch.randint(1, 9, (len(pairs), 5), generator=torch.Generator().manual_seed(1))
    log_z = torch.linspace(-1, 1, len(pairs), dtype=torch.float64)
    together = kinds(score, length, log_z)
    alone = torch.stack([p[0](score[i], length[i], log_z[i], p[1]) for i, p in enumerate(pairs)])
    torch.testing.assert_close(together, alone)


def test_the_batch_clamp_freezes_where_the_trajectory_clamp_does_not():
    score = torch.tensor([0.0, 30.0], requires_grad=True)
    frozen = loss_named("TB")(score, torch.ones(2), 5.0, "batch")
    moving = loss_named("TB")(score, torch.ones(2), 5.0, "trajectory")
    assert torch.autograd.grad(frozen, score)[0].tolist() == [0, 0]
    assert torch.autograd.grad(moving, score)[0].tolist() == [5, 0]


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(DissonanceError, match="Did you mean 'ModTB'"):
        loss_named("ModTb")
    with pytest.raises(DissonanceError, match="Did you mean 'batch'"):
        Clamp.named("batches")
