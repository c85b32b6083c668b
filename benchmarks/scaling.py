"""How the time of a certified solve grows with the size of the PDG, beside a dense baseline.

    OMP_NUM_THREADS=1 python benchmarks/scaling.py [--quick]

Every PDG is binary with random tables, attended with beta = alpha = 1 at gamma = 0. For each family and size:
set-up (prepare, decompose, assemble), solve and certificate of each interior-point method on its own (batched, dual,
Clarabel) and of the library's default, `newton`, which picks among them; and the exponent of time in n, fitted by least
squares in log-log coordinates. Then Adam on the softmax of the dense joint, 350 iterations, for sizes it can hold.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from dissonance import PDG, Arc, Attention, Table, Variable
from dissonance.problem import Component, prepare
from dissonance.solvers.arrange import arrange
from dissonance.solvers.assemble import assemble
from dissonance.solvers.batch import Arcs, Batch
from dissonance.solvers.bounds import certify as bounds_of_batch
from dissonance.solvers.certificate import certify
from dissonance.solvers.conic import conic
from dissonance.solvers.exact import Newton
from dissonance.solvers.interior import State, interior
from dissonance.solvers.interior import cold as batched_start
from dissonance.solvers.newton import Iterate, newton
from dissonance.solvers.newton import cold as dual_start
from dissonance.solvers.program import Program

T = TypeVar("T")
TOL = 1e-7
"""The gap to reach, relative to max(1, inconsistency): the library's default."""
PATIENCE = 1.0
"""What takes less than this many seconds in all is measured again, up to three times, and the fastest counts."""


# -- families ----------------------------------------------------------------------------------------------------------


class _Arcs:
    """Collects arcs with random binary tables."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.arcs: list[Arc] = []

    def add(self, source: Variable, target: Variable) -> None:
        p = self.random.random((source.size, target.size))
        self.arcs.append(Arc(f"a{len(self.arcs)}", source, target, Table(p / p.sum(1, keepdims=True))))


def chain(n: int, seed: int) -> PDG:
    """n variables; on every link one arc forward and one back."""
    made = _Arcs(seed)
    x = [Variable(f"X{i}", 2) for i in range(n)]
    for a, b in itertools.pairwise(x):
        made.add(a, b)
        made.add(b, a)
    return PDG(*made.arcs)


def parallel_chain(n: int, seed: int) -> PDG:
    """n variables; on every link two arcs forward."""
    made = _Arcs(seed)
    x = [Variable(f"X{i}", 2) for i in range(n)]
    for a, b in itertools.pairwise(x):
        made.add(a, b)
        made.add(a, b)
    return PDG(*made.arcs)


def grid(height: int, n: int, seed: int) -> PDG:
    """height x n variables; arcs right and down, and up from every third variable."""
    made = _Arcs(seed)
    x = [[Variable(f"X{i}_{j}", 2) for j in range(n)] for i in range(height)]
    for i in range(height):
        for j in range(n):
            if j + 1 < n:
                made.add(x[i][j], x[i][j + 1])
            if i + 1 < height:
                made.add(x[i][j], x[i + 1][j])
                if (i + j) % 3 == 0:
                    made.add(x[i + 1][j], x[i][j])
    return PDG(*made.arcs)


def three_tree(n: int, seed: int) -> PDG:
    """n variables; each is joined to three of a random earlier clique of four, by arcs in random directions."""
    made = _Arcs(seed)
    x = [Variable(f"X{i}", 2) for i in range(n)]
    cliques = [(0, 1, 2, 3)]
    links = [(i, j) for i in range(4) for j in range(i)]
    for v in range(4, n):
        home = cliques[made.random.integers(len(cliques))]
        near = tuple(made.random.permutation(home)[:3].tolist())
        cliques.append((*near, v))
        links += [(v, u) for u in near]
    for a, b in links:
        made.add(x[a], x[b]) if made.random.random() < 0.5 else made.add(x[b], x[a])
    return PDG(*made.arcs)


FAMILIES: dict[str, Callable[[int, int], PDG]] = {
    "chain": chain,
    "parallel chain": parallel_chain,
    "3 x n grid": lambda n, seed: grid(3, n, seed),
    "4 x n grid": lambda n, seed: grid(4, n, seed),
    "treewidth 3": three_tree,
}


# -- measuring ---------------------------------------------------------------------------------------------------------


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What the work returns, and the seconds it took."""
    spent: list[float] = []
    while True:
        began = time.perf_counter()
        found = work()
        spent.append(time.perf_counter() - began)
        if sum(spent) > PATIENCE or len(spent) == 3:
            return found, min(spent)


@dataclass(frozen=True)
class Method:
    """How a solver is set up on a component, how it solves, and how its answer is certified (None: by itself)."""

    set_up: Callable[[Component], Any]
    solve: Callable[[Any], Any]
    certify: Callable[[Any, Any], tuple[float, float]] | None


def _batch(component: Component) -> Batch:
    arcs = [(a.sources, a.targets, a.hard) for a in component.arcs]
    return Arcs.of([component]).batch(arrange(component.tree, arcs, False))[0]


def _batch_bounds(batch: Batch, state: State) -> tuple[float, float]:
    bounds = bounds_of_batch(batch, state)
    return float(bounds.lower), float(bounds.upper)


def _program(component: Component) -> Program:
    program = assemble(component, component.tree)
    assert program is not None, "the families have no zeros"
    return program


