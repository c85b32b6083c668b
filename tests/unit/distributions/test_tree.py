"""Tree decompositions: running intersection, homes, treewidth."""

from __future__ import annotations

import itertools
from math import prod

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissonance.distributions.tree import Tree, decompose, forest, single


def assert_junction_forest(tree: Tree, scopes) -> None:
    """Everything a junction forest promises."""
    clusters = [set(c) for c in tree.clusters]
    assert set().union(*clusters) == set(tree.sizes)
    assert all(-1 <= p < i for i, p in enumerate(tree.parent))  # parents first
    for i, p in enumerate(tree.parent):
        shared = clusters[i] & clusters[p] if p >= 0 else set()
        assert set(tree.separators[i]) == shared
        if p >= 0:
            assert shared, "two components are tied together"
            assert not clusters[i] <= clusters[p] and not clusters[p] <= clusters[i], "a cluster inside its neighbour"
    for v in tree.sizes:  # running intersection: one topmost cluster a variable
        tops = [
            i for i, c in enumerate(clusters) if v in c and (tree.parent[i] < 0 or v not in clusters[tree.parent[i]])
        ]
        assert len(tops) == 1
    for scope in scopes:
        home = tree.home(scope)
        assert home is not None and set(scope) <= clusters[home]
        fits = [i for i, c in enumerate(clusters) if set(scope) <= c]
        assert np.prod(tree.shapes[home]) == min(np.prod(tree.shapes[i]) for i in fits)


def sizes_of(scopes, size: int = 2) -> dict[str, int]:
    return dict.fromkeys(dict.fromkeys(v for s in scopes for v in s), size)


@given(
    st.lists(
        st.lists(st.sampled_from("ABCDEFGHIJ"), min_size=1, max_size=4, unique=True).map(tuple), min_size=1, max_size=14
    ),
    st.randoms(use_true_random=False),
)
@settings(max_examples=200)
def test_a_decomposition_is_a_junction_forest_with_a_home_for_every_scope(scopes, random):
    sizes = {v: random.randint(2, 4) for v in sizes_of(scopes)}
    assert_junction_forest(decompose(sizes, scopes), scopes)


def test_lone_variables_are_clusters_of_their_own():
    tree = decompose({"A": 2, "B": 3, "C": 2}, [("A", "C")])
    assert sorted(map(sorted, tree.clusters)) == [["A", "C"], ["B"]] and tree.parent == (-1, -1)


def chain(n: int):
    return [(f"V{i}", f"V{i + 1}") for i in range(n - 1)]


def grid(rows: int, columns: int):
    return [tuple(map(str, e)) for e in nx.grid_2d_graph(rows, columns).edges]


@pytest.mark.parametrize(
    ("scopes", "treewidth"),
    [
        (chain(50), 1),
        (grid(3, 12), 3),
        (grid(4, 10), 4),
        (grid(4, 40), 4),
        ([(f"V{i}", f"V{(i + 1) % 9}") for i in range(9)], 2),
        (list(itertools.combinations("ABCDEFG", 2)), 6),
        ([("A", f"L{i}") for i in range(20)], 1),
    ],
    ids=["chain", "grid 3x12", "grid 4x10", "grid 4x40", "loop", "clique", "star"],
)
def test_treewidths_that_are_known(scopes, treewidth: int):
    tree = decompose(sizes_of(scopes), scopes)
    assert_junction_forest(tree, scopes)
    assert tree.treewidth == treewidth


def test_a_random_graph_of_treewidth_three_is_not_far_off():
    rng = np.random.default_rng(0)
    scopes = [("0", "1", "2", "3")]
    for i in range(4, 80):
        parent = scopes[rng.integers(len(scopes))]
        scopes.append((*(parent[j] for j in rng.permutation(4)[:3]), str(i)))
    pairs = [p for s in scopes for p in itertools.combinations(s, 2)]
    tree = decompose(sizes_of(pairs), pairs)
    assert_junction_forest(tree, pairs)
    assert tree.treewidth == 3  # min-fill is exact on a chordal graph


def test_a_chain_keeps_one_cluster_a_link():
    tree = decompose(sizes_of(chain(10), 3), chain(10))
    assert len(tree.clusters) == 9 and tree.cells == 81


def test_what_no_cluster_contains_has_no_home():
    tree = decompose(sizes_of(chain(4)), chain(4))
    assert tree.home(("V0", "V3")) is None and tree.home(("V9",)) is None
    assert tree.home(()) == 0


def test_forests_stand_side_by_side():
    one, two = decompose({"A": 2, "B": 2}, [("A", "B")]), single({"C": 3, "D": 2})
    both = forest([one, two])
    assert both.clusters == one.clusters + two.clusters and both.parent == (-1, -1)
    assert both.sizes == {"A": 2, "B": 2, "C": 3, "D": 2}
    assert forest([]).cells == 0
    longer = decompose(sizes_of(chain(4)), chain(4))
    assert forest([one, longer]).parent == (-1, *(p + 1 if p >= 0 else -1 for p in longer.parent))


