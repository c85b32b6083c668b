"""Classification as LIR, against the shared vectors and against plain PyTorch, step by step."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    DissonanceError,
    Euclidean,
    Focus,
    Record,
    Variable,
    inconsistency,
    lir,
)
from dissonance.cpds import (
    Data,
    Function,
    LinearGaussian,
    NeuralCategorical,
    PointMass,
    SoftmaxTable,
    UniformBox,
)
from dissonance.instances import (
    adversarial_examples,
    adversarial_training,
    classification,
    stochastic_gradient_descent,
)
from dissonance.io import sealed
from shared_files import SHARED, shared_json

inf = math.inf
VECTORS = shared_json("vectors", "classifier.json")
CASES = VECTORS["cases"] if VECTORS else []
each_case = pytest.mark.skipif(not CASES, reason=f"no vectors under {SHARED}")
EVERY = Record(globally=False, snapshots=1)


def tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


class Shallow(nn.Module):
    """W t + b with t = x, or tanh(W1 x)."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.W, self.b = nn.Parameter(tensor(case["W"])), nn.Parameter(tensor(case["b"]))
        self.W1 = None if case["W1"] is None else nn.Parameter(tensor(case["W1"]))

    def forward(self, x: Tensor) -> Tensor:
        return (x if self.W1 is None else torch.tanh(x @ self.W1.T)) @ self.W.T + self.b


def slopes(found: Any, *leaves: Tensor) -> list[list[float]]:
    return [g.tolist() for g in torch.autograd.grad(found.value, leaves)]


@each_case
@pytest.mark.parametrize("case", CASES)
def test_the_vectors_of_training(case: dict[str, Any]):
    p = Shallow(case)
    made = classification(p, tensor(case["x"]), case["y"])
    found, exact = inconsistency(made.pdg, made.attention), case["training"]
    assert found.upper == pytest.approx(exact["inconsistency"], abs=1e-9)
    x = made.pdg.theta["x.value"]
    for g, name in zip(torch.autograd.grad(found.value, [p.W, p.b, x]), ("grad_W", "grad_b", "grad_x"), strict=True):
        assert torch.allclose(g, tensor(exact[name]), atol=1e-9, rtol=0)


@each_case
@pytest.mark.parametrize("case", CASES)
def test_the_vectors_of_inference(case: dict[str, Any]):
    x, label = tensor(case["x"]), tensor(case["label"])
    for exact in [*case["inference"], case["inference_hard_label"] | {"beta_p": 1.0}]:
        made = classification(Shallow(case), x, label, confidence=float(exact["beta_y"]), weight=exact["beta_p"])
        found = inconsistency(made.pdg, made.attention)
        assert found.upper == pytest.approx(exact["inconsistency"], abs=1e-9)
        (slope,) = torch.autograd.grad(found.value, made.pdg.theta["y.logits"])
        assert torch.allclose(slope, tensor(exact["grad_label_logits"]), atol=1e-9, rtol=0)
        if "mu_star" in exact:
            assert torch.allclose(found.mu.marginal("Y"), tensor(exact["mu_star"]), atol=1e-9, rtol=0)
        resolved = made.inference().run(1)
        assert resolved.after.upper == pytest.approx(0, abs=1e-9)
        assert torch.allclose(resolved.pdg["y"].cpd.table(), tensor(case["p_given_x"]), atol=1e-9, rtol=0)


@each_case
@pytest.mark.parametrize("case", CASES)
def test_the_vectors_of_adversarial_examples(case: dict[str, Any]):
    for exact in case["adversarial"]:
        x, instead = tensor([case["x"]]), torch.tensor([case["y_prime"]])
        asked = {"sigma": math.sqrt(exact["sigma2"]), "closeness": exact["beta_x"], "weight": exact["beta_p"]}
        instance = adversarial_examples(Shallow(case), x, instead, rate=0.1, **asked)
        theta = {**instance.pdg.theta, "x'.f.weight": tensor([case["x_prime"]]).requires_grad_()}
        found = inconsistency(instance.pdg, instance.attention, theta=theta)
        assert found.upper == pytest.approx(exact["inconsistency"], abs=1e-9)
        (slope,) = torch.autograd.grad(found.value, theta["x'.f.weight"])
        assert torch.allclose(slope[0], tensor(exact["grad_x_prime"]), atol=1e-9, rtol=0)


