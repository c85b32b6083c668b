"""How the time of a certified solve grows with the size of the PDG, beside Clarabel, cvxpy and a dense baseline.

    OMP_NUM_THREADS=1 python benchmarks/scaling.py [--quick]
    OMP_NUM_THREADS=1 python benchmarks/scaling.py --large 100000
    OMP_NUM_THREADS=1 python benchmarks/scaling.py --before ../before     beside another checkout, at n = 5000

Every PDG has random tables, attended with beta = alpha = 1 at gamma = 0. For each family and size: the library's
default solver and Clarabel on the same junction tree, each from the PDG to the proof (prepare, decompose, assemble,
solve, certify), and again with slightly changed tables, when the junction tree is known (ours starts where it stopped).
Clarabel is stopped after `--limit` seconds; then its time and the ratio are lower bounds, marked ">".
Then the exponent of time in n, fitted by least squares in log-log coordinates; then cvxpy with Clarabel at n = 100, and
Adam on the softmax of the dense joint, for sizes it can hold. `--large`: a binary chain, its seconds and memory.
Seconds are those that a core worked.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from families import FAMILIES, chain, nudged

from dissonance import PDG, Attention
from dissonance.compiled import engage
from dissonance.distributions import Tree
from dissonance.distributions import tree as trees
from dissonance.inconsistency import Inconsistency, inconsistency
from dissonance.problem import Batch, prepare
from dissonance.solvers.convex import program
from dissonance.solvers.convex.conic import conic, sparse
from dissonance.solvers.convex.program import Program
from dissonance.solvers.convex.solve import prove

T = TypeVar("T")
TOL = 1e-7
"""The gap to reach, relative to max(1, inconsistency): the library's default."""
PATIENCE = 2.0
"""What takes less than this many seconds in all is measured again, up to three times, and the fastest counts."""


# -- measuring ---------------------------------------------------------------------------------------------------------


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What the work returns, and the seconds it took."""
    spent: list[float] = []
    while True:
        began = time.process_time()
        found = work()
        spent.append(time.process_time() - began)
        if sum(spent) > PATIENCE or len(spent) == 3:
            return found, min(spent)


def limited(work: Callable[[], tuple[float, float]], limit: int) -> tuple[tuple[float, float], float]:
    """The same in a process of its own; NaN and infinity if that was stopped after `limit` seconds."""
    here, there = multiprocessing.Pipe(duplex=False)

    def run() -> None:
        spent = int(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (spent + limit, spent + limit + 10))
        there.send(timed(work))

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    there.close()
    try:
        found = here.recv()
    except EOFError:
        found = (math.nan, math.nan), math.inf
    process.join()
    return found


def forget() -> None:
    """Nothing is known of any junction tree."""
    program.forget_structures()
    trees.forget_trees()


def ours(pdg: PDG, near: Inconsistency | None = None) -> Inconsistency:
    """The default solver; from nothing, or from a result for other tables."""
    if near is None:
        forget()
    with torch.no_grad():
        return inconsistency(pdg, near=near)


def clarabel(pdg: PDG, known: bool) -> tuple[float, float]:
    """Bounds from Clarabel alone."""
    if not known:
        forget()
    (component,) = prepare(pdg, Attention.uniform(pdg)).parts
    problem = made(component)
    bounds = prove(problem, conic(problem, 1e-2 * TOL)[0]).bounds[0]
    return float(bounds[0]), float(bounds[1])


def made(component: Batch) -> Program:
    """The program of a component, on its junction tree."""
    s = program.structure(component.shape, component.tree, component.hard[0], bool(component.gamma[0] > 0))
    return Program(s, s.numbers(component))


@dataclass(frozen=True)
class Row:
    """One PDG: seconds of both, first and again."""

    first: float
    again: float
    rival: float
    rival_again: float


def family(name: str, sizes: list[int], limit: int) -> Iterator[str]:
    """A line a size, then the exponents."""
    rows: list[Row] = []
    for n in sizes:
        pdg = FAMILIES[name](n, 0)
        moved = nudged(pdg)
        result, first = timed(lambda pdg=pdg: ours(pdg))
        after, again = timed(lambda pdg=moved, near=result: ours(pdg, near))
        (low, high), rival = limited(lambda pdg=pdg: clarabel(pdg, False), limit)
        _, rival_again = limited(lambda pdg=moved: clarabel(pdg, True), limit)
        rows.append(r := Row(first, again, rival, rival_again))
        gap = max((x.upper - x.lower) / max(1.0, abs(x.upper)) for x in (result, after))
        loose = (high - low) / max(1.0, high)
        yield (
            f"{name:<15}{n:6d}{int(result.stats['treewidth']):4d}{r.first:9.3f}{result.stats['steps']:5d}{r.again:9.3f}"
            f"{after.stats['steps']:5d}{gap:9.1e}{_least(r.rival, limit, 3):>10}{_least(r.rival_again, limit, 3):>9}"
            f"{loose:9.1e}{_least(r.rival, limit, 1, r.first):>8}{_least(r.rival_again, limit, 1, r.again):>7}"
        )
    if len(sizes) > 1:
        slopes = [_exponent(sizes, [getattr(r, x) for r in rows]) for x in ("first", "again", "rival", "rival_again")]
        a, b, c, d = slopes
        yield f"{name:<15}{'exponent':>10}{a:9.2f}{b:14.2f}{c:24.2f}{d:9.2f}"


def _least(seconds: float, limit: int, digits: int, ours: float = 1.0) -> str:
    """Seconds in units of ours; if they are more than the limit, how many those are."""
    return f"{seconds / ours:.{digits}f}" if seconds < math.inf else f"> {limit / ours:.0f}"


def _exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of log seconds in log n; NaN if one was stopped."""
    if math.inf in seconds:
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


