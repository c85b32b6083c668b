"""Damaged files: each is read, or refused with an error of the library, in bounded time and memory.

Files are read in child processes with a limit on memory, many in each; a file on which a child dies, or that takes too
long, is a failure of its own.
"""

from __future__ import annotations

import gzip
import io
import multiprocessing
import random
import resource
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
MEMORY = 1 << 31
"""Bytes that a child may use beyond what it has when it starts."""
SECONDS = 20
IN_A_CHILD = 10_000
NUMBERS = (b"0", b"-1", b"1e999", b"1e-320", b"5e-324", b"NaN", b"99999999", b"18446744073709551616", b"0.1", b"")
PIECES = (
    b"[",
    b"]",
    b"{",
    b"}",
    b'"',
    b",",
    b":",
    b"(",
    b")",
    b";",
    b"|",
    b"<",
    b">",
    b"\\",
    b"\x00",
    b"\xff",
    b"\x1b",
    b"\n",
)


def originals() -> list[tuple[str, bytes]]:
    """Models in every format, and one of Gaussians."""
    from dissonance.arc import Arc
    from dissonance.errors import DissonanceError
    from dissonance.io import encode, load
    from dissonance.pdg import PDG
    from dissonance.variables import Variable

    found: list[tuple[str, bytes]] = []
    a, b = Variable("A", ["no", "yes"]), Variable("B", 3)
    network = PDG(Arc("a", (), a, [0.7, 0.3]), Arc("b", a, b, [[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]]))
    for pdg, focus in [(network, None), *(load(path) for path in sorted(EXAMPLES.glob("*.json")))]:
        for form in ("json", "bif", "xmlbif", "uai", "replicate", "npz", "csv"):
            for given in (focus, None):
                alone = PDG(pdg.arcs[0]) if form == "csv" else pdg  # one table
                try:
                    content = encode("model", alone, None if form == "csv" else given, format=form)
                except DissonanceError:
                    continue
                if len(content) < 20_000:
                    found.append((form, content))
    gaussian = (
        b'{"format": "dissonance.pdg", "version": 1, "variables": [{"name": "Z", "dim": 2}], "arcs": [{"name": "p", '
    )
    gaussian += b'"targets": ["Z"], "linear_gaussian": {"b": [0, 1], "Sigma": [[1, 0.5], [0.5, 1]]}}]}'
    return [*found, ("json", gaussian)]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content with one to four things wrong; now and then packed, and then perhaps damaged once more."""
    made = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        i, j = sorted(rng.randrange(len(made) + 1) for _ in range(2))
        kind = rng.randrange(7)
        if kind == 0 and made:
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del made[i : min(j, i + rng.choice([1, 10, 10_000]))]
        elif kind == 2:
            made[i:i] = made[i : min(j, i + 200)] * rng.choice([1, 2, 50])
        elif kind == 3:
            made[i:i] = rng.choice(PIECES) * rng.choice([1, 1, 3, 2000])
        elif kind == 4:
            digits = [k for k, c in enumerate(made) if 48 <= c <= 57]
            if digits:
                k = rng.choice(digits)
                made[k : k + 1] = rng.choice(NUMBERS)
        elif kind == 5:
            del made[i:]
        else:
            made[i:j] = bytes(rng.randrange(256) for _ in range(min(j - i, 30)))
    if rng.random() < 0.1:
        made = bytearray(gzip.compress(bytes(made), 1))
        if rng.random() < 0.5:
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def attack(seed: int) -> Iterator[str | None]:
    """Files without end; a line for each that raises something else, hangs, or takes too much memory."""
    k = 0
    while True:
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        child = multiprocessing.get_context("spawn").Process(target=_read, args=(theirs, seed, k, k + IN_A_CHILD))
        child.start()
        theirs.close()
        end = k + IN_A_CHILD
        try:
            while k < end:
                said = ours.recv()
                k += 1
                yield said
        except EOFError:
            child.join()
            yield f"file {k} of seed {seed}: the process that read it ended with {child.exitcode}"
            k += 1
        finally:
            child.kill()
            child.join()
            ours.close()


def _read(to: Connection, seed: int, start: int, end: int) -> None:
    """Read files one after the other, and tell what came of each."""
    import torch

    from dissonance.errors import DissonanceError
    from dissonance.inconsistency import inconsistency
    from dissonance.io import load

    torch.set_num_threads(1)
    models = originals()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    for k in range(start, end):
        rng = random.Random(f"{seed} {k}")
        form, content = rng.choice(models)
        signal.alarm(SECONDS)  # ends the process
        try:
            pdg, focus = load(io.BytesIO(damaged(content, rng)), format=rng.choice([form, form, None]))
            if k % 4 == 0 and all(not v.is_finite or v.size < 50 for v in pdg.variables):
                inconsistency(pdg, focus.attention)
            to.send(None)
        except DissonanceError as error:
            to.send(None if str(error).isprintable() else f"file {k} of seed {seed}: not one line: {error}")
        except BaseException as error:
            to.send(f"file {k} of seed {seed} ({form}): {type(error).__name__}: {error}")
        signal.alarm(0)
