"""GANs as LIR: closed forms on finite X, and every step of neural players is the textbook's."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dissonance import CapabilityError, DissonanceError, Record, SoftmaxTable, inconsistency
from dissonance.instances import gan
from dissonance.instances.gan import belief
from shared_files import SHARED, shared_json

VECTORS = shared_json("vectors", "gan.json")
CASES = VECTORS["cases"] if VECTORS else []
each_case = pytest.mark.parametrize(
    "case", CASES or [pytest.param({}, marks=pytest.mark.skip(f"no vectors in {SHARED}"))]
)
KEEP = Record(globally=False, snapshots=1)
LOG2 = math.log(2)
inf = math.inf


def net(columns: int, outputs: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(columns, 8), nn.Tanh(), nn.Linear(8, outputs)).double()


def table(case) -> tuple[Tensor, SoftmaxTable, SoftmaxTable]:
    odds = torch.tensor(case["D_logits"], dtype=torch.float64)
    d = SoftmaxTable(logits=torch.stack([odds, torch.zeros_like(odds)], -1))
    return (
        torch.tensor(case["p_data"], dtype=torch.float64),
        SoftmaxTable(logits=torch.tensor(case["G_logits"], dtype=torch.float64)),
        d,
    )


@each_case
def test_every_attention_has_the_value_of_the_vectors(case):
    pdg = gan(*table(case)).pdg
    for row in case["inconsistency"]:
        found = inconsistency(pdg, belief(row["beta_D"], row["beta_e"]))
        assert found.solver == "pinned"
        assert found.upper == pytest.approx(row["inconsistency"], abs=1e-10)
    assert gan(*table(case)).answer(0).jensen_shannon.upper == pytest.approx(case["JS"], abs=1e-10)


@each_case
def test_a_step_of_each_player_has_the_gradient_of_the_vectors(case):
    run = gan(*table(case), control=(1e-3, 0.0)).run(1, trace=KEEP)
    moved = (run.trace.snapshots[0]["D.logits"] - run.trace.snapshots[1]["D.logits"]) / 1e-3
    np.testing.assert_allclose(moved[:, 0], case["grad_D_logits_Dfocus"], rtol=0, atol=1e-10)
    run = gan(*table(case), control=(0.0, 1e-3)).run(2, trace=KEEP)
    moved = (run.trace.snapshots[1]["x.parts.1.logits"] - run.trace.snapshots[2]["x.parts.1.logits"]) / 1e-3
    np.testing.assert_allclose(moved, case["grad_G_logits_Gfocus"], rtol=0, atol=1e-10)
    assert [row.local_upper for row in run.trace.rows[:2]] == pytest.approx(
        [-case["L_GAN"] / 2 - LOG2, case["L_GAN"] / 2 + LOG2], abs=1e-10
    )
    assert gan(*table(case), control=(0.0, 0.0)).answer(2).losses == pytest.approx([case["L_GAN"]] * 2, abs=1e-10)


def modes(size: int = 41) -> tuple[Tensor, Tensor]:
    """A grid of the line, and two bumps on it."""
    grid = torch.linspace(-4, 4, size, dtype=torch.float64)
    p = 0.5 * torch.exp(-0.5 * ((grid + 2) / 0.5) ** 2) + 0.5 * torch.exp(-0.5 * ((grid - 2) / 0.5) ** 2) + 1e-4
    return grid, p / p.sum()


def divergence(p: Tensor, q: Tensor) -> float:
    m = (p + q) / 2
    return float(0.5 * (p * (p / m).log()).sum() + 0.5 * (q * (q / m).log()).sum())


def test_with_full_control_of_the_discriminator_the_generator_descends_jensen_shannon_on_two_modes():
    grid, p = modes()
    start = torch.softmax(-0.5 * grid**2, 0)
    made = gan(p, SoftmaxTable(start), SoftmaxTable(torch.full((len(p), 2), 0.5)), control=(inf, 8.0))
    run = made.run(80, trace=KEEP)
    logits = start.log().requires_grad_()
    for step in range(0, 80, 2):
        g = torch.softmax(logits, 0)
        d = (p / (p + g)).detach()  # Goodfellow's optimal discriminator
        found = torch.softmax(run.trace.snapshots[step + 1]["D.logits"], -1)[:, 0]
        torch.testing.assert_close(found, d, rtol=0, atol=1e-6)
        loss = (p * d.log()).sum() + (g * (1 - d).log()).sum()
        assert run.trace.rows[step + 1].local_upper == pytest.approx(loss.item() / 2 + LOG2, abs=1e-6)
        assert loss.item() == pytest.approx(2 * divergence(p, g.detach()) - 2 * LOG2, abs=1e-6)
        (slope,) = torch.autograd.grad(loss / 2, logits)
        logits = (logits - 8.0 * slope).detach().requires_grad_()
        after = torch.softmax(run.trace.snapshots[step + 2]["x.parts.1.logits"], -1)
        torch.testing.assert_close(after, torch.softmax(logits.detach(), -1), rtol=0, atol=1e-6)
    answer = made.read(run)
    end = answer.generator.table().detach()
    assert answer.jensen_shannon.upper == pytest.approx(divergence(p, end), abs=1e-9)
    assert divergence(p, end) < 0.5 * divergence(p, start)


@pytest.mark.parametrize("nonsaturating", [False, True])
@pytest.mark.parametrize("rounds", [1, 2])
def test_fifty_steps_of_neural_players_are_the_textbooks_training_run(nonsaturating, rounds):
    rates, noise, batch = (0.2, 0.1), 2, 12
    g = torch.Generator().manual_seed(0)
    data = torch.cat([x + 0.3 * torch.randn(20, 1, generator=g, dtype=torch.float64) for x in (-2.0, 2.0)])
    generator, detector = net(noise, 1, 1), net(1, 1, 2)
    made = gan(
        data,
        copy.deepcopy(generator),
        copy.deepcopy(detector),
        noise=noise,
        control=rates,
        rounds=rounds,
        batch=batch,
        nonsaturating=nonsaturating,
    )
    run = made.run(50, trace=KEEP, seed=4)
    draws = np.random.default_rng(4)
    optimizers = [torch.optim.SGD(m.parameters(), lr=r) for m, r in zip((detector, generator), rates, strict=True)]
    binary = nn.functional.binary_cross_entropy_with_logits
    for step in range(50):
        x = data[torch.from_numpy(draws.permutation(len(data))[:batch])]
        seed = int(draws.integers(2**62))
        z = torch.randn(batch, noise, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        real, fake = detector(x), detector(generator(z))
        gan_loss = -binary(real, torch.ones_like(real)) - binary(fake, torch.zeros_like(fake))
        turn = step % (rounds + 1) == rounds
        if not turn:
            loss, constant = -gan_loss / 2, -LOG2
        elif nonsaturating:
            loss, constant = binary(fake, torch.ones_like(fake)), -LOG2
        else:
            loss, constant = gan_loss / 2, LOG2
        for o in optimizers:
            o.zero_grad()
        loss.backward()
        assert run.trace.rows[step].local_upper == pytest.approx(loss.item() + constant, abs=1e-6)
        before, after = (run.trace.snapshots[t] for t in (step, step + 1))
        for arc, module, mine in (("D.logits.f", detector, not turn), ("x.parts.1.f", generator, turn)):
            for n, p in module.named_parameters():
                key, rate = f"{arc}.{n}", rates[int(turn)]
                assert p.grad is not None or not mine
                expected = p.grad if mine and p.grad is not None else torch.zeros_like(p)
                torch.testing.assert_close((before[key] - after[key]) / rate, expected, rtol=0, atol=1e-6)
        optimizers[int(turn)].step()


def test_a_neural_generator_finds_both_modes():
    g = torch.Generator().manual_seed(0)
    data = torch.cat([x + 0.3 * torch.randn(200, 1, generator=g) for x in (-2.0, 2.0)])
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    detector = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    made = gan(data, generator, detector, noise=2, control=(0.3, 0.3), batch=64, nonsaturating=True)
    edges = torch.linspace(-4, 4, 17)

    def apart(x: Tensor) -> float:
        p, q = (torch.histogram(v.flatten().float(), edges).hist + 1e-3 for v in (data, x))
        return divergence((p / p.sum()).double(), (q / q.sum()).double())

    before, after = (made.answer(n).generate(4000, seed=1) for n in (0, 500))
    assert apart(after) < 0.5 * apart(before)
    assert ((after + 2).abs() < 1).float().mean() > 0.3 and ((after - 2).abs() < 1).float().mean() > 0.3


def test_jensen_shannon_of_samples_is_refused_with_the_way_out():
    made = gan(torch.zeros(4, 1), nn.Linear(1, 1), nn.Linear(1, 1))
    with pytest.raises(
        CapabilityError, match=r"entropy of \(C, X\) is needed for arc 'e' .*no density.*minus that beta"
    ):
        _ = made.answer(0).jensen_shannon


def test_what_cannot_be_is_refused():
    players = nn.Linear(1, 1), nn.Linear(1, 1)
    with pytest.raises(DissonanceError, match="at least one step in each round"):
        gan(torch.zeros(4, 1), *players, rounds=0)
    with pytest.raises(DissonanceError, match="rows of numbers, or probabilities"):
        gan([0.5, 0.5], *players, batch=2)
    with pytest.raises(DissonanceError, match="a batch of 5 rows cannot be drawn from 4"):
        gan(torch.zeros(4, 1), *players, batch=5)
