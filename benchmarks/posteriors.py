"""Exact marginals of Bayesian networks: dissonance beside pyAgrum, in one run.

OMP_NUM_THREADS=1 python benchmarks/posteriors.py             asia, alarm, hepar2, win95pts, andes
OMP_NUM_THREADS=1 python benchmarks/posteriors.py alarm --sets 1000 --device cuda

A query is the posterior marginals of all variables given evidence on a tenth of them, which are the same in all
evidence sets; `observed` says how many of them dissonance was told beforehand. Every engine is made once and asked
again and again; `first` is the time to make it and to answer once. The networks come with pgmpy (its files are read by
pyAgrum, their rows normalised in float64); nothing of pgmpy itself is imported.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dissonance import PDG, Arc, Queries, Variable

NETWORKS = ("asia", "alarm", "hepar2", "win95pts", "andes")
Evidence = dict[str, int]


def network(name: str) -> Any:
    """A network as pyAgrum reads it, with rows that sum to 1 in float64."""
    import pyagrum  # pyright: ignore[reportMissingImports]

    spec = importlib.util.find_spec("pgmpy")
    if spec is None or spec.origin is None:
        raise SystemExit("the networks come with pgmpy: pip install pgmpy pyagrum")
    packed = Path(spec.origin).parent / "utils" / "example_models" / f"{name}.bif.gz"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.bif"
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        bn = pyagrum.loadBN(str(path))
    normalise(bn)
    return bn


def normalise(bn: Any) -> None:
    """Make rows sum to 1 in float64: pyAgrum may have read or drawn them in less."""
    for v in bn.names():
        table = bn.cpt(v).toarray()
        bn.cpt(v).fillWith((table / table.sum(-1, keepdims=True)).reshape(-1).tolist())


def as_pdg(bn: Any) -> PDG:
    """The same network as a PDG; values are numbered."""
    variables = {v: Variable(v, int(bn.variable(v).domainSize())) for v in sorted(bn.names())}
    arcs: list[Arc] = []
    for v in variables:
        *parents, target = reversed(bn.cpt(v).names)
        assert target == v
        arcs.append(Arc(v, [variables[p] for p in parents], variables[v], bn.cpt(v).toarray()))
    return PDG(*arcs, variables=variables.values())


def evidence_sets(bn: Any, count: int, seed: int = 0) -> list[Evidence]:
    """Values of a tenth of the variables in samples of the network itself."""
    rng = np.random.default_rng(seed)
    names = sorted(bn.names())
    observed = [str(n) for n in rng.choice(names, size=max(1, len(names) // 10), replace=False)]
    order = [bn.variable(i).name() for i in bn.topologicalOrder()]
    tables = {v: (list(reversed(bn.cpt(v).names))[:-1], bn.cpt(v).toarray()) for v in order}
    sets: list[Evidence] = []
    for _ in range(count):
        state: dict[str, int] = {}
        for v in order:
            parents, table = tables[v]
            row = table[tuple(state[p] for p in parents)]
            state[v] = int(rng.choice(len(row), p=row))
        sets.append({n: state[n] for n in observed})
    return sets


def agrum(bn: Any, engine: str) -> Callable[[Evidence], list[Any]]:
    """An engine of pyAgrum, used again for every evidence set."""
    import pyagrum  # pyright: ignore[reportMissingImports]

    inference = getattr(pyagrum, engine)(bn)
    inference.setNumberOfThreads(1)
    names = list(bn.names())

    def ask(evidence: Evidence) -> list[Any]:
        inference.eraseAllEvidence()
        inference.setEvidence(evidence)
        inference.makeInference()
        return [inference.posterior(n) for n in names]

    return ask


def milliseconds(runs: Sequence[tuple[Callable[[], object], int]], rounds: int, device: str) -> list[float]:
    """The median time of each; so many calls of one, of the next, and round again, so that all see the same machine."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for (run, calls), found in zip(runs, times, strict=True):
            for call in range(calls + 1):
                began = time.perf_counter()
                run()
                if device != "cpu":
                    torch.cuda.synchronize()
                if call:
                    found.append(1e3 * (time.perf_counter() - began))
    return [statistics.median(found) for found in times]


def main() -> None:
    """One row a network and a way of compiling it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--sets", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    print(f"{options.sets} evidence sets on {options.device}; milliseconds a query; ratios to the faster of pyAgrum")
    print(
        f"{'network':<10}{'observed':>9}{'cells':>8}{'first':>8}{'one':>8}{'in batch':>9}"
        f"{'first':>8}{'Lazy':>8}{'Shafer':>8}{'one':>8}{'in batch':>9}{'error':>10}"
    )
    for name in options.networks:
        _row(name, options.sets, options.rounds, options.device)


def _row(name: str, count: int, rounds: int, device: str) -> None:
    bn = network(name)
    pdg, sets = as_pdg(bn), evidence_sets(bn, count)
    began = time.perf_counter()
    lazy = agrum(bn, "LazyPropagation")
    lazy(sets[0])
    first = 1e3 * (time.perf_counter() - began)
    shafer = agrum(bn, "ShaferShenoyInference")
    for observed in ((), tuple(sets[0])):
        began = time.perf_counter()
        ask = Queries(pdg, observed, device=device)
        ask(sets[0])
        setup = 1e3 * (time.perf_counter() - began)
        asked: list[tuple[Callable[[], object], int]] = [
            (lambda a=ask: a(sets[0]), 10),
            (lambda a=ask: a(sets), 1),
            (lambda: lazy(sets[0]), 10),
            (lambda: shafer(sets[0]), 10),
        ]
        one, many, *theirs = milliseconds(asked, rounds, device)
        many /= count
        answer = ask(sets[:3])
        error = max(
            float(np.abs(answer.marginals[n][k].cpu().numpy() - p.toarray()).max())
            for k, e in enumerate(sets[:3])
            for n, p in zip(bn.names(), shafer(e), strict=True)
        )
        print(
            f"{name:<10}{f'{len(observed)}':>9}{ask.tree.cells:>8}{setup:>8.1f}{one:>8.3f}{many:>9.4f}{first:>8.1f}"
            f"{theirs[0]:>8.3f}{theirs[1]:>8.3f}{min(theirs) / one:>8.1f}{min(theirs) / many:>9.1f}{error:>10.1e}"
        )


if __name__ == "__main__":
    main()
