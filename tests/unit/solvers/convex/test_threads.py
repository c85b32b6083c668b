"""Threads change nothing but the time, and a small solve starts none."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from problems import chain, component, inf, loop, nudged, program, spread
from threadpoolctl import threadpool_info, threadpool_limits

from dissonance import Attention, inconsistency, threads
from dissonance.solvers.convex import solve as solving
from dissonance.solvers.convex import subtrees
from dissonance.solvers.convex import work as working
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
    used = set[int]()
    newton = working.newton

    def seen(*args: Any) -> None:
        used.add(threading.get_ident())
        newton(*args)

    monkeypatch.setattr(working, "newton", seen)
    found, then = list[solving.Outcome](), list[solving.Outcome]()
    for count in (1, 2, 5):
        used.clear()
        with ThreadPoolExecutor(count) as pool:
            monkeypatch.setattr(threads, "allowed", lambda n=count: n)
            monkeypatch.setattr(threads, "_pool", lambda it=pool: it)
            found.append(
                solving.solve(one, spread(one), spread(one, 1e-9), sharing=working.Sharing(cells_per_thread=1))
            )
            warm = found[-1].at
            then.append(
                solving.solve(
                    moved, spread(moved), spread(moved, 1e-9), warm, sharing=working.Sharing(cells_per_thread=1)
                )
            )
        assert (threading.get_ident() in used) == (count == 1)
    for other in (1, 2):
        check_the_same(found[0], found[other])
        check_the_same(then[0], then[other])
    assert (found[0].bounds[:, 1] - found[0].bounds[:, 0] < 1e-8).all()


@pytest.mark.parametrize(("gamma", "hard"), [(0.0, ()), (0.3, ()), (0.0, ("f3",)), (0.3, ("f3",))])
def test_the_subtrees_of_one_problem_are_shared_out(
    gamma: float, hard: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    """Bit for bit what one thread finds, in a few threads and in more than there are branches."""
    pdg = chain(np.random.default_rng(8), 30)
    attention = Attention.uniform(pdg, gamma=gamma).replace(beta=dict.fromkeys(hard, inf))
    one = program(component(pdg, attention))
    used, found = set[int](), list[solving.Outcome]()
    upward = subtrees.upward

    def seen(*args: Any) -> None:
        used.add(threading.get_ident())
        upward(*args)

    monkeypatch.setattr(subtrees, "upward", seen)
    for count in (1, 2, 3, 50):
        used.clear()
        with ThreadPoolExecutor(count) as pool:
            monkeypatch.setattr(threads, "allowed", lambda n=count: n)
            monkeypatch.setattr(threads, "_pool", lambda it=pool: it)
            found.append(solving.solve(one, spread(one), spread(one, 1e-9), sharing=working.Sharing(subtree_work=1.0)))
        assert len(used) == 0 if count == 1 else len(used) > 1
    for other in found[1:]:
        check_the_same(found[0], other)


def test_subtrees_are_whole_disjoint_and_balanced():
    rng = np.random.default_rng(3)
    for n, count in ((1, 2), (7, 2), (200, 3), (1000, 8)):
        parent = np.array([-1 if k == 0 or rng.random() < 0.02 else rng.integers(k) for k in range(n)])
        work = rng.random(n)
        parts, above = subtrees.subtrees(parent, work, count)
        assert sorted(np.concatenate([*parts, above]).tolist()) == list(range(n))
        for part in parts:
            inside = set(part.tolist())
            assert part.tolist() == sorted(inside, reverse=True)
            assert all(c in inside for c in range(n) if parent[c] in inside)
        assert all(parent[k] < 0 or parent[k] in above for k in above)
        assert max((work[p].sum() for p in parts), default=0.0) + work[above].sum() <= work.sum()
    bush = np.array([-1, *[0] * 99])
    parts, above = subtrees.subtrees(bush, np.ones(100), 3)
    assert [len(p) for p in parts] == [33, 33, 33] and above.tolist() == [0]
    line = np.array([-1, 0, 0, *range(1, 98)])
    assert sorted(len(p) for p in subtrees.subtrees(line, np.ones(100), 8)[0]) == [49, 50]


def test_a_small_solve_starts_no_thread(monkeypatch: pytest.MonkeyPatch):
    def refuse() -> ThreadPoolExecutor:
        raise AssertionError("a pool for this?")

    monkeypatch.setattr(threads, "_pool", refuse)
    monkeypatch.setattr(threads, "allowed", lambda: 8)
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
    monkeypatch.setattr(threads, "_pool", refuse)
    monkeypatch.setattr(threads, "allowed", lambda: 8)
    with pytest.raises(AssertionError, match="asked for"):
        solving.solve(one, spread(one), spread(one, 1e-9), sharing=working.Sharing(cells_per_thread=2 * cells))
    found = solving.solve(one, spread(one), spread(one, 1e-9), sharing=working.Sharing(cells_per_thread=4 * cells))
    assert (found.steps > 0).all()


def test_what_fails_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch):
    def fail() -> None:
        raise ValueError("here")

    with ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(threads, "allowed", lambda: 2)
        monkeypatch.setattr(threads, "_pool", lambda: pool)
        with pytest.raises(ValueError, match="here"):
            threads.side_by_side([lambda: None, fail])


@pytest.mark.parametrize(("asked", "wanted"), [("3", 3), ("1", 1), ("0", None), ("", None), ("many", None)])
def test_the_number_of_threads_is_what_the_environment_asks_for(
    asked: str, wanted: int | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    threads.allowed.cache_clear()
    try:
        found = threads.allowed()
    finally:
        monkeypatch.undo()
        threads.allowed.cache_clear()
    assert found == wanted if wanted else found >= 1


def blas_threads() -> set[int]:
    """How many threads the BLAS libraries of this process may use."""
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_has_one_thread_inside_and_what_it_had_outside_also_when_entered_twice():
    with threadpool_limits(3, user_api="blas"):
        before = blas_threads()
        with threads.without_blas_threads():
            with threads.without_blas_threads():
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == before != {1}
