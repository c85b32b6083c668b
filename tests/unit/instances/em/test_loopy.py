"""EM whose E-step is belief propagation, against exact EM and against textbook BP with counting, both in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dissonance import DissonanceError, Variable
from dissonance.cpds import ObservedGaussian
from dissonance.em import em, loopy_em, mixture, network
from reference.belief_propagation import Textbook
from reference.em import network_step

NAMES = "ABCD"
TREE = {"A": "", "B": "A", "C": "A", "D": "B"}
DIAMOND = {"A": "", "B": "A", "C": "A", "D": "BC"}
"""A -> B, C -> D: the factors p(B|A), p(C|A), p(D|B,C) make a loop."""


def drawn(parents: dict[str, str], seed: int) -> tuple[dict[str, np.ndarray], dict[str, list[int | None]]]:
    """Tables of a network of binary variables, and ten rows of its leaves, one entry of them missing."""
    rng = np.random.default_rng(seed)
    tables = {v: rng.random((2,) * (len(u) + 1)) + 0.15 for v, u in parents.items()}
    tables = {v: t / t.sum(-1, keepdims=True) for v, t in tables.items()}
    data: dict[str, list[int | None]] = {v: rng.integers(0, 2, 10).tolist() for v in "CD"}
    data["C"][3] = None
    return tables, data


def beliefs(parents: dict[str, str], tables: dict[str, np.ndarray], data: dict[str, list[int | None]]):
    of = {n: Variable(n, 2) for n in NAMES}
    return network({of[v]: ([of[u] for u in us], tables[v]) for v, us in parents.items()}, data)


def rows_of(data: dict[str, list[int | None]]) -> list[dict[str, int]]:
    return [{v: c for v in data if (c := data[v][n]) is not None} for n in range(10)]


def textbook_step(parents: dict[str, str], tables: dict[str, np.ndarray], data) -> tuple[dict[str, np.ndarray], float]:
    """One iteration: loopy BP to its fixed point for every row, then counts from the beliefs of factors."""
    counts, energy = {v: np.zeros_like(t) for v, t in tables.items()}, 0.0
    scopes = [tuple(NAMES.index(u) for u in (*us, v)) for v, us in parents.items()]
    for row in rows_of(data):
        seen = [(NAMES.index(v), np.eye(2)[c]) for v, c in row.items()]
        bp = Textbook([2] * 4, [*scopes, *((v,) for v, _ in seen)], [*tables.values(), *(e for _, e in seen)])
        for _ in range(200):
            bp.flood()
        energy += bp.free_energy() / 10
        for a, (v, scope) in enumerate(zip(parents, scopes, strict=True)):
            b = tables[v]
            for i, y in enumerate(scope):
                b = b * bp.m[f"X{y}->f{a}"].reshape([2 if j == i else 1 for j in range(len(scope))])
            counts[v] += b / b.sum()
    return {v: c / c.sum(-1, keepdims=True) for v, c in counts.items()}, energy


def table(fitted, name: str) -> np.ndarray:
    return fitted.pdg[name].cpd.table().detach().numpy()


def test_on_a_tree_it_is_em_iteration_by_iteration():
    tables, data = drawn(TREE, 0)
    p = beliefs(TREE, tables, data)
    instance = loopy_em(p, p.variable("row"))
    for iterations in (1, 3):
        fitted = instance.fit(iterations)
        expected, scores = dict(tables), []
        for _ in range(iterations):
            expected, score = network_step(TREE, dict.fromkeys(NAMES, 2), expected, rows_of(data))
            scores.append(float(np.mean(score)))
        for v in NAMES:
            np.testing.assert_allclose(table(fitted, v), expected[v], atol=1e-9)
        assert fitted.bounds == pytest.approx(scores, abs=1e-9)
    exact = em(p, p.variable("row")).answer(4)  # two iterations: `fitted` did its last E-step there
    np.testing.assert_allclose(fitted.posterior("A"), exact.posterior("A"), atol=1e-9)


def test_on_a_loop_it_is_textbook_belief_propagation_with_counting():
    tables, data = drawn(DIAMOND, 1)
    p = beliefs(DIAMOND, tables, data)
    fitted = loopy_em(p, p.variable("row"), sweeps=6).fit(2)
    expected, energies = dict(tables), []
    for _ in range(2):
        expected, energy = textbook_step(DIAMOND, expected, data)
        energies.append(-energy)
    for v in NAMES:
        np.testing.assert_allclose(table(fitted, v), expected[v], atol=1e-6)
    assert fitted.bounds == pytest.approx(energies, abs=1e-6)
    exact, score = network_step(DIAMOND, dict.fromkeys(NAMES, 2), tables, rows_of(data))
    assert abs(fitted.bounds[0] - float(np.mean(score))) > 1e-5  # approximate: the Bethe free energy, not -log p(x)
    assert max(abs(exact[v] - textbook_step(DIAMOND, tables, data)[0][v]).max() for v in NAMES) > 1e-4


def test_one_sweep_an_iteration_ends_where_many_do():
    """Messages are kept from iteration to iteration: interleaved with learning they have the same fixed points."""
    tables, data = drawn(DIAMOND, 1)
    p = beliefs(DIAMOND, tables, data)
    once, often = (loopy_em(p, p.variable("row"), sweeps=n).fit(6) for n in (1, 2))
    gained = often.bounds[-1] - often.bounds[0]
    assert gained > 0.01 and abs(once.bounds[-1] - often.bounds[-1]) < 0.05 * gained
    assert len(once.run.trace.rows) < len(often.run.trace.rows)


def test_a_mixture_has_one_hidden_variable_and_needs_no_second_sweep():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 1)) + np.where(rng.random((40, 1)) < 0.4, 3.0, 0.0)
    p = mixture([0.5, 0.5], ObservedGaussian(x, means=[[0.0], [2.0]], covariances=[np.eye(1)] * 2))
    weights = rng.random(40)
    one, other = (
        loopy_em(p, p.variable("row"), weights=weights).fit(3),
        em(p, p.variable("row"), weights=weights).answer(6),
    )
    for key, value in one.pdg.theta.items():
        np.testing.assert_allclose(value.detach(), other.pdg.theta[key].detach(), atol=1e-9)
    assert one.posterior("Z").shape == (40, 2) and math.isfinite(one.bounds[-1])


def test_what_it_does_not_take():
    tables, data = drawn(TREE, 0)
    p = beliefs(TREE, tables, data)
    with pytest.raises(DissonanceError, match="at least one sweep"):
        loopy_em(p, p.variable("row"), sweeps=0)
    with pytest.raises(DissonanceError, match="not a variable of the beliefs"):
        loopy_em(p, Variable("rows", 10))
