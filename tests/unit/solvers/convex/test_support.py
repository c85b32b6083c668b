"""Which cells can carry mass: zeros travel through separators and hard arcs, and may leave nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from problems import component as component_of
from problems import inf, loop, supported
from scipy.optimize import linprog

from dissonance import PDG, Arc, Attention, Deterministic, PointMass, Variable, inconsistency
from dissonance.distributions import Tree
from dissonance.distributions.tree import single
from dissonance.problem import Batch, prepare
from dissonance.solvers.convex import layout
from reference.dense import summing, table_of
from strategies import Style, case_of, random_case

A, B, C = Variable("A", 2), Variable("B", 2), Variable("C", 2)
EQUAL = [[1.0, 0.0], [0.0, 1.0]]
HALF = [[0.5, 0.5], [0.5, 0.5]]


def component(pdg: PDG, **beta: float) -> Batch:
    return component_of(pdg, Attention.only({a.name: beta.get(a.name, 1.0) for a in pdg.arcs}))


def states(part: Batch, tree: Tree) -> list[np.ndarray] | None:
    """The numbers of the supported cells of every cluster's table."""
    found = supported(part, tree)
    return None if found is None else np.split(found.layout.full, found.layout.cell_at[1:-1])


def alive(pdg: PDG, **beta: float) -> list[tuple[int, ...]] | None:
    """The supported states of the dense joint."""
    part = component(pdg, **beta)
    found = states(part, single(part.sizes))
    if found is None:
        return None
    return [tuple(int(i) for i in np.unravel_index(s, tuple(part.sizes.values()))) for s in found[0]]


def test_a_flat_index_of_any_axes_in_any_order():
    size, cluster, cells = np.array([2, 3]), np.array([0, 1]), np.arange(6)

    def setting(*axes: int) -> tuple[np.ndarray, int]:
        return layout._settings(size, cluster, np.array(axes, dtype=np.int64), cells)

    for axes, wanted, total in (((1, 0), [0, 2, 4, 1, 3, 5], 6), ((1,), [0, 1, 2, 0, 1, 2], 3), ((), [0] * 6, 1)):
        found, count = setting(*axes)
        np.testing.assert_array_equal(found, wanted)
        assert count == total


def test_a_zero_of_an_attended_arc_removes_its_states():
    pdg = PDG(Arc("ab", A, B, [[1.0, 0.0], [0.5, 0.5]]))
    assert alive(pdg) == [(0, 0), (1, 0), (1, 1)]


def test_a_zero_of_a_disbelieved_or_structural_arc_removes_nothing():
    pdg = PDG(Arc("ab", A, B, [[1.0, 0.0], [0.5, 0.5]]), Arc("b", (), B, [0.5, 0.5]))
    assert alive(pdg, ab=-1.0) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_zeros_travel_along_the_tree():
    pdg = PDG(Arc("a", (), A, PointMass(1)), Arc("ab", A, B, EQUAL), Arc("bc", B, C, EQUAL))
    part = component(pdg)
    found = states(part, part.tree)
    assert found is not None
    for cluster, cells, shape in zip(part.tree.clusters, found, part.tree.shapes, strict=True):
        assert [np.unravel_index(s, shape) for s in cells] == [(1,) * len(cluster)]


def test_a_hard_arc_drops_the_sources_for_which_a_value_it_wants_is_gone():
    pdg = PDG(Arc("ab", A, B, HALF), Arc("soft", A, B, [[1.0, 0.0], [0.5, 0.5]]))
    assert alive(pdg) == [(0, 0), (1, 0), (1, 1)]
    assert alive(pdg, ab=inf) == [(1, 0), (1, 1)]  # at A = 0 half the mass would have to be where it cannot


def test_what_hard_rows_drop_travels_on():
    pdg = PDG(
        Arc("ab", A, B, HALF),
        Arc("soft", A, B, [[1.0, 0.0], [0.5, 0.5]]),
        Arc("ca", C, A, EQUAL),
        Arc("c", (), C, [0.5, 0.5]),
    )
    assert alive(pdg, ab=inf) == [(1, 0, 1), (1, 1, 1)]
    assert alive(pdg, ab=inf, c=inf) is None  # and half of C is now impossible


