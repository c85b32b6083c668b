"""Tumours of the breast, benign or malignant, by Local Inconsistency Resolution: train, doubt, attack, defend.

    python examples/breast_cancer.py [--out FOLDER] [--tune] [--quick]      # needs pip install dissonance[example]

569 cases of scikit-learn's data set, 30 measurements each. A classifier, a case x and its diagnosis y are beliefs that
disagree by -log p(y|x) nats. Control of the classifier trains it; the cases that stay inconsistent are those whose
diagnosis may be wrong, and control of y says what it should be; control of x says which measurements would have to be
different for the classifier to agree, which is also how it is attacked. Prints what it finds and writes
breast_cancer.svg.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from standard import accuracy, projected_ascent, train
from torch import Tensor, nn

from dissonance import inconsistency
from dissonance.instances import adversarial_examples, adversarial_training, classification, stochastic_gradient_descent

BATCH, RATE, STEPS = 32, 0.1, 600
ROUNDS, ATTACKS, SIGMA, TRIED = 600, 5, 1.0, (0.5, 0.7, 1.0, 1.4)
RADII = (0.0, 0.5, 1.0, 1.5, 2.0)
RADIUS = 1.5
WRONG = 30

Part = tuple[Tensor, Tensor]


def tumours() -> tuple[Part, Part, Part, list[str]]:
    """Standardised measurements and diagnoses (1: benign) to train on, to choose by, to test on; what is measured."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    found = load_breast_cancer()
    rest_x, test_x, rest_y, test_y = train_test_split(
        found.data, found.target, test_size=0.3, random_state=0, stratify=found.target
    )
    parts = train_test_split(rest_x, rest_y, test_size=0.25, random_state=0, stratify=rest_y)
    x, valid_x, y, valid_y, test_x, test_y = map(torch.as_tensor, (*parts, test_x, test_y))
    mean, scale = x.mean(0), x.std(0)
    inputs = [((z - mean) / scale).float() for z in (x, valid_x, test_x)]
    return (inputs[0], y), (inputs[1], valid_y), (inputs[2], test_y), [str(n) for n in found.feature_names]


def network() -> nn.Module:
    """30 measurements to two logits."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))


def each(p: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The inconsistency of every case with the classifier, in nats."""
    made = [classification(p, row, int(label)) for row, label in zip(x, y, strict=True)]
    return torch.tensor([inconsistency(m.pdg, m.attention).upper for m in made])


def doubt(part: Part, steps: int) -> tuple[Tensor, Tensor]:
    """Train on diagnoses some of which were turned round: every case's inconsistency, and where it was."""
    x, y = part
    wrong = torch.zeros(len(y), dtype=torch.bool)
    wrong[torch.randperm(len(y), generator=torch.Generator().manual_seed(0))[:WRONG]] = True
    given = torch.where(wrong, 1 - y, y)
    p = stochastic_gradient_descent(network(), x, given, batch=BATCH, rate=RATE).answer(steps)
    nats = each(p, x, given)
    worst = nats.argsort(descending=True)[:WRONG]
    print(f"{WRONG} of {len(y)} diagnoses turned round: {int(wrong[worst].sum())} are among the {WRONG} that disagree")
    print(
        f"most with the classifier; on average {nats[wrong].mean():.2f} nats, {nats[~wrong].mean():.2f} for the others"
    )
    i = int(worst[0])
    settled = classification(p, x[i], int(given[i])).inference().answer(1)
    print(f"the worst, {nats[i]:.2f} nats, was called {name(given[i])}: control of y makes it", end=" ")
    print(f"{name(settled.argmax())} with probability {float(settled.max()):.2f} (in truth {name(y[i])})")
    return nats, wrong


def name(y: Tensor) -> str:
    """In words."""
    return ("malignant", "benign")[int(y)]


def hardened(p: nn.Module, part: Part, rounds: int, sigma: float = SIGMA) -> nn.Module:
    """p after adversarial training against attacks towards the other diagnosis."""
    training = adversarial_training(
        p, *part, batch=BATCH, rate=RATE, attacks=ATTACKS, attack_rate=0.4 * sigma**2, sigma=sigma
    )
    return training.answer(rounds * (ATTACKS + 2))


