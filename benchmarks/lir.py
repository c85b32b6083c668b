"""Time of LIR runs: the paper's synthetic study with exact, certified inner solves, beside the paper's own solver.

    python benchmarks/lir.py [--replicates 50] [--steps 20] [--jobs 2] [--paper 2]

Four structures, 50 draws of cpds each, three strategies (uniform, partial, hub): 600 runs of 20 steps, each step 10
steps of Adam, each of these an inner solve certified to 1e-7 (or recognised as one that was solved before). The time
is that from the first run to the last, in so many processes with a thread each; starting these is not counted in.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import torch

from dissonance import PDG, Arc, SoftmaxTable, Variable, lirs
from dissonance.flows import Descent
from dissonance.refocus import Hub
from dissonance.runs import Run
from dissonance.studies.structures import PUBLISHED

STRUCTURES = {s.name: s for s in PUBLISHED}


def draw(name: str, seed: int) -> PDG:
    """A structure of the study with rows of normalised U[0,1]."""
    rng = np.random.default_rng(seed)
    variables = [Variable("ABCDEFG"[i], size) for i, size in enumerate(STRUCTURES[name].sizes)]
    made: list[Arc] = []
    for i, j in STRUCTURES[name].arcs:
        s, t = variables[i], variables[j]
        p = rng.uniform(size=(s.size, t.size))
        made.append(Arc(f"{s.name}{t.name}", s, t, SoftmaxTable(p / p.sum(1, keepdims=True))))
    return PDG(*made, variables=variables)


def resolve(name: str, replicates: int, steps: int) -> tuple[int, list[str]]:
    """How many runs a structure has, and what to say about them."""
    pdgs = [draw(name, seed) for seed in range(replicates)]
    began = time.perf_counter()
    runs = lirs(
        pdgs * 3,
        [s for s in ("uniform", "partial", Hub(0.1)) for _ in pdgs],
        seeds=list(range(3 * len(pdgs))),
        steps=steps,
        flow=Descent(),
    )
    seconds = time.perf_counter() - began
    return len(runs), [*report(name, runs), f"  {name:12} {seconds:.2f} s, {1e3 * seconds / len(runs):.1f} ms a run"]


def report(name: str, runs: list[Run]) -> Iterator[str]:
    for strategy in dict.fromkeys(r.refocus for r in runs):
        some = [r for r in runs if r.refocus == strategy]
        resolved = sum(r.before.upper - r.after.upper for r in some) / sum(r.before.upper for r in some)
        moved = sum(r.distortion_tv for r in some) / len(some)
        initial = sum(r.before.upper for r in some) / len(some) / math.log(2)
        yield f"  {name:12} {strategy:8} initial {initial:.5f} bits  resolved {100 * resolved:6.2f} %  TV {moved:.4f}"
    steps = sum(row.newton_steps for r in runs for row in r.trace.rows)
    loose = sum(not (r.before.converged and r.after.converged) for r in runs)
    yield f"  {name:12} {steps} Newton steps, {loose} loose"


def start() -> None:
    torch.set_num_threads(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicates", type=int, default=50)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1, help="so many processes")
    parser.add_argument("--paper", type=int, default=0, help="so many runs with the paper's solver, too")
    parser.add_argument("--only", choices=list(STRUCTURES))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    names = [asked.only] if asked.only else list(reversed(STRUCTURES))  # the larger ones first
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn"), initializer=start) as pool:
        list(pool.map(resolve, names[-1:] * asked.jobs, [1] * asked.jobs, [1] * asked.jobs))
        began = time.perf_counter()
        found = list(pool.map(resolve, names, [asked.replicates] * len(names), [asked.steps] * len(names)))
        total = time.perf_counter() - began
    for _, lines in reversed(found):
        print("\n".join(lines))
    count = sum(runs for runs, _ in found)
    print(
        f"{count} runs of {asked.steps} x 10 certified solves, {asked.jobs} processes: "
        f"{total:.2f} s, {1e3 * asked.jobs * total / count:.1f} ms of a core a run"
    )
    if asked.paper:
        pdgs = [draw("chain_7v_6e", seed) for seed in range(asked.paper)]
        began = time.perf_counter()
        lirs(pdgs, "uniform", steps=asked.steps, flow=Descent(), solver="paper")
        seconds = time.perf_counter() - began
        print(
            f"the paper's solver, uncertified: {seconds / len(pdgs):.2f} s of a core a run (chain_7v_6e), "
            f"{seconds / len(pdgs) / (asked.jobs * total / count):.0f} times that"
        )


if __name__ == "__main__":
    main()
