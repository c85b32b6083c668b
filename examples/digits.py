"""Handwritten digits by Local Inconsistency Resolution: train, infer, attack, and train against attacks.

    python examples/digits.py [--out FOLDER] [--tune] [--quick]      # needs pip install dissonance[example]

Prints accuracies on digits kept for testing: beside those of the same network trained by plain PyTorch with the same
budget, and under attacks before and after adversarial training, by LIR and in plain PyTorch. Writes digits.svg: the
course of training, accuracy by strength of the attack, and digits before and after one. --tune prints what the setting
of adversarial training was chosen by, on digits for validation.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import torch
from standard import accuracy, fast_gradient_sign, projected_ascent, train
from torch import Tensor, nn

from dissonance.instances import adversarial_examples, adversarial_training, classification, stochastic_gradient_descent

BATCH, RATE, STEPS = 64, 0.2, 1500
ROUNDS, ATTACKS, WEIGHT, SIGMA = 2000, 5, -1.0, 1.0
TRIED = ((1.0, 0.2), (1.0, 0.3), (1.0, 0.5), (-1.0, 0.7), (-1.0, 1.0), (-1.0, 1.4))
RADIUS = 0.5
RADII = (0.0, 0.25, 0.5, 0.75, 1.0)

Part = tuple[Tensor, Tensor]


def digits() -> tuple[Part, Part, Part]:
    """Inputs (pixels in [0, 1]) and labels to train on, to choose settings by, and to test on."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    rest_x, test_x, rest_y, test_y = train_test_split(x / 16, y, test_size=0.25, random_state=0, stratify=y)
    parts = train_test_split(rest_x, rest_y, test_size=0.25, random_state=0, stratify=rest_y)
    train_x, valid_x, train_y, valid_y, test_x, test_y = map(torch.as_tensor, (*parts, test_x, test_y))
    return (train_x.float(), train_y), (valid_x.float(), valid_y), (test_x.float(), test_y)


def network(seed: int = 0, width: int = 128) -> nn.Module:
    """64 pixels to 10 logits."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def hardened(p: nn.Module, part: Part, rounds: int, weight: float = WEIGHT, sigma: float = SIGMA) -> nn.Module:
    """p after so many rounds of adversarial training: attacks go 2/5 of the way back to x at every step."""
    training = adversarial_training(
        p, *part, batch=BATCH, rate=RATE, attacks=ATTACKS, attack_rate=0.4 * sigma**2, sigma=sigma, weight=weight
    )
    return training.answer(rounds * (ATTACKS + 2))


def flee(p: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The attack of the training: x' flees from its label, held by a Gaussian around x."""
    return adversarial_examples(p, x, y, weight=WEIGHT, sigma=SIGMA, rate=0.4 * SIGMA**2).answer(ATTACKS)


