"""Training as LIR against the same training by hand in PyTorch: microseconds a step, and their ratio.

    python benchmarks/neural.py                                        # the examples' classifier and VAE, and others
    python benchmarks/neural.py --sizes 128x64 --repeats 10            # soon done; hidden width x batch

Both run in this process, a few steps of one and then of the other, with the same network, batches drawn in the same way
and rate; the median of the ratios of neighbouring blocks counts (processor time), so that what else the machine does
matters little. Setting up is not counted.
The VAE by hand has its divergence from the prior in closed form, as it is usually written, where LIR samples it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional

from dissonance.cpds import BernoulliImages
from dissonance.flows import Descent
from dissonance.instances import stochastic_gradient_descent, vae


def classifier(width: int, seed: int = 0) -> nn.Module:
    """The network of examples/digits.py."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def autoencoder(seed: int = 0) -> tuple[nn.Module, nn.Module]:
    """The encoder and the decoder of examples/generate.py."""
    torch.manual_seed(seed)
    encoder = nn.Sequential(nn.Linear(784, 256), nn.Tanh(), nn.Linear(256, 4))
    return encoder, nn.Sequential(nn.Linear(2, 256), nn.Tanh(), nn.Linear(256, 784))


def digits() -> tuple[Tensor, Tensor]:
    """Pixels in [0, 1], labels."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y)


def batches(count: int, size: int, steps: int, seeds: bool = False) -> Iterator[Tensor]:
    """Rows of fresh batches, as LIR draws them; with `seeds` also what LIR draws in between, for its samples."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        yield torch.randperm(count, generator=generator)[:size]
        if seeds:
            torch.randint(2**62, (), generator=generator)


def classify(network: nn.Module, x: Tensor, y: Tensor, rate: float, rows: Iterator[Tensor]) -> Iterator[float]:
    """Stochastic gradient descent as it is usually written; it changes the network."""
    optimizer = torch.optim.SGD(network.parameters(), lr=rate)
    for chosen in rows:
        loss = functional.cross_entropy(network(x[chosen]), y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def autoencode(nets: tuple[nn.Module, nn.Module], x: Tensor, rate: float, rows: Iterator[Tensor]) -> Iterator[float]:
    """A VAE trained by Adam as it is usually written; it changes the networks."""
    encoder, decoder = nets
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=rate)
    for chosen in rows:
        batch = x[chosen]
        mean, log_scale = encoder(batch).chunk(2, -1)
        scale = log_scale.exp()
        made = decoder(mean + scale * torch.randn_like(mean))
        score = functional.binary_cross_entropy_with_logits(made, batch, reduction="sum")
        divergence = 0.5 * (mean.square() + scale.square() - 1).sum() - log_scale.sum()
        loss = (score + divergence) / len(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


class Turns:
    """A callback of a run of LIR: after every block of its steps, as many by hand; both are timed."""

    def __init__(self, by_hand: Iterator[float], block: int) -> None:
        self.by_hand, self.block = by_hand, block
        self.took: list[tuple[float, float]] = []
        self.began: float | None = None

    def __call__(self, step: int, traces: object) -> None:
        if step % self.block:
            return
        ended = time.process_time()
        for _ in range(self.block):
            next(self.by_hand)
        now = time.process_time()
        if self.began is not None:  # the first block warms up
            self.took.append((ended - self.began, now - ended))
        self.began = time.process_time()

    def __str__(self) -> str:
        ours, theirs = (1e6 * median(times) / self.block for times in zip(*self.took, strict=True))
        ratio = median(a / b for a, b in self.took)
        return f"PyTorch {theirs:.0f} us, LIR {ours:.0f} us a step: ratio {ratio:.2f}"


def compare_classifiers(width: int, batch: int, block: int, blocks: int) -> str:
    """One line about one size."""
    x, y = digits()
    training = stochastic_gradient_descent(classifier(width), x, y, batch=batch, rate=0.1)
    plain = classifier(width)
    list(classify(plain, x, y, 0.1, batches(len(x), batch, 20, seeds=True)))
    both = zip(training.answer(20).parameters(), plain.parameters(), strict=True)
    apart = max(float((p - q).detach().abs().max()) for p, q in both)
    steps = block * (blocks + 1)
    turns = Turns(classify(classifier(width), x, y, 0.1, batches(len(x), batch, steps)), block)
    training.run(steps, callbacks=[turns])
    return f"classifier 64-{width}-{width}-10, batches of {batch}, SGD: {turns}; apart by {apart:.1e} after 20 steps"


def compare_autoencoders(batch: int, block: int, blocks: int) -> str:
    """One line about the VAE: the images are noise, which takes as long."""
    x = torch.rand(4500, 784, generator=torch.Generator().manual_seed(0))
    encoder, decoder = autoencoder()
    training = vae(x, encoder, BernoulliImages(decoder), latent=2, control=1.0, batch=batch)
    steps = block * (blocks + 1)
    turns = Turns(autoencode(autoencoder(), x, 1e-3, batches(len(x), batch, steps)), block)
    training.run(steps, flow=Descent("Adam", rate=1e-3, steps=1, keep=True), callbacks=[turns])
    return f"VAE 784-256-2, batches of {batch}, Adam: {turns}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["128x64", "256x128", "512x256"])
    parser.add_argument("--batch", type=int, default=64, help="of the VAE")
    parser.add_argument("--steps", type=int, default=5, help="in a block")
    parser.add_argument("--repeats", type=int, default=100, help="blocks of each")
    a = parser.parse_args()
    print(f"{torch.get_num_threads()} thread(s), torch {torch.__version__}")
    for size in a.sizes:
        width, batch = map(int, size.split("x"))
        print(compare_classifiers(width, batch, a.steps, a.repeats), flush=True)
    print(compare_autoencoders(a.batch, a.steps, a.repeats), flush=True)


if __name__ == "__main__":
    main()
