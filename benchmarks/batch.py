"""Many small PDGs at once: the batched solver against Clarabel one at a time, cold and warm, on the CPU or a GPU.

python benchmarks/batch.py                       200 PDGs, 50 of each of the paper's four structures
python benchmarks/batch.py --problems 100000 --device cuda --no-clarabel --paper 0
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch

from dissonance.focus import Attention
from dissonance.pdg import PDG, Arc
from dissonance.problem import Component, prepare
from dissonance.solvers import Paper
from dissonance.solvers.arrange import arrange
from dissonance.solvers.batch import MANY, Arcs, Batch
from dissonance.solvers.bounds import certify
from dissonance.solvers.interior import State, cold, interior, warm
from dissonance.solvers.structure import Structure
from dissonance.studies.structures import PUBLISHED
from dissonance.variables import Variable

T = TypeVar("T")

STRUCTURES = {s.name: s for s in PUBLISHED}


def rows(rng: np.random.Generator, count: int, s: int, t: int) -> np.ndarray:
    """Tables of `count` problems: every row is numbers from U[0,1] divided by their sum."""
    p = rng.random((count, s, t))
    return p / p.sum(-1, keepdims=True)


def problems(name: str, count: int, seed: int = 0) -> tuple[list[Component], Arcs]:
    """`count` random PDGs of one structure, as arrays; the first few also as components, for Clarabel."""
    rng = np.random.default_rng(seed)
    variables = [Variable("ABCDEFG"[i], size) for i, size in enumerate(STRUCTURES[name].sizes)]
    ends = [(variables[a], variables[b]) for a, b in STRUCTURES[name].arcs]
    tables = [rows(rng, count, a.size, b.size) for a, b in ends]

    def component(k: int) -> Component:
        pdg = PDG(*(Arc(f"p{i}", a, b, t[k]) for i, ((a, b), t) in enumerate(zip(ends, tables, strict=True), 1)))
        return prepare(pdg, Attention.uniform(pdg)).components[0]

    some = [component(k) for k in range(min(count, 50))]
    ones = torch.ones(count, len(ends), dtype=torch.float64)
    logs = np.log(np.concatenate([t.reshape(count, -1) for t in tables], 1))
    return some, Arcs(torch.from_numpy(logs), ones, ones, torch.zeros(count, dtype=torch.float64))


def nudged(arcs: Arcs, s: Structure, size: float, seed: int = 1) -> Arcs:
    """The same problems with slightly changed tables, as after a step of LIR."""
    moved = arcs.log_p + size * torch.from_numpy(np.random.default_rng(seed).standard_normal(arcs.log_p.shape))
    total = s.rows.total(moved[:, s.first].exp()).log()
    logs = moved.clone()
    logs[:, s.first] = moved[:, s.first] - total
    return replace(arcs, log_p=logs)


def timed(run: Callable[[], T], device: str) -> tuple[float, T]:
    """Seconds (the fastest of five, if quick), and what came out."""
    if device != "cpu":
        torch.cuda.synchronize()
    spent: list[float] = []
    while True:
        began = time.perf_counter()
        with torch.inference_mode():
            out = run()
        if device != "cpu":
            torch.cuda.synchronize()
        spent.append(time.perf_counter() - began)
        if len(spent) == 5 or sum(spent) > 5:
            return min(spent), out


def solved(batch: Batch, start: State, tol: float) -> tuple[State, float]:
    """Solve, certify, and report the largest gap."""
    target = torch.full((len(batch),), 0.1 * tol, dtype=torch.float64, device=batch.c.device)
    state = interior(batch, start, target)
    return state, float(certify(batch, state).gap.max())


def main() -> None:
    """Print one row a structure, and the totals with their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=200, help="in all, a quarter of each structure")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tol", type=float, default=1e-7)
    parser.add_argument("--clarabel", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--paper", type=int, default=2, help="PDGs of each structure for the paper's solver; 0: none")
    options = parser.parse_args()
    device, count = options.device, options.problems // 4
    print(f"{options.problems} PDGs, certified to {options.tol:g}, on {device}; milliseconds")
    heads = ("set-up", "cold", "steps", "warm", "steps", "gap", "Clarabel", "paper")
    print(f"{'structure':<14}" + "".join(f"{x:>10}" for x in heads))
    total = np.zeros(4)
    for name in STRUCTURES:
        some, arcs = problems(name, count)
        shape = [(a.sources, a.targets, a.hard) for a in some[0].arcs]

        def made(a: Arcs, c: Component = some[0], shape: Any = shape) -> Batch:
            return a.to(device).batch(arrange(c.tree, shape, False, count >= MANY).to(device))[0]

        few = made(arcs).take(torch.arange(min(count, 2), device=device))
        solved(few, cold(few), options.tol)  # warms the libraries up
        setup, batch = timed(lambda a=arcs, f=made: f(a), device)
        seconds, (state, gap) = timed(lambda b=batch: solved(b, cold(b), options.tol), device)
        moved = nudged(arcs, batch.structure.to("cpu"), 1e-3).to(device)

        def again(a: Arcs = moved, b: Batch = batch, s: State = state) -> tuple[State, float]:
            new = a.batch(b.structure)[0]
            return solved(new, warm(new, s), options.tol)

        warm_seconds, (after, warm_gap) = timed(again, device)
        clarabel = _clarabel(some) * count if options.clarabel else math.nan
        paper = _paper(some[: options.paper]) * count if options.paper else math.nan
        total += setup + seconds, warm_seconds, clarabel, paper
        print(
            f"{name:<14}{1e3 * setup:>10.1f}{1e3 * seconds:>10.1f}{state.steps.double().mean():>10.1f}"
            f"{1e3 * warm_seconds:>10.1f}{after.steps.double().mean():>10.1f}{max(gap, warm_gap):>10.1e}"
            f"{1e3 * clarabel:>10.0f}{1e3 * paper:>10.0f}"
        )
    print(f"cold, set-up included: {1e3 * total[0]:.0f} ms, {options.problems / total[0]:.0f} PDGs a second")
    print(f"warm: {1e3 * total[1]:.0f} ms, {total[1] / total[0]:.2f} of cold")
    if options.clarabel:
        print(f"Clarabel one at a time on the tree: {1e3 * total[2]:.0f} ms, {total[2] / total[0]:.1f} times cold")
    if options.paper:
        print(f"the paper's solver, 350 iterations: {total[3]:.0f} s, {total[3] / total[0]:.0f} times cold")


def _clarabel(components: list[Component]) -> float:
    """Seconds for one PDG: assemble, solve at 1e-8, certify."""
    from dissonance.solvers.assemble import assemble
    from dissonance.solvers.certificate import certify as certify_one
    from dissonance.solvers.conic import conic

    def one(c: Component) -> None:
        program = assemble(c, c.tree)
        assert program is not None
        certify_one(program, conic(program, 1e-8))

    return timed(lambda: [one(c) for c in components], "cpu")[0] / len(components)


def _paper(components: list[Component]) -> float:
    """Seconds for one PDG by Adam on the joint distribution."""
    began = time.perf_counter()
    for c in components:
        Paper(iterations=350).solve(c)
    return (time.perf_counter() - began) / len(components)


if __name__ == "__main__":
    main()
