"""Sweeps of LIR over large PDGs: what building, laying out and sweeping cost, and which neighbourhood resolves most.

    python benchmarks/sweep.py size                            # 10^4, 10^5 and 10^6 arcs of a random graph of degree 3
    python benchmarks/sweep.py size --arcs 100000 --neighbourhood closed --sweeps 3
    python benchmarks/sweep.py size --device cuda              # the same on a GPU, beside the compiled code
    python benchmarks/sweep.py neighbourhoods --arcs 20000     # nats resolved a second on a grid, at random, on a chain
    python benchmarks/sweep.py bracket --arcs 1000000 --seconds 80   # bounds of the whole before and after a sweep

`size` prints CPU and wall seconds, the most memory the process had, and the exponent of the time of the first sweep in
the number of arcs. `neighbourhoods` sweeps with each neighbourhood until 99 % and 99.99 % are resolved, laying out
included, all by the same yardstick, which is not timed: the sum of the certified inconsistencies of all closed stars;
on chains also the inconsistency of the whole is printed.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import numpy.typing as npt
import torch

from dissonance import PDG, inconsistency
from dissonance.columns import Column, ColumnarPDG
from dissonance.lir.sweep.neighbourhoods import NEIGHBOURHOODS, batches
from dissonance.lir.sweep.on_device import DeviceTables
from dissonance.lir.sweep.sweeping import Sweeps, SweepTables
from dissonance.solvers import Newton, bracket

Ints = npt.NDArray[np.int64]
TOL = 1e-7
LEFT = 1e-2, 1e-4
"""Shares of the inconsistency that are left at the marks of the table."""


def random_pairs(n: int, rng: np.random.Generator) -> Ints:
    """A random graph of degree three: ends are paired at random; loops and repetitions are dropped."""
    ends = np.repeat(np.arange(n), 3)
    rng.shuffle(ends)
    pairs = ends[: 2 * (len(ends) // 2)].reshape(-1, 2)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return pairs[np.sort(np.unique(np.sort(pairs, 1) @ [n, 1], return_index=True)[1])]


def grid_pairs(n: int) -> Ints:
    """A square grid."""
    i = np.arange(round(n**0.5) ** 2).reshape(round(n**0.5), -1)
    pairs = [np.stack([a.ravel(), b.ravel()], 1) for a, b in ((i[:, :-1], i[:, 1:]), (i[:-1], i[1:]))]
    return np.concatenate(pairs)


def chain_pairs(n: int) -> Ints:
    """Each variable and the next, either way."""
    forth = np.stack([np.arange(n - 1), np.arange(1, n)], 1)
    return np.concatenate([forth, forth[:, ::-1]])


def graph(kind: str, arcs: int) -> ColumnarPDG:
    """About so many arcs: a random belief about every variable, of two values, and one along every pair."""
    rng = np.random.default_rng(0)
    n = round(arcs / {"random": 2.5, "grid": 3, "chain": 3}[kind])
    pairs = {"random": lambda: random_pairs(n, rng), "grid": lambda: grid_pairs(n), "chain": lambda: chain_pairs(n)}[
        kind
    ]()
    n = int(pairs.max()) + 1
    logits = [rng.standard_normal(shape) for shape in ((n, 2), (len(pairs), 2, 2))]
    p = [np.exp(z) / np.exp(z).sum(-1, keepdims=True) for z in logits]
    made = PDG.from_columns(Column([], np.arange(n), p[0]), Column(pairs[:, 0], pairs[:, 1], p[1]))
    assert isinstance(made, ColumnarPDG)
    return made


def sweeps_of(pdg: ColumnarPDG, neighbourhood: str, device: str | None = None) -> Sweeps:
    """All foci, laid out; on a device, if one is given."""
    every = np.ones(len(pdg))
    tables = SweepTables.of(pdg, every, every)
    placed = tables if device is None else DeviceTables.of_host(tables, device)
    return Sweeps(pdg, placed, batches(pdg, every > 0, neighbourhood), Newton(tol=TOL), TOL)


def bounded(arcs: int, neighbourhood: str, seconds: float, chi: float) -> None:
    """The whole between bounds, before and after a sweep."""
    pdg = graph("random", arcs)
    every = np.ones(len(pdg))
    tables = SweepTables.of(pdg, every, chi * every)
    print(f"{len(pdg)} arcs, {neighbourhood}, chi = {chi:g}")
    for when in ("before", "after"):
        began, clock = time.process_time(), time.perf_counter()
        found = bracket(pdg, seconds=seconds, tol=0.0, log_p=tables.log_p)
        print(
            f"{when} a sweep between {found.lower:.1f} and {found.upper:.1f} nats, {100 * found.gap:.3g} % apart, "
            f"{found.states} states; {time.process_time() - began:.1f} s of CPU time, "
            f"{time.perf_counter() - clock:.1f} s by the clock; {memory():.2f} GiB",
            flush=True,
        )
        if when == "before":
            clock = time.perf_counter()
            Sweeps(pdg, tables, batches(pdg, every > 0, neighbourhood), Newton(tol=TOL), TOL).sweep()
            print(f"laid out and swept in {time.perf_counter() - clock:.1f} s by the clock", flush=True)


def memory() -> float:
    """The most this process has had, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def size(arcs: list[int], neighbourhood: str, count: int, device: str | None) -> None:
    """Cost by size."""
    print(f"{neighbourhood}, {device or 'compiled'}: CPU seconds (wall)")
    first: list[tuple[int, float]] = []
    for n in arcs:
        began = time.process_time()
        pdg = graph("random", n)
        built = time.process_time() - began
        began = time.process_time()
        sweeps = sweeps_of(pdg, neighbourhood, device)
        laid = time.process_time() - began
        print(f"{len(pdg):8d} arcs: built {built:.2f}, {sweeps.foci} foci laid out {laid:.2f}", flush=True)
        for k in range(count):
            began, clock = time.process_time(), time.perf_counter()
            found = sweeps.sweep()
            took = time.process_time() - began
            first += [(len(pdg), took)] * (k == 0)
            print(
                f"         sweep {k + 1}: {took:.2f} ({time.perf_counter() - clock:.2f}); foci as met "
                f"{found.lower:.3f} to {found.upper:.3f} nats, {found.steps / sweeps.foci:.2f} Newton steps each, "
                f"the whole at least {found.proved:.3f}; {memory():.2f} GiB",
                flush=True,
            )
        if device is not None and torch.cuda.is_available():
            print(f"         on the device at most {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")
    if len(first) > 1:
        (a, s), (b, t) = first[0], first[-1]
        print(f"the first sweep takes time ~ arcs^{np.log(t / s) / np.log(b / a):.3f} from {a} to {b} arcs")


