"""Self-attention as LIR: the compiled layer against torch's attention, and training by control against backpropagation.

    python benchmarks/attention.py                       # both tables
    python benchmarks/attention.py --training --steps 5  # soon done
    python benchmarks/attention.py --speed --device cuda --tokens 4096

Speed: the least of several tries. Training: every row begins at the same weights and takes the same number of steps of
Adam at the same rate on all sequences; LIR takes them as one flow, `Descent("Adam", rate, steps)`. `error` is that of
the layer's output on fresh sequences, as a share of the variance of the targets: 1 is no better than their mean.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, scaled_dot_product_attention

from dissonance import PDG, Arc, Attention, Control, Euclidean, Record, Variable, lir
from dissonance.cpds import Data, NeuralGaussian
from dissonance.flows import Descent
from dissonance.instances import SelfAttention, transformer_training
from dissonance.instances.transformer import Kind

N = 4
"""Tokens a sequence, keys, and dimensions of what a token carries."""

ALL = ("W_K", "W_Q", "W_V")


def sequences(task: str, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Tokens x_i = (own key, key asked for, content), and what the layer should make of them.

    lookup: the content of the token that has the key asked for. average: the mean of all contents.
    """
    g = torch.Generator().manual_seed(seed)
    own = torch.rand(count, N, generator=g).argsort(-1)
    asked = torch.randint(N, (count, N), generator=g)
    content = torch.randn(count, N, N, generator=g, dtype=torch.float64)
    x = torch.cat([one_hot(own, N).double(), one_hot(asked, N).double(), content], -1)
    who = one_hot(asked, N).double() @ one_hot(own, N).double().mT  # (sequence, j, i)
    share = who if task == "lookup" else torch.full_like(who, 1 / N)
    return x, share @ content


class Layer(nn.Module):
    """Self-attention as a module: what is trained by backpropagation."""

    def __init__(self, layer: SelfAttention) -> None:
        super().__init__()
        self.W_K, self.W_Q, self.W_V = (nn.Parameter(getattr(layer, n).clone()) for n in ALL)

    def forward(self, x: Tensor) -> Tensor:
        """x' of sequences laid end to end."""
        k, q, v = (x.unflatten(-1, (N, -1))[..., None, :, :] @ w.mT for w in (self.W_K, self.W_Q, self.W_V))
        return scaled_dot_product_attention(q, k, v).transpose(-3, -2).flatten(-3)


def backpropagated(
    layer: SelfAttention, x: Tensor, y: Tensor, names: tuple[str, ...], steps: int, rate: float
) -> SelfAttention:
    """Standard training of the mean of |y - x'|^2 / 2."""
    module = Layer(layer)
    adam = torch.optim.Adam([getattr(module, n) for n in names], rate)
    for _ in range(steps):
        module.zero_grad()
        ((module(x.flatten(1)) - y.flatten(1)).square().sum(-1) / 2).mean().backward()
        adam.step()
    return replace(layer, **{n: getattr(module, n).detach() for n in ALL})


def as_one_cpd(layer: SelfAttention, x: Tensor, y: Tensor, steps: int, rate: float) -> SelfAttention:
    """LIR on another PDG: the whole layer is the mean of one Gaussian, X -> X'."""
    before, after = (Variable(n, Euclidean(z[0].numel())) for n, z in (("X", x), ("X'", y)))
    pdg = PDG(
        Arc("data", (), (before, after), Data(x.flatten(1), y.flatten(1))),
        Arc("p", before, after, NeuralGaussian(Layer(layer))),
    )
    attention = Attention.only({"data": math.inf, "p": 1.0})
    flow = Descent("Adam", rate, steps)
    run = lir(pdg, attention=attention, control=Control({"p": 1.0}), flow=flow, steps=1, trace=Record(globally=False))
    return replace(layer, **{n: run.theta[f"p.mean.{n}"] for n in ALL})


