"""Records of a checkpoint removed, doubled, moved, cut, or taken from another run's file; and two processes on one
checkpoint: it is refused with an error of the library, or comes to the same trace and theta.

All is done in forks of a process that has imported everything and computed nothing; processes hold at pipes, so that
it does not depend on luck when they meet.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

STEPS, REFUSED, AT_ONCE = 12, 3, 20
VARIABLES = 50
"""Of two arcs each: so many that a focus on one of them is a part, whose step is appended."""

Ended = tuple[list[int], list[float], dict[str, bytes]]


def attack(seed: int) -> Iterator[str | None]:
    """Trials without end; a line for each that came to another end, or raised something else."""
    import torch

    for name in ("lir", "lir.checkpoints", "lir.in_columns", "io.sealed", "solvers", "cpds"):
        import_module(f"dissonance.{name}")
    torch.set_num_threads(1)
    rng = random.Random(f"records {seed}")
    folder = Path(tempfile.mkdtemp())
    try:
        for k in range(1 << 62):
            trial, one = (_two_processes, rng.random()) if k % 4 == 3 else (_changed, rng.random())
            place = folder / str(k)
            place.mkdir()
            yield from _in_fork(lambda trial=trial, one=one, place=place: trial(place, random.Random(one)))
            shutil.rmtree(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -- processes ---------------------------------------------------------------------------------------------------------


def _fork(work: Callable[[], int]) -> int:
    """A process that does this and ends with its status; its number."""
    if child := os.fork():
        return child
    status = 1
    try:
        status = work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _in_fork(trial: Callable[[], Sequence[str | None]]) -> Sequence[str | None]:
    """What a trial says that is done in a process of its own."""
    read, write = os.pipe()

    def work() -> int:
        os.write(write, json.dumps(trial()).encode())
        return 0

    child = _fork(work)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        found = said.read()
    _, status = os.waitpid(child, 0)
    return json.loads(found) if status == 0 else [f"the trial ended with {os.waitstatus_to_exitcode(status)}"]


# -- runs --------------------------------------------------------------------------------------------------------------


def _run(path: Path | None, steps: int = STEPS, callbacks: Sequence[Any] = ()) -> Ended:
    """A run that looks at one variable after another; how it ended, to the bit."""
    from dissonance import PDG, Arc, Attention, Control, Focus, Record, SoftmaxTable, Variable, lir
    from dissonance.refocus import Cycle

    given = [(k, Variable(f"V{k}", 2), 0.2 + 0.01 * k) for k in range(VARIABLES)]
    pdg = PDG(
        *(Arc(f"{n}{k}", (), v, SoftmaxTable([q, 1 - q])) for k, v, p in given for n, q in (("a", p), ("b", 0.9)))
    )
    names = [(f"a{k}", f"b{k}") for k in (0, 1, 0, 2, 1, 3, 2)]
    order = Cycle(*(Focus(Attention.only(dict.fromkeys(n, 1.0)), Control(dict.fromkeys(n, 0.5))) for n in names))
    run = lir(pdg, order, steps=steps, trace=Record(globally=False), checkpoint=path, callbacks=callbacks)
    theta = {key: x.numpy().tobytes() for key, x in run.theta.items()}
    return run.trace.column("step"), run.trace.column("local_upper")[:-1], theta


def _judged(path: Path, whole: Ended, what: str) -> str | None:
    """Whether a run goes on from a file to the same end, or refuses it."""
    from dissonance.errors import DissonanceError

    try:
        return None if _run(path) == whole else f"{what}: goes on to another end"
    except DissonanceError as error:
        return None if "\n" not in str(error) else f"{what}: not one line: {error}"
    except Exception as error:
        return f"{what}: {type(error).__name__}: {error}"


# -- records -----------------------------------------------------------------------------------------------------------


def _records(path: Path) -> list[bytes]:
    """The records of a checkpoint, as they lie in the file."""
    from dissonance.io.sealed import MAGIC

    whole, starts, at = path.read_bytes(), list[int](), 0
    while (at := whole.find(MAGIC, at)) >= 0:
        starts.append(at)
        at += 1
    return [whole[a:b] for a, b in pairwise([*starts, len(whole)])]


def _changed(folder: Path, rng: random.Random) -> list[str | None]:
    """Some files whose records are not those that were written, in order."""
    whole, path, held = _run(None), folder / "run", list[bytes]()
    stop = 0
    while len(held) < 3:  # now and then a file is written anew, as one record
        path.unlink(missing_ok=True)
        stop = rng.randrange(3, STEPS)
        _run(path, stop)
        held = _records(path)
    _run(folder / "other", rng.randrange(1, stop))
    _run(folder / "other", stop)  # the same steps, stopped once: the same states under other seals
    others = _records(folder / "other")
    found: list[str | None] = []
    for _ in range(AT_ONCE):
        what, records = rng.choice(CHANGES)([*held], others, rng)
        path.write_bytes(b"".join(records))
        found.append(_judged(path, whole, f"{stop} steps, {what}"))
        path.unlink(missing_ok=True)
    return found


Changed = tuple[str, list[bytes]]


def _removed(held: list[bytes], _: list[bytes], rng: random.Random) -> Changed:
    gone = rng.sample(range(len(held)), rng.randrange(1, len(held)))
    return f"without {gone}", [x for k, x in enumerate(held) if k not in gone]


def _doubled(held: list[bytes], _: list[bytes], rng: random.Random) -> Changed:
    k, to = rng.randrange(len(held)), rng.randrange(len(held) + 1)
    return f"{k} again at {to}", [*held[:to], held[k], *held[to:]]


def _swapped(held: list[bytes], _: list[bytes], rng: random.Random) -> Changed:
    a, b = rng.sample(range(len(held)), 2)
    held[a], held[b] = held[b], held[a]
    return f"{a} and {b} swapped", held


def _cut(held: list[bytes], _: list[bytes], rng: random.Random) -> Changed:
    whole = b"".join(held)
    size = rng.randrange(len(whole))
    return f"cut to {size} bytes", [whole[:size]]


def _mixed(held: list[bytes], others: list[bytes], rng: random.Random) -> Changed:
    k, other = rng.randrange(len(held)), rng.randrange(len(others))
    return f"{k} of another file", [*held[:k], others[other], *held[k + rng.randrange(2) :]]


CHANGES = (_removed, _doubled, _swapped, _cut, _mixed)


# -- two processes -----------------------------------------------------------------------------------------------------


def _two_processes(folder: Path, rng: random.Random) -> list[str | None]:
    """One holds in the middle of its run while the other begins, and is let go or killed; or both begin at once."""
    path = folder / "run"
    found = _at_once(path) if rng.random() < 0.3 else _held(path, rng.randrange(1, STEPS), rng.random() < 0.5)
    whole = _run(None)
    return [found or _judged(path, whole, "after two processes")]


def _status(path: Path, callbacks: Sequence[Any] = ()) -> int:
    """The status of a process that runs: 0, or `REFUSED`."""
    from dissonance.errors import DissonanceError

    try:
        _run(path, callbacks=callbacks)
    except DissonanceError:
        return REFUSED
    return 0


def _ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _held(path: Path, at: int, kill: bool) -> str | None:
    """The second begins while the first holds after a step."""
    (here, there), (wait, go) = os.pipe(), os.pipe()

    def hold(step: int, _: object) -> None:
        if step == at:
            os.write(there, b".")
            os.read(wait, 1)

    first = _fork(lambda: _status(path, [hold]))
    os.read(here, 1)
    before = path.read_bytes()
    second = _ended(_fork(lambda: _status(path)))
    touched = path.read_bytes() != before
    if kill:
        os.kill(first, signal.SIGKILL)
    os.write(go, b".")
    ended = _ended(first)
    for fd in (here, there, wait, go):
        os.close(fd)
    if second != REFUSED or touched:
        return f"step {at}: a second process ends with {second}{', and has written' if touched else ''}"
    return None if ended == (-signal.SIGKILL if kill else 0) else f"step {at}: the first process ends with {ended}"


def _at_once(path: Path) -> str | None:
    """Both begin at the same moment."""
    wait, go = os.pipe()

    def begin() -> int:
        os.read(wait, 1)
        return _status(path)

    children = [_fork(begin) for _ in range(2)]
    os.write(go, b"..")
    ended = sorted(map(_ended, children))
    for fd in (wait, go):
        os.close(fd)
    return None if ended in ([0, 0], [0, REFUSED]) else f"two at once end with {ended}"
