"""Many small PDGs at once: our solver against Clarabel one at a time, cold and warm, on the CPU or a GPU.

python benchmarks/batch.py                       200 PDGs, 50 of each of the paper's four structures
python benchmarks/batch.py --before ../before    the same for another checkout of the project, with the ratio
python benchmarks/batch.py --problems 100000 --device cuda --no-clarabel --paper 0

Seconds on a CPU are those that it worked, of the other checkout too; on a GPU those that passed. Numba is
not started unless the library finds that there is enough work for it: the machine code that is kept needs none.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from dissonance.arc import Arc
from dissonance.compiled import ENOUGH, expect
from dissonance.focus import Attention
from dissonance.pdg import PDG
from dissonance.problem import Batch, prepare
from dissonance.solvers import Paper
from dissonance.solvers.convex import device as gpu
from dissonance.solvers.convex.conic import conic
from dissonance.solvers.convex.entries import newton
from dissonance.solvers.convex.program import Program, Structure, forget_structures, structure
from dissonance.solvers.convex.solve import Outcome, prove, solve
from dissonance.studies.structures import PUBLISHED
from dissonance.variables import Variable

T = TypeVar("T")

STRUCTURES = {s.name: s for s in PUBLISHED}


def rows(rng: np.random.Generator, count: int, s: int, t: int) -> np.ndarray:
    """Tables of `count` problems: every row is numbers from U[0,1] divided by their sum."""
    p = rng.random((count, s, t))
    return p / p.sum(-1, keepdims=True)


def problems(name: str, count: int, seed: int = 0) -> tuple[list[Batch], Batch]:
    """`count` random PDGs of one structure, as a batch; the first few also one by one, for Clarabel."""
    rng = np.random.default_rng(seed)
    variables = [Variable("ABCDEFG"[i], size) for i, size in enumerate(STRUCTURES[name].sizes)]
    ends = [(variables[a], variables[b]) for a, b in STRUCTURES[name].arcs]
    tables = [rows(rng, count, a.size, b.size) for a, b in ends]

    def component(k: int) -> Batch:
        pdg = PDG(*(Arc(f"p{i}", a, b, t[k]) for i, ((a, b), t) in enumerate(zip(ends, tables, strict=True), 1)))
        return prepare(pdg, Attention.uniform(pdg)).parts[0]

    some = [component(k) for k in range(min(count, 50))]
    ones = np.ones((count, len(ends)))
    logs = np.log(np.concatenate([t.reshape(count, -1) for t in tables], 1))
    return some, some[0].with_numbers(logs, ones, ones, np.zeros(count))


def nudged(batch: Batch, s: Structure, size: float, seed: int = 1) -> Batch:
    """The same problems with slightly changed tables, as after a step of LIR."""
    moved = batch.log_p + size * np.random.default_rng(seed).standard_normal(batch.log_p.shape)
    lay = s.layout
    total = np.log(np.add.reduceat(np.exp(moved[:, lay.table]), lay.entry_at[:-1], axis=1))
    moved[:, lay.table] -= total[:, lay.row]
    return batch.with_numbers(moved, batch.beta, batch.alpha, batch.gamma)


def timed(run: Callable[[], T], device: str) -> tuple[float, T]:
    """Seconds (the fastest of five, if quick), and what came out."""
    if device != "cpu":
        torch.cuda.synchronize()
    spent: list[float] = []
    clock = time.process_time if device == "cpu" else time.perf_counter
    while True:
        began = clock()
        with torch.inference_mode():
            out = run()
        if device != "cpu":
            torch.cuda.synchronize()
        spent.append(clock() - began)
        if len(spent) == 5 or sum(spent) > 5:
            return min(spent), out


def solved(program: Program, tol: float, device: str, near: np.ndarray | None = None) -> Outcome:
    """Solve and certify."""
    target = np.full(len(program), 0.1 * tol)
    if device != "cpu":
        return gpu.solve(program, target, 10 * target, near, np.full(len(program), near is not None), device)
    return solve(program, target, 10 * target, near)


def made(batch: Batch) -> Program:
    """Numbered from nothing."""
    forget_structures()
    s = structure(batch.shape, batch.tree, batch.hard[0], False)
    return Program(s, s.numbers(batch))


def main() -> None:
    """Print one row a structure, and the totals with their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=200, help="in all, a quarter of each structure")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tol", type=float, default=1e-7)
    parser.add_argument("--clarabel", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--paper", type=int, default=2, help="PDGs of each structure for the paper's solver; 0: none")
    parser.add_argument("--before", type=Path, help="another checkout, whose benchmark is run as well")
    options = parser.parse_args()
    device, count = options.device, options.problems // 4
    expect(1.01 * ENOUGH, newton)  # loads the machine code that is kept; the first time on a machine it is made
    print(f"{options.problems} PDGs, certified to {options.tol:g}, on {device}; milliseconds")
    heads = ("set-up", "cold", "steps", "warm", "steps", "gap", "Clarabel", "paper")
    print(f"{'structure':<14}" + "".join(f"{x:>10}" for x in heads))
    total = np.zeros(4)
    for name in STRUCTURES:
        some, batch = problems(name, count)
        solved(made(Batch.together(some[:2])), options.tol, device)  # warms the libraries up
        setup, program = timed(lambda b=batch: made(b), device)
        seconds, found = timed(lambda p=program: solved(p, options.tol, device), device)
        moved = nudged(batch, program.structure, 1e-3)

        def again(b: Batch = moved, s: Structure = program.structure, at: np.ndarray = found.at) -> Outcome:
            return solved(Program(s, s.numbers(b)), options.tol, device, at)

        warm_seconds, after = timed(again, device)
        clarabel = _clarabel(some) * count if options.clarabel else math.nan
        paper = _paper(some[: options.paper]) * count if options.paper else math.nan
        total += setup + seconds, warm_seconds, clarabel, paper
        gap = max(float((x.bounds[:, 1] - x.bounds[:, 0]).max()) for x in (found, after))
        print(
            f"{name:<14}{1e3 * setup:>10.1f}{1e3 * seconds:>10.1f}{found.steps.mean():>10.1f}"
            f"{1e3 * warm_seconds:>10.1f}{after.steps.mean():>10.1f}{gap:>10.1e}"
            f"{1e3 * clarabel:>10.0f}{1e3 * paper:>10.0f}"
        )
    print(f"cold, set-up included: {1e3 * total[0]:.1f} ms, {options.problems / total[0]:.0f} PDGs a second")
    print(f"warm: {1e3 * total[1]:.1f} ms, {total[1] / total[0]:.2f} of cold")
    if options.clarabel:
        print(f"Clarabel one at a time on the tree: {1e3 * total[2]:.0f} ms, {total[2] / total[0]:.1f} times cold")
    if options.paper:
        print(f"the paper's solver, 350 iterations: {total[3]:.0f} s, {total[3] / total[0]:.0f} times cold")
    if options.before:
        cold, warm = _before(options.before, options.problems)
        print(f"before: cold {cold:.0f} ms, warm {warm:.0f} ms", end="; ")
        print(f"ratios {cold / total[0] / 1e3:.1f} and {warm / total[1] / 1e3:.1f}")


def _before(checkout: Path, count: int) -> tuple[float, float]:
    """Milliseconds of another checkout's benchmark, cold with set-up and warm."""
    clock = "import runpy, time; time.perf_counter = time.process_time"
    script = f"{clock}; runpy.run_path('benchmarks/batch.py', {{}}, '__main__')"
    command = [sys.executable, "-c", script, "--problems", str(count), "--no-clarabel", "--paper", "0"]
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}
    ran = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=True)
    rows = [line.split() for line in ran.stdout.splitlines()]
    cold = next(float(row[3]) for row in rows if row[:1] == ["cold,"])
    return cold, next(float(row[1]) for row in rows if row[:1] == ["warm:"])


def _clarabel(components: list[Batch]) -> float:
    """Seconds for one PDG: assemble, solve at 1e-8, certify."""

    def one(c: Batch) -> None:
        program = made(c)
        prove(program, conic(program, 1e-8)[0])

    return timed(lambda: [one(c) for c in components], "cpu")[0] / len(components)


def _paper(components: list[Batch]) -> float:
    """Seconds for one PDG by Adam on the joint distribution."""
    began = time.process_time()
    for c in components:
        Paper(iterations=350).solve(c)
    return (time.process_time() - began) / len(components)


if __name__ == "__main__":
    main()
