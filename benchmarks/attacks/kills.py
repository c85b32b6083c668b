"""Kills: `resolve` and `study` are killed at random and told to go on, until they are done; bytes are compared.

A command runs in a fork of a process that has imported everything and computed nothing, so that it starts at once.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
RESOLVE = ["resolve", str(EXAMPLES / "smoking.json"), "--steps", "40", "--refocus", "partial", "--resume"]
STUDY = [
    *("study", "synthetic", "--replicates", "2", "--steps", "2", "--structures", "1"),
    *("--strategies", "uniform,partial", "--no-figures", "--jobs", "1"),
]
TABLES = ("initial.csv", "runs.csv", "steps.csv", "strategies.csv")


def started(arguments: Sequence[str]) -> int:
    """A command in a process of its own; its number."""
    if child := os.fork():
        return child
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        from dissonance.cli.app import run

        status = run([*arguments, "--quiet"])
    finally:
        os._exit(status)


def killed(child: int, after: float) -> int | None:
    """Kill a command after so many seconds; its exit status if it was done before."""
    until = time.monotonic() + after
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def attack(seed: int) -> Iterator[str | None]:
    """Kills without end: None for each, a line where a command fails or ends with other bytes than without kills."""
    import torch

    for name in ("cli.app", "lir", "studies.publish", "studies.work"):
        import_module(f"dissonance.{name}")
    torch.set_num_threads(1)
    rng = random.Random(f"kills {seed}")
    folder = Path(tempfile.mkdtemp())
    try:
        whole: dict[str, tuple[float, dict[str, bytes]]] = {}
        for k in range(1 << 62):
            kind = "study" if k % 4 == 3 else "resolve"
            if kind not in whole:
                whole[kind] = _undisturbed(kind, folder / f"whole {kind}")
            yield from _disturbed(kind, folder / str(k), *whole[kind], rng)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _command(kind: str, where: Path) -> list[str]:
    where.mkdir(exist_ok=True)
    return [*RESOLVE, "--out", str(where / "out.json")] if kind == "resolve" else [*STUDY, "--out", str(where)]


def _written(kind: str, where: Path) -> dict[str, bytes]:
    names = ("out.json",) if kind == "resolve" else TABLES
    return {name: (where / name).read_bytes() for name in names}


def _undisturbed(kind: str, where: Path) -> tuple[float, dict[str, bytes]]:
    killed(started(_command(kind, where)), 600)  # compiled by now
    shutil.rmtree(where)
    began = time.monotonic()
    status = killed(started(_command(kind, where)), 600)
    if status != 0:
        raise RuntimeError(f"{kind} ends with {status}")
    return time.monotonic() - began, _written(kind, where)


def _disturbed(
    kind: str, where: Path, seconds: float, expected: dict[str, bytes], rng: random.Random
) -> Iterator[str | None]:
    """Kill a command up to six times, let it come to its end, and look at what it wrote."""
    kills, status = 0, None
    while status is None:
        patience = rng.uniform(0.0, 0.7 * seconds) if kills < 6 else 600.0
        status = killed(started(_command(kind, where)), patience)
        kills += status is None
    left = [p.name for p in where.rglob("*.checkpoint")]
    if status != 0:
        broke = f"ends with {status}"
    elif _written(kind, where) != expected:
        broke = "other bytes"
    else:
        broke = f"leaves {', '.join(left)}" if left else None
    shutil.rmtree(where)
    yield from [None] * (kills - 1)
    if kills or broke:
        yield broke and f"{kind} after {kills} kills: {broke}"
