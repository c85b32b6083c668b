"""Dag: tables of any graph of states, and what is said of those that are none."""

from __future__ import annotations

import math

import pytest
import torch

from dissonance import DissonanceError
from dissonance.errors import SizeError
from dissonance.gflownets import Dag

EDGES = {"s": {"l": "a", "r": "b"}, "a": {"x": "b", "y": "d"}, "b": {"x": "c", "y": "d"}, "c": {"x": "d"}, "d": {}}
REWARD = {"s": None, "a": 1.0, "b": None, "c": 0.0, "d": 3.0}


def diamond(**options) -> Dag:
    return Dag.from_moves("s", EDGES.__getitem__, REWARD.__getitem__, **options)


def test_from_moves_finds_every_state_and_move_of_a_graph():
    dag = diamond()
    assert dag.labels is not None and sorted(map(str, dag.labels)) == sorted(EDGES)
    name = dag.labels
    for i in range(dag.states):
        assert {name[j] for j in dag.after[i].tolist() if j >= 0} == set(EDGES[name[i]].values())
        assert {name[j] for j in dag.before[i].tolist() if j >= 0} == {
            s for s, m in EDGES.items() if name[i] in m.values()
        }
        assert bool(dag.exits[i]) == (REWARD[name[i]] is not None)


def test_before_move_and_undo_agree_with_after():
    dag = diamond()
    assert dag.before.shape == (5, 3) and dag.actions == 4
    for s in range(dag.states):
        for a in range(dag.actions):
            there, j = int(dag.after[s, a]), int(dag.undo[s, a])
            assert (there < 0) == (j < 0)
            if there >= 0:
                assert int(dag.before[there, j]) == s and int(dag.move[there, j]) == a
    assert int((dag.before >= 0).sum()) == int((dag.after >= 0).sum()) == int((dag.move >= 0).sum())


def test_layers_are_longest_distances_from_the_start():
    dag = diamond()
    assert [[dag.labels[int(i)] for i in layer] for layer in dag.layers] == [["s"], ["a"], ["b"], ["c"], ["d"]]
    assert dag.longest == 5


def test_the_target_is_the_reward_over_its_sum_and_a_zero_reward_is_at_the_floor():
    dag = diamond()
    found = dict(zip(dag.labels, dag.target.tolist(), strict=True))
    assert found == pytest.approx({"s": 0, "a": 0.25, "b": 0, "c": 0, "d": 0.75}, abs=1e-12)
    assert dag.log_partition == pytest.approx(math.log(4), abs=1e-12)
    assert float(dag.log_reward[dag.labels.index("c")]) == -100.0


def test_a_network_sees_one_input_a_state_unless_the_user_encodes_it():
    assert diamond().active.tolist() == [[i] for i in range(5)]
    dag = diamond(encode=lambda s: (ord(s) % 2, 2 + ord(s) % 3), modes=lambda s: s == "d")
    assert dag.inputs == 5 and dag.active.shape == (5, 2)
    assert [s for s, m in zip(dag.labels, dag.modes.tolist(), strict=True) if m] == ["d"]


def test_a_graph_of_one_state_can_only_exit():
    dag = Dag.from_moves(0, lambda s: {}, lambda s: 2.0)
    assert (dag.states, dag.actions, dag.longest, dag.before.tolist()) == (1, 0, 1, [[-1]])


@pytest.mark.parametrize(
    ("edges", "reward", "words"),
    [
        ({"s": {"a": "t"}, "t": {"a": "u"}, "u": {"a": "t"}}, 1.0, "state '[tu]' .* lies on a cycle"),
        ({"s": {"a": "t"}, "t": {"a": "s"}}, 1.0, "state '[st]' .* lies on a cycle"),
        ({"s": {"a": "s"}}, 1.0, "state 's' .* lies on a cycle"),
        ({"s": {"a": "t"}, "t": {}}, None, "no exit"),
        ({"s": {"a": "t"}, "t": {}}, 0.0, "0 at all 2 exits"),
        ({"s": {"a": "t"}, "t": {}}, -1.0, "not negative"),
        ({"s": {"a": "t"}, "t": {}}, math.nan, "finite and not negative"),
        ({"s": {"a": "t"}, "t": {}}, math.inf, "finite and not negative"),
        ({"s": {"a": "t", "b": "t"}, "t": {}}, 1.0, "two moves of state 's'"),
    ],
)
def test_what_is_no_dag_is_said_in_one_line(edges, reward, words):
    with pytest.raises(DissonanceError, match=words):
        Dag.from_moves("s", edges.__getitem__, lambda s: reward)


def test_a_dead_end_is_named():
    with pytest.raises(DissonanceError, match="state 'dead' of the dag has neither a move nor an exit"):
        Dag.from_moves("s", {"s": {"a": "dead"}, "dead": {}}.__getitem__, {"s": 1.0, "dead": None}.__getitem__)


def test_a_graph_without_end_stops_at_the_limit():
    with pytest.raises(SizeError, match="more than 50 states"):
        Dag.from_moves(0, lambda s: {"next": s + 1}, lambda s: 1.0, limit=50)


def test_uneven_encodings_are_an_error():
    with pytest.raises(DissonanceError, match="as many active inputs"):
        diamond(encode=lambda s: range(1 + (s == "a")))


def test_tables_by_hand_are_checked():
    after, ends = torch.tensor([[1], [-1]]), torch.tensor([True, True])
    active, log_reward = torch.tensor([[0], [1]]), torch.zeros(2, dtype=torch.float64)
    good = {"after": after, "exits": ends, "active": active, "inputs": 2, "log_reward": log_reward}
    assert Dag(**good).longest == 2
    for change, words in [
        ({"after": torch.tensor([[2], [-1]])}, "not among 0 to 1"),
        ({"after": torch.tensor([[1.0], [-1]])}, "int64"),
        ({"exits": ends[:1]}, "shape"),
        ({"inputs": 1}, "active input"),
        ({"start": 2}, "cannot start at 2"),
        ({"log_reward": torch.tensor([0.0, -math.inf])}, "needs a floor"),
        ({"exits": torch.tensor([True, False])}, "neither a move nor an exit"),
    ]:
        with pytest.raises(DissonanceError, match=words):
            Dag(**{**good, **change})
    with pytest.raises(DissonanceError, match="cannot be reached"):
        assert Dag(**{**good, "after": torch.tensor([[-1], [-1]])}).layers
