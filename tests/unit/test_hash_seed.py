"""Processes with other hash seeds find the same, to the last bit; with more threads, but for rounding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from computations import differing

SCRIPT = Path(__file__).parents[1] / "computations.py"
PROCESSES = (0, 1), (1, 1), (3, 2)
"""Hash seeds and numbers of threads."""

REORDERED = 1e-6
"""What adding up in another order may change: mu is known to the root of the gap."""


@pytest.mark.parametrize(
    ("words", "torch"),
    [
        pytest.param(["0", "2", "studies"], 1, id="a few"),
        pytest.param([*map(str, range(3, 15)), "gflownets"], 2, id="many", marks=pytest.mark.slow),
    ],
)
def test_no_answer_depends_on_the_hash_seed_or_the_number_of_threads(words: list[str], torch: int):
    """`torch`: the threads that torch may have."""
    started = []
    for seed, threads in PROCESSES:
        count = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": min(threads, torch)}
        environment = os.environ | {"PYTHONHASHSEED": str(seed)} | {name: str(n) for name, n in count.items()}
        started.append(
            subprocess.Popen([sys.executable, SCRIPT, *words], env=environment, stdout=subprocess.PIPE, text=True)
        )
    first, *others = (process.communicate()[0].splitlines() for process in started)
    assert all(process.returncode == 0 for process in started) and len(first) == len(words)
    for (seed, threads), lines in zip(PROCESSES[1:], others, strict=True):
        for word, mine, theirs in zip(words, first, lines, strict=True):
            odd = differing(json.loads(mine), json.loads(theirs), 0.0 if threads == 1 else REORDERED)
            assert not odd, f"{word} with hash seed {seed} and {threads} threads: {odd}"


def test_what_differs_is_told_by_name():
    one = {"a": [1.0, ["x", 2.0]], "b": ["0.5, up"]}
    assert not differing(one, one) and not differing({"n": [float("nan")]}, {"n": [float("nan")]})
    close = {"a": [1.0 + 1e-12, ["x", 2.0]], "b": ["0.5000000000001, up"]}
    assert differing(one, close) == ["a", "b"] and not differing(one, close, 1e-9)
    assert differing(one, {"a": [1.0, ["y", 2.0]], "b": ["0.6, up"]}, 1e-9) == ["a", "b"]
