"""Raking and pools beside their peers, on the same tables in one run: `docs/reconciling.md` has what this prints.

python benchmarks/reconciling.py            a table of 10^6 cells with margins that agree; margins that do not; pools
"""

from __future__ import annotations

import argparse
import logging
import math
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from dissonance import PDG, Arc, Variable, inconsistency
from dissonance.instances import linear_pool, log_pool, rake

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
ipf = import_module("reference.ipf")


def timed(work: Callable[[], Any], repeat: int = 3) -> tuple[Any, float]:
    """What comes out, and the least CPU seconds of some runs."""
    best, found = math.inf, None
    for _ in range(repeat):
        began = time.process_time()
        found = work()
        best = min(best, time.process_time() - began)
    return found, best


def margins(joint: np.ndarray, variables: list[Variable], pairs: list[tuple[int, ...]]) -> list[Arc]:
    """The margins of a table over some of its axes, as arcs."""
    arcs: list[Arc] = []
    for axes in pairs:
        table = joint.sum(tuple(i for i in range(joint.ndim) if i not in axes))
        name = "".join(variables[i].name for i in axes)
        arcs.append(Arc(name, (), [variables[i] for i in axes], table / table.sum()))
    return arcs


def raked(side: int, tol: float) -> None:
    """The same margins to the same accuracy: ours, ipfn, and a loop of pandas."""
    ipfn = import_module("ipfn.ipfn")

    rng = np.random.default_rng(0)
    variables = [Variable(n, side) for n in "ABC"]
    seed, truth = (rng.gamma(1.0, size=(side,) * 3) for _ in range(2))
    seed, truth = seed / seed.sum(), truth / truth.sum()
    pairs = [(0, 1), (1, 2), (0, 2)]
    arcs = margins(truth, variables, pairs)
    tables = [a.cpd.table().numpy() for a in arcs]
    start = Arc("seed", (), variables, seed)
    ours, seconds = timed(lambda: rake(start, *arcs, tol=tol))
    sweeps = ours.sweeps

    def peer() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = ipfn.ipfn(seed.copy(), tables, [list(p) for p in pairs], convergence_rate=0.0, max_iteration=sweeps,
                            rate_tolerance=0.0)  # fmt: skip
            return fit.iteration()

    theirs, their_seconds = timed(peer, 1)
    loop, loop_seconds = timed(lambda: by_pandas(seed, tables, pairs, sweeps), 1)
    print(f"{side}^3 = {side**3:,} cells, three two-way margins that agree, {sweeps} sweeps (CPU s)")
    print(f"  ours    {seconds:8.3f}   between {ours.lower:.9f} and {ours.upper:.9f}, margins off by {ours.within:.1e}")
    for name, took, table in (("ipfn", their_seconds, theirs), ("pandas", loop_seconds, loop)):
        print(f"  {name:7} {took:8.3f}   {took / seconds:.1f} times ours, furthest cell {far(table, ours):.1e}")


def far(table: np.ndarray, ours: Any) -> float:
    """How far the furthest cell is."""
    return float(np.abs(np.asarray(table) - ours.mu.table.numpy()).max())


def by_pandas(seed: np.ndarray, tables: list[np.ndarray], pairs: list[tuple[int, ...]], sweeps: int) -> np.ndarray:
    """Raking as it is written with data frames: a row a cell, and its group's total made to fit."""
    import pandas as pd

    index = pd.MultiIndex.from_product([range(n) for n in seed.shape], names=list("ABC"))
    frame = pd.DataFrame({"p": seed.ravel()}, index=index).reset_index()
    wanted = []
    for table, axes in zip(tables, pairs, strict=True):
        wide = np.expand_dims(table, tuple(i for i in range(seed.ndim) if i not in axes))
        wanted.append(np.broadcast_to(wide, seed.shape).ravel())
    for _ in range(sweeps):
        for target, axes in zip(wanted, pairs, strict=True):
            total = frame.groupby(["ABC"[i] for i in axes], sort=False)["p"].transform("sum")
            frame["p"] *= target / total
    return frame["p"].to_numpy().reshape(seed.shape)


def disagreeing(side: int) -> None:
    """Margins that no table has: the textbook goes round, the compromise is certified."""
    rng = np.random.default_rng(1)
    variables = [Variable(n, side) for n in "ABC"]
    seed, one, other = (rng.dirichlet(np.ones(side**3)).reshape((side,) * 3) for _ in range(3))
    arcs = [*margins(one, variables, [(0, 1)]), *margins(other, variables, [(1, 2)])]
    reports = [((0, 1), arcs[0].cpd.table().numpy()), ((1, 2), arcs[1].cpd.table().numpy())]
    a, b = (ipf.fit(seed, reports, sweeps) for sweeps in (1000, 2000))
    left, right = (ipf.fit(seed, order, 1000) for order in (reports, reports[::-1]))
    print(f"margins that disagree, {side}^3 cells")
    print(f"  the textbook after 1000 and 2000 sweeps: {np.abs(a - b).max():.1e} apart; ended after the one margin or "
          f"the other: {np.abs(left - right).max():.1e}")  # fmt: skip
    start = Arc("seed", (), variables, seed)
    for c in (1.0, 10.0):
        found = rake(start, *arcs, confidence=c)
        exact = inconsistency(PDG(start, *arcs), {x.name: c for x in arcs})
        apart = float((found.mu.table - exact.mu.marginal(*"ABC")).abs().max())
        print(f"  confidence {c:<4g} certified between {found.lower:.9f} and {found.upper:.9f}")
        print(f"                  inconsistency {exact.upper:.9f}, mu apart {apart:.1e}")


def pools(size: int, count: int) -> None:
    """Pools against their formulas."""
    rng = np.random.default_rng(2)
    x = Variable("X", size)
    p = rng.dirichlet(np.ones(size), count)
    w = rng.dirichlet(np.ones(count))
    arcs = [Arc(f"e{k}", (), x, row) for k, row in enumerate(p)]
    linear, log = linear_pool(arcs, w.tolist()).table.numpy(), log_pool(arcs, w.tolist()).table.numpy()
    geometric = np.exp(w @ np.log(p))
    geometric /= geometric.sum()
    print(f"pools of {count} experts about {size} values: linear {np.abs(linear - w @ p).max():.1e} from the formula, "
          f"logarithmic {np.abs(log - geometric).max():.1e}")  # fmt: skip


def main() -> None:
    """All of it."""
    logging.getLogger("dissonance").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=100)
    parser.add_argument("--tol", type=float, default=1e-8)
    given = parser.parse_args()
    raked(given.side, given.tol)
    disagreeing(5)
    pools(50, 8)


if __name__ == "__main__":
    main()