@pytest.fixture
def data() -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    return torch.randn(60, 3, generator=g, dtype=torch.float64), torch.randint(4, (60,), generator=g)


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4)).double()


def test_one_example_is_resolved_in_three_ways(data: tuple[Tensor, Tensor]):
    p, x, y = net(), data[0][0], 2
    made = classification(p, x, y)
    before = -torch.log_softmax(p(x), -1)[y].item()
    for instance in (made.training(0.1), made.adversarial_example(0.1), made.inference()):
        run = instance.run(3)
        assert run.before.upper == pytest.approx(before)
        assert run.after.upper < before
    after = copy.deepcopy(p)
    loss = nn.functional.cross_entropy(after(x[None]), torch.tensor([y]))
    for q, g in zip(after.parameters(), torch.autograd.grad(loss, list(after.parameters())), strict=True):
        q.data -= 0.1 * g
    trained = made.training(0.1).answer(1)
    for a, b in zip(trained.parameters(), after.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-12)
    (pull,) = torch.autograd.grad(
        nn.functional.cross_entropy(p(moved := x.clone().requires_grad_()), torch.tensor(y)), moved
    )
    assert torch.allclose(made.adversarial_example(0.1).answer(1), x - 0.1 * pull, atol=1e-12)
    assert torch.allclose(made.inference().answer(1), torch.softmax(p(x), -1), atol=1e-9)


def gradients(before: dict[str, Tensor], after: dict[str, Tensor], chi: float, prefix: str) -> dict[str, Tensor]:
    """The gradients that a step of length chi followed."""
    return {k.removeprefix(prefix): (before[k] - after[k]) / chi for k in before if k.startswith(prefix)}


def test_every_step_of_stochastic_gradient_descent_has_the_textbook_gradient(data: tuple[Tensor, Tensor]):
    plain = net()
    instance = stochastic_gradient_descent(net(), *data, batch=8, rate=0.2)
    run = instance.run(50, trace=EVERY, seed=5)
    theta = [*run.trace.snapshots.values()]
    generator = np.random.default_rng(5)
    for step in range(50):
        rows = torch.from_numpy(generator.permutation(60)[:8])
        generator.integers(2**62)  # the seed of the step's samples
        loss = nn.functional.cross_entropy(plain(data[0][rows]), data[1][rows])
        assert run.trace.rows[step].local_upper == pytest.approx(loss.item(), abs=1e-9)
        theirs = torch.autograd.grad(loss, list(plain.parameters()))
        ours = gradients(theta[step], theta[step + 1], 0.2, "p.logits.")
        for (name, q), g in zip(plain.named_parameters(), theirs, strict=True):
            assert torch.allclose(ours[name], g, atol=1e-6, rtol=0)
            q.data -= 0.2 * g


@pytest.mark.parametrize("confidence", [inf, 1.0, 3.0])
def test_soft_labels_have_a_divergence_and_not_the_cross_entropy(data: tuple[Tensor, Tensor], confidence: float):
    smooth = 0.9 * torch.eye(4, dtype=torch.float64)[data[1]] + 0.1 / 4
    instance = stochastic_gradient_descent(net(), data[0], smooth, batch=6, rate=0.1, confidence=confidence)
    run = instance.run(50, trace=EVERY, seed=1)
    plain, generator = net(), np.random.default_rng(1)
    theta = [*run.trace.snapshots.values()]
    for step in range(50):
        rows = torch.from_numpy(generator.permutation(60)[:6])
        generator.integers(2**62)
        y, log_p = smooth[rows], torch.log_softmax(plain(data[0][rows]), -1)
        if confidence == inf:
            loss = (y * (y.log() - log_p)).sum(-1).mean()
        else:
            share = 1 / (1 + confidence)
            loss = -(1 + confidence) * torch.logsumexp((1 - share) * y.log() + share * log_p, -1).mean()
        assert run.trace.rows[step].local_upper == pytest.approx(loss.item(), abs=1e-7)
        ours = gradients(theta[step], theta[step + 1], 0.1, "p.logits.")
        theirs = torch.autograd.grad(loss, list(plain.parameters()))
        for (name, q), g in zip(plain.named_parameters(), theirs, strict=True):
            assert torch.allclose(ours[name], g, atol=1e-6, rtol=0)
            q.data -= 0.1 * g