# -- cvxpy -------------------------------------------------------------------------------------------------------------


def by_cluster(component: Batch) -> Any:
    """The program as its formula reads: a variable a cluster, a constraint a separator, a relative entropy an arc."""
    import cvxpy as cp

    tree = component.tree
    mu = [cp.Variable(math.prod(s), nonneg=True) for s in tree.shapes]

    def marginal(cluster: int, scope: tuple[str, ...]) -> Any:
        state = setting(tree, cluster, scope)
        return (np.arange(state.max() + 1)[:, None] == state[None]).astype(float) @ mu[cluster]

    constraints: list[Any] = []
    cost: Any = 0
    for i, p in enumerate(tree.parent):
        if p < 0:
            constraints.append(cp.sum(mu[i]) == 1)
        else:
            constraints.append(marginal(i, tree.separators[i]) == marginal(p, tree.separators[i]))
    for a in component.arcs:
        home = tree.home(a.scope)
        assert home is not None
        m, s = marginal(home, a.scope), marginal(home, a.sources)
        width = a.log_p.size // math.prod(component.sizes[v] for v in a.sources)
        cost += cp.sum(cp.rel_entr(m, np.kron(np.eye(a.log_p.size // width), np.ones((width, 1))) @ s))
        cost -= a.log_p.reshape(-1) @ m
    return cp.Problem(cp.Minimize(cost), constraints)


def setting(tree: Tree, cluster: int, scope: tuple[str, ...]) -> np.ndarray:
    """For every cell of a cluster, the flat index of its setting of a scope inside it."""
    inside, shape = tree.clusters[cluster], tree.shapes[cluster]
    grid = dict(zip(inside, np.indices(shape).reshape(len(shape), -1), strict=True))
    found = np.zeros(math.prod(shape), dtype=np.int64)
    for v in scope:
        found = found * tree.sizes[v] + grid[v]
    return found


def by_vector(component: Batch) -> Any:
    """The same with one variable and sparse matrices, as an expert writes it."""
    import cvxpy as cp

    p = sparse(made(component))
    mu = cp.Variable(len(p.c), nonneg=True)
    m = p.T @ mu
    cost = p.c @ mu + cp.sum(cp.multiply(p.W, cp.rel_entr(m, (p.R.T @ p.R) @ m)))
    equations: list[Any] = [p.A @ mu == p.b]
    return cp.Problem(cp.Minimize(cost), equations)


def against_cvxpy(name: str, n: int) -> str:
    """cvxpy with Clarabel, from the PDG to its optimal value, beside the default solver from the PDG to the proof."""
    pdg = FAMILIES[name](n, 0)
    result, first = timed(lambda: ours(pdg))
    found: list[str] = []
    for model in (by_cluster, by_vector):

        def solve(model: Callable[[Batch], Any] = model) -> float:
            forget()
            (component,) = prepare(pdg, Attention.uniform(pdg)).parts
            return float(model(component).solve(solver="CLARABEL"))

        value, seconds = timed(solve)
        found.append(f"{seconds:10.3f}{value - result.upper:10.1e}{seconds / first:8.1f}")
    return f"{name:<15}{n:6d}{first:9.3f}{''.join(found)}"


# -- the dense baseline ------------------------------------------------------------------------------------------------


def adam(pdg: PDG, iterations: int = 350, rate: float = 0.1) -> float:
    """The observational incompatibility that Adam on the softmax of the joint reaches, from the uniform joint.

    Every arc has one source and one target: their marginals mu(s, t) are stacked and scored at once.
    """
    axis = {v.name: i for i, v in enumerate(pdg.variables)}
    pairs = [(axis[a.sources[0].name], axis[a.targets[0].name]) for a in pdg.arcs]
    log_p = torch.stack([a.log_table() for a in pdg.arcs])  # (arcs, sources, targets)
    logits = torch.zeros([v.size for v in pdg.variables], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([logits], lr=rate)

    def incompatibility() -> torch.Tensor:
        joint = torch.softmax(logits.reshape(-1), 0).reshape(logits.shape)
        marginals: dict[tuple[int, int], torch.Tensor] = {}
        for s, t in pairs:
            if (s, t) not in marginals:
                pair = joint.sum([i for i in axis.values() if i not in (s, t)])
                marginals[min(s, t), max(s, t)] = pair
                marginals[max(s, t), min(s, t)] = pair.T
        m = torch.stack([marginals[p] for p in pairs])
        return (m * (m.log() - m.sum(-1, keepdim=True).log() - log_p)).sum()

    for _ in range(iterations):
        optimiser.zero_grad()
        incompatibility().backward()
        optimiser.step()
    with torch.no_grad():
        return float(incompatibility())


def baseline(name: str, n: int) -> str:
    """Adam beside the default solver."""
    pdg = FAMILIES[name](n, 0)
    found, slow = timed(lambda: adam(pdg))
    result, first = timed(lambda: ours(pdg))
    return (
        f"{name:<15}{n:6d}{2**n:8d}{slow:9.3f}{first:10.4f}{slow / first:8.1f}{result.upper:13.9f}"
        f"{found - result.lower:14.1e}"
    )


# -- printing ----------------------------------------------------------------------------------------------------------


def large(n: int) -> None:
    """A binary chain with two arcs a link: seconds and memory, from nothing to the proof."""
    began = time.process_time()
    pdg = chain(n, 0)
    made = time.process_time()
    result = ours(pdg)
    done = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    gap = (result.upper - result.lower) / max(1.0, result.upper)
    print(f"chain of {n} variables, {len(pdg.arcs)} arcs: {made - began:.1f} s to make, {done - made:.1f} s to solve")
    print(f"{done - began:.1f} s in all, {peak:.2f} GiB at the peak, inconsistency {result.upper:.6f}, gap {gap:.1e}")


OURS = """
import sys, time
time.perf_counter = time.process_time
sys.path.insert(0, "benchmarks")
import torch
from scaling import FAMILIES, nudged, ours, timed
torch.set_num_threads(1)
ours(FAMILIES["chain"](1000, 0))  # libraries load, and compile, at the first use
for name in FAMILIES:
    for n in map(int, sys.argv[1:]):
        pdg = FAMILIES[name](n, 0)
        moved = nudged(pdg)
        result, first = timed(lambda: ours(pdg))
        print(name, n, first, timed(lambda: ours(moved, result))[1], sep=";", flush=True)
"""
"""Seconds of the default solver, first and again, whatever the checkout."""


def against(before: Path, sizes: list[int]) -> None:
    """This checkout and another, one after the other: seconds of the first solve and again, and their ratios."""
    here = Path(__file__).resolve().parents[1]
    rows: list[list[list[str]]] = []
    for checkout in (before.resolve(), here):
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        command = [sys.executable, "-c", OURS, *map(str, sizes)]
        ran = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=True)
        rows.append([line.split(";") for line in ran.stdout.splitlines()])
    print(f"{'family':<15}{'n':>6}{'before':>9}{'now':>9}{'ratio':>7}{'before, again':>15}{'now':>9}{'ratio':>7}")
    for (name, n, *old), (_, _, *new) in zip(*rows, strict=True):
        (a, b), (c, d) = map(float, old), map(float, new)
        print(f"{name:<15}{n:>6}{a:>9.3f}{c:>9.3f}{a / c:>7.1f}{b:>15.3f}{d:>9.3f}{b / d:>7.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time certified solves over families of growing PDGs.")
    parser.add_argument("--quick", action="store_true", help="small sizes only, in a few seconds")
    parser.add_argument("--family", choices=list(FAMILIES), action="append", help="only this family (repeatable)")
    parser.add_argument("--sizes", type=int, nargs="+", help="the values of n")
    parser.add_argument("--limit", type=int, default=300, help="seconds after which Clarabel is stopped")
    parser.add_argument("--before", type=Path, help="another checkout, timed as well, with the ratios")
    parser.add_argument("--large", type=int, metavar="N", help="only a binary chain of N variables")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}, "
        f"{os.cpu_count()} cores, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}"
    )
    if options.large:
        large(options.large)
        return
    if options.before:
        against(options.before, options.sizes or [5000])
        return
    sizes: list[int] = options.sizes or ([30, 100] if options.quick else [200, 1000, 5000])
    names: list[str] = options.family or list(FAMILIES)
    engage()  # Numba: alone, a PDG of 1000 variables is made ready without it
    ours(chain(1000, 0))  # libraries load at the first use
    clarabel(chain(10, 0), False)
    print("\nCertified solves, from the PDG to the proof: seconds, steps, relative gap")
    print(
        f"{'family':<15}{'n':>6}{'tw':>4}{'first':>9}{'':>5}{'again':>9}{'':>5}{'gap':>9}{'Clarabel':>10}{'again':>9}"
        f"{'gap':>9}{'ratio':>8}{'again':>7}"
    )
    for name in names:
        for line in family(name, sizes, options.limit):
            print(line, flush=True)
    print("\ncvxpy with Clarabel on the same junction tree: a variable a cluster; one variable and sparse matrices")
    print(f"{'family':<15}{'n':>6}{'ours':>9}" + f"{'cvxpy':>10}{'error':>10}{'ratio':>8}" * 2)
    for name in names:
        print(against_cvxpy(name, 30 if options.quick else 100), flush=True)
    print("\nAdam on the softmax of the dense joint, 350 iterations")
    print(f"{'family':<15}{'n':>6}{'cells':>8}{'adam':>9}{'ours':>10}{'ratio':>8}{'exact':>13}{'adam - lower':>14}")
    adam(chain(4, 0), iterations=3)  # torch loads its optimisers at the first step
    for name, n in itertools.product(("chain", "treewidth 3"), [4, 8] if options.quick else [4, 8, 12, 16]):
        print(baseline(name, n), flush=True)


if __name__ == "__main__":
    main()
