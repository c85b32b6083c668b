"""Preparation: pruning, components, weights, pinning, and the size before anything is allocated."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Mapping
from functools import cached_property

import networkx as nx
import numpy as np
import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    Deterministic,
    DissonanceError,
    Euclidean,
    PointMass,
    SizeError,
    SoftmaxTable,
    Variable,
    inconsistency,
)
from dissonance.attended import Attended
from dissonance.costs import Rows
from dissonance.distributions.tree import Tree, single
from dissonance.problem import BUDGET, Batch, Shape, check_bytes, prepare
from dissonance.proof import Accuracy, ProvedBounds, TableRows
from dissonance.solvers import JointSolver, Newton

inf = math.inf
A, B, C, D = Variable("A", 2), Variable("B", 3), Variable("C", 2), Variable("D", 2)


def rows(*shape: int, seed: int = 0) -> np.ndarray:
    """Random rows over the last axis."""
    p = np.random.default_rng(seed).gamma(1.0, size=shape) + 0.05
    return p / p.sum(-1, keepdims=True)


def only(pdg: PDG, attention: Attention) -> Batch:
    """The one component of an attended PDG."""
    (component,) = prepare(pdg, attention).parts
    return component


# -- pruning and components --------------------------------------------------------------------------------------------


def test_an_arc_without_weight_is_dropped_with_the_variables_only_it_mentions():
    pdg = PDG(Arc("a", (), A, rows(2)), Arc("b", A, B, rows(2, 3)))
    problem = prepare(pdg, Attention.only({"a": 1.0}, {"b": 1.0}, gamma=0.0))
    assert [a.name for c in problem.parts for a in c.arcs] == ["a"]
    assert problem.free == (B,)


def test_components_are_those_of_the_graph_in_the_order_of_their_first_arcs():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        v = [Variable(f"V{i}", 2) for i in range(25)]
        scopes = [rng.choice(25, size=rng.integers(1, 4), replace=False) for _ in range(15)]
        pdg = PDG(*(Arc(f"a{k}", [v[j] for j in s[1:]], v[s[0]], rows(*[2] * len(s))) for k, s in enumerate(scopes)))
        graph = nx.Graph()
        for s in scopes:
            nx.add_star(graph, s)
        parts = sorted(nx.connected_components(graph), key=lambda p: next(k for k, s in enumerate(scopes) if s[0] in p))
        found = prepare(pdg, Attention.uniform(pdg)).parts
        assert [{w.name for w in c.variables} for c in found] == [{f"V{i}" for i in p} for p in parts]
        assert [[a.name for a in c.arcs] for c in found] == [
            [f"a{k}" for k, s in enumerate(scopes) if s[0] in p] for p in parts
        ]
        assert all(list(c.variables) == [w for w in pdg.variables if w in c.variables] for c in found)


def test_an_arc_with_structural_weight_only_is_kept_when_gamma_is_positive():
    pdg = PDG(Arc("a", (), A, rows(2)), Arc("b", A, B, rows(2, 3)))
    problem = prepare(pdg, Attention.only({"a": 1.0}, {"b": 1.0}, gamma=0.5))
    assert [a.name for c in problem.parts for a in c.arcs] == ["a", "b"]
    assert problem.free == ()


def test_every_unmentioned_variable_costs_minus_gamma_log_of_its_size():
    pdg = PDG(Arc("a", (), A, rows(2)), variables=(A, B, C))
    for gamma, wanted in ((0.7, -0.7 * math.log(6)), (0.0, 0.0)):
        problem = prepare(pdg, Attention.only({"a": 1.0}, gamma=gamma))
        assert problem.free == (B, C)
        lower, upper, _ = ProvedBounds.entropy(problem.free, problem.gamma).one
        assert lower <= wanted <= upper and (lower + upper) / 2 == pytest.approx(wanted, abs=1e-15)
        assert lower == upper == 0 if gamma == 0 else upper - lower < 1e-14


def test_arcs_that_share_no_variable_are_in_different_components():
    pdg = PDG(
        Arc("ab", A, B, rows(2, 3)), Arc("c", (), C, rows(2)), Arc("b", (), B, rows(3)), Arc("cd", C, D, rows(2, 2))
    )
    parts = [{a.name for a in c.arcs} for c in prepare(pdg, Attention.uniform(pdg)).parts]
    assert parts == [{"ab", "b"}, {"c", "cd"}]


def test_the_variables_of_a_component_keep_the_order_of_the_pdg():
    pdg = PDG(Arc("cb", C, B, rows(2, 3)), Arc("a", A, C, rows(2, 2)), variables=(A, B, C))
    assert only(pdg, Attention.uniform(pdg)).variables == (A, B, C)


def test_preparing_does_not_touch_the_arguments():
    pdg = PDG(Arc("a", (), A, SoftmaxTable([0.3, 0.7])))
    before = pdg["a"].cpd.logits.clone()
    prepare(pdg, Attention.uniform(pdg)).parts[0].arcs[0].log_p.copy()
    assert (pdg["a"].cpd.logits == before).all()


# -- weights and convexity ---------------------------------------------------------------------------------------------


def test_weights_of_arcs_with_the_same_sources_and_targets_add_up():
    pdg = PDG(Arc("p", A, (B, C), rows(2, 6).reshape(2, 3, 2)), Arc("q", A, (C, B), rows(2, 6).reshape(2, 2, 3)))
    component = only(pdg, Attention.only({"p": 0.2, "q": 1.5}, {"p": 1.0, "q": 0.5}, gamma=0.6))
    assert component.weights == {(frozenset("A"), frozenset("BC")): pytest.approx(1.7 - 0.6 * 1.5)}
    assert component.convex  # though p alone would not be


def test_a_hard_arc_takes_the_entropy_term_of_its_mechanism_away():
    pdg = PDG(Arc("p", A, B, rows(2, 3)), Arc("q", A, B, rows(2, 3, seed=1)), Arc("a", (), A, rows(2)))
    component = only(pdg, Attention.only({"p": inf, "q": -1.0, "a": 1.0}, {"p": 1.0}, gamma=0.3))
    assert set(component.weights) == {(frozenset(), frozenset("A"))}
    assert component.convex


@pytest.mark.parametrize(
    ("beta", "gamma", "convex"), [(1.0, 1.0, True), (0.9, 1.0, False), (-0.1, 0.0, False), (0.0, 0.1, False)]
)
def test_convex_means_beta_at_least_gamma_alpha(beta: float, gamma: float, convex: bool):
    pdg = PDG(Arc("p", A, B, rows(2, 3)), Arc("a", (), A, rows(2)))
    assert only(pdg, Attention.only({"p": beta, "a": 1.0}, {"p": 1.0}, gamma)).convex.tolist() == [convex]


def test_disbelief_in_the_impossible_is_not_convex():
    pdg = PDG(Arc("p", (), A, [0.0, 1.0]), Arc("q", (), A, [0.5, 0.5]))
    assert not only(pdg, Attention.only({"p": -0.5, "q": 1.0})).convex


# -- pinning -----------------------------------------------------------------------------------------------------------


def pinned(pdg: PDG, **beta: float) -> list[str] | None:
    """The names of the arcs that pin mu, or None."""
    found = only(pdg, Attention.only({a.name: beta.get(a.name, inf) for a in pdg.arcs})).pinned
    return None if found is None else [a.name for a in found]


def test_a_hard_bayesian_network_pins_mu_with_sources_first():
    pdg = PDG(Arc("bc", (A, B), C, rows(2, 3, 2)), Arc("ab", A, B, rows(2, 3)), Arc("a", (), A, rows(2)))
    assert pinned(pdg) == ["a", "ab", "bc"]
    assert pinned(pdg, bc=1.0) is None  # C is not determined


def test_two_hard_marginals_do_not_pin_what_a_third_arc_says_about_both():
    pdg = PDG(Arc("a", (), A, rows(2)), Arc("b", (), B, rows(3)), Arc("ab", A, B, rows(2, 3)))
    assert pinned(pdg, ab=1.0) is None
    assert pinned(pdg, ab=-1.0) is None
    assert pinned(pdg, ab=inf) is None


def test_a_hard_chain_pins_its_links_but_not_its_ends():
    chain = (Arc("a", (), A, rows(2)), Arc("ab", A, B, rows(2, 3)), Arc("bc", B, C, rows(3, 2)))
    assert pinned(PDG(*chain, Arc("link", C, B, rows(2, 3))), link=1.0) == ["a", "ab", "bc"]
    assert pinned(PDG(*chain, Arc("ends", C, A, rows(2, 2))), ends=1.0) is None


def test_functions_and_constants_leave_nothing_free():
    xor = Deterministic(lambda a, c: (a + c) % 2)
    hard = (Arc("a", (), A, rows(2)), Arc("c", A, C, rows(2, 2)), Arc("d", (A, C), D, xor))
    assert pinned(PDG(*hard, Arc("soft", D, C, rows(2, 2))), soft=-1.0) == ["a", "c", "d"]
    constant = (Arc("a", (), A, PointMass(1)), Arc("c", (), C, rows(2)))
    assert pinned(PDG(*constant, Arc("soft", A, C, rows(2, 2))), soft=1.0) == ["a", "c"]
    # a function of two free variables does not couple them: D = A xor C with C a marginal leaves (A, C) free
    free = (Arc("a", (), A, rows(2)), Arc("c", (), C, rows(2)), Arc("d", (A, C), D, xor))
    assert pinned(PDG(*free, Arc("soft", (), D, rows(2))), soft=1.0) is None


def test_what_is_a_function_of_the_sources_may_stand_beside_them():
    copy = Deterministic(lambda a: a)
    pdg = PDG(Arc("a", (), A, rows(2)), Arc("c", A, C, copy), Arc("b", A, B, rows(2, 3)), Arc("soft", C, B, rows(2, 3)))
    assert pinned(pdg, soft=1.0) == ["a", "c", "b"]


def test_a_cycle_of_hard_arcs_does_not_pin_mu():
    pdg = PDG(Arc("ab", A, B, rows(2, 3)), Arc("ba", B, A, rows(3, 2)))
    assert pinned(pdg) is None


def test_a_second_hard_belief_is_a_check_and_not_a_maker():
    pdg = PDG(Arc("a", (), A, rows(2)), Arc("again", (), A, rows(2)))
    assert pinned(pdg) == ["a"]


# -- size --------------------------------------------------------------------------------------------------------------


def clique(n: int) -> PDG:
    """Arcs between all pairs of n binary variables."""
    v = [Variable(f"V{i}", 2) for i in range(n)]
    return PDG(*(Arc(f"{i}-{j}", v[i], v[j], [[0.9, 0.1], [0.1, 0.9]]) for i in range(n) for j in range(i)))


@pytest.mark.parametrize("solver", ["newton", "clique-tree", "joint", "concave-convex"])
def test_a_fifty_variable_clique_is_refused_quickly_and_without_memory(solver: str):
    pdg = clique(50)
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(SizeError, match=r"treewidth 49.*1\.13e\+15 table cells.*PiB.*beta to 0.*budget"):
        inconsistency(pdg, solver=solver)
    seconds, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 10
    assert peak < 64 * 2**20


def test_the_budget_is_respected_to_the_byte():
    pdg = clique(4)
    need = int(inconsistency(pdg, solver=Newton()).stats["memory"])
    assert inconsistency(pdg, solver=Newton(budget=need)).converged
    with pytest.raises(SizeError):
        inconsistency(pdg, solver=Newton(budget=need - 1))


def test_a_long_chain_fits_on_its_tree_but_not_as_one_joint():
    v = [Variable(f"V{i}", 2) for i in range(60)]
    pdg = PDG(*(Arc(f"p{i}", v[i], v[i + 1], [[0.8, 0.2], [0.3, 0.7]]) for i in range(59)))
    assert inconsistency(pdg).upper == pytest.approx(0, abs=1e-7)
    with pytest.raises(SizeError, match="treewidth 59"):
        inconsistency(pdg, solver=JointSolver())


def tangled(n: int) -> PDG:
    """A Bayesian network of n binary variables, each with two parents drawn at random: no table would fit."""
    rng = np.random.default_rng(0)
    v = [Variable(f"V{i}", 2) for i in range(n)]
    parents = [[v[j] for j in rng.choice(i, size=2, replace=False)] if i > 1 else [] for i in range(n)]
    return PDG(*(Arc(f"p{i}", s, v[i], rng.dirichlet([1, 1], (2,) * len(s))) for i, s in enumerate(parents)))


def test_a_tangle_is_refused_in_one_line_unless_no_table_is_needed():
    pdg = tangled(4000)  # min-fill to the end, with tables counted in full, took minutes and then overflowed
    for gamma in (0.0, 0.5):
        result = inconsistency(pdg, Attention.uniform(pdg, gamma=gamma))
        assert result.lower == result.upper == 0 and result.stats["treewidth"] > 300
    even, uneven = Attention.uniform(pdg, gamma=1.0), Attention.uniform(pdg, alpha=0.5, gamma=0.5)
    for attention, solver in ((even, "sum-product"), (uneven, "newton")):
        with pytest.raises(SizeError, match=r"cluster of \d+ variables\) and needs 10\^\d+ table cells") as error:
            inconsistency(pdg, attention, solver=solver)
        assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_sizes_that_are_not_numbers_for_a_machine_are_powers_of_ten():
    tree = single({f"V{i}": 2 for i in range(200)})
    with pytest.raises(SizeError, match=r"1\.61e\+60 table cells, about 10\^61 bytes"):
        check_bytes(tree, 8 * tree.cells, BUDGET)
    with pytest.raises(SizeError, match=r"10\^1505 table cells, which no machine holds"):
        joint = single({f"V{i}": 2 for i in range(5000)})
        check_bytes(joint, 8 * joint.cells, BUDGET)


# -- what cannot be prepared -------------------------------------------------------------------------------------------


def test_an_attended_continuous_arc_is_named_in_the_error_and_may_be_left_out():
    x = Variable("X", Euclidean(3))
    pdg = PDG(Arc("at", (), x, PointMass([0.0, 1.0, 2.0])), Arc("a", (), A, rows(2)))
    with pytest.raises(
        CapabilityError, match=r"arc 'at' \(-> X\) cannot be tabulated: X is Euclidean\(3\).*beta\['at'\]"
    ):
        inconsistency(pdg)
    assert inconsistency(pdg, Attention.only({"a": 1.0})).upper == pytest.approx(0, abs=1e-12)


def seen(x: object) -> object:
    """What there is to compare of something that is known of a component."""
    if isinstance(x, Attended):
        return x.name, x.log_p.tolist()
    if isinstance(x, Batch):
        return [a.name for a in x.beliefs], seen(x.variables), seen(x.free), seen(x.numbers), seen(x.theta)
    if isinstance(x, Mapping):
        return {name: seen(y) for name, y in x.items()}
    if isinstance(x, Shape):
        return x.key
    if isinstance(x, Tree):
        return x.clusters
    if isinstance(x, Accuracy):
        return [seen(y) for y in (*x.sizes, x.floor, x.hard, x.soft)]
    if isinstance(x, Rows):
        return [seen(y) for y in vars(x).values() if isinstance(y, np.ndarray)]
    if isinstance(x, TableRows):
        return [seen(x.sources), seen(x.targets), x.log_states]
    if isinstance(x, tuple | list):
        return [seen(y) for y in x]
    if isinstance(x, PDG):
        return [(a.name, a.log_table(None).tolist()) for a in x.arcs]
    return x.tolist() if isinstance(x, np.ndarray | torch.Tensor) else x


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_what_is_known_of_a_component_at_other_parameters_is_what_a_new_one_finds(gamma: float):
    """Whatever depends on the numbers in tables must not be taken over from the parameters before."""
    pdg = PDG(
        Arc("p", (), A, SoftmaxTable([0.5, 0.5])),
        Arc("q", A, C, SoftmaxTable([[0.9, 0.1], [0.2, 0.8]])),
        Arc("r", (), C, SoftmaxTable([0.3, 0.7])),
    )
    attention = Attention(beta={"p": math.inf, "q": 1.0, "r": 2.0}, alpha={"p": 1.0, "q": 1.0, "r": 1.0}, gamma=gamma)
    other = {key: x.detach() + torch.tensor([0.0, 1.0]) for key, x in pdg.theta.items()}
    (component,) = prepare(pdg, attention).parts
    known = [name for name, x in vars(Batch).items() if isinstance(x, cached_property)]
    for name in known:
        getattr(component, name)
    assert len(known) > 10
    moved, (fresh,) = component.at(other), prepare(pdg, attention, other).parts
    assert seen(moved.arcs) == seen(fresh.arcs) != seen(component.arcs)
    for name in known:
        assert seen(getattr(moved, name)) == seen(getattr(fresh, name)), name


def test_attention_to_an_unknown_arc_suggests_the_nearest():
    pdg = PDG(Arc("study", (), A, rows(2)))
    with pytest.raises(DissonanceError, match=r"no arc named 'studdy'. Did you mean 'study'"):
        prepare(pdg, Attention.only({"studdy": 1.0}))
