"""Processes with other hash seeds and numbers of threads find the same, to the last bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "computations.py"
PROCESSES = (0, 1), (1, 1), (3, 2)
"""Hash seeds and numbers of threads."""


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
            one, other = json.loads(mine), json.loads(theirs)
            odd = [name for name in one if repr(one[name]) != repr(other[name])]  # NaN is not equal to NaN
            assert not odd, f"{word} with hash seed {seed} and {threads} threads: {odd}"
