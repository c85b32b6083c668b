"""What leaving out an arc saves: the numbers of a solve from scratch, with less to solve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dissonance import dropped
from dissonance.arc import Arc
from dissonance.focus import Attention
from dissonance.inconsistency import inconsistency
from dissonance.pdg import PDG
from dissonance.problem import Batch
from dissonance.scores import most_saved
from dissonance.variables import Variable
from strategies import MIXED, NASTY, SOFT, STRUCTURED, Style, random_case, random_joint


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """The components that are solved to say what dropping arcs saves."""
    seen: list[Batch] = []
    solve_parts = dropped.solve_parts

    def watched(parts: Sequence[Batch], *rest: Any, **options: Any) -> Any:
        seen.extend(parts)
        return solve_parts(parts, *rest, **options)

    monkeypatch.setattr(dropped, "solve_parts", watched)
    return seen


def from_scratch(pdg: PDG, attention: Attention, name: str) -> float:
    """The inconsistency of a PDG that never had the arc."""
    beta, alpha = ({n: w for n, w in weights.items() if n != name} for weights in (attention.beta, attention.alpha))
    return inconsistency(pdg.without(name), Attention.only(beta, alpha, attention.gamma)).upper


def check(pdg: PDG, attention: Attention) -> None:
    """Every arc saves the difference of two solves."""
    result = inconsistency(pdg, attention)
    if not result.converged or math.isinf(result.upper):
        return
    for row in result.by_arc():
        expected = result.upper - from_scratch(pdg, attention, row.name)
        assert row.saved_if_dropped == pytest.approx(expected, abs=2e-7 * max(1.0, abs(result.upper)))


@pytest.mark.parametrize("style", [SOFT, STRUCTURED, MIXED, NASTY], ids=["soft", "structured", "mixed", "nasty"])
def test_it_is_the_difference_of_two_solves(style: Style):
    for seed in range(12):
        case = random_case(seed, style)
        check(case.pdg, case.attention)


def islands(gamma: float, rng: np.random.Generator) -> tuple[PDG, Attention]:
    """Two disputes, a bridge between them, and a variable that only one arc speaks of."""
    a, b, c, d, e = (Variable(n, k) for n, k in zip("ABCDE", (2, 3, 2, 3, 2), strict=True))
    ends = [((), a), ((), a), (a, b), (b, a), (b, c), (c, d), (d, c), ((), d), (d, e)]
    arcs = []
    for i, (s, t) in enumerate(ends):
        rows = rng.dirichlet(np.ones(t.size), s.size if isinstance(s, Variable) else None)
        arcs.append(Arc(f"p{i}", s, t, rows))
    pdg = PDG(*arcs)
    return pdg, Attention.uniform(pdg, beta=1.3, gamma=gamma)


@pytest.mark.parametrize("gamma", [0.0, 0.4])
def test_without_a_bridge_its_ends_are_solved_apart(gamma: float, solved: list[Batch]):
    pdg, attention = islands(gamma, np.random.default_rng(4))
    check(pdg, attention)
    apart = [c for c in solved if len(c.variables) < 5]
    assert {"".join(v.name for v in c.variables) for c in apart} >= {"AB", "CDE"}


@pytest.mark.parametrize("gamma", [0.0, 0.4])
def test_a_variable_that_is_left_alone_costs_its_entropy(gamma: float):
    rng = np.random.default_rng(1)
    x, y = Variable("X", 3), Variable("Y", 4)
    pdg = PDG(Arc("p", (), x, rng.dirichlet(np.ones(3))), Arc("q", x, y, rng.dirichlet(np.ones(4), 3)))
    check(pdg, Attention.uniform(pdg, gamma=gamma))


def test_arcs_that_agree_with_the_compromise_are_not_solved_for(solved: list[Batch]):
    rng = np.random.default_rng(0)
    v = [Variable(n, 3) for n in "ABCD"]
    joint = random_joint(rng, v)

    def told(s: int, t: int) -> np.ndarray:
        pair = joint.sum(tuple(i for i in range(4) if i not in (s, t)))
        pair = pair if s < t else pair.T
        return pair / pair.sum(1, keepdims=True)

    links = [(0, 1), (1, 2), (2, 3), (1, 0)]
    pdg = PDG(*(Arc(f"{v[s].name}{v[t].name}", v[s], v[t], told(s, t)) for s, t in links))
    rows = inconsistency(pdg).by_arc()
    assert all(r.saved_if_dropped == 0 for r in rows) and not solved
    disputed = pdg.without("BA") + Arc("A", (), v[0], [0.1, 0.8, 0.1]) + Arc("not A", (), v[0], [0.8, 0.1, 0.1])
    check(disputed, Attention.uniform(disputed))  # what follows from A goes along with it
    assert {a.name for c in solved for a in c.arcs if a.beta == 0} == {"A", "not A"} and len(solved) == 2


def test_the_bound_on_what_is_saved_is_one():
    tight = 0
    for seed in range(30):
        case = random_case(seed, SOFT)
        result = inconsistency(case.pdg, case.attention)
        for s in result.answers:
            arcs = [a for a in s.part.arcs if a.beta > 0]
            for a, bound in zip(arcs, most_saved(s.mu, [x.arc for x in arcs]), strict=True):
                saved = result.upper - from_scratch(case.pdg, case.attention, a.name)
                assert saved <= a.beta * bound + 1e-6
                tight += saved > 0.2 * a.beta * bound > 1e-3
    assert tight > 10


def test_of_a_large_pdg_only_the_part_is_solved_that_the_arc_belongs_to(solved: list[Batch]):
    """Two long chains with a quarrel at their ends; what joins them is a loose end."""
    rng = np.random.default_rng(2)
    root = Variable("R", 2)
    arcs = [Arc("R", (), root, [0.4, 0.6])]
    for side in "XY":
        v = [Variable(f"{side}{i}", 4) for i in range(30)]
        arcs += [Arc(f"{side}{i}", v[i - 1], v[i], rng.dirichlet(np.ones(4), 4)) for i in range(1, 30)]
        arcs += [Arc(f"{side}s{i}", (), v[29], rng.dirichlet(np.ones(4))) for i in range(2)]
        arcs += [Arc(f"{side}r", (root, v[0]), Variable(f"{side}z", 40), rng.dirichlet(np.ones(40), (2, 4)))]
    pdg = PDG(*arcs)
    result = inconsistency(pdg)
    rows = {r.name: r for r in result.by_arc()}
    assert "peeled" in result.solver and solved
    assert all({v.name[0] for v in c.variables} in ({"X"}, {"Y"}) for c in solved)
    for name in ("Xs0", "Ys1", "X7", "Yr"):
        expected = result.upper - inconsistency(pdg.without(name)).upper
        assert rows[name].saved_if_dropped == pytest.approx(expected, abs=1e-6)
