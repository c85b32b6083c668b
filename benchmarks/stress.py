"""Random small PDGs with every feature at once: are the brackets right, and how many solves do not converge?

    python benchmarks/stress.py --problems 10000
    python benchmarks/stress.py --seeds 19433 23026     only these problems

Zeros, near-deterministic rows (1e-9), beta ratios up to 1e4, hard arcs (most read off one hidden joint, so that they
can hold together; some not), hyperarcs, gamma 0 or more. Every PDG is solved by Newton on its junction tree and on the
dense joint and, now and then, by Clarabel: a lower bound of one above an upper bound of another is an invalid bracket.
Where a solver says that hard arcs hold within 1e-8 only, its bounds are of an infimum over more mu.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter

import numpy as np

from dissonance.arc import Arc
from dissonance.focus import Attention
from dissonance.inconsistency import Inconsistency, inconsistency
from dissonance.pdg import PDG
from dissonance.solvers import CliqueTreeSolver, JointSolver, Newton
from dissonance.tolerances import UNSEEN
from dissonance.variables import Variable

KINDS = ("plain", "near", "zeros", "hard", "ratio", "all")


def random_pdg(seed: int) -> tuple[PDG, Attention, str]:
    """A PDG over one to five variables, an attention with beta >= gamma alpha, and what makes it hard."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    variables = [Variable("ABCDE"[i], int(rng.integers(2, 5))) for i in range(n)]
    kind = str(rng.choice(KINDS))
    gamma = float(rng.choice([0.0, 0.0, 0.1, 1.0]))
    hidden = rng.random([v.size for v in variables])
    hidden /= hidden.sum()
    arcs: list[Arc] = []
    beta: dict[str, float] = {}
    alpha: dict[str, float] = {}
    for j in range(int(rng.integers(1, 7))):
        scope = [int(i) for i in rng.permutation(n)[: int(rng.integers(1, min(n, 3) + 1))]]
        cut = int(rng.integers(0, len(scope)))
        sources, targets = [variables[i] for i in scope[:cut]], [variables[i] for i in scope[cut:]]
        shape = [v.size for v in (*sources, *targets)]
        rows = math.prod(v.size for v in sources)
        name, weight = f"p{j}", 10 ** rng.uniform(-2, 2) if kind in ("ratio", "all") else 1.0
        p = _table(rng, rows, math.prod(shape) // rows, kind)
        if kind in ("hard", "all") and rng.random() < 0.5:
            weight = math.inf
            if rng.random() < 0.7:
                rest = tuple(i for i in range(n) if i not in scope)
                kept = sorted(scope)
                p = hidden.sum(rest).transpose([kept.index(i) for i in scope]).reshape(rows, -1)
                p = p / p.sum(1, keepdims=True)
        arcs.append(Arc(name, sources, targets, p.reshape(shape)))
        beta[name] = weight
        alpha[name] = float(rng.random()) * (1.0 if weight == math.inf or gamma == 0 else min(1.0, weight / gamma))
    return PDG(*arcs, variables=variables), Attention.only(beta, alpha, gamma), kind


def given_up(result: Inconsistency) -> float:
    """What a lower bound gives up because hard arcs may be off by UNSEEN: that, times their multipliers, at the mu of
    the upper bound (the best lower bound may be of others)."""
    known = [s.on.multipliers for answer in result.answers for s in answer.solved if s.on is not None]
    return UNSEEN * sum(float(np.abs(m).sum()) for m in known if m is not None)


def _table(rng: np.random.Generator, rows: int, width: int, kind: str) -> np.ndarray:
    p = rng.random((rows, width)) ** float(rng.choice([1, 3]))
    sure = (np.arange(rows), rng.integers(0, width, rows))
    if kind in ("near", "all") and rng.random() < 0.6:
        p = np.full((rows, width), 1e-9)
        p[sure] = 1.0
    if kind in ("zeros", "all"):
        p[rng.random((rows, width)) < 0.2] = 0.0
        p[sure] = np.maximum(p[sure], 0.1)
    return p / p.sum(1, keepdims=True)


def main() -> None:
    """Print what was counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, nargs="+", help="only these seeds")
    options = parser.parse_args()
    counted: Counter[str] = Counter()
    slowest, began = 0.0, time.perf_counter()
    for seed in options.seeds or range(options.first, options.first + options.problems):
        pdg, attention, kind = random_pdg(seed)
        found: list[Inconsistency] = []
        for solver in (Newton(), JointSolver(), CliqueTreeSolver()):
            if isinstance(solver, CliqueTreeSolver) and seed % 10:
                continue
            result = inconsistency(pdg, attention, solver=solver)
            found.append(result)
            counted[f"{solver.name}: solved"] += 1
            counted[f"{solver.name}: infinite"] += result.lower == math.inf
            counted[f"{solver.name}: by Clarabel"] += "clarabel" in result.method
            counted[f"{solver.name}: not converged"] += not result.converged
            counted["NaN"] += math.isnan(result.lower) or math.isnan(result.upper)
            slowest = max(slowest, result.seconds)
            if not result.converged:
                given = f"the proof gives up {given_up(result):.3g}"
                print(f"  seed {seed} ({kind}), {solver.name}: {result!r}; {given}", flush=True)
        counted["hard arcs hold within 1e-8 only"] += any(r.within for r in found)
        exact = [r for r in found if not r.within]  # of all others the infimum is over more mu, and no higher
        low, up = max((r.lower for r in exact), default=-math.inf), min((r.upper for r in exact), default=math.inf)
        below = max((r.lower for r in found if r.within), default=-math.inf)
        if low > up or below > min(r.upper for r in found):
            counted["invalid bracket"] += 1
            print(f"  seed {seed} ({kind}): INVALID, lower {low!r} above upper {up!r}", flush=True)
    for what in sorted(counted):
        print(f"{what:<32}{counted[what]:>8}")
    print(f"slowest solve {slowest:.2f} s; all in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