@pytest.mark.parametrize("solver", ["auto", "newton", "clique-tree", "joint", "concave-convex"])
@pytest.mark.parametrize("hard", [(), ("a",), ("a", "b", "ab")])
def test_when_nothing_is_left_the_inconsistency_is_infinite(solver: str, hard: tuple[str, ...]):
    pdg = PDG(Arc("a", (), A, PointMass(0)), Arc("ab", A, B, EQUAL), Arc("b", (), B, PointMass(1)))
    result = inconsistency(pdg, Attention.uniform(pdg).replace(beta=dict.fromkeys(hard, inf)), solver=solver)
    assert result.lower == result.upper == float(result.value) == inf
    assert result.converged


def test_zeros_are_never_replaced_by_small_numbers():
    same = Deterministic(lambda a: a)
    pdg = PDG(Arc("ab", A, B, same), Arc("a", (), A, [0.5, 0.5]), Arc("b", (), B, [0.2, 0.8]))
    mu = inconsistency(pdg).mu
    assert float(mu.probability({"A": 0, "B": 1})) == 0 == float(mu.probability({"A": 1, "B": 0}))


def test_the_support_is_the_set_of_possible_states_by_brute_force():
    """Without hard arcs: a state is alive iff no attended arc gives it probability 0, on the joint and on the tree."""
    for seed in range(40):
        case = random_case(seed, Style(zeros=0.35))
        for part in prepare(case.pdg, case.attention).parts:
            names = list(part.sizes)
            possible = np.ones(tuple(part.sizes.values()), dtype=bool)
            for a in part.arcs:
                p = table_of(a.arc).reshape([part.sizes[v] for v in a.scope]) > 0
                inside = sorted(a.scope, key=names.index)
                p = p.transpose([a.scope.index(v) for v in inside])
                possible &= p.reshape([part.sizes[v] if v in a.scope else 1 for v in names])
            dense, tree = states(part, single(part.sizes)), states(part, part.tree)
            assert dense is not None and tree is not None
            np.testing.assert_array_equal(dense[0], np.flatnonzero(possible))
            for cluster, cells in zip(part.tree.clusters, tree, strict=True):
                rest = tuple(i for i, v in enumerate(names) if v not in cluster)
                kept = [v for v in names if v in cluster]
                expected = possible.any(rest).transpose([kept.index(v) for v in cluster])
                np.testing.assert_array_equal(cells, np.flatnonzero(expected))


def test_no_cell_is_dropped_that_some_mu_on_the_hard_arcs_uses():
    """By linear programming over the joint: dropped cells can have no mass, and None means that nothing is feasible."""
    rng = np.random.default_rng(10)
    dropped = impossible = 0
    for _ in range(40):
        pdg = loop(rng, zeros=0.4)
        part = component_of(pdg, Attention.uniform(pdg).replace(beta={"cd": inf, "da": inf}))
        pdg = case_of(part).pdg
        count = math.prod(v.size for v in pdg.variables)
        dead, equations = np.zeros(count, dtype=bool), [np.ones((1, count))]
        for a in part.arcs:
            p, joint = table_of(a.arc), summing(pdg, a.arc).toarray()
            dead |= joint.T @ (p.reshape(-1) == 0) > 0
            if a.hard:
                row = np.kron(np.eye(len(p)), np.ones((p.shape[1], p.shape[1])))
                equations.append(joint - p.reshape(-1)[:, None] * (row @ joint))
        right = np.zeros(sum(len(e) for e in equations))
        right[0] = 1.0
        found = states(part, part.tree)
        gone = np.zeros(count) if found is not None else np.ones(count)
        if found is not None:
            places = np.stack(np.unravel_index(np.arange(count), [v.size for v in pdg.variables]), 1)
            names = [v.name for v in pdg.variables]
            for cluster, shape, cells in zip(part.tree.clusters, part.tree.shapes, found, strict=True):
                where = np.ravel_multi_index(tuple(places[:, names.index(v)] for v in cluster), shape)
                gone[~np.isin(where, cells)] = 1.0
        most = linprog(-gone, A_eq=np.vstack(equations), b_eq=right, bounds=[(0, 0.0 if d else 1.0) for d in dead])
        if found is None:
            assert most.status == 2  # infeasible
            impossible += 1
        elif most.status == 0:
            assert -most.fun <= 1e-9
            dropped += bool(gone[~dead].any())
    assert impossible > 0 and dropped > 0
