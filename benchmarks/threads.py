"""One large PDG over 1, 2, 4, ... threads: its subtrees are eliminated side by side, to the same bits.

    python benchmarks/threads.py [--variables 200] [--values 14]

A binary tree of variables, two arcs with random tables along every edge, at gamma = 0.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import numpy as np

from dissonance import PDG, Arc, Variable, inconsistency
from dissonance.compiled import engage
from dissonance.threads import allowed


def tree(variables: int, values: int) -> PDG:
    """Every variable and the one above it disagree about each other."""
    rng = np.random.default_rng(0)
    v = [Variable(f"V{i}", values) for i in range(variables)]
    arcs: list[Arc] = []
    for i in range(1, variables):
        above = v[(i - 1) // 2]
        arcs.append(Arc(f"down {i}", above, v[i], rng.dirichlet(np.ones(values), values)))
        arcs.append(Arc(f"up {i}", v[i], above, rng.dirichlet(np.ones(values), values)))
    return PDG(*arcs)


def main() -> None:
    """One row a number of threads, up to the cores there are, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variables", type=int, default=200)
    parser.add_argument("--values", type=int, default=14)
    parser.add_argument("--alone", action="store_true", help="this process only, as it is")
    args = parser.parse_args()
    if args.alone:
        pdg, spent = tree(args.variables, args.values), list[float]()
        engage()
        value = inconsistency(tree(3, 2)).upper
        for _ in range(3):
            began = time.perf_counter()
            value = inconsistency(pdg).upper
            spent.append(time.perf_counter() - began)
        print(f"{value!r} {min(spent)}")
        return
    first: tuple[str, float] | None = None
    for count in (2**k for k in range(allowed().bit_length())):
        command = [sys.executable, __file__, "--alone"]
        command += [f"--variables={args.variables}", f"--values={args.values}"]
        several = os.environ | {"OMP_NUM_THREADS": str(count), "OPENBLAS_NUM_THREADS": "1"}
        value, spent = subprocess.run(
            command, env=several, stdout=subprocess.PIPE, text=True, check=True
        ).stdout.split()
        first = first or (value, float(spent))
        same = "the same bits" if value == first[0] else "OTHER BITS"
        ratio = first[1] / float(spent)
        print(f"{count:3} threads {float(spent):7.2f} s, {ratio:5.2f} times one thread, {same}", flush=True)


if __name__ == "__main__":
    main()
