"""Belief propagation as LIR: every step is the textbook's, whatever the schedule."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch

from dissonance import PDG, Attention, DissonanceError, Focus, SizeError, Variable, full_control, inconsistency, lir
from dissonance.bp import FactorGraph, belief_propagation
from dissonance.instances.belief_propagation.tied import Tied
from reference.belief_propagation import Textbook, brute_force, same
from reference.belief_runs import EVERY, LOOPY, ROUNDING, check_steps, named, random_tables

TREE = ([2, 3, 2, 2], [(0,), (0, 1), (1, 2, 3)])


@pytest.mark.parametrize("schedule", ["flooding", "sequential", "random"])
def test_every_step_of_a_schedule_is_the_textbook_step(schedule):
    cards, scopes = LOOPY
    tables = random_tables(cards, scopes)
    bp = belief_propagation(named(cards, scopes, tables), schedule)
    run = bp.run(bp.sweep + 8, trace=EVERY, seed=3)
    check_steps(bp, run, Textbook(cards, scopes, tables))


def test_the_residual_schedule_moves_what_is_furthest_from_where_it_would_go():
    cards, scopes = [2, 2, 3], [(0, 1), (1, 2), (0,)]
    tables = random_tables(cards, scopes, 1)
    bp = belief_propagation(named(cards, scopes, tables), "residual")
    run = bp.run(40, trace=EVERY)
    book = Textbook(cards, scopes, tables)
    beliefs = {v: np.full(k, 1 / k) for v, k in enumerate(cards)}
    for row in run.trace.rows[:-1]:
        gains = {n: -2 * math.log(np.sqrt(book.m[n] * book.new(n)).sum()) for n in book.m}
        gains |= {f"b(X{v})": -2 * math.log(np.sqrt(b * book.belief(v)).sum()) for v, b in beliefs.items()}
        (moved,) = row.chi
        assert gains[moved] > max(gains.values()) - 1e-12
        if moved in book.m:
            book.update(moved)
        else:
            beliefs[int(moved[3:-1])] = book.belief(int(moved[3:-1]))
    check_steps(bp, run, Textbook(cards, scopes, tables))
    _, exact = brute_force(cards, scopes, tables)
    found = bp.read(run).marginals  # it is a tree
    assert max(np.abs(found[f"X{v}"].numpy() - p).max() for v, p in enumerate(exact)) < 1e-10


def test_a_tree_gets_its_exact_marginals_and_its_log_partition():
    cards, scopes = TREE
    tables = random_tables(cards, scopes, 2)
    log_z, exact = brute_force(cards, scopes, tables)
    bp = belief_propagation(named(cards, scopes, tables), "sequential")
    found = bp.answer(2 * bp.sweep)
    assert max(np.abs(found.marginals[f"X{v}"].numpy() - p).max() for v, p in enumerate(exact)) < ROUNDING
    assert found.free_energy == pytest.approx(-log_z, abs=1e-12)


def test_the_free_energy_is_a_signed_sum_of_local_inconsistencies():
    cards, scopes = LOOPY
    tables = random_tables(cards, scopes, 3)
    bp = belief_propagation(named(cards, scopes, tables))
    run = bp.run(bp.sweep)
    ties = {n: math.inf for n, b in bp.attention.beta.items() if b == math.inf}
    inner = [a.name for a in run.pdg if a.name in bp.graph.factor or "->" in a.name]

    def shown(*arcs: str) -> float:
        assert set(arcs) <= set(inner)
        unit = dict.fromkeys(arcs, 1.0)
        pdg = run.pdg.subgraph(*arcs, *ties)
        free = Attention.only(ties, {}, 1.0)
        value = inconsistency(pdg, free.replace(beta=unit, alpha=unit), solver=Tied()).upper
        seen = {v.name.split("@")[0] for a in arcs for v in run.pdg[a].scope}
        return value + sum(math.log(v.size) for v in bp.graph.variables if v.name not in seen)

    total = sum(shown(*(f"{a}->{r.name}" for a in r.neighbours)) for r in bp.graph.regions)
    for phi in bp.graph.factors:
        around = [r.name for r in bp.graph.around[phi.name]]
        total += shown(phi.name, *(f"{x}->{phi.name}" for x in around)) - math.log(float(phi.table.sum()))
        total -= sum(shown(f"{x}->{phi.name}", f"{phi.name}->{x}") for x in around)
    found = bp.read(run)
    assert found.free_energy == pytest.approx(total, abs=1e-10)


def test_any_solver_comes_to_the_same_message():
    cards, scopes = [2, 2], [(0, 1), (0,)]
    tables = random_tables(cards, scopes, 4)
    bp = belief_propagation(named(cards, scopes, tables))
    ours, other = (bp.answer(5, solver=s).messages for s in (Tied(), "auto"))
    assert max(float((ours[n] - other[n]).abs().max()) for n in ours) < 1e-9


def test_messages_whose_foci_share_no_variable_can_move_in_one_focus():
    cards, scopes = [2, 3, 2, 2], [(0, 1), (2, 3), (1, 2)]
    tables = random_tables(cards, scopes, 5)
    bp = belief_propagation(named(cards, scopes, tables))
    one, two = bp.foci["f0->X1"], bp.foci["f1->X2"]
    both = Focus(
        one.attention.replace(beta=dict(two.attention.beta), alpha=dict(two.attention.alpha)),
        full_control("f0->X1", "f1->X2"),
    )
    run = lir(bp.pdg, lambda *_: both, steps=1, solver=Tied(), attention=bp.attention, trace=EVERY)
    book = Textbook(cards, scopes, tables)
    book.update("f0->X1")
    book.update("f1->X2")
    assert same(bp.beliefs(run.theta).messages, book.m) < ROUNDING


def test_without_the_equalities_every_message_is_uniform():
    """Erratum 12: the paper's foci give X = X^a no weight, and then nothing is said."""
    cards, scopes = [2, 2], [(0, 1), (0,)]
    bp = belief_propagation(named(cards, scopes, random_tables(cards, scopes, 6)))
    focus = bp.foci["f0->X1"]
    deaf = Focus(focus.attention.without(*(n for n, b in focus.attention.beta.items() if b == math.inf)), focus.control)
    start = PDG(*(a for a in bp.pdg))
    run = lir(start, lambda *_: deaf, steps=1, solver=Tied(), attention=bp.attention, trace=EVERY)
    assert torch.allclose(run.pdg["f0->X1"].cpd.table(), torch.full((2,), 0.5, dtype=torch.float64), atol=1e-12)


