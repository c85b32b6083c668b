"""Tree decompositions: running intersection, homes, treewidth."""

from __future__ import annotations

import itertools

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