def _program_bounds(program: Program, iterate: Iterate) -> tuple[float, float]:
    bounds = certify(program, iterate)
    return bounds.lower, bounds.upper


def _decomposed(component: Component) -> Component:
    assert component.tree.clusters
    return component


METHODS = {
    "batched": Method(
        _batch,
        lambda batch: interior(batch, batched_start(batch), torch.full((1,), 1e-3 * TOL, dtype=torch.float64)),
        _batch_bounds,
    ),
    "dual": Method(_program, lambda program: newton(program, dual_start(program), 1e-4 * TOL), _program_bounds),
    "clarabel": Method(_program, lambda program: conic(program, 1e-2 * TOL), _program_bounds),
    "newton": Method(_decomposed, Newton(TOL).solve, None),
}
"""`newton` is the library's default: it assembles, takes one of the first two by size, certifies, and tries the others
where the bounds do not meet: all of that is its solve."""


@dataclass(frozen=True)
class Measured:
    """One method on one PDG: seconds of set-up, solve and certificate, steps, bounds, and the treewidth."""

    times: tuple[float, ...]
    steps: int
    lower: float
    upper: float
    treewidth: int

    @property
    def seconds(self) -> float:
        """From the PDG to its proof."""
        return sum(self.times)

    @property
    def gap(self) -> float:
        """upper - lower, relative to max(1, upper) as the tolerance is."""
        return (self.upper - self.lower) / max(1.0, abs(self.upper))


def measure(pdg: PDG, method: Method) -> Measured:
    """One method on one PDG."""

    def set_up() -> tuple[Component, Any]:
        (component,) = prepare(pdg, Attention.uniform(pdg)).components
        return component, method.set_up(component)

    (component, made), first = timed(set_up)
    found, second = timed(lambda: method.solve(made))
    prove, steps, width = method.certify, int(found.steps), component.tree.treewidth
    if prove is None:
        return Measured((first, second), steps, found.lower, found.upper, width)
    (lower, upper), third = timed(lambda: prove(made, found))
    return Measured((first, second, third), steps, lower, upper, width)


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of log seconds in log n."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


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


def baseline(name: str, sizes: list[int]) -> Iterator[str]:
    """Adam beside Newton: a line a size."""
    for n in sizes:
        pdg = FAMILIES[name](n, 0)
        found, slow = timed(lambda pdg=pdg: adam(pdg))
        exact = measure(pdg, METHODS["newton"])
        yield (
            f"{name:<15}{n:6d}{2**n:8d}{slow:9.3f}{exact.seconds:10.4f}{slow / exact.seconds:8.1f}{exact.upper:13.9f}"
            f"{exact.gap:10.1e}{found - exact.lower:14.1e}"
        )


# -- printing ----------------------------------------------------------------------------------------------------------


def family(name: str, sizes: list[int]) -> Iterator[str]:
    """A line a size and method, then the exponents."""
    rows: dict[str, list[Measured]] = {method: [] for method in METHODS}
    for n in sizes:
        pdg = FAMILIES[name](n, 0)
        for method in METHODS:
            rows[method].append(m := measure(pdg, METHODS[method]))
            yield (
                f"{name:<15}{n:6d}{len(pdg.variables):7d}{len(pdg.arcs):7d}{m.treewidth:4d}  {method:<9}"
                f"{_columns(m.times, 3)}{m.steps:7d}{m.gap:10.1e}"
            )
    if len(sizes) < 2:
        return
    for method, found in rows.items():
        slopes = [exponent(sizes, list(seconds)) for seconds in zip(*(m.times for m in found), strict=True)]
        yield f"{name:<15}{'exponent of time in n':<24}  {method:<9}{_columns(slopes, 2)}"


def _columns(numbers: Sequence[float], digits: int) -> str:
    """Three columns; a dash where there is no number."""
    return "".join(f"{x:9.{digits}f}" for x in numbers) + f"{'-':>9}" * (3 - len(numbers))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time certified solves over families of growing PDGs.")
    parser.add_argument("--quick", action="store_true", help="small sizes only, in a few seconds")
    parser.add_argument("--family", choices=list(FAMILIES), action="append", help="only this family (repeatable)")
    parser.add_argument("--sizes", type=int, nargs="+", help="the values of n")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sizes: list[int] = options.sizes or ([30, 100] if options.quick else [100, 300, 1000, 3000])
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}, "
        f"{os.cpu_count()} cores, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}"
    )
    print("\nCertified solves: seconds, steps, and the relative gap between the bounds that were proved")
    print(
        f"{'family':<15}{'n':>6}{'vars':>7}{'arcs':>7}{'tw':>4}  {'solver':<9}{'set-up':>9}{'solve':>9}{'certify':>9}"
        f"{'steps':>7}{'gap':>10}"
    )
    for name in options.family or FAMILIES:
        for line in family(name, sizes):
            print(line, flush=True)
    print("\nBeside it: Adam on the softmax of the dense joint, 350 iterations; newton with its set-up and proof")
    print(
        f"{'family':<15}{'n':>6}{'cells':>8}{'adam':>9}{'newton':>10}{'ratio':>8}{'exact':>13}{'gap':>10}"
        f"{'adam - lower':>14}"
    )
    adam(chain(4, 0), iterations=3)  # torch loads its optimisers at the first step
    for name in ("chain", "treewidth 3"):
        for line in baseline(name, [4, 8] if options.quick else [4, 8, 12, 16]):
            print(line, flush=True)


if __name__ == "__main__":
    main()
