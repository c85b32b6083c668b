"""Every bracket holds the value of the real numbers that it is about: counts, logits, weights; not only of floats."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, SoftmaxTable, Variable, inconsistency, lir, lirs
from dissonance.cli.app import run as command
from dissonance.proof import Accuracy, ProvedBounds, TableRows, meeting, summed
from dissonance.solvers import Newton, Pooled, Solver

X, Y = Variable("X", 2), Variable("Y", 4)
DIGITS = 60


def pooled(counts: Sequence[Sequence[int]], weights: Sequence[float]) -> Any:
    """-B log sum_x prod_a p_a(x)^(beta_a/B), B the sum of the weights, with 60 digits."""
    with mpmath.workdps(DIGITS):
        total = mpmath.fsum(map(mpmath.mpf, weights))
        p = [[mpmath.mpf(k) / sum(n) for k in n] for n in counts]
        terms = (
            mpmath.fprod(q[x] ** (mpmath.mpf(w) / total) for q, w in zip(p, weights, strict=True))
            for x in range(len(p[0]))
        )
        return -total * mpmath.log(mpmath.fsum(terms))


def census(folder: Path) -> list[Path]:
    """Two counts of 330 million, of which 1 and 4 are yes."""
    files = [folder / "cen1.csv", folder / "cen2.csv"]
    for file, yes in zip(files, (1, 4), strict=True):
        file.write_text(f"X,count\nno,330000000\nyes,{yes}\n")
    return files


def holds(found: Any, exactly: Any) -> bool:
    return bool(found.lower <= exactly <= found.upper)


# -- counts and weights ------------------------------------------------------------------------------------------------


def test_the_bracket_of_two_censuses_holds_the_value_of_the_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    counts = [[330_000_000, 1], [330_000_000, 4]]
    exactly = pooled(counts, [sum(n) for n in counts])
    assert float(exactly) == pytest.approx(0.99999999497, abs=1e-11)
    files = [str(f) for f in census(tmp_path)]
    assert command(["score", *files, "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert command(["resolve", *files, "--out", str(tmp_path / "r.json"), "--json"]) == 0
    resolved = json.loads(capsys.readouterr().out)["initial"]
    for said in (scored, resolved):
        assert said["lower"] <= exactly <= said["upper"] and said["upper"] - said["lower"] < 1e-5
    pdg = PDG(*(_counted(n, k) for k, n in enumerate(counts)))
    for x in (inconsistency(pdg), lir(pdg.learnable(), steps=0).before):
        assert holds(x, exactly) and x.converged


def _counted(counts: Sequence[int], k: int) -> Arc:
    return Arc(f"a{k}", (), Variable("X", len(counts)), [n / sum(counts) for n in counts], beta=float(sum(counts)))


@pytest.mark.parametrize("solver", ["auto", Newton(), Pooled()], ids=["auto", "newton", "pooled"])
@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e12])
def test_counts_of_any_size_are_held(size: float, solver: str | Solver):
    rng = np.random.default_rng(int(math.log10(size)))
    for _ in range(10):
        often = (10 ** rng.uniform(0, math.log10(size), 3)).astype(int)
        counts = (often + rng.integers(1, 4, (3, 3))).tolist()  # they nearly agree, and little is left of their costs
        weights = [float(sum(n)) for n in counts]
        exactly = pooled(counts, weights)
        pdg = PDG(*(_counted(n, k) for k, n in enumerate(counts)))
        assert holds(inconsistency(pdg, solver=solver), exactly)
        for run in lirs([pdg.learnable()] * 2, steps=0):
            assert holds(run.before, exactly)


def test_logits_with_heavy_weights_are_held_in_arrays_as_well():
    a, b = SoftmaxTable([0.5, 0.5]), [0.5, 0.5]
    with torch.no_grad():
        a.logits.copy_(torch.tensor([0.0, -30.0]))
    pdg = PDG(Arc("a", (), X, a), Arc("b", (), X, b))
    attention = Attention.only({"a": 1e9, "b": 1.0}, {"a": 1e9, "b": 1.0}, 1.0)
    with mpmath.workdps(DIGITS):
        p = [1 / (1 + mpmath.exp(-30)), 1 / (1 + mpmath.exp(30))]
        exactly = -mpmath.log(mpmath.fsum(q ** mpmath.mpf(1e9) / 2 for q in p))
    assert float(exactly) == pytest.approx(0.69324075679, abs=1e-11)
    for x in (inconsistency(pdg, attention), lir(pdg, steps=0, attention=attention).before):
        assert holds(x, exactly)


@pytest.mark.parametrize("ulps", [-2, -1, 0, 1, 2])
def test_weights_that_nearly_cancel_are_not_lost(ulps: int):
    V, even = Variable("V", 64), [1 / 64] * 64
    pdg = PDG(*(Arc(n, (), V, SoftmaxTable(even)) for n in "ab"))
    alpha = {"a": 1000 + ulps * math.ulp(1000.0), "b": -998.0}
    attention = Attention.only({"a": 1.0, "b": 1.0}, alpha, 1.0)
    with mpmath.workdps(DIGITS):
        exactly = (mpmath.fsum(map(mpmath.mpf, alpha.values())) - 1) * mpmath.log(64)  # at the uniform distribution
    for x in (inconsistency(pdg, attention), lir(pdg, steps=0, attention=attention).before):
        assert holds(x, exactly)


@pytest.mark.parametrize("excess", [0.5, -0.5, 0.0])
def test_the_upper_bound_of_a_local_minimum_is_widened_too(excess: float):
    rng = np.random.default_rng(0)
    beta, alpha = {"a": 1e9, "b": 1.0}, {"a": 1e9 + excess, "b": 1.0}
    for _ in range(10):
        counts = {n: rng.integers(1, 9, 2).tolist() for n in beta}
        pdg = PDG(*(Arc(n, (), X, [k / sum(c) for k in c]) for n, c in counts.items()))
        with mpmath.workdps(DIGITS):
            weight = 1 + mpmath.fsum(beta[n] - mpmath.mpf(alpha[n]) for n in counts)
            p = {n: [mpmath.mpf(k) / sum(c) for k in c] for n, c in counts.items()}
            cost = [-mpmath.fsum(mpmath.mpf(beta[n]) * mpmath.log(p[n][x]) for n in p) for x in (0, 1)]
            least = min(cost)
            exactly = least - weight * mpmath.log(mpmath.fsum(mpmath.exp((least - c) / weight) for c in cost))
        attention = Attention.only(beta, alpha, 1.0)
        for solver in ("auto", "concave-convex"):
            assert holds(inconsistency(pdg, attention, solver=solver), exactly)


def test_hard_counts_round_what_others_cost():
    rng = np.random.default_rng(0)
    for _ in range(20):
        said, known = (10 ** rng.uniform(0, 9, (2, 3))).astype(int).tolist()
        pdg = PDG(_counted(said, 0), _counted(known, 1))
        with mpmath.workdps(DIGITS):
            pairs = [(mpmath.mpf(n) / sum(known), mpmath.mpf(k) / sum(said)) for n, k in zip(known, said, strict=True)]
            exactly = 1_000_000_000 * mpmath.fsum(q * mpmath.log(q / p) for q, p in pairs)
        assert holds(inconsistency(pdg, Attention.only({"a0": 1e9, "a1": math.inf})), exactly)


# -- variables that no arc mentions ------------------------------------------------------------------------------------


def test_variables_that_no_arc_mentions_cost_the_same_in_runs():
    pdg = PDG(Arc("a", (), X, [0.3, 0.7]), Arc("b", (), X, [0.5, 0.5]), variables=[X, Y]).learnable()
    attention = Attention.uniform(pdg, gamma=1.0)
    known = inconsistency(pdg, attention)
    assert known.upper == pytest.approx(-math.log(0.15 + 0.35) - math.log(4), abs=1e-12)
    for run in (lir(pdg, steps=1, attention=attention), *lirs([pdg] * 3, steps=1, attention=attention)):
        for mine, theirs in ((run.before, known), (run.after, inconsistency(run.pdg, attention))):
            assert max(mine.lower, theirs.lower) <= min(mine.upper, theirs.upper)


def test_the_cost_of_variables_that_no_arc_mentions_is_rounded():
    rng = np.random.default_rng(0)
    for _ in range(100):
        sizes, gamma = rng.integers(2, 9, int(rng.integers(1, 5))).tolist(), float(10 ** rng.uniform(-2, 2))
        pdg = PDG(Arc("a", (), X, [0.5, 0.5]), variables=[X, *(Variable(f"F{i}", n) for i, n in enumerate(sizes))])
        with mpmath.workdps(DIGITS):
            exactly = -mpmath.mpf(gamma) * mpmath.fsum(mpmath.log(n) for n in sizes)
            found = inconsistency(pdg, Attention.only({}, {}, gamma))
            assert holds(found, exactly - mpmath.mpf(gamma) * mpmath.log(2))
        assert found.upper - found.lower <= 1e-15 * abs(found.upper) * 2 * len(sizes)


# -- the floor ---------------------------------------------------------------------------------------------------------


def test_nothing_is_below_0_unless_rows_are_densities():
    fine = ProvedBounds.proved(_accuracy([[0.5, 0.5]]), -1e-9, 1e-9, tol=1e-7)
    assert fine.lower == 0 and fine.met
    dense = ProvedBounds.proved(_accuracy([[0.9, 0.9]]), -0.6, -0.58, tol=1e-7)
    assert -0.61 < dense.lower < -0.6 and -0.58 < dense.upper < -0.57 and not dense.met
    doubted = ProvedBounds.proved(_accuracy([[0.5, 0.5]], beta=-1.0), -1.0, -0.9, tol=1e-7)
    structural = ProvedBounds.proved(_accuracy([[0.5, 0.5]], gamma=1.0), -1.0, -0.9, tol=1e-7)
    assert doubted.lower < -1 and structural.lower < -1
    unattended = ProvedBounds.proved(_accuracy([[0.9, 0.9]], beta=0.0), -1e-9, 0.0, tol=1e-7)
    assert unattended.lower == 0


def _accuracy(tables: Sequence[Sequence[float]], beta: float = 1.0, gamma: float = 0.0) -> Accuracy:
    ones = np.ones(len(tables), dtype=np.int64)
    rows = TableRows(ones, np.array([len(t) for t in tables]), math.log(2))
    logs = np.log(np.concatenate([np.asarray(t) for t in tables]))[None]
    weights = np.full((1, len(tables)), beta)
    return Accuracy(rows, logs, weights, np.ones_like(weights), np.array([gamma]))


def test_bounds_that_cross_by_rounding_are_ordered_and_by_more_prove_no_upper_one():
    near = ProvedBounds.proved(_accuracy([[0.5, 0.5]]), 1 + 1e-13, 1.0, tol=1e-7)
    assert 1 <= near.lower < 1 + 1e-14 and 1 + 1e-14 < near.upper < 1 + 1e-12
    far = ProvedBounds.proved(_accuracy([[0.5, 0.5]]), 1.1, 1.0, tol=1e-7)
    assert far.lower == pytest.approx(1.0, abs=1e-12) and far.upper == math.inf and not far.met
    broken = ProvedBounds.proved(_accuracy([[0.5, 0.5]]), 1.0, 1.0, tol=1e-7, broken=1e-9)
    assert broken.upper == math.inf and not broken.met
    against = ProvedBounds.proved(_accuracy([[0.5, 0.5]]), 1.0, 1.0, tol=1e-7, contradicted=np.array([True]))
    assert against.lower == against.upper == math.inf and against.met


def test_a_sum_is_rounded_outwards_and_a_contradiction_anywhere_is_one():
    rng = np.random.default_rng(0)
    for _ in range(50):
        numbers = (rng.normal(size=9) * 10 ** rng.uniform(-8, 8, 9)).tolist()
        first, *others = (known(x, x) for x in numbers)
        both = first.plus(*others)
        with mpmath.workdps(DIGITS):
            exactly = mpmath.fsum(map(mpmath.mpf, numbers))
            assert both.lower[0] < exactly < both.upper[0]
            assert summed(numbers, -math.inf) < exactly < summed(numbers, math.inf)
    assert known(0.25, 0.5).plus(known(0.0, 0.0)).one == (0.25, 0.5, True)
    assert summed([0.0, 0.25, 0.0], math.inf) == 0.25 and summed([], math.inf) == 0
    assert known(0.25, 0.5).plus(known(math.inf, math.inf), known(-math.inf, -math.inf)).lower[0] == math.inf
    assert summed([math.inf, -math.inf], -math.inf) == math.inf and summed([-math.inf, 1.0], math.inf) == -math.inf


def known(lower: float, upper: float) -> ProvedBounds:
    return ProvedBounds(*(np.array([x]) for x in (lower, upper, 0.0)), np.array([True]))


def test_what_rounding_leaves_open_is_no_gap_that_a_solver_left():
    lower, upper = np.array([1.0, 1.0, math.inf, -math.inf]), np.array([1.0 + 3e-6, 1.0 + 3e-6, math.inf, -math.inf])
    assert meeting(lower, upper, 1e-7, np.array([2e-6, 0.0, 0.0, 0.0])).tolist() == [True, False, True, True]