def test_one_cluster_holds_everything():
    tree = single({"A": 2, "B": 3})
    assert tree.clusters == (("A", "B"),) and tree.cells == 6 and tree.treewidth == 1 and tree.home(("B",)) == 0


def test_a_large_sparse_graph_is_decomposed_quickly():
    scopes = grid(4, 1000)
    tree = decompose(sizes_of(scopes), scopes)  # a quadratic algorithm would take minutes
    assert tree.treewidth == 4


# -- against a plain implementation ----------------------------------------------------------------------------------


def plainly_eliminated(sizes, scopes) -> tuple[list[str], list[set[str]]]:
    """Min-fill by the book: every step counts the missing edges of everyone anew."""
    near = {v: {u for s in scopes if v in s for u in s} - {v} for v in sizes}
    order, cliques = [], []

    def cost(v: str):
        missing = sum(b not in near[a] for a, b in itertools.combinations(near[v], 2))
        return missing, prod(sizes[u] for u in (v, *near[v]))

    while near:
        v = min(near, key=cost)  # the first of the best
        around = near.pop(v)
        for u in around:
            near[u] |= around
            near[u] -= {u, v}
        order.append(v)
        cliques.append({v, *around})
    return order, cliques


def hub(rng, n: int):
    return [("H", f"V{i}") for i in range(n)] + [(f"V{i}", f"V{j}") for i, j in rng.integers(n, size=(6, 2)) if i != j]


def shapes_of_graphs():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 24))
        yield hub(rng, int(rng.integers(60, 90)))  # the hub's table has more than 2^53 cells at first
        yield grid(int(rng.integers(2, 6)), int(rng.integers(2, 7)))
        yield [tuple(map(str, e)) for e in nx.gnm_random_graph(n, 2 * n, seed=seed).edges]
        yield [tuple(f"V{i}" for i in rng.choice(n, size=rng.integers(1, 5), replace=False)) for _ in range(n)]


def test_variables_are_eliminated_in_the_order_of_a_plain_implementation():
    for k, scopes in enumerate(shapes_of_graphs()):
        rng = np.random.default_rng(k)
        names = rng.permutation(list(sizes_of(scopes))).tolist()
        sizes = {v: int(rng.choice([1, 2, 2, 3, 5])) if k % 2 else 2 for v in names}
        order, cliques = plainly_eliminated(sizes, scopes)
        tree = decompose(sizes, scopes)
        largest = [c for c in cliques if not any(c < d for d in cliques)]
        assert sorted(map(sorted, tree.clusters)) == sorted(map(sorted, largest))
        assert all(list(c) == sorted(c, key=order.index) for c in tree.clusters)
        assert_junction_forest(tree, scopes)


def test_homes_are_those_of_each_scope():
    for scopes in itertools.islice(shapes_of_graphs(), 8):
        tree = decompose(sizes_of(scopes), scopes)
        asked = [
            *scopes,
            (),
            ("nobody",),
            *itertools.combinations(list(tree.sizes)[:8], 2),
            *((v,) for v in tree.sizes),
        ]
        one_by_one = [tree.home(s) for s in asked]
        assert tree.homes(asked).tolist() == [-1 if h is None else h for h in one_by_one]
    assert tree.homes([]).tolist() == []


@pytest.mark.parametrize("tree", [decompose({"B": 2, "A": 3, "C": 2}, [("A", "C")]), single({"A": 2, "B": 3})])
def test_a_forest_as_numbers(tree: Tree):
    order, size, at, cluster, parent = tree.arrays
    assert order == tuple(tree.sizes) and size.tolist() == list(tree.sizes.values())
    assert tuple(tuple(order[i] for i in cluster[a:b]) for a, b in itertools.pairwise(at)) == tree.clusters
    assert tuple(parent) == tree.parent


def test_an_elimination_that_cannot_lead_to_tables_is_given_up():
    scopes = [tuple(map(str, e)) for e in nx.random_regular_graph(3, 10_000, seed=0).edges]
    tree = decompose(sizes_of(scopes), scopes)  # to the end it would take minutes
    assert tree.treewidth > 500 and tree.cells == 10**100
    assert all(-1 <= p < i for i, p in enumerate(tree.parent)) and set(tree.sizes) == set().union(*tree.clusters)
    assert all(s for s in tree.separators[1:]) and (tree.homes(scopes) >= 0).all()


def test_a_forest_that_was_given_up_is_a_junction_forest():
    scopes = [tuple(map(str, e)) for e in nx.random_regular_graph(40, 500, seed=0).edges]
    tree = decompose(sizes_of(scopes), scopes)
    assert_junction_forest(tree, [])
