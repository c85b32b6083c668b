"""Published Bayesian networks: each is scored, then again with two experts who disagree, blamed and resolved.

    python benchmarks/networks.py [asia alarm ...] [--steps 5] [--limit 150]
    python benchmarks/networks.py --before ../before    # the same by another checkout, with the ratios

The networks come with pgmpy (pip install --no-deps pgmpy is enough). Two experts give opposite marginals of one
variable: the one with the median number of ancestors, and the one with the most. What does not fit is refused with the
treewidth and the bytes needed. Seconds are those that one core worked; a conflict has at most so many.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from formats import published

from dissonance import PDG, Arc, Control, DissonanceError, SizeError, SoftmaxTable, inconsistency, lir, load
from dissonance.distributions.tree import decompose


def ancestors(pdg: PDG) -> dict[str, int]:
    """How many ancestors each variable has."""
    parents = {a.targets[0].name: [v.name for v in a.sources] for a in pdg}
    known: dict[str, set[str]] = {}

    def above(name: str) -> set[str]:
        if name not in known:
            known[name] = set(parents[name]).union(*(above(p) for p in parents[name]))
        return known[name]

    return {n: len(above(n)) for n in parents}


def with_experts(pdg: PDG, name: str) -> PDG:
    """The network and two experts: one is 90 % sure of the first value of a variable, the other of the last."""
    v = pdg.variable(name)
    sure = np.full(v.size, 0.1 / max(1, v.size - 1))
    sure[0] = 0.9
    sure /= sure.sum()
    return pdg + Arc("expert 1", (), v, SoftmaxTable(sure)) + Arc("expert 2", (), v, SoftmaxTable(sure[::-1].copy()))


def conflict(pdg: PDG, name: str, steps: int, limit: int) -> None:
    """Score, blame and resolve two experts about one variable, in a process of its own."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 10))
    torch.set_num_threads(1)
    both = with_experts(pdg, name)
    began = time.process_time()
    try:
        with torch.no_grad():
            result = inconsistency(both)
    except SizeError as error:
        print(f"refused: {error}", flush=True)
        return
    between = f"{result.upper:.6f} in [{result.lower:.9f}, {result.upper:.9f}]"
    print(f"{between} {result.solver}, {time.process_time() - began:.2f} s", flush=True)
    began = time.process_time()
    try:
        rows = sorted(result.by_arc(saved=False), key=lambda r: -r.contribution)[:3]
        blamed = ", ".join(f"{r.name} {r.contribution:.4f}" for r in rows)
        print(f"      blame: {blamed}; {time.process_time() - began:.2f} s", flush=True)
        began = time.process_time()
        moves = Control({"expert 1": 1.0, "expert 2": 1.0})
        run = lir(both, "uniform", steps=steps, flow="natural", control=moves, progress=False)
        gone = f"{run.before.upper:.6f} -> {run.after.upper:.6f} ({run.resolution_percent:.2f} %)"
        print(f"      resolved in {run.steps} steps: {gone}; {time.process_time() - began:.2f} s", flush=True)
    except DissonanceError as error:
        print(f"      refused: {error}", flush=True)


def against(before: Path, networks: list[str], options: list[str], rounds: int) -> None:
    """A row a conflict: what it takes here and in another checkout to score, blame and resolve it, and in all."""
    here, before = Path(__file__).resolve().parents[1], before.resolve()
    print("| network | experts on | before (s): scored, blamed, resolved | now (s) | now / before, in all |")
    print("|---|---|---|---|---|")
    for name in networks:
        every = [(conflicts(before, name, options), conflicts(here, name, options)) for _ in range(rounds)]
        for who in every[0][1]:
            old, new = (min((both[k][who] for both in every), key=total) for k in range(2))
            ratio = f"{total(new) / total(old):.2f}" if math.isfinite(total(new) + total(old)) else ""
            row = (", ".join(f"{x:.2f}" for x in times) if times else "refused" for times in (old, new))
            print(f"| {name} | {who} | {' | '.join(row)} | {ratio} |", flush=True)


def total(times: list[float]) -> float:
    """Seconds in all; for ever, if it was refused or stopped on the way."""
    return sum(times) if len(times) == 3 else math.inf


def conflicts(checkout: Path, name: str, options: list[str]) -> dict[str, list[float]]:
    """The seconds of the conflicts about one network, by the script of a checkout, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, str(checkout / "benchmarks" / "networks.py"), name, *options]
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    parts = re.split(r"experts on (\S+) ", printed)[1:]
    return {
        who: [float(x) for x in re.findall(r"([\d.]+) s$", text, re.MULTILINE) if "stopped" not in text]
        for who, text in zip(parts[::2], parts[1::2], strict=True)
    }


def main() -> None:
    """A few lines a network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = published()
    parser.add_argument("networks", nargs="*", default=list(known), metavar="NAME")
    parser.add_argument("--steps", type=int, default=5, help="steps of LIR")
    parser.add_argument("--limit", type=int, default=150, help="seconds for a conflict")
    parser.add_argument("--score-only", action="store_true", help="without experts")
    parser.add_argument("--before", type=Path, help="another checkout, timed as well, with the ratios")
    parser.add_argument("--rounds", type=int, default=2, help="with --before: the quickest of so many is taken")
    args = parser.parse_args()
    if args.before:
        against(args.before, args.networks, ["--steps", str(args.steps), "--limit", str(args.limit)], args.rounds)
        return
    torch.set_num_threads(1)
    for name in args.networks:
        pdg, focus = load(known[name])
        tree = decompose({v.name: v.size for v in pdg.variables}, [tuple(v.name for v in a.scope) for a in pdg])
        began = time.process_time()
        with torch.no_grad():
            result = inconsistency(pdg, focus.attention)
        seconds = time.process_time() - began
        size = f"{len(pdg.variables)} variables, treewidth {tree.treewidth}, {tree.cells:.3g} cells"
        print(f"{name}: {size}")
        print(f"    alone: {result.upper:.3g} in [{result.lower:.3g}, {result.upper:.3g}], {seconds:.2f} s", flush=True)
        if args.score_only:
            continue
        above = ancestors(pdg)
        ranked = sorted(above, key=lambda n: above[n])
        for who in dict.fromkeys((ranked[len(ranked) // 2], ranked[-1])):
            print(f"    experts on {who} ({above[who]} ancestors): ", end="", flush=True)
            worker = multiprocessing.Process(target=conflict, args=(pdg, who, args.steps, args.limit))
            worker.start()
            worker.join()
            if worker.exitcode:
                late = worker.exitcode == -signal.SIGXCPU
                print("      " + (f"stopped after {args.limit} s" if late else f"status {worker.exitcode}"), flush=True)


if __name__ == "__main__":
    main()
