"""What a local step of LIR costs on grids of growing size: a focus of four arcs, with and without a checkpoint.

    python benchmarks/local.py --arcs 1000 10000 100000
    python benchmarks/local.py --columns --arcs 1000 1000000      # the same beliefs in columns

Prints, for each size, the CPU time of building the PDG, of starting a run (which looks at every arc once), and of a
step: the lower quartile over the steps after the first, since the machine may be busy. The last line is the largest
over the smallest.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from dissonance import PDG, Arc, Attention, Control, Focus, SoftmaxTable, Variable, lir
from dissonance.columns import Column
from dissonance.refocus import Cycle, Refocus
from dissonance.runs import Record

STEPS = 41


def grid(side: int) -> PDG:
    """A belief about every variable of a square grid, and one from each to its neighbours below and to the right."""
    rng = np.random.default_rng(0)

    def table(*shape: int) -> SoftmaxTable:
        return SoftmaxTable(rng.dirichlet([1.0, 1.0], shape))

    x = [[Variable(f"X{i},{j}", 2) for j in range(side)] for i in range(side)]
    arcs = [Arc(f"u{i},{j}", (), v, table()) for i, row in enumerate(x) for j, v in enumerate(row)]
    arcs += [Arc(f"r{i},{j}", x[i][j], x[i][j + 1], table(2)) for i in range(side) for j in range(side - 1)]
    arcs += [Arc(f"d{i},{j}", x[i][j], x[i + 1][j], table(2)) for i in range(side - 1) for j in range(side)]
    return PDG(*arcs)


def grid_in_columns(side: int) -> PDG:
    """The same arcs under the same names, in columns."""
    rng, at = np.random.default_rng(0), np.arange(side * side).reshape(side, side)
    right, down = (at[:, :-1].ravel(), at[:, 1:].ravel()), (at[:-1].ravel(), at[1:].ravel())

    def names(letter: str, of: tuple[int, int]) -> list[str]:
        return [f"{letter}{i},{j}" for i in range(of[0]) for j in range(of[1])]

    def tables(*shape: int) -> np.ndarray:
        return rng.dirichlet([1.0, 1.0], shape)

    return PDG.from_columns(
        Column([], at.ravel(), tables(side * side), names=names("u", (side, side))),
        Column(*right, tables(len(right[0]), 2), names=names("r", (side, side - 1))),
        Column(*down, tables(len(down[0]), 2), names=names("d", (side - 1, side))),
    )


def foci(side: int) -> Cycle:
    """Foci of four arcs, a different one at every step."""
    found: list[Focus] = []
    for k in range(STEPS):
        i, j = divmod(k, side - 1)
        names = [f"u{i},{j}", f"r{i},{j}", f"u{i},{j + 1}", f"d{i},{j}"]
        found.append(Focus(Attention.only(dict.fromkeys(names, 1.0)), Control(dict.fromkeys(names, 1.0))))
    return Cycle(*found)


def steps(pdg: PDG, refocus: Refocus, checkpoint: Path | None) -> tuple[float, float]:
    """CPU seconds until the first step is done, and the lower quartile of the steps after it."""
    began, at = time.process_time(), list[float]()

    def clock(done: int, traces: Sequence[object]) -> None:
        at.append(time.process_time())

    lir(pdg, refocus, steps=STEPS, trace=Record(globally=False), checkpoint=checkpoint, callbacks=[clock])
    return at[0] - began, float(np.quantile(np.diff(at[1:]), 0.25))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arcs", type=int, nargs="+", default=[1000, 10_000, 100_000], help="about so many arcs")
    parser.add_argument("--columns", action="store_true", help="beliefs in columns")
    options = parser.parse_args()
    asked, make = options.arcs, grid_in_columns if options.columns else grid
    torch.set_num_threads(1)
    steps(grid(10), foci(10), None)  # everything is imported
    print("   arcs  build s  start s  step ms  with a checkpoint, ms   GiB")
    found: list[float] = []
    for arcs in asked:
        side = max(8, round((arcs / 3) ** 0.5))
        began = time.process_time()
        pdg = make(side)
        built = time.process_time() - began
        start, each = steps(pdg, foci(side), None)
        with tempfile.TemporaryDirectory() as folder:
            _, kept = steps(pdg, foci(side), Path(folder) / "run")
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{len(pdg):7d} {built:8.2f} {start:8.2f} {1e3 * each:8.2f} {1e3 * kept:8.2f} {most:19.2f}", flush=True)
        found.append(each)
    print(f"slowest step / fastest step: {max(found) / min(found):.2f}")


if __name__ == "__main__":
    main()
