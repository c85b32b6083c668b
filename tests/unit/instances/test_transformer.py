"""Transformer layers as LIR against the textbook, torch's own attention, and the shared vectors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from dissonance import PDG, Arc, Attention, Control, DissonanceError, Euclidean, Record, Variable, inconsistency, lir
from dissonance.cpds import Data, NeuralGaussian
from dissonance.flows import ODE
from dissonance.instances import SelfAttention, transformer, transformer_training
from shared_files import SHARED, shared_json

VECTORS = shared_json("vectors", "transformer.json")
CASES = VECTORS["cases"] if VECTORS else []
TOL = VECTORS["tolerance"] if VECTORS else 0.0
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['n']}x{c['d']}")
with_vectors = pytest.mark.skipif(not CASES, reason=f"no vectors under {SHARED}")
KEPT = Record(snapshots=1)


def real(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def of(case: dict[str, Any], **options: Any) -> tuple[SelfAttention, Tensor]:
    return SelfAttention(real(case["W_K"]), real(case["W_Q"]), real(case["W_V"]), **options), real(case["x"])


def random_layer(heads: int = 1, n: int = 4, d: int = 3, seed: int = 0, **options: Any) -> tuple[SelfAttention, Tensor]:
    g = torch.Generator().manual_seed(seed)
    shapes = ((heads, 2, d), (heads, 2, d), (heads, 3, d), (n, d))
    K, Q, V, x = (0.7 * torch.randn(s, generator=g, dtype=torch.float64) for s in shapes)
    return SelfAttention(K, Q, V, **options), x


def covariances(heads: int, n: int, d: int = 3) -> Tensor:
    half = torch.randn(heads, n, n, d, d, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return half @ half.mT + 0.3 * torch.eye(d, dtype=torch.float64)


def textbook(layer: SelfAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """sum_i phi_ij Sigma_ij^-1 and sum_i phi_ij Sigma_ij^-1 v_i with loops, (heads, n, ...)."""
    n, d = len(x), layer.W_V.shape[1]
    precision = torch.zeros(layer.heads, n, d, d, dtype=torch.float64)
    pulled = torch.zeros(layer.heads, n, d, dtype=torch.float64)
    for h in range(layer.heads):
        for j in range(n):
            for i in range(n):
                hidden = (layer.causal and i > j) or (layer.mask is not None and not layer.mask[i, j])
                phi = 0.0 if hidden else math.exp(layer.scale * float(layer.W_K[h] @ x[i] @ (layer.W_Q[h] @ x[j])))
                inverse = torch.eye(d).double() if layer.Sigma is None else layer.Sigma[h, i, j].inverse()
                precision[h, j] += phi * inverse
                pulled[h, j] += phi * inverse @ (layer.W_V[h] @ x[i])
    return precision, pulled


def close(found: Tensor, wanted: Tensor, tol: float = 1e-12) -> bool:
    return found.shape == wanted.shape and float((found - wanted).abs().max()) < tol * max(
        1.0, float(wanted.abs().max())
    )


def joined(heads: Tensor) -> Tensor:
    return torch.cat(list(heads), -1)


SOME = torch.tensor([[1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 1]], dtype=torch.bool)
LAYERS = {
    "plain": random_layer(),
    "scaled": random_layer(scale=2**-0.5),
    "causal": random_layer(causal=True, seed=1),
    "masked": random_layer(mask=SOME, seed=2),
    "heads": random_layer(heads=2, causal=True, scale=2**-0.5, seed=3),
    "covariances": random_layer(Sigma=covariances(1, 4), seed=4),
    "all": random_layer(heads=2, causal=True, mask=SOME | torch.eye(4).bool(), Sigma=covariances(2, 4), seed=5),
}
each_layer = pytest.mark.parametrize("name", LAYERS)


@each_layer
def test_full_control_of_the_outputs_is_self_attention_in_one_step(name: str):
    layer, x = LAYERS[name]
    precision, pulled = textbook(layer, x)
    best = joined(torch.linalg.solve(precision, pulled))
    start = torch.randn(best.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    instance = transformer(layer, x, start)
    run = instance.run(1)
    assert close(instance.read(run), best)
    assert run.trace.rows[0].residual < 1e-11
    assert close(layer.resolve(x), best)
    assert run.before.upper == pytest.approx(float(layer.inconsistency(x, start)), rel=1e-12)
    assert run.after.upper == pytest.approx(float(layer.inconsistency(x, best)), rel=1e-12)


@each_layer
def test_finite_control_takes_the_textbook_gradient_step_every_time(name: str):
    layer, x = LAYERS[name]
    precision, pulled = textbook(layer, x)
    instance = transformer(layer, x, control=0.03)
    trace = instance.run(6, trace=KEPT).trace
    now = torch.zeros(layer.heads, len(x), 3, dtype=torch.float64)
    fast = joined(now)
    for step in range(1, 7):
        now = now - 0.03 * ((precision @ now[..., None])[..., 0] - pulled)
        fast = layer.step(x, fast, 0.03)
        snapshot = trace.snapshots[step]
        names = [[f"x'{j}" if layer.heads == 1 else f"x'{j} of head {h}" for h in range(layer.heads)] for j in range(4)]
        found = torch.stack([torch.cat([snapshot[f"{n}.value"] for n in row]) for row in names])
        assert close(found, joined(now))
        assert close(fast, joined(now))


def test_the_flow_itself_approaches_attention_exponentially():
    layer, x = LAYERS["covariances"]
    precision, pulled = textbook(layer, x)
    best = torch.linalg.solve(precision, pulled)
    moved = best - (torch.linalg.matrix_exp(-0.05 * precision) @ best[..., None])[..., 0]  # from 0
    found = transformer(layer, x, control=0.05, flow=ODE("rk4", steps=10)).answer(1)
    assert close(found, joined(moved), 1e-6)


@pytest.mark.parametrize(("dtype", "tol"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("causal", [False, True])
def test_the_fast_path_is_scaled_dot_product_attention(dtype: torch.dtype, tol: float, heads: int, causal: bool):
    g = torch.Generator().manual_seed(heads)
    K, Q, V = (0.3 * torch.randn(heads, 5, 16, generator=g, dtype=dtype) for _ in range(3))
    x = torch.randn(3, 2, 17, 16, generator=g, dtype=dtype)
    for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        layer = SelfAttention(K.to(device), Q.to(device), V.to(device), scale=5**-0.5, causal=causal)
        z = x.to(device)
        theirs = scaled_dot_product_attention(layer.queries(z), layer.keys(z), layer.values(z), is_causal=causal)
        assert close(layer.resolve(z), theirs.transpose(-3, -2).flatten(-2), tol)
        plain = replace(layer, scale=1.0)
        theirs = scaled_dot_product_attention(
            plain.queries(z), plain.keys(z), plain.values(z), None, 0.0, causal, scale=1
        )
        assert close(plain.resolve(z), theirs.transpose(-3, -2).flatten(-2), tol)


def test_a_mask_is_that_of_scaled_dot_product_attention_turned_round():
    layer, x = random_layer(heads=2, mask=SOME, scale=2**-0.5)
    theirs = scaled_dot_product_attention(layer.queries(x), layer.keys(x), layer.values(x), attn_mask=SOME.T)
    assert close(layer.resolve(x), joined(theirs))


def test_large_scores_do_not_overflow_the_fast_path():
    layer, x = random_layer(scale=1e4)
    theirs = scaled_dot_product_attention(layer.queries(x), layer.keys(x), layer.values(x), scale=1e4)
    assert close(layer.resolve(x), joined(theirs))


def test_the_softmax_is_over_the_keys_for_each_query():
    layer, x = LAYERS["heads"]
    assert torch.allclose(layer.shares(x).sum(-2), torch.ones(2, 4).double())
    assert float((layer.shares(x).sum(-1) - 1).abs().max()) > 0.1
    assert bool((layer.phi(x)[:, 1, 0] == 0).all()), "query 0 does not see key 1"


@with_vectors
@each_case
def test_the_vectors_are_met(case: dict[str, Any]):
    layer, x = of(case)
    start = real(case["x_prime0"])
    assert close(layer.phi(x)[0], real(case["phi"]), TOL)
    assert close(layer.shares(x)[0], real(case["alpha"]), TOL)
    run = transformer(layer, x, start).run(1)
    assert run.before.upper == pytest.approx(case["inconsistency_at_x_prime0"], rel=TOL)
    assert run.after.upper == pytest.approx(case["inconsistency_at_opt"], rel=TOL)
    stepped = transformer(layer, x, start, control=1.0).answer(1)
    assert close(start - stepped, real(case["grad_at_x_prime0"]), TOL)
    variants = {
        "x_prime_opt": {},
        "softmax_attention": {},
        "scaled_softmax_attention": {"scale": case["d"] ** -0.5},
        "causal_mask_attention": {"causal": True},
        "isotropic_x_prime_opt": {
            "Sigma": real(case["isotropic_sigma2"])[None, :, :, None, None] * torch.eye(case["d"]).double()
        },
    }
    for key, options in variants.items():
        layer, x = of(case, **options)
        for found in (transformer(layer, x, start).answer(1), layer.resolve(x)):
            assert close(found, real(case[key]), TOL), key


def data(heads: int = 1, **options: Any) -> tuple[SelfAttention, Tensor, Tensor]:
    layer, _ = random_layer(heads, **options)
    g = torch.Generator().manual_seed(7)
    x, y = (torch.randn(5, 4, k, generator=g, dtype=torch.float64) for k in (3, 3 * heads))
    return layer, x, y


@pytest.mark.parametrize("name", ["plain", "covariances", "heads", "all"])
def test_all_arcs_as_one_are_as_inconsistent_as_the_bipartite_pdg_and_pull_as_hard_at_the_values(name: str):
    layer, x = LAYERS[name]
    y = torch.randn(4, 3 * layer.heads, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    instance = transformer(layer, x, y)
    apart = inconsistency(instance.pdg, instance.attention)
    first = ["0 to 0" if layer.heads == 1 else f"0 to 0 of head {h}" for h in range(layer.heads)]
    chi = Control({f"{n}.A": 0.01 for n in first})
    moved = lir(instance.pdg, attention=instance.attention, control=chi, flow="step", steps=1)
    training = transformer_training(layer, x[None], y[None], control={"W_V": 0.01})
    run = training.run(1)
    assert run.before.upper == pytest.approx(apart.upper, rel=1e-12)
    assert close(training.read(run).W_V, torch.stack([moved.theta[f"{n}.A"] for n in first]))


def test_held_attention_moves_the_values_by_the_textbook_step_and_nothing_else():
    layer, x, y = data()
    instance = transformer_training(layer, x, y, control=dict.fromkeys(("W_K", "W_Q", "W_V"), 0.01))
    trace = instance.run(4, trace=KEPT).trace
    w = layer.W_V[0].clone()
    phi = layer.phi(x)[:, 0]
    for step in range(1, 5):
        off = y[:, None] - (x @ w.T)[:, :, None]  # (sequence, i, j, d)
        w = w + 0.01 * torch.einsum("bij,bija,bic->ac", phi, off, x) / len(x)
        assert close(trace.snapshots[step]["layer.W_V"][0], w)
        assert torch.equal(trace.snapshots[step]["layer.W_K"], layer.W_K)
        assert torch.equal(trace.snapshots[step]["layer.W_Q"], layer.W_Q)


def test_full_control_of_the_values_is_weighted_least_squares_in_one_step():
    layer, x, y = data()
    instance = transformer_training(layer, x, y, control={"W_V": math.inf})
    run = instance.run(1)
    root = layer.phi(x)[:, 0].sqrt()[..., None]  # (sequence, i, j, 1)
    rows, wanted = (root * z.expand(5, 4, 4, 3) for z in (x[:, :, None], y[:, None]))
    best = torch.linalg.lstsq(rows.reshape(-1, 3), wanted.reshape(-1, 3)).solution.T
    assert close(instance.read(run).W_V[0], best, 1e-10)


def test_training_by_control_is_standard_training_plus_the_variance_of_the_values_under_attention():
    layer, x, y = data(heads=2)
    run = transformer_training(layer, x, y, control={"W_V": 0.0}, attention="shares held").run(1)
    output = layer.resolve(x)
    error = (y - output).square().sum((-2, -1)) / 2
    spread = layer.values(x)[..., :, None, :] - output.unflatten(-1, (2, 3)).transpose(1, 2)[..., None, :, :]
    variance = (layer.shares(x) * spread.square().sum(-1)).sum((-3, -2, -1)) / 2
    constant = 4 * 2 * 1.5 * math.log(2 * math.pi)
    assert run.before.upper == pytest.approx(float((error + variance).mean()) + constant, rel=1e-12)


def test_attention_that_is_differentiated_is_lowered_everywhere():
    layer, x, y = data()
    chi: dict[str, float] = {"W_K": 1e-4, "W_Q": 1e-4}
    instance = transformer_training(layer, x, y, control=chi, attention="differentiated")
    moved = instance.answer(1)
    costs = layer.costs(x, y)
    assert bool((costs > 0).all())
    slope = (layer.phi(x) * costs / len(x))[:, 0]  # in the scores <k_i, q_j>: nowhere negative
    downhill = torch.einsum("bij,bja,bic->ac", slope, layer.queries(x)[:, 0], x)
    assert close(moved.W_K[0], layer.W_K[0] - 1e-4 * downhill)
    far = transformer_training(layer, x, y, control=dict.fromkeys(chi, 1e-3), attention="differentiated").run(200)
    assert far.after.upper < 0.8 * far.before.upper
    end = replace(layer, W_K=far.theta["layer.W_K"], W_Q=far.theta["layer.W_Q"])
    assert float(end.phi(x).mean()) < 0.8 * float(layer.phi(x).mean())


def test_shares_that_are_differentiated_go_to_the_nearest_values():
    layer, x, y = data()
    moved = transformer_training(layer, x, y, control={"W_Q": 0.01}, attention="shares differentiated").answer(1)
    costs, shares = layer.costs(x, y), layer.shares(x)
    slope = (shares * (costs - (shares * costs).sum(-2, keepdim=True)) / len(x))[:, 0]
    downhill = torch.einsum("bij,bia,bjc->ac", slope, layer.keys(x)[:, 0], x)
    assert close(moved.W_Q[0], layer.W_Q[0] - 0.01 * downhill)


class Layer(nn.Module):
    """Self-attention as a module."""

    def __init__(self, layer: SelfAttention) -> None:
        super().__init__()
        self.layer = layer
        self.K, self.Q, self.V = (nn.Parameter(w.clone()) for w in (layer.W_K, layer.W_Q, layer.W_V))

    def forward(self, x: Tensor) -> Tensor:
        k, q, v = (x.unflatten(-1, (-1, 3))[..., None, :, :] @ w.mT for w in (self.K, self.Q, self.V))
        return scaled_dot_product_attention(q, k, v, scale=1.0).transpose(-3, -2).flatten(-3)


def test_a_layer_that_is_one_cpd_is_trained_by_backpropagation_step_by_step():
    layer, x, y = data(heads=2)
    X, Y = (Variable(n, Euclidean(z[0].numel())) for n, z in (("X", x), ("X'", y)))
    pdg = PDG(Arc("data", (), (X, Y), Data(x.flatten(1), y.flatten(1))), Arc("p", X, Y, NeuralGaussian(Layer(layer))))
    attention = Attention.only({"data": math.inf, "p": 1.0})
    trace = lir(pdg, attention=attention, control=Control({"p": 0.05}), flow="step", steps=50, trace=KEPT).trace
    theirs = Layer(layer)
    sgd = torch.optim.SGD(theirs.parameters(), 0.05)
    for step in range(1, 51):
        sgd.zero_grad()
        ((theirs(x.flatten(1)) - y.flatten(1)).square().sum(-1) / 2).mean().backward()
        sgd.step()
        for name, p in theirs.named_parameters():
            assert close(trace.snapshots[step][f"p.mean.{name}"], p.detach(), 1e-9)


def test_what_does_not_fit_is_said():
    layer, x = random_layer()
    with pytest.raises(DissonanceError, match=r"one sequence of tokens \(n, 3\)"):
        transformer(layer, x[None])
    with pytest.raises(DissonanceError, match=r"\(4, 3\) is needed"):
        transformer(layer, x, torch.zeros(4, 2))
    with pytest.raises(DissonanceError, match="query 2 sees no key"):
        layer_blind = replace(layer, mask=torch.tensor([[1, 1, 0, 1]] * 4).bool())
        layer_blind.resolve(x)
    with pytest.raises(DissonanceError, match="W_V is"):
        SelfAttention(layer.W_K, layer.W_Q, layer.W_V[..., :2])
    with pytest.raises(DissonanceError, match="sequences, n, d"):
        transformer_training(layer, x, x, control={"W_V": 1.0})
    with pytest.raises(DissonanceError, match="Did you mean 'held'"):
        transformer_training(layer, x[None], x[None], control={"W_V": 1.0}, attention="hold")  # pyright: ignore[reportArgumentType]
