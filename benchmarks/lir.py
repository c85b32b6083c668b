"""Time of LIR runs: the paper's synthetic study with exact, certified inner solves, beside the paper's own solver.

    python benchmarks/lir.py [--replicates 50] [--steps 20] [--paper 2]

Four structures, 50 draws of cpds each, three strategies (uniform, partial, hub): 600 runs of 20 steps, each step 10
steps of Adam, each of these an inner solve certified to 1e-7 (or recognised as one that was solved before).
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import torch

from dissonance import PDG, Arc, Descent, Hub, Record, Run, SoftmaxTable, Variable, lirs
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


def report(name: str, runs: list[Run], seconds: float) -> None:
    for strategy in dict.fromkeys(r.refocus for r in runs):
        some = [r for r in runs if r.refocus == strategy]
        resolved = sum(r.before.upper - r.after.upper for r in some) / sum(r.before.upper for r in some)
        moved = sum(r.distortion_tv for r in some) / len(some)
        initial = sum(r.before.upper for r in some) / len(some) / math.log(2)
        print(f"  {name:12} {strategy:8} initial {initial:.5f} bits  resolved {100 * resolved:6.2f} %  TV {moved:.4f}")
    steps = sum(row.newton_steps for r in runs for row in r.trace.rows)
    loose = sum(not (r.before.converged and r.after.converged) for r in runs)
    print(f"  {name:12} {seconds:.2f} s, {1e3 * seconds / len(runs):.1f} ms a run, {steps} Newton steps, {loose} loose")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicates", type=int, default=50)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--paper", type=int, default=0, help="so many runs a structure with the paper's solver, too")
    parser.add_argument("--only", choices=list(STRUCTURES))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    total = 0.0
    count = 0
    for name in [asked.only] if asked.only else STRUCTURES:
        pdgs = [draw(name, seed) for seed in range(asked.replicates)]
        began = time.perf_counter()
        runs = lirs(
            pdgs * 3,
            [s for s in ("uniform", "partial", Hub(0.1)) for _ in pdgs],
            seeds=list(range(3 * len(pdgs))),
            steps=asked.steps,
            flow=Descent(),
            trace=Record(distortion=0),
        )
        seconds = time.perf_counter() - began
        total, count = total + seconds, count + len(runs)
        report(name, runs, seconds)
    print(f"{count} runs of {asked.steps} x 10 certified solves: {total:.2f} s, {1e3 * total / count:.1f} ms a run")
    if asked.paper:
        pdgs = [draw("chain_7v_6e", seed) for seed in range(asked.paper)]
        began = time.perf_counter()
        lirs(pdgs, "uniform", steps=asked.steps, flow=Descent(), solver="paper", trace=Record(distortion=0))
        seconds = time.perf_counter() - began
        print(f"the paper's solver, uncertified: {seconds / len(pdgs):.2f} s a run (chain_7v_6e)")


if __name__ == "__main__":
    main()