def left(pdg: ColumnarPDG, log_p: list[npt.NDArray[np.float64]]) -> float:
    """The sum of the inconsistencies of all closed stars, at these tables."""
    moved = pdg.with_columns([c.moved(torch.from_numpy(x)) for c, x in zip(pdg.columns, log_p, strict=True)])
    every = np.ones(len(pdg))
    still = Sweeps(
        moved, SweepTables.of(moved, every, 0 * every), batches(moved, every > 0, "closed"), Newton(tol=TOL), TOL
    )
    return still.sweep().upper


def neighbourhoods(arcs: int, most: int) -> None:
    """Which resolves most."""
    head = [f"to {100 * (1 - x):g} %: sweeps, CPU s" for x in LEFT]
    print(f"graph   neighbourhood   foci colours shapes   {'   '.join(head)}   nats a second   the whole")
    for kind in ("grid", "random", "chain"):
        pdg = graph(kind, arcs)
        before = left(pdg, [c.log_p.numpy() for c in pdg.columns])
        for name in NEIGHBOURHOODS:
            began = time.process_time()
            sweeps = sweeps_of(pdg, name)
            took, count, reached = time.process_time() - began, 0, list[tuple[int, float]]()
            now = before
            while count < most and len(reached) < len(LEFT):
                began = time.process_time()
                sweeps.sweep()
                took, count = took + time.process_time() - began, count + 1
                now = left(pdg, sweeps.tables.log_p)
                reached += [(count, took) for share in LEFT[len(reached) :] if now <= share * before]
            columns = "   ".join(
                [f"{k:11d} {t:11.2f}" for k, t in reached] + ["   not reached         "] * (2 - len(reached))
            )
            rate = 0.99 * before / reached[0][1] if reached else (before - now) / took
            print(
                f"{kind:7s} {name:14s} {sweeps.foci:6d} {len(sweeps.colours):5d} {sweeps.shapes:6d}   {columns} "
                f"{rate:12.0f}{whole(pdg, sweeps) if kind == 'chain' else ''}"
                f"   {100 * now / before:.3g} % left after {count} sweeps",
                flush=True,
            )


def whole(pdg: ColumnarPDG, sweeps: Sweeps) -> str:
    """The inconsistency of the whole, before and after."""
    tables = zip(pdg.columns, sweeps.tables.log_p, strict=True)
    after = pdg.with_columns([c.moved(torch.from_numpy(x)) for c, x in tables])
    return f"   {inconsistency(pdg).upper:.1f} -> {inconsistency(after).upper:.4f}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["size", "neighbourhoods", "bracket"])
    parser.add_argument("--arcs", type=int, nargs="+")
    parser.add_argument("--neighbourhood", default="edge", choices=list(NEIGHBOURHOODS))
    parser.add_argument("--sweeps", type=int, help="3 by default, 60 at most for neighbourhoods")
    parser.add_argument("--device", help="where torch sweeps, such as cuda; beside the compiled code")
    parser.add_argument("--seconds", type=float, default=80.0, help="for a bracket")
    parser.add_argument("--chi", type=float, default=1.0, help="how far the sweep between two brackets moves tables")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sweeps_of(graph("random", 5000), "edge").sweep()  # everything is imported and compiled
    if options.device is not None:
        sweeps_of(graph("random", 5000), "edge", options.device).sweep()
    if options.what == "size":
        for device in dict.fromkeys((None, options.device)):
            size(options.arcs or [10_000, 100_000, 1_000_000], options.neighbourhood, options.sweeps or 3, device)
    elif options.what == "bracket":
        bounded((options.arcs or [1_000_000])[0], options.neighbourhood, options.seconds, options.chi)
    else:
        neighbourhoods((options.arcs or [20_000])[0], options.sweeps or 60)


if __name__ == "__main__":
    main()