def test_a_moving_message_with_alpha_1_becomes_a_point_mass():
    """Erratum 12: J = -log sum m nu is least where m is certain."""
    cards, scopes = [2, 2], [(0, 1), (1,)]
    tables = [np.array([[2.0, 1.0], [1.0, 1.0]]), np.array([1.0, 1.0])]
    bp = belief_propagation(named(cards, scopes, tables))
    focus = bp.foci["f0->X0"]
    rewarded = focus.attention.replace(alpha={"f0->X0": 1.0})
    values = []
    for p in (0.6, 0.9, 0.999):
        theta = {**bp.pdg.theta, "f0->X0.logits": torch.log(torch.tensor([p, 1 - p], dtype=torch.float64))}
        values.append(inconsistency(bp.pdg, rewarded, solver=Tied(), theta=theta).upper)
    assert values[0] > values[1] > values[2]


# -- cluster graphs ------------------------------------------------------------------------------------------------


def asia():
    """Lauritzen and Spiegelhalter's network."""
    names = ("asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp")
    v = {n: Variable(n, ["yes", "no"]) for n in names}

    def p(*rows):
        return np.array([[r, 1 - r] for r in rows])

    tables = {
        "asia": ([], p(0.01)[0]),
        "tub": (["asia"], p(0.05, 0.01)),
        "smoke": ([], p(0.5)[0]),
        "lung": (["smoke"], p(0.1, 0.01)),
        "bronc": (["smoke"], p(0.6, 0.3)),
        "either": (["lung", "tub"], p(1.0, 1.0, 1.0, 0.0).reshape(2, 2, 2)),
        "xray": (["either"], p(0.98, 0.05)),
        "dysp": (["bronc", "either"], p(0.9, 0.8, 0.7, 0.1).reshape(2, 2, 2)),
    }
    return PDG.from_bayesian_network({v[n]: ([v[m] for m in parents], t) for n, (parents, t) in tables.items()})