def mislead(p: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The attack of the paper: x' goes to a label y' that is not its own, drawn at random."""
    other = torch.randint(1, 10, y.shape, generator=torch.Generator().manual_seed(2))
    return adversarial_examples(p, x, (y + other) % 10, sigma=0.3, rate=0.036).answer(20)


def tune(p: nn.Module, part: Part, valid: Part, rounds: int) -> None:
    """Accuracies on the digits for validation, for several settings of adversarial training."""
    print("weight  sigma   clean  attacked (PGD)   on digits for validation")
    for weight, sigma in TRIED:
        q = hardened(p, part, rounds, weight, sigma)
        clean, attacked = (accuracy(q, projected_ascent(q, *valid, r), valid[1]) for r in (0.0, RADIUS))
        print(f"{weight:6.1f} {sigma:6.1f} {clean:7.4f} {attacked:9.4f}")


def draw(path: Path, course: list[float], curves: dict[str, list[float]], pairs: tuple[Tensor, Tensor]) -> None:
    """The figure; `pairs` has digits and what became of them, with what the network calls them in the last column."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "digits", "font.size": 8})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplot_mosaic(
        "cccrrrabde;cccrrrfghi", figsize=(9, 2.4), layout="constrained", gridspec_kw={"wspace": 0.05}
    )
    axes["c"].semilogy(range(0, len(course), 10), course[::10], lw=0.8)
    axes["c"].set(xlabel="step of LIR", ylabel="nats", title="local inconsistency")
    for (name, ys), style in zip(curves.items(), ("-o", "-s", "--^"), strict=True):
        axes["r"].plot(RADII, ys, style, lw=1, ms=3, label=name)
    axes["r"].set(xlabel="radius of PGD (L2)", title="accuracy on test digits", ylim=(-0.02, 1.02), xticks=RADII)
    axes["r"].legend(frameon=False, fontsize=6.5, loc="lower left", handlelength=1.4)
    for i, names in enumerate(zip("abde", "fghi", strict=True)):
        for name, images, what in zip(names, pairs, ("", "attacked: "), strict=True):
            axes[name].imshow(images[i, :64].reshape(8, 8).numpy(), cmap="gray_r", vmin=0, vmax=1)
            axes[name].set(xticks=[], yticks=[])
            axes[name].set_title(f"{what}{int(images[i, 64])}", fontsize=7)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """Train, infer, attack, train against attacks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--tune", action="store_true", help="several settings of adversarial training, by validation")
    parser.add_argument("--quick", action="store_true", help="a few steps only, to see that everything runs")
    asked = parser.parse_args(arguments)
    steps, rounds = (60, 3) if asked.quick else (STEPS, ROUNDS)
    part, valid, test = digits()
    start = network()
    sgd = stochastic_gradient_descent(start, *part, batch=BATCH, rate=RATE)
    run = sgd.run(steps)
    p = sgd.read(run)
    if asked.tune:
        return tune(p, part, valid, rounds)
    hand = train(start, *part, batch=BATCH, rate=RATE, steps=steps)
    print(f"accuracy of training by LIR {accuracy(p, *test):.4f}, by hand {accuracy(hand, *test):.4f}")

    inferred = classification(p, test[0][0], torch.full((10,), 0.1)).inference().answer(1)
    print(f"inference: the first digit is a {int(inferred.argmax())} with probability {float(inferred.max()):.4f}")

    nets = {
        "trained": p,
        "against attacks (LIR)": hardened(p, part, rounds),
        "against PGD (by hand)": train(
            p, *part, batch=BATCH, rate=RATE, steps=rounds, attack=partial(projected_ascent, radius=RADIUS, steps=5)
        ),
    }
    curves: dict[str, list[float]] = {}
    for name, q in nets.items():
        curves[name] = [accuracy(q, projected_ascent(q, *test, r), test[1]) for r in RADII]
        print(f"{name}: accuracy {curves[name][0]:.4f}")
        print("    under PGD: " + ", ".join(f"{a:.4f} (radius {r})" for r, a in zip(RADII, curves[name], strict=True)))
        print(f"    under FGSM of 0.1: {accuracy(q, fast_gradient_sign(q, *test, 0.1), test[1]):.4f}")
        for what, attack in (("misled", mislead), ("fleeing", flee)):
            moved = attack(q, *test)
            far = (moved - test[0]).norm(dim=-1)
            print(
                f"    {what} by LIR: {accuracy(q, moved, test[1]):.4f} (moved by {far.mean():.2f} on average, half of "
                f"them by less than {far.median():.3f})"
            )
    shown = test[0][:4], projected_ascent(p, test[0][:4], test[1][:4], 1.0)
    with torch.no_grad():
        pairs = tuple(torch.cat([z, p(z).argmax(-1, keepdim=True)], -1) for z in shown)
    draw(asked.out / "digits.svg", run.trace.column("local_upper")[:-1], curves, (pairs[0], pairs[1]))


if __name__ == "__main__":
    main()
