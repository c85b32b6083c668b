"""Trajectories: walks from the start to the exit, all of them or as a policy draws them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dissonance.errors import SizeError
from dissonance.gflownets.dag import Dag
from dissonance.numerics import DTYPE

Policy = Callable[[Tensor], Tensor]
"""log P_F(. | s) of states (n,): (n, actions + 1), the exit last, -inf where an action is not allowed."""

MOST = 200_000


def destinations(dag: Dag) -> Tensor:
    """(states, actions + 1): the state after each action, the sink s_f (index `states`) after the exit; -1 if none."""
    return torch.cat([dag.after, torch.where(dag.exits, dag.states, -1)[:, None]], 1)


def count_trajectories(dag: Dag) -> float:
    """How many there are, as a float: there can be very many."""
    ways = torch.zeros(dag.states, dtype=DTYPE)
    ways[dag.start] = 1.0
    for layer in dag.layers:
        after = dag.after[layer]
        onward = ways[layer][:, None].expand_as(after)[after >= 0]
        ways.index_add_(0, after[after >= 0], onward)
    return float(ways[dag.exits].sum())


def all_trajectories(dag: Dag, most: int = MOST) -> Tensor:
    """(n, longest + 1): s_0, ..., s_n, then the sink (index `states`) to the end of the row."""
    count = count_trajectories(dag)
    if count > most:
        raise SizeError(f"the {dag.name} has {count:.4g} trajectories, more than {most}: give a `batch` to draw some.")
    after = destinations(dag)
    paths = torch.tensor([[dag.start]])
    done: list[Tensor] = []
    while len(paths):
        onward = after[paths[:, -1]]
        row, action = (onward >= 0).nonzero().T
        paths = torch.cat([paths[row], onward[row, action][:, None]], 1)
        ended = paths[:, -1] == dag.states
        rest = paths.new_full((int(ended.sum()), dag.longest + 1 - paths.shape[1]), dag.states)
        done.append(torch.cat([paths[ended], rest], 1))
        paths = paths[~ended]
    return torch.cat(done)


def draw_trajectories(dag: Dag, policy: Policy, count: int, generator: torch.Generator) -> Tensor:
    """So many walks that follow a policy, (count, longest + 1), as `all_trajectories` writes them."""
    after = destinations(dag)
    rows = torch.full((count, dag.longest + 1), dag.states)
    rows[:, 0] = dag.start
    walking = torch.arange(count)
    for t in range(dag.longest):
        here = rows[walking, t]
        with torch.no_grad():
            p = policy(here).exp()
        action = torch.multinomial(p, 1, generator=generator)[:, 0]
        there = after[here, action]
        rows[walking, t + 1] = there
        walking = walking[there < dag.states]
    return rows


def log_probability(dag: Dag, rows: Tensor, policy: Policy) -> Tensor:
    """log of the probability with which a policy takes each trajectory."""
    tau, i = (rows[:, :-1] < dag.states).nonzero().T
    here, there = rows[tau, i], rows[tau, i + 1]
    taken = policy(torch.arange(dag.states))[here][destinations(dag)[here] == there[:, None]]
    return taken.new_zeros(len(rows)).index_add(0, tau, taken)


def path_lengths(dag: Dag, rows: Tensor) -> Tensor:
    """|tau|: how many transitions each trajectory has, the exit included."""
    return (rows < dag.states).sum(1)


def exploring(dag: Dag, policy: Policy, share: float) -> Policy:
    """The policy with a share of uniform choices among what is allowed mixed in."""
    if share == 0:
        return policy
    allowed = destinations(dag) >= 0
    uniform = allowed.to(DTYPE) / allowed.sum(1, keepdim=True)

    def mixed(states: Tensor) -> Tensor:
        return ((1 - share) * policy(states).exp() + share * uniform[states]).log()

    return mixed


def visits(dag: Dag, policy: Policy) -> Tensor:
    """(states,): the probability with which a policy's trajectories come by each state, added up layer by layer."""
    reached = torch.zeros(dag.states, dtype=DTYPE)
    reached[dag.start] = 1.0
    with torch.no_grad():
        for layer in dag.layers:
            after = dag.after[layer]
            flow = reached[layer][:, None] * policy(layer)[:, :-1].exp().to(DTYPE)
            reached.index_add_(0, after[after >= 0], flow[after >= 0])
    return reached


def terminating(dag: Dag, policy: Policy) -> Tensor:
    """(states,): the probability with which a policy's trajectories end in each state."""
    with torch.no_grad():
        return visits(dag, policy) * policy(torch.arange(dag.states))[:, -1].exp().to(DTYPE)