def test_the_clique_tree_of_asia_is_exact_step_by_step_in_lir():
    pyagrum = pytest.importorskip("pyagrum")
    pdg = asia()
    bn = pyagrum.BayesNet()
    for v in pdg.variables:
        bn.add(pyagrum.LabelizedVariable(v.name, v.name, 2))
    for a in pdg:
        for s in a.sources:
            bn.addArc(s.name, a.targets[0].name)
    for a in pdg:
        names = list(reversed(bn.cpt(a.targets[0].name).names))
        order = [[v.name for v in a.scope].index(n) for n in names]
        bn.cpt(a.targets[0].name).fillWith(a.cpd.table().permute(order).reshape(-1).tolist())
    engine = pyagrum.LazyPropagation(bn)
    graph = FactorGraph.clique_tree(pdg)
    links = [(r.neighbours, r.name) for r in graph.regions]
    inward = [f"{x}->{y}" for (parent, child), r in reversed(links) for x, y in ((child, r), (r, parent))]
    outward = [f"{x}->{y}" for (parent, child), r in links for x, y in ((parent, r), (r, child))]
    bp = belief_propagation(graph, [*inward, *outward, *graph.region])
    found = bp.answer(bp.sweep)
    for v in pdg.variables:
        assert np.abs(found.marginals[v.name].numpy() - engine.posterior(v.name).toarray()).max() < 1e-10
    assert found.free_energy == pytest.approx(0.0, abs=1e-12)  # a Bayesian network sums to 1


# -- what is refused -----------------------------------------------------------------------------------------------

A, B = Variable("A", 2), Variable("B", 3)


@pytest.mark.parametrize(
    ("factors", "complaint"),
    [
        ({"f": ((A, B), np.ones((3, 2)))}, r"factor 'f' \(A, B\) has shape \(3, 2\), but its variables need \(2, 3\)"),
        ({"f": (A, [1.0, -0.5])}, r"factor 'f' \(A\) holds the negative number -0.5"),
        ([(A, [1.0, 1.0]), (B, [0.0, 0.0, 0.0])], r"factor 'phi2' \(B\) is 0 everywhere"),
        ({"f": (A, [1.0, math.nan])}, r"factor 'f' \(A\) holds a number that is not finite"),
        ({"f": (A, "x")}, "factor 'f': a table is an array of numbers"),
        ({"A": (A, [1.0, 1.0])}, "are called 'A'"),
        ({"f": (A, [1.0, 1.0]), "g": (Variable("A", 3), [1.0] * 3)}, "factor 'g' .* another domain"),
        ({}, "at least one factor"),
    ],
)
def test_bad_factors_are_named(factors, complaint):
    with pytest.raises(DissonanceError, match=complaint):
        belief_propagation(factors)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"schedule": "floding"}, "no schedule named 'floding'.*flooding"),
        ({"schedule": ["A->g"]}, "no focus named 'A->g'"),
        ({"damping": 1.0}, "damping"),
        ({"confidence": 0.0}, "confidence"),
        ({"power": 0.0}, "power of factor 'f'"),
        ({"power": {"g": 0.5}}, "no factor named 'g'"),
    ],
)
def test_bad_options_are_named(options, complaint):
    with pytest.raises(DissonanceError, match=complaint):
        belief_propagation({"f": (A, [1.0, 2.0])}, **options)


def test_links_of_clusters_are_checked():
    clusters = {"C": ((A, B), np.ones((2, 3))), "D": (A, np.ones(2))}
    with pytest.raises(DissonanceError, match="no 'E'"):
        FactorGraph.clusters(clusters, [("C", "E")])
    with pytest.raises(DissonanceError, match="'B' is not in both"):
        FactorGraph.clusters(clusters, [("C", "D", [B])])
    with pytest.raises(DissonanceError, match="zeros"):
        belief_propagation({"f": (A, [0.0, 1.0])}, power=2.0)


def test_a_factor_that_says_nothing_leaves_beliefs_uniform_without_a_warning():
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        found = belief_propagation({"f": ((A, B), np.ones((2, 3)))}).answer(4)
    assert given == []
    assert found.marginals["A"].tolist() == pytest.approx([1 / 2] * 2)
    assert found.marginals["B"].tolist() == pytest.approx([1 / 3] * 3)


def test_a_junction_tree_that_would_not_fit_is_refused_before_it_is_made():
    """Every pair of 60 variables shares a factor: one cluster of 4^60 cells."""
    many = [Variable(f"X{i}", 4) for i in range(60)]
    pairs = [((a, b), np.ones((4, 4))) for i, a in enumerate(many) for b in many[:i]]
    with pytest.raises(SizeError, match=r"the junction tree has treewidth 59 .*FactorGraph\.of"):
        FactorGraph.clique_tree(pairs)
    few = pairs[:3]
    assert len(FactorGraph.clique_tree(few, budget=2 * 8 * 4**3).factors) == 1
    with pytest.raises(SizeError, match="the junction tree"):
        FactorGraph.clique_tree(few, budget=2 * 8 * 4**3 - 1)