@pytest.mark.parametrize(("prior", "weight"), [(0.0, 1.0), (0.01, 1.0), (0.0, -2.0)])
def test_every_step_of_adversarial_training_has_the_textbook_gradient(
    data: tuple[Tensor, Tensor], prior: float, weight: float
):
    sigma, closeness, size = 0.5, 0.7, 8
    options: dict[str, Any] = {"attacks": 3, "attack_rate": 0.3, "sigma": sigma, "closeness": closeness}
    instance = adversarial_training(net(), *data, batch=size, rate=0.2, prior=prior, weight=weight, **options)
    run = instance.run(50, trace=EVERY, seed=6)
    theta = [*run.trace.snapshots.values()]
    plain = net()
    moved = data[0][:size].clone()
    for step in range(50):
        number, at = divmod(step, 5)
        g = np.random.default_rng(np.random.SeedSequence(6, spawn_key=(number,)))
        rows = torch.from_numpy(g.permutation(60)[:size])
        x, y = data[0][rows], data[1][rows]
        instead = y if weight < 0 else (y + torch.from_numpy(g.integers(1, 4, size=size))) % 4
        ours = theta[step]["x'.f.weight"] - theta[step + 1]["x'.f.weight"]
        if at == 0:
            moved = x.clone()
            assert torch.allclose(theta[step + 1]["x'.f.weight"], x, atol=1e-12)
        elif at < 4:
            moved.requires_grad_()
            far = (moved - x).square().sum(-1) / (2 * sigma**2)
            loss = closeness * far + weight * nn.functional.cross_entropy(plain(moved), instead, reduction="none")
            (slope,) = torch.autograd.grad(loss.sum(), moved)
            assert torch.allclose(ours / 0.3, slope, atol=1e-6, rtol=0)
            moved = (moved - 0.3 * slope).detach()
        else:
            weights = torch.cat([q.reshape(-1) for q in plain.parameters()])
            loss = nn.functional.cross_entropy(plain(moved), y) + prior * weights.square().sum() / 2
            theirs = torch.autograd.grad(loss, list(plain.parameters()))
            found = gradients(theta[step], theta[step + 1], 0.2, "theta_p." if prior else "p.logits.")
            flat = torch.cat([v.reshape(-1) for v in found.values()])
            assert torch.allclose(flat, torch.cat([s.reshape(-1) for s in theirs]), atol=1e-6, rtol=0)
            for q, s in zip(plain.parameters(), theirs, strict=True):
                q.data -= 0.2 * s
    trained = instance.read(run)
    for a, b in zip(trained.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-9)


def test_adversarial_training_goes_on_in_the_middle_of_a_round_and_follows_the_seed_of_the_run(
    data: tuple[Tensor, Tensor], tmp_path: Path
):
    instance = adversarial_training(net(), *data, batch=8, rate=0.2, attacks=3, attack_rate=0.1)
    whole = instance.run(13, seed=2).theta
    instance.run(7, seed=2, checkpoint=tmp_path / "run.pt")  # two steps into the second round
    resumed = instance.run(13, seed=2, checkpoint=tmp_path / "run.pt").theta
    other = instance.run(13, seed=3).theta
    assert all(torch.equal(v, resumed[k]) for k, v in whole.items())
    assert not torch.equal(whole["p.logits.0.weight"], other["p.logits.0.weight"])


