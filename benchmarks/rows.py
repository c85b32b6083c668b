"""Two networks constrained to agree on a batch of rows: milliseconds for value and gradient, against the closed form.

    python benchmarks/rows.py                                          # 64 to 4096 rows
    python benchmarks/rows.py --rows 64 256 --repeats 3

Each line has one number of rows: the inconsistency of data (hard) and two networks (soft) with its gradient by this
library, and -3 log sum_y p^(1/3) q^(2/3), averaged over the rows, by hand in PyTorch; the best of the repeats counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from math import inf

import torch
from torch import Tensor, nn

from dissonance import PDG, Arc, Attention, Euclidean, NeuralCategorical, Variable, inconsistency
from dissonance.cpds import Data


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4)).double()


def ours(x: Tensor) -> Callable[[], float]:
    """The value, with the gradient in all parameters."""
    X, Y = Variable("X", Euclidean(3)), Variable("Y", 4)
    f, g = (Arc(name, X, Y, NeuralCategorical(network(k))) for k, name in enumerate("fg"))
    pdg = PDG(Arc("d", (), X, Data(x)), f, g)

    def run() -> float:
        found = inconsistency(pdg, Attention.only({"d": inf, "f": 1.0, "g": 2.0}))
        torch.autograd.grad(found.value, list(pdg.parameters()))
        return found.upper

    return run


def by_hand(x: Tensor) -> Callable[[], float]:
    """The same by its closed form."""
    f, g = network(0), network(1)

    def run() -> float:
        p, q = (torch.log_softmax(n(x), -1) for n in (f, g))
        value = -3 * torch.logsumexp((p + 2 * q) / 3, -1).mean()
        torch.autograd.grad(value, [*f.parameters(), *g.parameters()])
        return value.item()

    return run


def best(run: Callable[[], float], repeats: int) -> tuple[float, float]:
    """The value, and the shortest time in milliseconds."""
    took: list[float] = []
    value = run() if repeats > 1 else 0.0  # warm
    for _ in range(repeats):
        began = time.perf_counter()
        value = run()
        took.append(1e3 * (time.perf_counter() - began))
    return value, min(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[64, 256, 1024, 4096])
    parser.add_argument("--repeats", type=int, default=5)
    a = parser.parse_args()
    print(f"{torch.get_num_threads()} thread(s), torch {torch.__version__}")
    for count in a.rows:
        x = torch.randn(count, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        (value, mine), (closed, theirs) = best(ours(x), a.repeats), best(by_hand(x), a.repeats)
        print(
            f"{count:6d} rows: {mine:9.2f} ms, {1e3 * mine / count:8.2f} us a row; by hand {theirs:6.2f} ms; "
            f"apart by {abs(value - closed):.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
