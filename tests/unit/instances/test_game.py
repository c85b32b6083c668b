"""Maximin and minimax by two foci: what works, and what does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dissonance import DissonanceError, Record
from dissonance.instances import DecisionProblem, game
from reference import decisions

QUICK = Record(globally=False)
EVERY = Record(globally=False, snapshots=1)


def payoff(eu: np.ndarray) -> DecisionProblem:
    """A problem in which state and action determine an outcome of that utility."""
    s, a = eu.shape
    tau = np.eye(s * a).reshape(s, a, s * a)
    return DecisionProblem([1 / s] * s, tau.tolist(), eu.reshape(-1).tolist())


def path(run, side: str) -> list[np.ndarray]:
    return [torch.softmax(x[f"{side}.logits"], -1).numpy() for x in run.trace.snapshots.values()]


@pytest.mark.parametrize("seed", range(2))
def test_two_steps_are_maximin_if_nature_sees_and_minimax_if_the_agent_does(seed: int):
    eu = np.random.default_rng(seed).normal(size=(3, 2))
    problem = payoff(eu)
    careful = game(problem, informed="nature").answer(2, trace=QUICK)
    assert careful.actions == (int(eu.min(0).argmax()),)
    assert careful.guaranteed == pytest.approx(eu.min(0).max(), abs=1e-8)
    assert careful.at_most == pytest.approx(eu.min(0).max(), abs=1e-8)
    assert careful.nature.argmax(1).tolist() == eu.argmin(0).tolist()
    clever = game(problem, informed="agent").answer(2, trace=QUICK)
    assert clever.guaranteed == pytest.approx(eu.max(1).min(), abs=1e-8)
    assert clever.at_most == pytest.approx(eu.max(1).min(), abs=1e-8)
    assert clever.policy.argmax(1).tolist() == eu.argmax(1).tolist()


def test_the_wrong_order_of_foci_responds_to_a_nature_that_has_not_moved():
    eu = np.array([[4.0, 1.0], [-9.0, 0.0], [4.0, 1.0]])  # the first action is better on average of the last two states
    one = game(payoff(eu), informed="nature").run(3, trace=EVERY)
    assert path(one, "policy")[1].tolist() == pytest.approx([0.5, 0.5])  # nature moves first
    assert path(one, "policy")[2].tolist() == pytest.approx([0.0, 1.0], abs=1e-9)
    assert path(one, "nature")[3] == pytest.approx(path(one, "nature")[2], abs=1e-9)  # and has nothing left to do


def test_best_responses_of_sides_that_do_not_see_each_other_go_round_in_circles():
    eu = np.array([[2.0, -1.0], [-1.0, 1.0]])
    run = game(payoff(eu), informed=None).run(5, trace=EVERY)
    assert [int(x.argmax()) for x in path(run, "policy")[1::2]] == [0, 1, 0]
    for before, after in zip(path(run, "nature"), path(run, "policy")[1::2], strict=False):
        assert after.max() == pytest.approx(1.0, abs=1e-9) and before.max() <= 1.0


def test_every_step_of_small_control_is_multiplicative_weights():
    eu = np.random.default_rng(4).normal(size=(3, 3))
    rate = 0.4
    run = game(payoff(eu), informed=None, control=rate).run(6, trace=EVERY)
    policy, nature = np.full(3, 1 / 3), np.full(3, 1 / 3)
    for step in range(6):
        if step % 2 == 0:
            policy = decisions.hedge(np.log(policy), nature @ eu, rate)
        else:
            nature = decisions.hedge(np.log(nature), -(eu @ policy), rate)
        assert path(run, "policy")[step + 1] == pytest.approx(policy, abs=1e-9)
        assert path(run, "nature")[step + 1] == pytest.approx(nature, abs=1e-9)


def test_averages_of_small_steps_close_in_on_the_value_of_the_game():
    eu = np.array([[3.0, 0.0, 1.0], [0.0, 3.0, 1.0], [2.0, 1.0, 1.5]])
    found = game(payoff(eu), informed=None, control=0.3).answer(80, trace=EVERY)
    value = decisions.game_value(eu)
    assert found.guaranteed <= value <= found.at_most
    assert found.at_most - found.guaranteed < 0.1
    assert eu.min(0).max() < found.guaranteed and found.at_most < eu.max(1).min()  # better than maximin


def test_nobody_else_can_be_informed():
    with pytest.raises(DissonanceError, match="informed is"):
        game(payoff(np.eye(2)), informed="God")
