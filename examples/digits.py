"""Classify handwritten digits by Local Inconsistency Resolution: train, infer, attack, and train against attacks.

    python examples/digits.py [--out FOLDER]           # needs pip install dissonance[example]

Prints the accuracies, beside those of the same network trained by plain PyTorch with the same budget, and writes
digits.svg: the course of training, and digits before and after an attack.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import torch
from torch import Tensor, nn

from dissonance import adversarial_examples, adversarial_training, classification, stochastic_gradient_descent

BATCH, RATE, STEPS = 64, 0.2, 1500
ROUNDS, ATTACKS, SIGMA, ATTACK_RATE = 400, 5, 0.5, 0.1


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs and labels to train on and to test on: pixels in [0, 1]."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    parts = train_test_split(x / 16, y, test_size=0.25, random_state=0, stratify=y)
    train_x, test_x, train_y, test_y = (torch.as_tensor(p) for p in parts)
    return train_x.float(), train_y, test_x.float(), test_y


def network(seed: int = 0, width: int = 128) -> nn.Module:
    """64 pixels to 10 logits."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def by_hand(start: nn.Module, x: Tensor, y: Tensor) -> nn.Module:
    """The same training in plain PyTorch, with batches of its own."""
    p = copy.deepcopy(start)
    optimizer = torch.optim.SGD(p.parameters(), lr=RATE)
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        rows = torch.randperm(len(x), generator=generator)[:BATCH]
        loss = nn.functional.cross_entropy(p(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return p


@torch.no_grad()
def accuracy(p: nn.Module, x: Tensor, y: Tensor) -> float:
    """The share of inputs that p gets right."""
    return float((p(x).argmax(-1) == y).double().mean())


def attack(p: nn.Module, x: Tensor, y: Tensor, steps: int = 20) -> Tensor:
    """Inputs nearby that p is to take for something else: the green focus, with other labels drawn at random."""
    other = torch.randint(1, 10, y.shape, generator=torch.Generator().manual_seed(2))
    return adversarial_examples(p, x, (y + other) % 10, sigma=SIGMA, rate=ATTACK_RATE).answer(steps)


def draw(path: Path, course: list[float], x: Tensor, attacked: Tensor, says: list[int], after: list[int]) -> None:
    """The figure."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "digits", "font.size": 8})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplot_mosaic("ccccabde;ccccfghi", figsize=(7.5, 2.4), layout="constrained")
    axes["c"].semilogy(range(0, len(course), 10), course[::10], lw=0.8)
    axes["c"].set(xlabel="step of LIR", ylabel="local inconsistency (nats)")
    for i, (top, bottom) in enumerate(zip("abde", "fghi", strict=True)):
        for axis, image, label in ((axes[top], x[i], says[i]), (axes[bottom], attacked[i], after[i])):
            axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[], title=f"{label}")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Train, infer, attack, train against attacks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path())
    out = parser.parse_args().out
    x, y, test_x, test_y = digits()
    start = network()
    sgd = stochastic_gradient_descent(start, x, y, batch=BATCH, rate=RATE)
    run = sgd.run(STEPS)
    p = sgd.read(run)
    hand = by_hand(start, x, y)
    print(
        f"accuracy of training by LIR {accuracy(p, test_x, test_y):.4f}, by hand {accuracy(hand, test_x, test_y):.4f}"
    )

    inferred = classification(p, test_x[0], torch.full((10,), 0.1)).inference().answer(1)
    print(f"inference: the first digit is a {int(inferred.argmax())} with probability {float(inferred.max()):.4f}")

    training = adversarial_training(
        p, x, y, batch=BATCH, rate=RATE, attacks=ATTACKS, attack_rate=ATTACK_RATE, sigma=SIGMA
    )
    hardened = training.answer(ROUNDS * (ATTACKS + 2))
    for name, q in (("before", p), ("after", hardened)):
        moved = attack(q, test_x, test_y)
        far = float((moved - test_x).norm(dim=-1).mean())
        print(
            f"{name} adversarial training: accuracy {accuracy(q, test_x, test_y):.4f}, attacked "
            f"{accuracy(q, moved, test_y):.4f} (moved by {far:.2f} on average)"
        )
    moved = attack(p, test_x, test_y)
    with torch.no_grad():
        says, after = (p(z[:4]).argmax(-1).tolist() for z in (test_x, moved))
    draw(out / "digits.svg", run.trace.column("local_upper")[:-1], test_x[:4], moved[:4], says, after)


if __name__ == "__main__":
    main()