def projected_ascent(p: nn.Module, x: Tensor, y: Tensor, radius: float, steps: int = 20) -> Tensor:
    """The standard attack of that radius in L2: normalised gradients of the cross-entropy, back into the ball."""
    moved = torch.zeros_like(x)
    for _ in range(steps):
        moved.requires_grad_()
        loss = nn.functional.cross_entropy(p(x + moved), y, reduction="sum")
        (slope,) = torch.autograd.grad(loss, moved)
        moved = moved.detach() + 2.5 * radius / steps * nn.functional.normalize(slope, dim=-1)
        moved = moved * (radius / moved.norm(dim=-1, keepdim=True).clamp(min=1e-12)).clamp(max=1)
    return x + moved


def test_adversarial_training_defends_digits_against_the_standard_attack():
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    x, y = torch.as_tensor(digits.data / 16).float(), torch.as_tensor(digits.target)
    torch.manual_seed(0)
    start = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    plain = stochastic_gradient_descent(start, x[:1200], y[:1200], batch=64, rate=0.2).answer(500)
    training = adversarial_training(
        plain, x[:1200], y[:1200], batch=64, rate=0.2, attacks=4, attack_rate=0.4, weight=-1.0
    )
    hardened = training.answer(200 * 6)

    def right(p: nn.Module, radius: float) -> float:
        z = projected_ascent(p, x[1200:], y[1200:], radius)
        return float((p(z).argmax(-1) == y[1200:]).double().mean())

    assert right(hardened, 0.0) > right(plain, 0.0) - 0.05
    assert right(hardened, 0.75) > right(plain, 0.75) + 0.15


def test_disbelief_flees_from_the_label(data: tuple[Tensor, Tensor]):
    p, (x, y) = net(), (data[0][:5], data[1][:5])
    instance = adversarial_examples(p, x, y, weight=-1.0, closeness=0.1, rate=0.2)
    moved = instance.answer(10, trace=EVERY)
    each = nn.functional.cross_entropy
    assert bool((each(p(moved), y, reduction="none") > each(p(x), y, reduction="none")).all())


def test_what_does_not_fit_is_refused_by_name(data: tuple[Tensor, Tensor]):
    x, y = data
    with pytest.raises(DissonanceError, match="does not take inputs of 2 numbers"):
        stochastic_gradient_descent(net(), x[:, :2], y)
    with pytest.raises(DissonanceError, match="Y needs indices from 0 to 3"):
        stochastic_gradient_descent(net(), x, y + 1)
    with pytest.raises(DissonanceError, match="labels 0 to 3; found 4"):
        classification(net(), x[0], 4)
    with pytest.raises(DissonanceError, match="do not go together"):
        adversarial_training(net(), x, y, batch=61)
    with pytest.raises(DissonanceError, match=r"leap over x: have attack_rate closeness < 2 sigma"):
        adversarial_training(net(), x, y, batch=8, sigma=0.1, attack_rate=0.1)
    with pytest.raises(DissonanceError, match="must be distributions"):
        stochastic_gradient_descent(net(), x, y, confidence=1.0)
    here, there = Variable("X", Euclidean(3)), Variable("Y", 5)
    with pytest.raises(
        DissonanceError, match=r"arc 'p' \(X -> Y\): Sequential makes \(4,\) numbers of a row; .* need 5"
    ):
        Arc("p", here, there, NeuralCategorical(net()))
    with pytest.raises(
        DissonanceError, match=r"arc 'p' \(X -> Y\): Sequential cannot take the sources \(X: Euclidean\(2"
    ):
        Arc("p", Variable("X", Euclidean(2)), Variable("Y", 4), NeuralCategorical(net()))


def test_a_score_that_is_not_a_number_names_its_arc(data: tuple[Tensor, Tensor]):
    p = net()
    next(p.parameters()).data[0] = math.nan
    made = classification(p, data[0][0], 1)
    with pytest.raises(DissonanceError, match=r"arc 'p' \(X -> Y\): the parameter 'p.logits.0.weight' holds nan"):
        inconsistency(made.pdg, made.attention)


