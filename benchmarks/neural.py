"""Training as LIR against the same training by hand in PyTorch: seconds a step, ratio, and how far apart they end.

    python benchmarks/neural.py                                   # the classifier of examples/digits.py, and wider ones
    python benchmarks/neural.py --sizes 128x64 --steps 50         # soon done; hidden width x batch

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


def compare(width: int, batch: int, steps: int, repeats: int) -> str:
    """One line about one size."""
    x, y = digits()
    network = classifier(width)
    instance = stochastic_gradient_descent(network, x, y, batch=batch, rate=0.1)

    def theirs(count: int) -> nn.Module:
        return by_hand(network, x, y, batch, 0.1, count)

    both = list(zip(instance.answer(20).parameters(), theirs(20).parameters(), strict=True))
    apart = max(float((p - q).detach().abs().max()) for p, q in both)
    took = [(seconds(theirs, steps), seconds(instance.answer, steps)) for _ in range(repeats)]
    plain, lir = (min(times) for times in zip(*took, strict=True))
    return (
        f"64-{width}-{width}-10, batches of {batch}: PyTorch {1e6 * plain:.0f} us, LIR {1e6 * lir:.0f} us a step: "
        f"ratio {lir / plain:.2f}; parameters apart by {apart:.1e} after 20 steps"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["128x64", "256x128", "512x256"])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    a = parser.parse_args()
    print(f"digits, {torch.get_num_threads()} thread(s)")
    for size in a.sizes:
        width, batch = map(int, size.split("x"))
        print(compare(width, batch, a.steps, a.repeats), flush=True)


if __name__ == "__main__":
    main()
