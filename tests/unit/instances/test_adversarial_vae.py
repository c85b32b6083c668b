"""A VAE trained against an adversary: every step is that of plain PyTorch, and what it changes."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from dissonance import DissonanceError, Record
from dissonance.cpds import BernoulliImages
from dissonance.instances import AttackedAutoencoder, adversarial_vae

KEEP = Record(globally=False, snapshots=1)
ROWS, PIXELS, LATENT, BATCH, RATE, ATTACK, SIGMA = 30, 6, 2, 8, 0.05, 0.02, 0.4


def net(columns: int, outputs: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(columns, 8), nn.Tanh(), nn.Linear(8, outputs)).double()


@pytest.fixture
def images() -> Tensor:
    return torch.rand(ROWS, PIXELS, generator=torch.Generator().manual_seed(0), dtype=torch.float64).round()


def loss_of(seen: Tensor, x: Tensor, encoder: nn.Module, decoder: nn.Module, noise: Tensor) -> Tensor:
    """Minus the ELBO of each row x, its latent drawn from the encoder of another row."""
    mean, log_scale = encoder(seen).chunk(2, -1)
    z = mean + log_scale.exp() * noise
    said = nn.functional.binary_cross_entropy_with_logits(decoder(z), x, reduction="none").sum(-1)
    return said + Normal(mean, log_scale.exp()).log_prob(z).sum(-1) - Normal(0.0, 1.0).log_prob(z).sum(-1)


def test_two_rounds_are_those_of_plain_pytorch(images: Tensor):
    encoder, decoder = net(PIXELS, 2 * LATENT, 1), net(LATENT, PIXELS, 2)
    given = copy.deepcopy((encoder, decoder))
    training = adversarial_vae(
        images,
        given[0],
        BernoulliImages(given[1]),
        latent=LATENT,
        batch=BATCH,
        control=RATE,
        attacks=3,
        attack_rate=ATTACK,
        sigma=SIGMA,
    )
    run = training.run(10, trace=KEEP, seed=5)
    draws = np.random.default_rng(5)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=RATE)
    moved, losses = images[:BATCH].clone(), []
    for step in range(10):
        number, at = divmod(step, 5)
        of_round = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(number,)))
        rows = torch.from_numpy(of_round.permutation(ROWS)[:BATCH])
        x = images[rows]
        noise_seed = int(draws.integers(2**62))
        noise = torch.randn(BATCH, LATENT, generator=torch.Generator().manual_seed(noise_seed), dtype=torch.float64)
        if at == 0:
            moved = x.clone()
        elif at <= 3:
            seen = moved.clone().requires_grad_()
            far = (seen - x).square().sum(-1) / (2 * SIGMA**2)
            (far - loss_of(seen, x, encoder, decoder, noise)).sum().backward()
            assert seen.grad is not None
            moved = moved - ATTACK * seen.grad
        else:
            optimizer.zero_grad()
            loss = loss_of(moved, x, encoder, decoder, noise).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        after = run.trace.snapshots[step + 1]
        torch.testing.assert_close(after["x'.f.weight"], moved, rtol=0, atol=1e-7)
        for arc, module in (("q.both.encoder", encoder), ("p.logits", decoder)):
            for n, p in module.named_parameters():
                torch.testing.assert_close(after[f"{arc}.{n}"], p.detach(), rtol=0, atol=1e-7)
    assert training.read(run).losses == pytest.approx(losses, abs=1e-6)


def bars() -> Tensor:
    """Eight images of 4 x 4: four rows, four columns."""
    made = torch.zeros(8, 4, 4)
    for i in range(4):
        made[i, i, :] = made[4 + i, :, i] = 1.0
    return made.reshape(8, 16)


def trained(attacks: int) -> AttackedAutoencoder:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    decoder = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 16))
    options = {"latent": 2, "batch": 40, "control": 0.1, "attacks": attacks, "attack_rate": 0.05, "sigma": 0.3}
    training = adversarial_vae(bars().repeat(25, 1), encoder, BernoulliImages(decoder), **options)
    return training.answer(300 * (attacks + 2), seed=3)  # how much less is lost depends on the draws


def test_it_stands_attacks_better_and_pays_for_it_without():
    """Rows moved by 0.5 in the worst direction that 30 steps find: less is lost; rows as they are: more."""
    x, clean, attacked = bars(), [], []
    for attacks in (0, 3):
        model = trained(attacks)
        away = model.attack(x, 30, rate=0.05, sigma=0.3) - x
        worst = x + 0.5 * away / away.norm(dim=1, keepdim=True)
        clean.append(model.bound(x, x, 300).upper)
        attacked.append(model.bound(x, worst, 300).upper)
        assert model.autoencoder.bound(x, 300).upper == pytest.approx(clean[-1], abs=0.3)  # the same VAE
    assert attacked[1] < attacked[0] - 0.5
    assert clean[1] > clean[0]


def test_what_it_does_not_take(images: Tensor):
    encoder, decoder = net(PIXELS, 2 * LATENT, 1), BernoulliImages(net(LATENT, PIXELS, 2))
    with pytest.raises(DissonanceError, match="leap over x"):
        adversarial_vae(images, encoder, decoder, latent=LATENT, batch=BATCH, attack_rate=1.0, sigma=0.5)
    with pytest.raises(DissonanceError, match="batches of at most all"):
        adversarial_vae(images, encoder, decoder, latent=LATENT, batch=ROWS + 1)
