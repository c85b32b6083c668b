"""benchmarks/attack.py, in its short form: nothing breaks, and what breaks is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHORT = {"kills": 3, "flips": 24, "trials": 10, "files": 400, "forms": 40, "problems": 80}


def test_a_short_attack_breaks_nothing():
    counts = [word for option, count in SHORT.items() for word in (f"--{option}", str(count))]
    command = [sys.executable, str(ROOT / "benchmarks" / "attack.py"), *counts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" 0 broke") == len(SHORT)


def test_what_breaks_is_told_and_counted():
    sys.path.append(str(ROOT / "benchmarks"))
    try:
        from attack import run
    finally:
        sys.path.pop()
    assert run(iter([None, "wrong", None]), 3, None) == (3, ["wrong"])
    assert run(iter([None] * 5), 2, None) == (2, [])
