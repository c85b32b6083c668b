"""The same computations in processes with other hash seeds and numbers of threads, and of runs alone and in company:
the same bits, or within what the pages promise."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from computations import differing  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
from dissonance import PDG, Arc, Attention, Control, DissonanceError, Variable, lir, lirs

SCRIPT = Path(__file__).parents[2] / "tests" / "computations.py"
THREADS = 1, 1, 2
"""The numbers of threads of the processes that are compared; the first is what the others are compared with."""

REORDERED = 1e-6
"""What adding up in another order may change: mu is known to the root of the gap."""

APART = 1e-7
"""How far rounding may take a run from where it goes alone."""

FLOWS = "natural", "adam", "full", "step", "ode", "sgd"
REFOCUS = "uniform", "partial", "hub", "smooth", "greedy", "surprisal"


def attack(seed: int) -> Iterator[str | None]:
    """Models without end; a line for each with a computation that differs, or a run that depends on its company."""
    rng = np.random.default_rng(seed)
    with ExitStack() as stack:
        others = [stack.enter_context(_process(int(rng.integers(2**32)), count)) for count in THREADS]
        for k in range(1_000_000 * seed, 1 << 62):
            for process in others:
                _pipe(process.stdin).write(f"{k}\n")
                _pipe(process.stdin).flush()
            parted = company(k)
            first, *rest = (json.loads(_pipe(process.stdout).readline()) for process in others)
            odd = [
                f"{name} with {count} threads"
                for count, found in zip(THREADS[1:], rest, strict=True)
                for name in differing(first, found, 0.0 if count == THREADS[0] else REORDERED)
            ]
            yield f"model {k}: another process finds something else: {', '.join(odd)}" if odd else parted


def _process(seed: int, threads: int) -> subprocess.Popen[str]:
    """A process that answers with the computations of a model, line by line, until its input ends."""
    count = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    environment = os.environ | {"PYTHONHASHSEED": str(seed)} | count
    return subprocess.Popen(
        [sys.executable, SCRIPT], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _pipe(pipe: Any) -> Any:
    assert pipe is not None
    return pipe


def company(k: int) -> str | None:
    """What is said of random runs of one structure if one of them ends elsewhere than it does alone."""
    rng = np.random.default_rng([k, 5])
    pdgs = _alike(rng)
    names = pdgs[0].arc_names
    refocus = [str(rng.choice(REFOCUS)) for _ in pdgs]
    attention = Attention.uniform(pdgs[0], alpha=float(rng.integers(2)), gamma=float(rng.choice([0, 0, 0.3, 1])))
    control = {n: math.inf if rng.random() < 0.5 else float(rng.uniform(0, 2)) for n in names if rng.random() < 0.8}
    asked: dict[str, Any] = {"steps": 2, "flow": FLOWS[k % len(FLOWS)], "attention": attention}
    if control and rng.random() < 0.3:
        asked["control"] = Control(control)
    try:
        together = lirs(pdgs, refocus, seeds=list(range(len(pdgs))), **asked)
    except DissonanceError:
        return None
    for i, (pdg, run) in enumerate(zip(pdgs, together, strict=True)):
        alone = lir(pdg, refocus[i], seed=i, **asked)
        tables = [(alone.pdg[n].cpd.table() - run.pdg[n].cpd.table()).abs().max() for n in names]
        if not max(map(float, tables)) <= APART:
            flow = asked["flow"]
            return f"model {k}: run {i} by {refocus[i]} and {flow} is {max(tables):.1e} from where it ends alone"
    return None


def _alike(rng: np.random.Generator) -> list[PDG]:
    """Two to five PDGs of one structure, with random tables."""
    variables = [Variable(f"X{i}", int(n)) for i, n in enumerate(rng.integers(2, 4, int(rng.integers(2, 5))))]
    scopes: list[tuple[Variable | None, Variable]] = []
    for _ in range(int(rng.integers(2, 7))):
        s, t = rng.choice(len(variables), 2, replace=False)
        scopes.append((variables[s] if rng.random() < 0.6 else None, variables[t]))
    return [
        PDG(
            *(
                Arc(f"a{i}", s or (), t, rng.dirichlet(np.ones(t.size), size=s.size if s else None))
                for i, (s, t) in enumerate(scopes)
            ),
            variables=variables,
        ).learnable()
        for _ in range(int(rng.integers(2, 6)))
    ]
