"""Strings of bits and trees of words against graphs that plain functions of tuples list."""

from __future__ import annotations

import itertools

import pytest
import torch

from dissonance import DissonanceError
from dissonance.gflownets import Dag, bit_strings, block_chains, subsets, word_tree


def parity(words):
    return 1.0 + 4 * (words.sum(1) % 2)


def set_one(state):
    return {
        f"{i}{b}": (*state[:i], b, *state[i + 1 :]) for i, x in enumerate(state) if x is None for b in (0, 1)
    }  # fmt: skip


def same(dag: Dag, other: Dag, place):
    """The same states, moves and rewards under another numbering."""
    assert dag.states == other.states
    at = [place(s) for s in other.labels]
    for i, s in enumerate(at):
        assert {at[j] for j in other.after[i].tolist() if j >= 0} == {j for j in dag.after[s].tolist() if j >= 0}
        assert bool(dag.exits[s]) == bool(other.exits[i])
        if dag.exits[s]:
            assert float(dag.log_reward[s]) == pytest.approx(float(other.log_reward[i]), abs=1e-12)
    assert dag.log_partition == pytest.approx(other.log_partition, abs=1e-12)
    assert [sorted(layer.tolist()) for layer in dag.layers] == [
        sorted(at[int(j)] for j in layer) for layer in other.layers
    ]


@pytest.mark.parametrize("length", [1, 2, 4])
def test_bit_strings_are_what_a_user_would_list(length):
    dag = bit_strings(length, parity, modes=lambda w: w.sum(1) == length)
    listed = Dag.from_moves(
        (None,) * length, set_one, lambda s: None if None in s else float(parity(torch.tensor([s]))[0])
    )
    same(dag, listed, lambda s: sum(3 ** (length - 1 - i) * (0 if x is None else x + 1) for i, x in enumerate(s)))
    assert int(dag.exits.sum()) == 2**length and int(dag.modes.sum()) == 1 and dag.longest == length + 1
    assert dag.before.shape[1] == length  # any position may have been the last
    assert dag.active.shape == (3**length, length) and dag.inputs == 3 * length


@pytest.mark.parametrize(("letters", "length"), [(2, 1), (2, 4), (3, 3)])
def test_word_trees_are_what_a_user_would_list(letters, length):
    dag = word_tree(letters, length, parity)
    listed = Dag.from_moves(
        (),
        lambda s: {str(a): (*s, a) for a in range(letters)} if len(s) < length else {},
        lambda s: float(parity(torch.tensor([s]))[0]) if len(s) == length else None,
    )
    index = {
        s: i for i, s in enumerate(s for n in range(length + 1) for s in itertools.product(range(letters), repeat=n))
    }
    same(dag, listed, index.__getitem__)
    assert dag.before.shape[1] == 1
    assert len(dag.active.unique(dim=0)) == dag.states


@pytest.mark.parametrize(("elements", "size", "smaller"), [(1, 1, False), (5, 3, False), (4, 4, True)])
def test_sets_are_what_a_user_would_list(elements, size, smaller):
    dag = subsets(elements, size, parity, smaller=smaller, modes=lambda s: s[:, 0] > 0)
    listed = Dag.from_moves(
        frozenset(),
        lambda s: {str(e): s | {e} for e in range(elements) if e not in s} if len(s) < size else {},
        lambda s: 1.0 + 4 * (len(s) % 2) if smaller or len(s) == size else None,
    )
    every = sorted(range(1 << elements), key=lambda b: (b.bit_count(), b))
    index = {frozenset(e for e in range(elements) if b >> e & 1): i for i, b in enumerate(every)}
    same(dag, listed, index.__getitem__)
    assert dag.before.shape[1] == size and len(dag.active.unique(dim=0)) == dag.states


@pytest.mark.parametrize(("blocks", "length"), [(2, 1), (2, 4), (3, 3)])
def test_chains_of_blocks_are_what_a_user_would_list(blocks, length):
    dag = block_chains(blocks, length, parity)
    listed = Dag.from_moves(
        (),
        lambda s: (
            {str(c): c for a in range(blocks) for c in dict.fromkeys(((*s, a), (a, *s)))} if len(s) < length else {}
        ),
        lambda s: float(parity(torch.tensor([s]))[0]) if len(s) == length else None,
    )
    index = {
        s: i for i, s in enumerate(s for n in range(length + 1) for s in itertools.product(range(blocks), repeat=n))
    }
    same(dag, listed, index.__getitem__)
    assert len(dag.active.unique(dim=0)) == dag.states


def test_a_reward_of_the_wrong_shape_or_sign_is_said():
    with pytest.raises(DissonanceError, match="8 words need a number each"):
        bit_strings(3, lambda w: w)
    with pytest.raises(DissonanceError, match="not negative"):
        word_tree(2, 3, lambda w: w.sum(1) - 1.0)
    with pytest.raises(DissonanceError, match="length >= 1"):
        bit_strings(0, parity)
    with pytest.raises(DissonanceError, match="2 letters"):
        word_tree(1, 3, parity)
    with pytest.raises(DissonanceError, match="2 blocks"):
        block_chains(1, 3, parity)
    with pytest.raises(DissonanceError, match="1 <= size <= elements <= 62"):
        subsets(3, 4, parity)
