"""Threads change nothing but the time, and a small solve starts none."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from problems import component, inf, loop, nudged, program, spread

from dissonance import Attention, inconsistency
from dissonance.solvers.convex import solve as solving
from dissonance.solvers.convex.program import Program


def batch(count: int, gamma: float = 0.0, hard: tuple[str, ...] = ()) -> tuple[Program, Program]:
    """Problems, and almost the same ones."""
    rng = np.random.default_rng(1)
    pdgs = [loop(rng) for _ in range(count)]
    phi = Attention.uniform(pdgs[0], beta=1.5, gamma=gamma).replace(beta=dict.fromkeys(hard, inf))
    there = [component(nudged(p, rng), phi) for p in pdgs]
    return program([component(p, phi) for p in pdgs]), program(there)


def check_the_same(a: solving.Outcome, b: solving.Outcome) -> None:
    for name in ("at", "mu", "bounds", "steps", "contradiction"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@pytest.mark.parametrize(("gamma", "hard"), [(0.0, ()), (0.3, ()), (0.0, ("cd",)), (0.3, ("ab", "cd"))])
def test_results_do_not_depend_on_the_number_of_threads(
    gamma: float, hard: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    one, moved = batch(13, gamma, hard)
    monkeypatch.setattr(solving, "WORTH", 1)
    used = set[int]()
    newton = solving.newton

    def seen(*args: Any) -> None:
        used.add(threading.get_ident())
        newton(*args)

    monkeypatch.setattr(solving, "newton", seen)
    found, then = list[solving.Outcome](), list[solving.Outcome]()
    for count in (1, 2, 5):
        used.clear()
        with ThreadPoolExecutor(count) as pool:
            monkeypatch.setattr(solving, "threads", lambda n=count: n)
            monkeypatch.setattr(solving, "_pool", lambda it=pool: it)
            found.append(solving.solve(one, spread(one), spread(one, 1e-9)))
            then.append(solving.solve(moved, spread(moved), spread(moved, 1e-9), found[-1].at))
        assert (threading.get_ident() in used) == (count == 1)
    for other in (1, 2):
        check_the_same(found[0], found[other])
        check_the_same(then[0], then[other])
    assert (found[0].bounds[:, 1] - found[0].bounds[:, 0] < 1e-8).all()


def test_a_small_solve_starts_no_thread(monkeypatch: pytest.MonkeyPatch):
    def refuse() -> ThreadPoolExecutor:
        raise AssertionError("a pool for this?")

    monkeypatch.setattr(solving, "_pool", refuse)
    monkeypatch.setattr(solving, "threads", lambda: 8)
    one, _ = batch(10)
    before = threading.active_count()
    assert (solving.solve(one, spread(one), spread(one, 1e-9)).steps > 0).all()
    assert inconsistency(loop(np.random.default_rng(2))).converged
    assert threading.active_count() == before


def test_much_work_is_spread_over_threads(monkeypatch: pytest.MonkeyPatch):
    def refuse() -> ThreadPoolExecutor:
        raise AssertionError("asked for")

    one, _ = batch(4)
    cells = one.structure.flat_layout[1].cells
    monkeypatch.setattr(solving, "_pool", refuse)
    monkeypatch.setattr(solving, "threads", lambda: 8)
    monkeypatch.setattr(solving, "WORTH", 2 * cells)
    with pytest.raises(AssertionError, match="asked for"):
        solving.solve(one, spread(one), spread(one, 1e-9))
    monkeypatch.setattr(solving, "WORTH", 4 * cells)
    solving.solve(one, spread(one), spread(one, 1e-9))


def test_what_fails_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch):
    def fail() -> None:
        raise ValueError("here")

    with ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(solving, "threads", lambda: 2)
        monkeypatch.setattr(solving, "_pool", lambda: pool)
        with pytest.raises(ValueError, match="here"):
            solving.over_threads([lambda: None, fail])


@pytest.mark.parametrize(("asked", "wanted"), [("3", 3), ("1", 1), ("0", None), ("", None), ("many", None)])
def test_the_number_of_threads_is_what_the_environment_asks_for(
    asked: str, wanted: int | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    solving.threads.cache_clear()
    try:
        found = solving.threads()
    finally:
        monkeypatch.undo()
        solving.threads.cache_clear()
    assert found == wanted if wanted else found >= 1
