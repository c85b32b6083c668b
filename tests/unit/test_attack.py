"""benchmarks/attack.py, in its short form: nothing breaks, and what breaks is told."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fresh import python

ROOT = Path(__file__).parents[2]
SHORT = {
    "kills": 1,
    "flips": 8,
    "trials": 4,
    "seeds": 1,
    "files": 100,
    "forms": 10,
    "problems": 20,
    "solvers": 15,
    "stacked": 200,
}


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_short_attack_breaks_nothing(times: int):
    counts = [word for option, count in SHORT.items() for word in (f"--{option}", str(times * count))]
    done = python(ROOT / "benchmarks" / "attack.py", *counts)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" 0 broke") == len(SHORT)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module


def test_what_breaks_is_told_and_counted(module: Any):
    run = module("attack").run
    assert run(iter([None, "wrong", None]), 3, None) == (3, ["wrong"])
    assert run(iter([None] * 5), 2, None) == (2, [])


@pytest.mark.parametrize("hard", [False, True])
def test_the_dense_reference_brackets_a_closed_form(module: Any, hard: bool):
    dense = module("attacks.dense")
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(4), (2, 50))
    b, c = 10 ** rng.uniform(-2, 2, (2, 50))
    states, none, zero = np.arange(4), np.zeros(4, dtype=np.int64), np.zeros(50)
    first = dense.DenseArc(states, none, np.log(p), np.full(50, math.inf) if hard else b, zero, hard)
    second = dense.DenseArc(states, none, np.log(q), c, zero, False)
    low, high = dense.Dense([first, second], zero).bounds(p)
    share = (b / (b + c))[:, None]
    pooled = -(b + c) * np.log((p**share * q ** (1 - share)).sum(1))
    exactly = c * (p * np.log(p / q)).sum(1) if hard else pooled
    assert (low <= exactly + 1e-12 * (1 + b + c)).all() and (exactly <= high + 1e-12 * (1 + b + c)).all()
    assert (high - low <= 1e-8 * (1 + b + c)).all()


def test_a_bracket_that_excludes_the_reference_is_told(module: Any):
    judged = module("attacks.brackets").judged

    def said(lower: float, upper: float, converged: bool = True) -> str | None:
        part = SimpleNamespace(upper=upper)
        found = SimpleNamespace(lower=lower, upper=upper, converged=converged, within=0.0, solutions=(part,))
        return judged(found, 1.0, 1.0 + 1e-9, 1e-12)

    assert said(1.0, 1.0) is None
    assert said(0.5, math.inf, converged=False) is None
    assert "a joint has" in str(said(1.1, 1.1))
    assert "no joint has less" in str(said(0.9, 0.9))
    assert "converged" in str(said(0.5, 1.5))
    assert "no bracket" in str(said(1.0, math.nan))