def training(task: str, steps: int, rate: float, count: int) -> None:
    """The table of a task."""
    x, y = sequences(task, count, 1)
    fresh, wanted = sequences(task, 2000, 2)
    g, d = torch.Generator().manual_seed(0), x.shape[-1]
    K, Q, V = (torch.randn(1, N, d, generator=g, dtype=torch.float64) / d**0.5 for _ in range(3))
    layer = SelfAttention(K, Q, V, scale=N**-0.5)

    def controlled(kind: Kind, names: tuple[str, ...] = ALL, chi: float = 1.0) -> SelfAttention:
        control, flow = dict.fromkeys(names, chi), Descent("Adam", rate, steps)
        return transformer_training(layer, x, y, control=control, attention=kind, flow=flow).answer(1)

    rows: list[tuple[str, Callable[[], SelfAttention]]] = [
        ("before", lambda: layer),
        ("backpropagation, W_V", lambda: backpropagated(layer, x, y, ("W_V",), steps, rate)),
        ("backpropagation, all", lambda: backpropagated(layer, x, y, ALL, steps, rate)),
        ("LIR, W_V, phi held", lambda: controlled("held", ("W_V",))),
        ("LIR, W_V, phi held, full control", lambda: controlled("held", ("W_V",), math.inf)),
        ("LIR, all, phi held", lambda: controlled("held")),
        ("LIR, all, shares held", lambda: controlled("shares held")),
        ("LIR, all, phi differentiated", lambda: controlled("differentiated")),
        ("LIR, all, shares differentiated", lambda: controlled("shares differentiated")),
        ("LIR, layer as one cpd, all", lambda: as_one_cpd(layer, x, y, steps, rate)),
    ]
    print(f"\n{task}: {count} sequences of {N} tokens, {steps} steps of Adam at rate {rate:g}")
    print(f"{'':34}{'error':>8}{'mean phi':>10}{'largest share':>15}{'moved K, Q':>12}{'|W_V|':>8}{'seconds':>9}")
    spread = float((wanted - wanted.mean((0, 1))).square().mean())
    for name, train in rows:
        began = time.perf_counter()
        found = train()
        took = time.perf_counter() - began
        error = float((found.resolve(fresh) - wanted).square().mean()) / spread
        phi, share = float(found.phi(fresh).mean()), float(found.shares(fresh).amax(-2).mean())
        moved = max(float((getattr(found, n) - getattr(layer, n)).abs().max()) for n in ("W_K", "W_Q"))
        size = float(found.W_V.norm())
        print(f"{name:34}{error:8.4f}{phi:10.3g}{share:15.3f}{moved:12.3g}{size:8.3f}{took:9.2f}")


def speed(device: str, tokens: int, heads: int, batch: int) -> None:
    """The compiled layer against torch's fused attention from the same keys, queries and values."""
    g, width = torch.Generator().manual_seed(0), 64
    x = torch.randn(batch, tokens, heads * width, generator=g)
    K, Q, V = (torch.randn(heads, width, heads * width, generator=g) / (heads * width) ** 0.5 for _ in range(3))
    print(f"\n{batch} x {tokens} tokens, {heads} heads of {width}, {device}")
    for dtype in (torch.float32, torch.float64):
        for causal in (False, True):
            weights = (w.to(device, dtype) for w in (K, Q, V))
            layer = replace(SelfAttention(*weights), scale=width**-0.5, causal=causal)  # pyright: ignore[reportArgumentType]
            print(f"{str(dtype)[6:]:8} {'causal' if causal else 'all':7} {compared(layer, x.to(device, dtype))}")


def compared(layer: SelfAttention, x: Tensor) -> str:
    """Milliseconds of both, their ratio, and how far apart the answers are, relative to the largest."""

    def theirs() -> Tensor:
        q, k, v = layer.queries(x), layer.keys(x), layer.values(x)
        return scaled_dot_product_attention(q, k, v, is_causal=layer.causal).transpose(-3, -2).flatten(-2)

    apart = float((layer.resolve(x) - theirs()).abs().max() / theirs().abs().max())
    mine, other = (1e3 * least(f, x.device.type) for f in (lambda: layer.resolve(x), theirs))
    return f"{mine:9.2f} ms, torch {other:9.2f} ms, ratio {mine / other:5.2f}, apart {apart:.1e}"


def least(f: Callable[[], Tensor], device: str, tries: int = 5) -> float:
    """The least seconds a call took."""
    found: list[float] = []
    for _ in range(tries):
        began = time.perf_counter()
        f()
        if device != "cpu":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - began)
    return min(found)


def main() -> None:
    """Both tables, or one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--sequences", type=int, default=256)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--batch", type=int, default=4)
    given = parser.parse_args()
    if given.training or not given.speed:
        for task in ("lookup", "average"):
            training(task, given.steps, given.rate, given.sequences)
    if given.speed or not given.training:
        speed(given.device, given.tokens, given.heads, given.batch)


if __name__ == "__main__":
    main()
