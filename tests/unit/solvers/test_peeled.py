"""Arcs whose targets nobody else speaks of cost nothing: leaving them out changes neither the value nor mu*."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from dissonance.arc import Arc
from dissonance.cpds import SoftmaxTable
from dissonance.distributions.extended import Extended
from dissonance.errors import SizeError
from dissonance.focus import Attention
from dissonance.inconsistency import inconsistencies, inconsistency
from dissonance.pdg import PDG
from dissonance.problem import Batch, prepare
from dissonance.solvers import Auto, Newton, solve_parts
from dissonance.solvers.peeled import Peeled, peel
from dissonance.variables import Variable
from strategies import MIXED, SOFT, case_of, conditional_of, random_case, random_joint

PEELED = Peeled()
X29, ROWS = Variable("X29", 4), torch.eye(4) * 0.6 + 0.1


def components(seed: int, style=SOFT) -> list[Batch]:
    case = random_case(seed, style)
    attention = case.attention.replace(alpha=dict.fromkeys(case.attention.alpha, 1.0), gamma=0.0)
    return list(prepare(case.pdg, attention).parts)


def chain(length: int, values: int = 4) -> PDG:
    rng = np.random.default_rng(0)
    v = [Variable(f"X{i}", values) for i in range(length)]
    arcs = [Arc("X0", (), v[0], rng.dirichlet(np.ones(values)))]
    arcs += [Arc(f"X{i}", v[i - 1], v[i], rng.dirichlet(np.ones(values), values)) for i in range(1, length)]
    return PDG(*arcs)


@pytest.mark.parametrize("style", [SOFT, MIXED], ids=["soft", "mixed"])
def test_the_value_is_that_of_the_whole(style):
    peeled = 0
    for seed in range(60):
        for c in components(seed, style):
            if not c.convex.all() or c.pinned is not None:
                continue
            whole, found = Newton().solve(c), solve_parts([c], PEELED)[0]
            peeled += bool(peel(c)[1])
            if math.isinf(whole.upper):
                assert found.lower == math.inf
                continue
            assert found.lower <= whole.upper + 1e-9 and whole.lower <= found.upper + 1e-9
            assert found.upper - found.lower <= 1e-6
    assert peeled > 15


def test_the_best_compromise_is_that_of_the_whole():
    """mu* is the gamma -> 0+ choice on both ways, cluster by cluster."""
    compared = 0
    for seed in range(40):
        for c in components(seed):
            if not c.convex.all() or c.pinned is not None or not peel(c)[1]:
                continue
            case = case_of(c)
            whole = inconsistency(case.pdg, case.attention, solver="newton")
            found = inconsistency(case.pdg, case.attention, solver=PEELED)
            assert isinstance(found.mu, Extended)
            for names in found.mu.tree.clusters:
                away = float((whole.mu.marginal(*names) - found.mu.marginal(*names)).abs().sum()) / 2
                assert away <= 1e-4 + 10 * (found.mu_error + whole.mu_error)
            compared += 1
    assert compared > 15


def test_nothing_is_left_of_a_bayesian_network():
    pdg = chain(60)
    result = inconsistency(pdg)
    assert (result.lower, result.upper, result.solver) == (0.0, 0.0, "peeled")
    marginal = pdg["X0"].cpd.table().numpy()
    for i in range(1, 60):
        marginal = marginal @ pdg[f"X{i}"].cpd.table().numpy()
    np.testing.assert_allclose(result.mu.marginal("X59"), marginal, atol=1e-12)
    assert all(row.contribution <= 1e-12 for row in result.by_arc(saved=False))


def test_what_leads_to_the_evidence_is_left():
    pdg = chain(60) + Arc("seen", (), Variable("X2", 4), [0.7, 0.1, 0.1, 0.1])
    (component,) = prepare(pdg, Attention.uniform(pdg)).parts
    kept, ends = peel(component)
    assert {component.beliefs[k].name for k in kept} == {"X0", "X1", "X2", "seen"}
    assert [a.name for a in ends] == [f"X{i}" for i in range(59, 2, -1)]
    short = pdg.subgraph("X0", "X1", "X2", "seen")
    result, small = inconsistency(pdg), inconsistency(short)
    assert result.upper == pytest.approx(small.upper, abs=1e-9)
    np.testing.assert_allclose(result.mu.marginal("X1", "X2"), small.mu.marginal("X1", "X2"), atol=1e-6)
    onward = small.mu.marginal("X2") @ pdg["X3"].cpd.table()
    np.testing.assert_allclose(result.mu.marginal("X3"), onward, atol=1e-6)


def test_what_dropping_an_arc_saves_is_the_same():
    pdg = chain(40) + Arc("seen", (), Variable("X2", 4), [0.7, 0.1, 0.1, 0.1])
    short = pdg.subgraph("X0", "X1", "X2", "seen")
    saved = {row.name: row.saved_if_dropped for row in inconsistency(pdg).by_arc()}
    for row in inconsistency(short).by_arc():
        assert saved[row.name] == pytest.approx(row.saved_if_dropped, abs=1e-6)
    assert saved["X30"] == 0.0


def test_the_gradient_is_that_of_the_whole():
    rng = np.random.default_rng(3)
    joint = random_joint(rng, v := [Variable(n, 3) for n in "ABC"])
    tail = [Variable(f"T{i}", 4) for i in range(50)]

    def made() -> PDG:
        arcs = [Arc("p", v[0], v[1], SoftmaxTable(conditional_of(joint, v, v[:1], v[1:2])))]
        arcs += [Arc("q", (), v[1], SoftmaxTable([0.2, 0.3, 0.5])), Arc("r", (), v[0], [0.6, 0.2, 0.2])]
        arcs += [Arc("T0", v[1], tail[0], SoftmaxTable(np.full((3, 4), 0.25)))]
        return PDG(*arcs, *(Arc(b.name, a, b, np.full((4, 4), 0.25)) for a, b in itertools.pairwise(tail)))

    slopes = []
    for solver in ("auto", "newton"):
        pdg = made()
        inconsistency(pdg, solver=solver).value.backward()
        slopes.append({k: torch.zeros_like(p) if p.grad is None else p.grad for k, p in pdg.theta.items()})
    for k, g in slopes[0].items():
        torch.testing.assert_close(g, slopes[1][k], atol=1e-5, rtol=0)


def test_mu_is_refused_with_its_size_and_the_value_is_not():
    pdg = chain(60)
    result = inconsistency(pdg, solver=Auto(budget=20_000))
    assert result.upper == 0.0
    with pytest.raises(SizeError, match="treewidth 1"):
        result.mu.marginal("X59")
    np.testing.assert_allclose(result.mu.marginal("X0"), pdg["X0"].cpd.table(), atol=1e-12)  # nothing leads there


def test_the_parts_start_from_those_of_a_nearby_result():
    pdg = chain(60)
    last = pdg.variable("X59")
    both = pdg + Arc("one", (), last, SoftmaxTable([0.7, 0.1, 0.1, 0.1])) + Arc("other", X29, last, SoftmaxTable(ROWS))
    both += Arc("end", last, Variable("End", 4), ROWS)
    before = inconsistency(both, solver=PEELED)
    assert before.solver == "newton + peeled" and before.upper > 0.1
    moved = {"one.logits": both["one"].cpd.get_parameter("logits").detach() + torch.tensor([1e-4, 0.0, 0.0, 0.0])}
    cold, warm = (inconsistency(both, theta=moved, solver=PEELED, near=x) for x in (None, before))
    assert abs(warm.upper - cold.upper) < 1e-8 and warm.upper != before.upper
    assert warm.converged and warm.stats["steps"] < cold.stats["steps"] / 2


def test_many_large_problems_lose_their_loose_ends_together_as_each_does_alone():
    """Those of one structure whose weights leave them other loose ends, or none."""
    pdg = chain(60) + Arc("seen", (), Variable("X2", 4), [0.7, 0.1, 0.1, 0.1])
    attentions = [
        Attention.uniform(pdg),
        Attention.uniform(pdg, alpha=0.5),
        Attention.uniform(pdg).replace(beta={"X5": 0.0}),
        Attention.uniform(pdg, beta=2.0),
        Attention.uniform(pdg, gamma=0.5, alpha=2.0),
    ]
    together = inconsistencies(pdg, attentions)
    assert {r.solver for r in together} == {"newton + peeled", "newton", "sum-product"}
    for found, attention in zip(together, attentions, strict=True):
        alone = inconsistency(pdg, attention)
        assert (found.lower, found.upper, found.solver) == (alone.lower, alone.upper, alone.solver)
        assert found.loose_ends == alone.loose_ends


def test_without_loose_ends_the_reduction_leaves_all_to_newton():
    x = Variable("X", 2)
    pdg = PDG(Arc("p", (), x, [0.7, 0.3]), Arc("q", (), x, [0.2, 0.8]))
    found, known = inconsistency(pdg, solver=PEELED), inconsistency(pdg, solver="newton")
    assert (found.lower, found.upper, found.solver) == (known.lower, known.upper, "newton")