def test_a_run_that_leaves_the_numbers_stops_there_with_its_last_good_checkpoint(
    data: tuple[Tensor, Tensor], tmp_path: Path
):
    instance = stochastic_gradient_descent(net(), *data, batch=8, rate=0.1)
    good, bad = instance.refocus, Control({"p": 1e308})

    def refocus(pdg: PDG, step: int, *rest: Any) -> Focus:
        focus = good(pdg, step, *rest)
        return focus if step < 3 else Focus(Attention.only({"d": inf, "p": 1e6}), bad, focus.context)

    path, trace = tmp_path / "run.pt", Record(globally=False)
    with pytest.raises(DissonanceError, match=r"step 3: arc 'p' \(X -> Y\) would move to .* not finite"):
        lir(instance.pdg, refocus, steps=9, flow="step", checkpoint=path, trace=trace)
    kept = sealed.read_state(path, "a checkpoint")
    assert kept["step"] == 3
    assert all(bool(torch.isfinite(v).all()) for v in kept["theta"].values())


def test_a_run_whose_inconsistency_is_infinite_stops_there_and_names_the_arc(tmp_path: Path):
    x, z = Variable("X", Euclidean(3)), Variable("Z", Euclidean(2))
    torch.manual_seed(0)
    pdg = PDG(
        Arc("d", (), x, Data(torch.ones(4, 3))),
        Arc("f", x, z, Function(nn.Linear(3, 2))),
        Arc("box", (), z, UniformBox(-1.0, 1.0)),
        Arc("g", (), z, LinearGaussian(None, [5.0, 5.0], 1.0, learnable=False)),
    )
    attention = Attention.only({"d": inf, "f": inf, "box": 1.0, "g": 1.0})
    options: dict[str, Any] = {"attention": attention, "control": Control({"f": 0.05}), "flow": "step", "trace": EVERY}
    with pytest.raises(
        DissonanceError,
        match=r"step \d: the inconsistency is inf: arc 'box' \(-> Z\) has density 0.* at 4 of 4 samples",
    ):
        lir(pdg, steps=9, checkpoint=tmp_path / "run.pt", **options)
    kept = sealed.read_state(tmp_path / "run.pt", "a checkpoint")
    assert kept["step"] > 0 and all(bool(torch.isfinite(v).all()) for v in kept["theta"].values())


def test_what_is_not_a_point_is_refused_at_points(data: tuple[Tensor, Tensor]):
    here, there = Variable("X", Euclidean(3)), Variable("Y", 4)
    label = Arc("y", (), there, SoftmaxTable([0.4, 0.3, 0.2, 0.1]))
    classifier = Arc("p", here, there, NeuralCategorical(net()))
    seen = PDG(Arc("x", (), here, PointMass(data[0][0])), classifier, label)
    found = inconsistency(seen, Attention.only({"x": inf, "y": 1.0, "p": 1.0}), solver="at-points")
    q, p = tensor([0.4, 0.3, 0.2, 0.1]), torch.softmax(net()(data[0][0]), -1)
    assert found.upper == pytest.approx(-2 * torch.log((q * p).sqrt().sum()).item(), abs=1e-9)
    with pytest.raises(DissonanceError, match=r"X is Euclidean\(3\), and no hard arc makes points of it"):
        inconsistency(seen, Attention.only({"x": 1.0, "y": 1.0, "p": 1.0}), solver="at-points")


def test_several_points_are_weighed_and_their_labels_solved_apart(data: tuple[Tensor, Tensor]):
    here, there = Variable("X", Euclidean(3)), Variable("Y", 4)
    label = SoftmaxTable([0.4, 0.3, 0.2, 0.1])
    pdg = PDG(
        Arc("d", (), here, Data(data[0][:5])),
        Arc("p", here, there, NeuralCategorical(net())),
        Arc("y", (), there, label),
    )
    found = inconsistency(pdg, Attention.only({"d": inf, "p": 1.0}))
    assert found.upper == pytest.approx(0, abs=1e-9)  # mu(Y|x) = p
    assert torch.allclose(found.mu.marginal("Y"), torch.softmax(net()(data[0][:5]), -1).mean(0), atol=1e-7)
