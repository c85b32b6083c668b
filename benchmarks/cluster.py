"""Sweeps on a cluster of processes of this machine: the same bits with 1, 2, 4 workers and after kills; the cost.

    python benchmarks/cluster.py workers                             # 1, 2 and 4 workers: throughput, traffic, memory
    python benchmarks/cluster.py workers --arcs 1000000 --workers 2 --sweeps 4
    python benchmarks/cluster.py cut --arcs 100000 --graph grid      # what blocks hold, write and tell; no workers
    python benchmarks/cluster.py kills --kills 20                    # random workers killed with -9 in the midst

Every run is compared, bit for bit, with the same run in this process. CPU seconds are of all processes together, those
of this one (client and scheduler) also by themselves; starting the workers is not counted. Told: what blocks send each
other in a sweep; moved: what went from worker to worker, as dask counts it. Memory is the most that a worker has had.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import signal
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from sweep import graph, memory

from dissonance import lir
from dissonance.columns import ColumnarPDG
from dissonance.lir.sweep.run import Sweeping, SweepRun
from dissonance.lir.sweep.spread import SpreadSweeps
from dissonance.runs import Run
from dissonance.workers.cluster import to_cluster


def spent() -> tuple[float, float]:
    """CPU seconds and the most memory of a process, in GiB."""
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def moved(dask_worker: Any = None) -> int:
    """Bytes that a worker has sent to others."""
    return dask_worker.transfer_outgoing_bytes_total


def same(one: Run, other: Run) -> bool:
    """Whether all tables, and the sums of the bounds, are the same bit for bit."""
    assert isinstance(one.pdg, ColumnarPDG) and isinstance(other.pdg, ColumnarPDG)
    tables = zip(one.pdg.columns, other.pdg.columns, strict=True)
    sums = [run.trace.column("local_upper")[:-1] for run in (one, other)]
    return all(torch.equal(a.tables, b.tables) for a, b in tables) and sums[0] == sums[1]


def spread(pdg: ColumnarPDG, neighbourhood: str, cluster: Any) -> SpreadSweeps:
    """The sweeps, cut into blocks."""
    given: dict[str, Any] = dict.fromkeys(("attention", "control", "tol", "trace"))
    of = Sweeping.of(pdg, neighbourhood, given | {"flow": "natural", "solver": "auto"})
    found = SweepRun(of, cluster).sweeps
    assert isinstance(found, SpreadSweeps)
    return found


class AtOnce:
    """Workers that are this process: a task is done when it is submitted."""

    def submit(self, name: str, function: Any, *args: Any) -> Any:
        return function(*args)

    def gather(self, futures: list[Any]) -> list[Any]:
        return futures

    def on_each_worker(self, function: Any, *args: Any) -> dict[str, Any]:
        return {"here": function(*args)}

    def forget(self, futures: list[Any]) -> None:
        pass


def cut(options: argparse.Namespace) -> None:
    """What blocks hold, write and tell, without workers."""
    pdg = graph(options.graph, options.arcs)
    arcs, before = len(pdg), memory()
    began = time.process_time()
    sweeps = spread(pdg, options.neighbourhood, AtOnce())
    laid = time.process_time() - began
    p = sweeps.partition
    pairs = {(a, b) for a, b in p.sent[:, 1:3].tolist()}
    with TemporaryDirectory() as folder:
        sweeps.begin(f"{folder}/run", "benchmark")
        took: list[str] = []
        for _ in range(options.sweeps):
            began = time.process_time()
            sweeps.sweep()
            took.append(f"{1e6 * (time.process_time() - began) / arcs:.2f}")
        sweeps.keep(f"{folder}/run", {})
        plans, states = (size(folder, name) / arcs for name in ("plan", "state"))
    print(
        f"{options.graph}, {arcs} arcs, {options.neighbourhood}: {p.blocks} blocks, {len(p.colours)} colours; laid out "
        f"and cut in {1e6 * laid / arcs:.2f} us an arc; {len(pairs)} pairs of blocks tell each other "
        f"{p.traffic / arcs:.2f} bytes an arc and sweep; files: plans {plans:.0f}, states {states:.0f} bytes an arc; "
        f"{', '.join(took)} us of CPU an arc for each sweep; {before:.2f} -> {memory():.2f} GiB"
    )


def size(folder: str, name: str) -> int:
    """Bytes of the files of a kind."""
    return sum(file.stat().st_size for file in Path(folder).glob(f"run/{name}-*"))


def workers(options: argparse.Namespace) -> None:
    """Cost by number of workers."""
    pdg = graph(options.graph, options.arcs)
    began, clock = time.process_time(), time.perf_counter()
    here = lir(pdg, "sweep", neighbourhood=options.neighbourhood, sweeps=options.sweeps)
    cpu, wall = time.process_time() - began, time.perf_counter() - clock
    count = len(pdg) * options.sweeps
    print(
        f"{options.graph}, {len(pdg)} arcs, {options.neighbourhood}, {options.sweeps} sweeps\n"
        f"without a cluster: {cpu:.1f} s CPU, {wall:.1f} s, {count / cpu:.0f} arcs a CPU second, {memory():.2f} GiB",
        flush=True,
    )
    for number in options.workers:
        with to_cluster(f"local:{number}") as cluster, TemporaryDirectory() as folder:
            blocks = spread(pdg, options.neighbourhood, cluster).partition
            before = cluster.on_each_worker(spent)
            sent, began, clock = sum(cluster.on_each_worker(moved).values()), time.process_time(), time.perf_counter()
            there = lir(
                pdg,
                "sweep",
                neighbourhood=options.neighbourhood,
                sweeps=options.sweeps,
                cluster=cluster,
                checkpoint=f"{folder}/run",
            )
            own, wall = time.process_time() - began, time.perf_counter() - clock
            after = cluster.on_each_worker(spent)
            cpu = own + sum(after[w][0] - before[w][0] for w in after if w in before)
            sent = sum(cluster.on_each_worker(moved).values()) - sent
            print(
                f"{number} workers, {blocks.blocks} blocks: {'the same' if same(here, there) else 'NOT THE SAME'}; "
                f"{cpu:.1f} s CPU ({own:.1f} s here), {wall:.1f} s, {count / wall:.0f} arcs a second; told "
                f"{blocks.traffic / 2**20:.2f} MiB a sweep, moved {sent / options.sweeps / 2**20:.2f} MiB a sweep; "
                f"{max(m for _, m in before.values()):.2f} -> {max(m for _, m in after.values()):.2f} GiB a worker, "
                f"{memory():.2f} GiB here; files: plans {size(folder, 'plan') / len(pdg):.0f} bytes an arc, states "
                f"{size(folder, 'state') / len(pdg):.0f}",
                flush=True,
            )


def kills(options: argparse.Namespace) -> None:
    """Random workers are killed at random moments."""
    pdg, rng = graph(options.graph, options.arcs), random.Random(options.seed)
    sweeps = 3 * options.kills  # some come too late: the worker has been killed before, or the run is over
    here = lir(pdg, "sweep", neighbourhood=options.neighbourhood, sweeps=sweeps)
    killed: list[int] = []
    print(f"{options.graph}, {len(pdg)} arcs, {options.neighbourhood}, {sweeps} sweeps, {max(options.workers)} workers")

    def kill(pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has been killed before
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    with to_cluster(f"local:{max(options.workers)}") as cluster:

        def later(step: int, traces: Any) -> None:
            if step % 2 and len(killed) < options.kills:
                alive = [pid for pid in cluster.on_each_worker(os.getpid).values() if isinstance(pid, int)]
                if alive:
                    after = rng.uniform(0.0, traces[0].rows[-1].seconds)
                    threading.Timer(after, kill, (rng.choice(alive),)).start()

        clock = time.perf_counter()
        there = lir(
            pdg, "sweep", neighbourhood=options.neighbourhood, sweeps=sweeps, cluster=cluster, callbacks=[later]
        )
        wall = time.perf_counter() - clock
    print(f"{len(killed)} kills in {wall:.0f} s: {'the same' if same(here, there) else 'NOT THE SAME'}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["workers", "kills", "cut"])
    parser.add_argument("--arcs", type=int, default=20_000)
    parser.add_argument("--graph", default="random", choices=["random", "grid", "chain"])
    parser.add_argument("--neighbourhood", default="edge")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--sweeps", type=int, default=8)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lir(graph("random", 5000), "sweep", sweeps=1)  # everything is imported and compiled
    {"workers": workers, "kills": kills, "cut": cut}[options.what](options)


if __name__ == "__main__":
    main()
