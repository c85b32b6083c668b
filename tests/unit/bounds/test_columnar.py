"""Brackets of PDGs in columns: never wrong, exact on trees from below, with blame that adds up, the same on threads."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from dissonance import PDG, CapabilityError, inconsistency, lir
from dissonance.bounds import columnar
from dissonance.bounds.columnar import bracket
from dissonance.bounds.columnar_dual import ColumnDual
from dissonance.cli.app import run as main
from dissonance.columns import Column, ColumnarPDG
from dissonance.io import save
from dissonance.lir.sweep import run as sweeps
from dissonance.lir.trace import Record


def mixed(seed: int, variables: int = 7) -> ColumnarPDG:
    """Variables of two and three values; beliefs about one, two and three of them, some about the same pair."""
    rng = np.random.default_rng(seed)
    sizes = np.array([2] * (variables - 3) + [3] * 3)
    two, three = np.flatnonzero(sizes == 2), np.flatnonzero(sizes == 3)
    pairs = np.array([rng.choice(two, 2, replace=False) for _ in range(4)])
    wide = np.stack([rng.choice(two, 3), rng.choice(three, 3), rng.permutation(three)], 1)
    wide = wide[wide[:, 1] != wide[:, 2]]
    columns = [
        Column([], two[:3], rng.dirichlet([1, 1], 3), beta=rng.uniform(0.2, 3, 3)),
        Column([], np.repeat(three, 2), rng.dirichlet([1, 1, 1], 6)),
        Column(pairs[:, 0], pairs[:, 1], rng.dirichlet([1, 1], (4, 2)), beta=rng.uniform(0, 2, 4)),
        Column(wide[:, :2], wide[:, 2], rng.dirichlet([1, 1, 1], (len(wide), 2, 3)), learnable=False),
    ]
    found = PDG.from_columns(*columns, variables=sizes.tolist())
    assert isinstance(found, ColumnarPDG)
    return found


def test_no_bracket_in_columns_misses_the_exact_value():
    for seed in range(12):
        pdg = mixed(seed)
        with torch.no_grad():
            exact = inconsistency(pdg)
        found = bracket(pdg, seconds=0.0, seed=seed)
        assert found.lower <= exact.upper + 1e-9 and found.upper >= exact.lower - 1e-9
        assert sum(x.sum() for x in found.contributions) == pytest.approx(found.upper, abs=1e-9)


def test_it_is_exact_on_trees_from_below_and_close_from_above():
    rng, n = np.random.default_rng(0), 60
    pairs = np.array([(rng.integers(i), i) for i in range(1, n)])
    pdg = PDG.from_columns(
        Column([], np.arange(n), rng.dirichlet([1, 1], n)),
        Column(pairs[:, 0], pairs[:, 1], rng.dirichlet([1, 1], (n - 1, 2))),
    )
    assert isinstance(pdg, ColumnarPDG)
    with torch.no_grad():
        exact = inconsistency(pdg).upper
    found = bracket(pdg, seconds=3.0)
    assert found.lower == pytest.approx(exact, rel=5e-3) and found.lower <= exact
    assert found.upper == pytest.approx(exact, rel=0.05) and found.upper >= exact
    blame = [r.contribution for r in inconsistency(pdg).by_arc(saved=False)]
    assert np.corrcoef(blame, np.concatenate(found.contributions))[0, 1] > 0.95  # of another of the minimisers


def test_the_gradient_of_the_bound_is_that_of_its_value():
    pdg = mixed(3)
    dual = ColumnDual(pdg, [c.log_p.numpy() for c in pdg.columns], np.concatenate([c.beta for c in pdg.columns]))
    rng = np.random.default_rng(1)
    x, way = rng.normal(size=(2, dual.size))
    value, gradient, _ = dual.smoothed(x, 0.1)
    ahead, behind = (dual.smoothed(x + h * way, 0.1)[0] for h in (1e-6, -1e-6))
    assert (ahead - behind) / 2e-6 == pytest.approx(float(gradient @ way), rel=1e-6)
    exact, blur = dual.certified(x)
    assert exact >= value - 1e-12 and blur < 1e-10  # a smoothed minimum is no larger


def test_hard_arcs_are_refused():
    pdg = PDG.from_columns(Column([], [0, 0], [[0.5, 0.5], [0.1, 0.9]], beta=[1.0, math.inf]))
    assert isinstance(pdg, ColumnarPDG)
    with pytest.raises(CapabilityError, match="beta < inf"):
        bracket(pdg)


def test_a_sweep_over_a_tangle_is_bounded_from_above_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(columnar, "MANY", 100)
    rng, n = np.random.default_rng(0), 60
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(2 * n)])
    pdg = PDG.from_columns(
        Column([], np.arange(n), rng.dirichlet([2, 2], n)),
        Column(pairs[:, 0], pairs[:, 1], rng.dirichlet([2, 2], (2 * n, 2))),
    )
    assert isinstance(pdg, ColumnarPDG)
    run = lir(pdg, "sweep", sweeps=2, trace=Record(globally=True), solver=sweeps.Auto(seconds=0.5))
    for row in run.trace.rows:
        assert 0 <= row.global_lower <= row.global_upper < math.inf
    assert run.after.upper < 0.5 * run.before.lower
    assert run.before.is_bracket and str(run.before).startswith("between ")


def test_score_answers_very_many_beliefs_with_a_bracket_and_makes_arcs_only_to_show_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(columnar, "MANY", 100)
    monkeypatch.setattr(ColumnarPDG, "arcs", property(lambda pdg: pytest.fail("all arcs were made")))
    rng, n = np.random.default_rng(0), 60
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(2 * n)])
    pdg = PDG.from_columns(
        Column([], np.arange(n), rng.dirichlet([2, 2], n)),
        Column(pairs[:, 0], pairs[:, 1], rng.dirichlet([2, 2], (2 * n, 2))),
    )
    save(tmp_path / "big.npz", pdg)
    assert main(["score", str(tmp_path / "big.npz"), "--seconds", "0.5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bracket"] is True and found["inconsistency"] is None and 0 < found["lower"] < found["upper"]
    costs = [row["contribution"] for row in found["arcs"]]
    assert costs == sorted(costs, reverse=True) and sum(costs) == pytest.approx(found["upper"], abs=1e-6)
    assert len(costs) == 3 * n and found["arcs_left_out"] == 0
    assert main(["score", str(tmp_path / "big.npz"), "--seconds", "0.5"]) == 0
    shown = capsys.readouterr()
    assert "between" in shown.out and "costs most" in shown.out and "a bracket, not a value" in shown.err
    assert "140 more arcs not shown" in shown.out
    assert main(["score", str(tmp_path / "big.npz"), "--saved"]) == 2
