"""Training as LIR against the same training by hand in PyTorch: seconds a step, ratio, and how far apart they end.

    python benchmarks/neural.py                  # the digits classifier of examples/digits.py
    python benchmarks/neural.py --steps 50       # soon done

Both run in this process, in turn, with the same network, batches and rate; the least processor
time of several tries counts.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dissonance import stochastic_gradient_descent


def classifier(width: int, seed: int = 0) -> nn.Module:
    """The network of the digits example."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def digits() -> tuple[Tensor, Tensor]:
    """Pixels in [0, 1], labels."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y)


def by_hand(network: nn.Module, x: Tensor, y: Tensor, batch: int, rate: float, steps: int) -> nn.Module:
    """Stochastic gradient descent as it is usually written, on the batches that LIR draws."""
    network = copy.deepcopy(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(0)
    losses: list[float] = []
    for _ in range(steps):
        rows = torch.randperm(len(x), generator=generator)[:batch]
        torch.randint(2**62, (), generator=generator)  # LIR draws a seed for the samples of the step
        loss = nn.functional.cross_entropy(network(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return network


def seconds(train: Callable[[int], object], steps: int) -> float:
    """Seconds a step, of a run of so many."""
    began = time.process_time()
    train(steps)
    return (time.process_time() - began) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=7)
    a = parser.parse_args()
    x, y = digits()
    network = classifier(a.width)
    instance = stochastic_gradient_descent(network, x, y, batch=a.batch, rate=0.1)

    def ours(steps: int) -> nn.Module:
        return instance.answer(steps)

    def theirs(steps: int) -> nn.Module:
        return by_hand(network, x, y, a.batch, 0.1, steps)

    both = list(zip(ours(20).parameters(), theirs(20).parameters(), strict=True))
    apart = max(float((p - q).detach().abs().max()) for p, q in both)
    took = [(seconds(theirs, a.steps), seconds(ours, a.steps)) for _ in range(a.repeats)]
    plain, lir = (min(x) for x in zip(*took, strict=True))
    print(f"digits, 64-{a.width}-{a.width}-10, batches of {a.batch}, {torch.get_num_threads()} thread(s)")
    print(
        f"PyTorch {1e6 * plain:.0f} us, LIR {1e6 * lir:.0f} us a step: ratio {lir / plain:.2f}; "
        f"parameters apart by {apart:.1e} after 20 steps"
    )


if __name__ == "__main__":
    main()
