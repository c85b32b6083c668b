"""The network is evaluated once at each state: which states those are, and that nothing but time depends on it."""

import pytest
import torch

from dissonance.gflownets import hyper_grid, plain
from dissonance.gflownets.policy import PolicyShape
from dissonance.gflownets.trajectories import TransitionRows
from dissonance.gflownets.walk import Walk

DAG = hyper_grid(2, 20)
WALK = Walk.of([DAG] * 3, "cpu")
PARTS = PolicyShape.of(DAG, width=8, depth=2).split(PolicyShape.of(DAG, width=8, depth=2).fresh([0, 1, 2]))


@pytest.mark.parametrize("n", [1, 300, 400, 500])
def test_distinct_states_are_each_there_once(n: int):
    states = torch.randint(400, (3, n), generator=torch.Generator().manual_seed(n))
    states[1] = 399  # a run that is all in one place is padded
    once, place = WALK.distinct(states)
    assert torch.equal(once.gather(1, place), states)
    assert once.shape[1] == (400 if n >= 400 else max(len(row.unique()) for row in states))


@pytest.mark.parametrize("few", [0, 10**6], ids=["once at each state", "for every trajectory"])
def test_a_rollout_does_not_depend_on_which_trajectories_meet(few: int, monkeypatch: pytest.MonkeyPatch):
    distinct, shared = Walk.distinct, list[int]()

    def counted(walk: Walk, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shared.append(states.numel())
        return distinct(walk, states)

    monkeypatch.setattr(Walk, "distinct", counted)
    uniform = torch.rand(3, 8, WALK.longest, generator=torch.Generator().manual_seed(0))
    together = plain.rollout(PARTS, WALK, uniform, few)
    assert bool(shared) == (few == 0)
    for i in range(8):
        alone = plain.rollout(PARTS, WALK, uniform[:, i : i + 1], few)
        assert torch.equal(together.length[:, i : i + 1], alone.length)
        assert torch.equal(together.states[:, i : i + 1], alone.states)


def test_a_move_that_is_not_allowed_is_never_chosen():
    """Even if rounding makes the uniform number times the sum of probabilities that very sum."""
    probabilities = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]])
    last = torch.tensor([1, 1, 2])
    assert plain.choose(probabilities, last, torch.ones(3)).tolist() == [1, 1, 2]
    assert plain.choose(probabilities, last, torch.zeros(3)).tolist() == [0, 1, 0]
    assert plain.choose(probabilities, last, torch.full((3,), 0.5)).tolist() == [1, 1, 2]


def test_scores_are_those_of_one_trajectory_at_a_time():
    tau = plain.rollout(PARTS, WALK, torch.rand(3, 8, WALK.longest, generator=torch.Generator().manual_seed(1)))
    assert TransitionRows.of(WALK, tau).states.shape[1] < WALK.states and len(tau.states.unique()) < tau.length.sum()

    def total(of: torch.Tensor) -> torch.Tensor:
        rows = TransitionRows.of(WALK, tau.at(of.expand(3, -1)))
        return rows.total(plain.transition_scores(PARTS, WALK, rows))

    alone = torch.cat([total(torch.tensor([i])) for i in range(8)], 1)
    torch.testing.assert_close(total(torch.arange(8)), alone)
