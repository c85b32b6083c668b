"""A graph on a device: the tables that rollouts, losses and evaluation look up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.gflownets.dag import Dag


@dataclass(frozen=True, eq=False)
class Walk:
    """The tables of one graph, and the reward of each run on it."""

    after: Tensor  # (states, actions) the state after a move, 0 where it is not allowed
    undo: Tensor  # (states, actions) the backward move that undoes a move
    active: Tensor  # (states, k) active inputs of the network
    forward: Tensor  # (states, actions + 1) bool: the moves allowed, the exit last
    backward: Tensor  # (states, parents) bool: the backward moves allowed; all at the start, where none is asked for
    before: Tensor  # (states, parents) the states before, -1 pads
    moved: Tensor  # (states, parents) the moves that led here from there
    last: Tensor  # (states,) the last move allowed
    log_reward: Tensor  # (rewards, states)
    reward: Tensor  # (runs,) which reward each run has
    inputs: int
    start: int
    longest: int

    @classmethod
    def of(cls, dags: Sequence[Dag], device: torch.device | str) -> Walk:
        """The tables of these runs, a graph each; the graphs may differ in their rewards only."""
        first = dags[0]
        unique = list({id(dag): dag for dag in dags}.values())
        for dag in unique:
            same = dag.after.shape == first.after.shape and dag.active.shape == first.active.shape
            if not (same and bool((dag.after == first.after).all() and (dag.exits == first.exits).all())):
                raise DissonanceError(
                    f"{dag.name!r} and {first.name!r} are different graphs; runs trained together may differ in their "
                    "rewards only: train these apart"
                )
        forward = torch.cat([first.after >= 0, first.exits.unsqueeze(1)], 1)
        backward = first.before >= 0
        last = forward.shape[1] - 1 - forward.flip(1).int().argmax(1)
        place = {id(dag): i for i, dag in enumerate(unique)}
        return cls(
            after=first.after.clamp(min=0).to(device),
            undo=first.undo.to(device),
            active=first.active.to(device),
            forward=forward.to(device),
            backward=(backward | ~backward.any(1, keepdim=True)).to(device),
            before=first.before.to(device),
            moved=first.move.to(device),
            last=last.to(device),
            log_reward=torch.stack([dag.log_reward for dag in unique]).float().to(device),
            reward=torch.tensor([place[id(dag)] for dag in dags], device=device),
            inputs=first.inputs,
            start=first.start,
            longest=first.longest,
        )

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.after)

    @property
    def exit(self) -> int:
        """The index of the exit among the moves."""
        return self.after.shape[1]

    def distinct(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Each of these states (runs, n) once, in every run, and the place of each of them among those.

        If the graph has no more than n states, all of them; runs with fewer than others are padded.
        """
        runs, n = states.shape
        if self.states <= n:
            return torch.arange(self.states, device=states.device).expand(runs, -1), states
        run = torch.arange(runs, device=states.device).unsqueeze(1)
        found, place = torch.unique(run * self.states + states, return_inverse=True)
        first = torch.searchsorted(found, run * self.states)  # (runs, 1) where a run's states begin
        of = found // self.states
        at = torch.arange(len(found), device=states.device) - first[of, 0]
        once = torch.full((runs, int(at.max()) + 1), self.start, device=states.device)
        once[of, at] = found % self.states
        return once, place - first
