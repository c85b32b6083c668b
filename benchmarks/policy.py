"""What `solver="auto"` chooses, and what the choice costs: milliseconds of every method on small and large PDGs.

    OMP_NUM_THREADS=1 python benchmarks/policy.py

A row is a kind of PDG (beta = alpha = 1), gamma, and how many of them are solved together. Columns: each method alone,
from the attended components to the proof (the junction tree is known), for one PDG; then what auto took, and its time.
A dash: the method does not apply.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from families import FAMILIES

from dissonance import PDG, Arc, Attention, Variable
from dissonance.compiled import engage
from dissonance.problem import Batch, prepare
from dissonance.solvers import Answer, Auto, CliqueTreeSolver, Newton, SumProductSolver, solve_parts


def loop(seed: int) -> PDG:
    """Four variables in a loop."""
    random = np.random.default_rng(seed)
    xs = [Variable(x, k) for x, k in zip("ABCD", (2, 3, 2, 3), strict=True)]
    ends = list(zip(xs, (*xs[1:], xs[0]), strict=True))
    tables = [random.random((a.size, b.size)) for a, b in ends]
    rows = [t / t.sum(1, keepdims=True) for t in tables]
    return PDG(*(Arc(f"p{i}", a, b, t) for i, ((a, b), t) in enumerate(zip(ends, rows, strict=True))))


def wide(seed: int) -> PDG:
    """One cluster of eleven variables: a cpd with ten parents, and a few marginals."""
    random = np.random.default_rng(seed)
    xs = [Variable(f"X{i}", 2) for i in range(11)]
    rows = random.random((2,) * 11)
    single = [random.random(2) for _ in xs]
    return PDG(
        Arc("all", tuple(xs[1:]), xs[0], rows / rows.sum(-1, keepdims=True)),
        *(Arc(f"m{i}", (), x, p / p.sum()) for i, (x, p) in enumerate(zip(xs, single, strict=True))),
    )


KINDS: dict[str, Callable[[int], PDG]] = {
    "loop of 4": loop,
    "chain of 10": lambda seed: FAMILIES["chain"](10, seed),
    "chain of 30": lambda seed: FAMILIES["chain"](30, seed),
    "chain of 300": lambda seed: FAMILIES["chain"](300, seed),
    "treewidth 3, 10": lambda seed: FAMILIES["treewidth 3"](10, seed),
    "treewidth 3, 100": lambda seed: FAMILIES["treewidth 3"](100, seed),
    "cluster of 2048": wide,
}


def timed(work: Callable[[], list[Answer]]) -> tuple[float, list[Answer]]:
    """Milliseconds, the fastest of three if quick, and what was found."""
    spent: list[float] = []
    while True:
        began = time.perf_counter()
        found = work()
        spent.append(1e3 * (time.perf_counter() - began))
        if len(spent) == 3 or sum(spent) > 4000:
            return min(spent), found


def row(kind: str, gamma: float, count: int) -> str:
    """One line: every method, and auto."""
    components: list[Batch] = []
    for seed in range(count):
        pdg = KINDS[kind](seed)
        components += prepare(pdg, Attention.uniform(pdg, gamma=gamma)).parts
    first = components[0]
    columns = [
        timed(lambda: solve_parts(components, Newton()))[0] / count,
        timed(lambda: [CliqueTreeSolver().solve(c) for c in components[:4]])[0] / min(count, 4),
        timed(lambda: [SumProductSolver().solve(c) for c in components])[0] / count
        if SumProductSolver().fits(first).all()
        else np.nan,
    ]
    took, found = timed(lambda: solve_parts(components, Auto()))
    named = " ".join(dict.fromkeys((found[0].solver, *found[0].method)))
    cells = "".join(f"{'-':>12}" if np.isnan(x) else f"{x:12.1f}" for x in columns)
    return f"{kind:<18}{gamma:6.1f}{count:6d}{cells}{took / count:9.1f}  {named}"


def main() -> None:
    torch.set_num_threads(1)
    heads = "".join(f"{x:>12}" for x in ("newton", "clique-tree", "sum-product"))
    print(f"{'PDG':<18}{'gamma':>6}{'many':>6}{heads}{'auto':>9}  which is")
    engage()  # else small problems are interpreted
    for kind in KINDS:
        for gamma, count in ((0.0, 1), (0.5, 1), (1.0, 1), (0.0, 4), (0.0, 64)):
            small = kind in ("loop of 4", "chain of 30")
            if (count == 1 or small) and (kind != "cluster of 2048" or gamma == 0):
                print(row(kind, gamma, count), flush=True)


if __name__ == "__main__":
    main()
