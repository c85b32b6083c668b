"""Bounds where no junction tree fits: never wrong where the value is known, how narrow where it is not.

python benchmarks/bounds.py wrong --graphs 10000     # small random graphs, against exact values
python benchmarks/bounds.py reduced --graphs 5000    # the same of the reduced dual, mostly at gamma > 0
python benchmarks/bounds.py structural --graphs 5000 # the same of bounds at gamma > 0, with blocks that are made small
python benchmarks/bounds.py past-newton              # grids at gamma > 0, by Newton and by the reduced dual
python benchmarks/bounds.py narrow --seconds 30      # grids and random graphs of degree three
python benchmarks/bounds.py narrow --gamma 0.1       # the same at gamma > 0
python benchmarks/bounds.py dense --seconds 60       # books of all pairs of events, with and without a search
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import numpy as np
import torch

from dissonance import PDG, Arc, Attention, SizeError, Variable, coherence, inconsistency
from dissonance.bounds import bracketing as bounding
from dissonance.bounds import cut
from dissonance.bounds import structural as entropies
from dissonance.solvers import Bounds, Newton, Reduced, Solver

TINY = 1e-9


def random_pdg(rng: np.random.Generator) -> tuple[PDG, Attention]:
    """A few variables and arcs of all kinds: pooled, with zeros, deterministic, hard, with several sources and targets;
    weights over four orders of magnitude."""
    variables = [Variable(f"X{i}", int(rng.integers(2, 4))) for i in range(int(rng.integers(2, 7)))]
    arcs, beta = [], {}
    for k in range(int(rng.integers(2, 12))):
        scope = rng.permutation(len(variables))[: int(rng.integers(1, min(4, len(variables)) + 1))]
        cut = int(rng.integers(0, len(scope)))
        sources, targets = ([variables[i] for i in part] for part in (scope[:cut], scope[cut:]))
        shape = [v.size for v in (*sources, *targets)]
        rows = math.prod(v.size for v in sources)
        table = rng.dirichlet(np.full(math.prod(v.size for v in targets), 0.7), rows)
        kind = rng.random()
        if kind < 0.15 and len(targets) == 1:
            table = np.eye(targets[0].size)[rng.integers(targets[0].size, size=rows)]
        elif kind < 0.3:
            table = np.where(rng.random(table.shape) < 0.3, 0.0, table)
            table[table.sum(1) == 0] = 1.0
            table /= table.sum(1, keepdims=True)
        arcs.append(Arc(f"a{k}", sources, targets, table.reshape(shape)))
        beta[f"a{k}"] = math.inf if rng.random() < 0.1 else float(10 ** rng.uniform(-2, 2))
    return PDG(*arcs, variables=variables), Attention.only(beta)


def structural(rng: np.random.Generator) -> tuple[PDG, Attention]:
    """The same with gamma > 0, mostly, and weights for which the incompatibility is convex: alpha from below 0 up to
    beta/gamma, some arcs with beta = 0."""
    pdg, attention = random_pdg(rng)
    gamma = float(10 ** rng.uniform(-3, 1)) if rng.random() < 0.9 else 0.0
    beta, alpha = dict(attention.beta), {}
    for name, b in beta.items():
        kind = rng.random()
        if kind < 0.15:
            beta[name] = b = 0.0
        highest = 2.0 if b == math.inf else b / gamma if gamma else 1.0
        alpha[name] = highest if kind > 0.7 else float(rng.uniform(-0.2, 1) * min(2.0, highest))
    return pdg, Attention.only(beta, alpha, gamma)


def wrong(
    graphs: int,
    seed: int = 0,
    make: Callable[[np.random.Generator], tuple[PDG, Attention]] = random_pdg,
    solver: Callable[[int], Solver] = lambda k: Bounds(seconds=0.0, seed=k),
) -> tuple[int, int, list[float]]:
    """How many brackets miss the exact value, how many graphs were compared, and the gaps of the brackets."""
    missed, compared, gaps = 0, 0, []
    for k in range(graphs):
        pdg, attention = make(np.random.default_rng([seed, k]))
        with torch.no_grad():
            exact = inconsistency(pdg, attention)
            found = inconsistency(pdg, attention, solver=solver(k))
        if not exact.converged or exact.within:
            continue
        compared += 1
        room = TINY * max(1.0, abs(exact.upper)) if math.isfinite(exact.upper) else 0.0
        if found.lower > exact.upper + room or found.upper < exact.lower - room:
            missed += 1
            print(f"graph {k} of seed {seed}: {found} misses {exact}")
        if math.isfinite(found.upper):
            gaps.append((found.upper - found.lower) / max(1.0, found.upper))
    return missed, compared, gaps


def grid(side: int, unary: bool, seed: int = 0) -> PDG:
    """Random tables along the edges of a grid of binary variables, and at its nodes."""
    return _random_tables(nx.grid_2d_graph(side, side), unary, seed)


def regular(size: int, unary: bool, seed: int = 0) -> PDG:
    """The same on a random graph of degree three."""
    return _random_tables(nx.random_regular_graph(3, size, seed=seed), unary, seed)


def _random_tables(graph: nx.Graph[int], unary: bool, seed: int) -> PDG:
    rng = np.random.default_rng(seed)
    x = {n: Variable(f"X{n}", 2) for n in graph.nodes}
    arcs = [Arc(f"a{i}", x[a], x[b], rng.dirichlet([1, 1], 2)) for i, (a, b) in enumerate(graph.edges)]
    if unary:
        arcs += [Arc(f"u{i}", (), v, rng.dirichlet([1, 1])) for i, v in enumerate(x.values())]
    return PDG(*arcs)


def narrow(seconds: float, gamma: float) -> None:
    """The bracket of each family, in that time."""
    families = {
        "grid 30 x 30": lambda: grid(30, False),
        "grid 30 x 30, with unaries": lambda: grid(30, True),
        "degree 3, 300 variables": lambda: regular(300, False),
        "degree 3, 300 variables, with unaries": lambda: regular(300, True),
        "degree 3, 10,000 variables, with unaries, solver=auto": lambda: regular(10000, True),
    }
    for name, make in families.items():
        pdg, cpu, clock = make(), time.process_time(), time.perf_counter()
        with torch.no_grad():
            attention = Attention.uniform(pdg, gamma=gamma)
            found = inconsistency(pdg, attention, solver="auto" if "auto" in name else Bounds(seconds=seconds))
        cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
        gap = (found.upper - found.lower) / found.upper
        times = f"{cpu:.1f} s of CPU time, {clock:.1f} s by the clock"
        print(f"{name}: {found.lower:.4f} to {found.upper:.4f}, {gap:.2%} apart; {times}")


def dense(seconds: float, seed: int = 0) -> None:
    """Forecasts of all pairs of events: the bracket with and without a search for the cheapest joint state."""
    for size in (30, 40, 60):
        rng = np.random.default_rng(seed)
        said = [f"P(x{i}) = {rng.uniform(0.1, 0.9):.3f}" for i in range(size)]
        said += [f"P(x{i} and x{j}) = {rng.uniform(0.05, 0.5):.3f}" for i in range(size) for j in range(i)]
        for name, most in (("without a search", 0), ("with one", 100)):
            bounding.SEARCHED, cpu = most, time.process_time()
            found = coherence(said, seconds=seconds)
            gap, cpu = (found.upper - found.lower) / found.upper, time.process_time() - cpu
            print(
                f"{size} events, {len(said)} forecasts, {name}: {found.lower:.4f} to {found.upper:.4f}, {gap:.2%} "
                f"apart; {cpu:.1f} s of CPU time",
                flush=True,
            )


def past_newton(sides: Sequence[int], gammas: Sequence[float]) -> None:
    """Grids at gamma > 0: the reduced dual, and Newton where it takes the problem."""
    for side in sides:
        for gamma in gammas:
            pdg = grid(side, False)
            attention = Attention.uniform(pdg, gamma=gamma)
            for solver in (Reduced(seconds=120), Newton()):
                began = time.process_time()
                try:
                    with torch.no_grad():
                        found = inconsistency(pdg, attention, solver=solver)
                except SizeError as error:
                    print(f"grid {side} x {side}, gamma {gamma:g}: {solver.name}: {str(error)[:100]} ...")
                    continue
                size = f"{found.stats['cells']:.0f} cells, {found.stats['memory'] / 2**20:.1f} MiB"
                bounds = f"{found.lower:.8f} to {found.upper:.8f}"
                print(
                    f"grid {side} x {side}, gamma {gamma:g}: {solver.name}: {bounds}, {size}, "
                    f"{time.process_time() - began:.2f} s of CPU time"
                )


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("wrong", "reduced", "structural", "past-newton", "narrow", "dense"))
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--gamma", type=float, default=0.0, help="for narrow")
    parser.add_argument("--cpu", action="store_true", help="seconds of CPU time: on a busy machine")
    args = parser.parse_args()
    if args.cpu:
        time.perf_counter = time.process_time
    if args.what == "dense":
        dense(args.seconds, args.seed)
        return
    if args.what == "narrow":
        narrow(args.seconds, args.gamma)
        return
    if args.what == "past-newton":
        past_newton((8, 12, 16), (0.1, 0.01))
        return
    began = time.process_time()
    options: dict[str, Any] = {}
    if args.what == "reduced":
        options = {"make": structural, "solver": lambda k: Reduced(seconds=0.3)}
    elif args.what == "structural":
        options = {"make": structural}
        cut.MOST_CELLS, entropies.CELLS = 24, 12  # what fits is cut, and entropies are conditioned on less
    missed, compared, gaps = wrong(args.graphs, args.seed, **options)
    middle = f"half of the gaps are below {np.median(gaps):.2%}" if gaps else "no gap is finite"
    print(f"{compared} brackets, {missed} wrong; {middle}; {time.process_time() - began:.0f} s of CPU time")


if __name__ == "__main__":
    main()
