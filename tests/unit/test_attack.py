"""benchmarks/attack.py, in its short form: nothing breaks, and what breaks is told."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dissonance import coherence
from fresh import python

ROOT = Path(__file__).parents[2]
SHORT = {
    "kills": 1,
    "records": 62,
    "flips": 8,
    "trials": 4,
    "seeds": 1,
    "files": 100,
    "tables": 256,
    "names": 10,
    "forms": 10,
    "problems": 20,
    "solvers": 15,
    "rounded": 60,
    "runs": 26,
    "stacked": 200,
    "books": 60,
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
        found = SimpleNamespace(lower=lower, upper=upper, converged=converged, within=0.0, answers=(part,))
        return judged(found, 1.0, 1.0 + 1e-9, 1e-12)

    assert said(1.0, 1.0) is None
    assert said(0.5, math.inf, converged=False) is None
    assert "a joint has" in str(said(1.1, 1.1))
    assert "no joint has less" in str(said(0.9, 0.9))
    assert "converged" in str(said(0.5, 1.5))
    assert "no bracket" in str(said(1.0, math.nan))


@pytest.mark.parametrize("score", ["log", "brier"])
def test_the_reference_of_books_brackets_a_closed_form(module: Any, score: str):
    bounds, Claim = (getattr(module("attacks.bookmaker"), name) for name in ("bounds", "Claim"))
    both, true = np.ones(2, dtype=np.bool_), np.array([False, True])
    for p, q in ((0.3, 0.6), (0.05, 0.9)):
        low, high = bounds([Claim(true, both, p, p, 1.0), Claim(true, both, q, q, 1.0)], both, score)
        log = -2 * math.log(math.sqrt(p * q) + math.sqrt((1 - p) * (1 - q)))
        exactly = log if score == "log" else (p - q) ** 2 / 2
        assert low - 1e-12 <= exactly <= high + 1e-12 and high - low < 1e-8
        hard = [Claim(true, both, p, p, math.inf), Claim(true, both, q, q, math.inf)]
        assert bounds(hard, both, score) == (math.inf, math.inf)


@pytest.mark.parametrize("score", ["log", "brier"])
@pytest.mark.parametrize("beta", [0.5, 3.0, math.inf])
def test_only_a_bet_that_wins_nothing_by_the_belief_itself_is_fair(module: Any, score: str, beta: float):
    acceptable, Claim = (getattr(module("attacks.bookmaker"), name) for name in ("acceptable", "Claim"))
    both = np.ones(2, dtype=np.bool_)
    claim = Claim(both, both, 0.2, 0.4, beta)
    assert acceptable(claim, score, 0.0, 0.0) <= 0
    assert acceptable(claim, score, 0.01, -0.01) <= 0 < acceptable(claim, score, 3.0, -0.4)
    assert acceptable(claim, score, math.inf, -1.0) > 0 and acceptable(claim, score, -math.inf, 0.0) <= 0
    assert acceptable(claim._replace(beta=0.0), score, 0.1, -1.0) > 0


def test_wrong_books_are_told(module: Any):
    books = module("attacks.books")
    known, Claim = books.Proved(1.0, 1.0), books.Claim

    def said(lower: float, upper: float, converged: bool = True) -> str | None:
        template = SimpleNamespace(past_tree=False)
        return books.bracket(SimpleNamespace(lower=lower, upper=upper, converged=converged, template=template), known)

    assert said(1.0, 1.0) is None
    assert "a mu has" in str(said(1.1, 1.1)) and "bets win" in str(said(0.9, 0.9))
    assert "left open" in str(said(0.5, 1.5, converged=False)) and "no bracket" in str(said(1.0, math.nan))
    result = coherence("P(A) = 0.3\nP(A) = 0.6")
    both, true = np.ones(2, dtype=np.bool_), np.array([False, True])
    claims = [Claim(true, both, p, p, 1.0) for p in (0.3, 0.6)]
    assert books.bets(result, claims, both) is None
    assert "in some world" in str(books.bets(replace(result, lower=result.lower + 1e-6), claims, both))
    assert "too much" in str(books.bets(result, claims[::-1], both))


def test_arcs_that_move_against_what_was_meant_are_told(module: Any, monkeypatch: pytest.MonkeyPatch):
    named = module("attacks.named")
    meant = named.meant
    monkeypatch.setattr(named, "meant", lambda case: (*meant(case)[:2], {}))
    told = [odd for _, odd in zip(range(4), named.attack(0), strict=False)]
    assert any(odd is not None and "moved" in odd for odd in told)