def needed(p: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """x' - x of an attack that has each case take the other diagnosis."""
    return adversarial_examples(p, x, 1 - y, sigma=SIGMA, rate=0.2 * SIGMA**2).answer(20) - x


def draw(path: Path, doubts: tuple[Tensor, Tensor], curves: dict[str, list[float]], moved: dict[str, Tensor]) -> None:
    """The figure; `moved` has the mean change of each measurement, by name."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "breast cancer", "font.size": 8})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained")
    nats, wrong = doubts
    bins = torch.logspace(-4, 1.2, 27).tolist()
    shown = [nats[~wrong].clamp(min=1.2e-4).tolist(), nats[wrong].clamp(min=1.2e-4).tolist()]
    axes[0].hist(shown, bins, stacked=True, color=["C0", "C3"], label=["as recorded", "turned round"])
    axes[0].set(xscale="log", xlabel="inconsistency with the classifier (nats)", ylabel="training cases")
    axes[0].legend(frameon=False, fontsize=7)
    for (label, ys), style in zip(curves.items(), ("-o", "-s"), strict=True):
        axes[1].plot(RADII, ys, style, lw=1, ms=3, label=label)
    axes[1].set(xlabel="radius of PGD (standard deviations, L2)", ylabel="accuracy on test cases", ylim=(-0.02, 1.02))
    axes[1].legend(frameon=False, fontsize=7, loc="lower left")
    first = sorted(moved, key=lambda n: -float(moved[n].abs().max()))[:8][::-1]
    at = torch.arange(len(first))
    for i, color in enumerate(("C0", "C1")):
        axes[2].barh(at + 0.2 - 0.4 * i, [float(moved[n][i]) for n in first], 0.36, color=color)
    axes[2].set_yticks(at.tolist(), first)
    axes[2].axvline(0, color="k", lw=0.6)
    axes[2].set(xlabel="change that makes malignant benign\n(standard deviations)")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """Train, doubt, attack, defend."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--tune", action="store_true", help="several sigma of adversarial training, by validation")
    parser.add_argument("--quick", action="store_true", help="a few steps only, to see that everything runs")
    asked = parser.parse_args(arguments)
    steps, rounds = (60, 3) if asked.quick else (STEPS, ROUNDS)
    part, valid, test, measured = tumours()
    sgd = stochastic_gradient_descent(network(), *part, batch=BATCH, rate=RATE)
    p = sgd.answer(steps)
    if asked.tune:
        print("sigma   clean  attacked (PGD)   on cases for validation")
        for sigma in TRIED:
            q = hardened(p, part, rounds, sigma)
            clean, attacked = (accuracy(q, projected_ascent(q, *valid, r), valid[1]) for r in (0.0, RADIUS))
            print(f"{sigma:5.2f} {clean:7.4f} {attacked:9.4f}")
        return
    hand = train(network(), *part, batch=BATCH, rate=RATE, steps=steps)
    print(f"accuracy of training by LIR {accuracy(p, *test):.4f}, by hand {accuracy(hand, *test):.4f}")
    doubts = doubt(part, steps)

    nets = {"trained": p, "then against attacks": hardened(p, part, rounds)}
    malignant = test[0][test[1] == 0]
    zeros = torch.zeros(len(malignant), dtype=torch.long)
    change = torch.stack([needed(q, malignant, zeros).mean(0) for q in nets.values()], -1)
    curves: dict[str, list[float]] = {}
    for label, q in nets.items():
        by = needed(q, malignant, zeros)
        far, gone = float(by.norm(dim=-1).mean()), 1 - accuracy(q, malignant + by, zeros)
        curves[label] = [accuracy(q, projected_ascent(q, *test, r), test[1]) for r in RADII]
        print(f"{label}: attacks by LIR call {gone:.4f} of malignant tumours benign (moved by {far:.2f} on average)")
        print("    under PGD: " + ", ".join(f"{a:.4f} (radius {r})" for r, a in zip(RADII, curves[label], strict=True)))
    draw(asked.out / "breast_cancer.svg", doubts, curves, dict(zip(measured, change, strict=True)))


if __name__ == "__main__":
    main()
