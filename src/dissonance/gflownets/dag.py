"""Dag: the states, moves and exits that a GFlowNet walks on, as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from dissonance.errors import DissonanceError, SizeError
from dissonance.numerics import DTYPE

LIMIT = 20_000_000
FLOOR = -100.0

State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Dag:
    """A directed acyclic graph of states with exits: what a GFlowNet walks on.

    after       (states, actions): the state after a move, -1 where the move is not allowed
    exits       (states,): where a trajectory may end
    active      (states, k): which k of the `inputs` of a network are 1 in this state
    log_reward  (states,): means something only at exits; where the reward is 0 it is a floor that is not -inf
    modes       (states,): the states one hopes to find, if known
    labels      what the user calls the states, if they came from `Dag.from_moves`

    Every state is reached from `start`, and has an exit or a move. A trajectory is a walk from the start that ends with
    an exit, which is the action with the index `actions` and counts as a transition.
    """

    after: Tensor
    exits: Tensor
    active: Tensor
    inputs: int
    log_reward: Tensor
    modes: Tensor | None = None
    start: int = 0
    name: str = "dag"
    labels: tuple[Hashable, ...] | None = None

    def __repr__(self) -> str:
        return f"Dag({self.name}: {len(self.after)} states, {self.after.shape[1]} moves, {int(self.exits.sum())} exits)"

    def __post_init__(self) -> None:
        count = len(self.after)
        check_size(count, self.name)
        found = {"after": self.after.dim() == 2, "active": self.active.dim() == 2}
        for name, right in found.items():
            if not right or getattr(self, name).dtype != torch.long:
                raise DissonanceError(f"{name} of the {self.name} needs int64 numbers, a row for each state.")
        per_state = {"exits": self.exits, "log_reward": self.log_reward, "active": self.active[:, :1].flatten()}
        for name, values in per_state.items():
            if values.shape != (count,):
                raise DissonanceError(f"{name} of the {self.name} has shape {tuple(values.shape)}, for {count} states.")
        if count == 0 or not 0 <= self.start < count:
            raise DissonanceError(f"the {self.name} has {count} states and cannot start at {self.start}.")
        if self.after.numel() and not -1 <= int(self.after.min()) <= int(self.after.max()) < count:
            raise DissonanceError(f"a move of the {self.name} leads to a state that is not among 0 to {count - 1}.")
        if not 0 <= int(self.active.min()) <= int(self.active.max()) < self.inputs:
            raise DissonanceError(f"an active input of the {self.name} is not among 0 to {self.inputs - 1}.")
        stuck = ~(self.exits | (self.after >= 0).any(1))
        if bool(stuck.any()):
            raise DissonanceError(f"{self.call(int(stuck.nonzero()[0]))} has neither a move nor an exit.")
        side_by_side = self.after.sort(1).values
        twice = ((side_by_side[:, 1:] == side_by_side[:, :-1]) & (side_by_side[:, 1:] >= 0)).any(1)
        if bool(twice.any()):
            raise DissonanceError(
                f"two moves of {self.call(int(twice.nonzero()[0]))} lead to the same state: keep one."
            )
        there = self.log_reward[self.exits]
        if not bool(torch.isfinite(there).all()):
            raise DissonanceError(f"log_reward of the {self.name} must be finite at every exit; a zero needs a floor.")

    def __deepcopy__(self, memo: object) -> Dag:
        return self  # nothing of it changes

    @classmethod
    def from_moves(
        cls,
        start: State,
        moves: Callable[[State], Mapping[str, State]],
        reward: Callable[[State], float | None],
        *,
        encode: Callable[[State], Iterable[int]] | None = None,
        modes: Callable[[State], bool] | None = None,
        name: str = "dag",
        limit: int = 1_000_000,
    ) -> Dag:
        """Every state that can be reached from `start`, found by asking for the moves of each.

        `moves` maps a state to {action: next state}; `reward` is a number >= 0, or None where no trajectory may end;
        `encode` says which inputs of a network are 1 (as many in every state), by default one input for each state.
        """
        index: dict[State, int] = {start: 0}
        actions: dict[str, int] = {}
        found: list[tuple[int, int, int]] = []
        states = [start]
        for here in states:  # grows as it goes
            for action, there in moves(here).items():
                if there not in index:
                    if len(states) >= limit:
                        raise SizeError(f"the {name} has more than {limit} states: raise `limit`, or check `moves`.")
                    index[there] = len(states)
                    states.append(there)
                found.append((index[here], actions.setdefault(action, len(actions)), index[there]))
        after = torch.full((len(states), len(actions)), -1)
        if found:
            here, action, there = torch.tensor(found).T
            after[here, action] = there
        values = [reward(s) for s in states]
        exits = torch.tensor([v is not None for v in values])
        log_reward = log_rewards(torch.tensor([v or 0.0 for v in values], dtype=DTYPE), exits, name=name)
        rows = [[i] for i in range(len(states))] if encode is None else [[*encode(s)] for s in states]
        if len({len(r) for r in rows}) != 1 or not rows[0]:
            raise DissonanceError(f"`encode` of the {name} must give as many active inputs, at least one, everywhere.")
        chosen = None if modes is None else torch.tensor([modes(s) for s in states])
        active = torch.tensor(rows)
        made = cls(after, exits, active, int(active.max()) + 1, log_reward, chosen, 0, name, tuple(states))
        assert made.layers  # a cycle is reported here
        return made

    def call(self, state: int) -> str:
        """A state in words."""
        return f"state {state if self.labels is None else repr(self.labels[state])} of the {self.name}"

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.after)

    @property
    def actions(self) -> int:
        """How many moves there are; an action of this index is the exit."""
        return self.after.shape[1]

    @cached_property
    def _backwards(self) -> tuple[Tensor, Tensor, Tensor]:
        here, action = (self.after >= 0).nonzero().T
        there = self.after[here, action]
        in_degree = torch.bincount(there, minlength=self.states)
        parents = max(int(in_degree.max()), 1)
        column = action
        before = torch.full((self.states, self.actions), -1)
        before[there, action] = here
        if parents != self.actions or not torch.equal(before[there, action], here):
            order = torch.argsort(there, stable=True)
            first = torch.cumsum(in_degree, 0) - in_degree
            column = torch.empty_like(order)
            column[order] = torch.arange(len(order)) - first[there[order]]
            before = torch.full((self.states, parents), -1)
            before[there, column] = here
        move, undo = torch.full_like(before, -1), torch.full_like(self.after, -1)
        move[there, column] = action
        undo[here, action] = column
        return before, move, undo

    @property
    def before(self) -> Tensor:
        """(states, parents): the states a state can come from; -1 pads. There are as many columns as the greatest
        number of parents; if that is the number of actions and no two parents share one, column a is that of move a."""
        return self._backwards[0]

    @property
    def move(self) -> Tensor:
        """(states, parents): the action by which before[s, j] came to s; -1 pads."""
        return self._backwards[1]

    @property
    def undo(self) -> Tensor:
        """(states, actions): which column of `before` of the state after the move holds this state; -1 if none."""
        return self._backwards[2]

    @cached_property
    def layers(self) -> tuple[Tensor, ...]:
        """The states by their longest distance from the start: parents lie in earlier layers."""
        waiting = torch.bincount(self.after[self.after >= 0], minlength=self.states)
        found: list[Tensor] = []
        front = torch.tensor([self.start])[waiting[self.start : self.start + 1] == 0]
        while len(front):
            found.append(front)
            reached = self.after[front]
            reached = reached[reached >= 0]
            waiting.index_add_(0, reached, torch.full_like(reached, -1))
            reached = reached.unique()
            front = reached[waiting[reached] == 0]
        if sum(map(len, found)) < self.states:
            raise DissonanceError(self._left_out(torch.cat([*found, torch.empty(0, dtype=torch.long)])))
        return tuple(found)

    def _left_out(self, ordered: Tensor) -> str:
        """Why some states have no place in the order: nothing leads there, or a cycle does."""
        reached = torch.zeros(self.states, dtype=torch.bool)
        front = torch.tensor([self.start])
        while len(front):
            reached[front] = True
            front = self.after[front]
            front = front[front >= 0].unique()
            front = front[~reached[front]]
        if not bool(reached.all()):
            lost = int((~reached).nonzero()[0])
            return f"{self.call(lost)} cannot be reached from the start, nor {int((~reached).sum()) - 1} others."
        left = reached.clone()
        left[ordered] = False
        state = int(left.nonzero()[0])
        for _ in range(self.states):  # every state left has a parent that is left: going back ends up on the cycle
            state = next(int(s) for s in self.before[state] if s >= 0 and left[s])
        return f"{self.call(state)} lies on a cycle: a walk must never come back."

    @property
    def longest(self) -> int:
        """How many transitions the longest trajectory has, the exit included."""
        return len(self.layers)

    @cached_property
    def log_partition(self) -> float:
        """log Z = log of the sum of the reward over exits."""
        return float(torch.logsumexp(self.log_reward[self.exits].to(DTYPE), 0))

    @cached_property
    def target(self) -> Tensor:
        """(states,): R / Z at exits, 0 elsewhere: where trajectories should end."""
        return torch.where(self.exits, (self.log_reward.to(DTYPE) - self.log_partition).exp(), 0.0)


def log_rewards(reward: Tensor, exits: Tensor, *, floor: float = FLOOR, name: str = "dag") -> Tensor:
    """log R with a floor in the place of log 0, after a look at what cannot be a reward."""
    there = reward[exits]
    if len(there) == 0:
        raise DissonanceError(f"the {name} has no exit: a trajectory must be able to end.")
    if not math.isfinite(floor):
        raise DissonanceError(f"the floor of log R must be finite, found {floor}.")
    odd = there[~(torch.isfinite(there) & (there >= 0))]
    if len(odd):
        raise DissonanceError(f"a reward of the {name} is {float(odd[0])}; rewards are finite and not negative.")
    if not bool((there > 0).any()):
        raise DissonanceError(f"the reward of the {name} is 0 at all {len(there)} exits: there is nothing to sample.")
    return torch.where(reward > 0, reward.clamp(min=torch.finfo(DTYPE).tiny).log(), floor).to(DTYPE)


def check_size(states: int, name: str) -> None:
    """Raise before tables of too many states are made."""
    if states > LIMIT:
        count = str(states) if states < 10**18 else "10^18 or more"
        raise SizeError(f"the {name} has {count} states, more than {LIMIT} that tables can hold: make it smaller.")
