"""Rollouts and scores by torch alone, on any device: what `kernels` does faster on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor

from dissonance.gflownets.policy import Parts, logits, logits_and_flows
from dissonance.gflownets.trajectories import Trajectories, TransitionRows
from dissonance.gflownets.walk import Walk

NEVER = float("-inf")
FEW_STATES = 64  # among fewer, to look for those that are the same costs more than it saves


def forward_logits(parts: Parts, walk: Walk, states: Tensor) -> Tensor:
    """Logits of P_F at these states (runs, n), -inf where a move is not allowed."""
    found = logits(parts, walk.active[states])[..., : walk.exit + 1].nan_to_num(0)
    return found.masked_fill(~walk.forward[states], NEVER)


def choose(probabilities: Tensor, last: Tensor, uniform: Tensor) -> Tensor:
    """The move where the cumulated probability passes a uniform number; at worst the last one allowed."""
    mass = probabilities.cumsum(-1)
    move = (mass <= (uniform * mass[..., -1]).unsqueeze(-1)).sum(-1)
    return torch.where(move < mass.shape[-1], move, last)


def _policy(parts: Parts, walk: Walk, states: Tensor, few: int) -> Tensor:
    """P_F at these states (runs, n), evaluated once at each of them unless they are fewer than `few`."""
    if states.numel() < few:
        return forward_logits(parts, walk, states).softmax(-1)
    once, place = walk.distinct(states)
    each = torch.arange(len(states), device=states.device).unsqueeze(1)
    return forward_logits(parts, walk, once).softmax(-1)[each, place]


@torch.no_grad()
def rollout(parts: Parts, walk: Walk, uniform: Tensor, few: int = FEW_STATES) -> Trajectories:
    """Trajectories of each run, one for each row of uniform numbers (runs, trajectories, longest).

    Which one is drawn depends on nothing but the policy and the numbers. Trajectories that have ended are put aside,
    those that meet share one evaluation of the policy, unless they are fewer than `few`; on a small graph it is
    evaluated once at every state.
    """
    runs, count, longest = uniform.shape
    device = uniform.device
    states = torch.zeros(runs, count, longest, dtype=torch.int32, device=device)
    moves = torch.zeros_like(states)
    length = torch.zeros(runs, count, dtype=torch.int64, device=device)
    each = torch.arange(runs, device=device).unsqueeze(1)
    going = torch.arange(count, device=device).expand(runs, count)
    state = torch.full((runs, count), walk.start, device=device)
    table = None
    if walk.states <= 4 * count:
        everywhere = torch.arange(walk.states, device=device).expand(runs, -1)
        table = forward_logits(parts, walk, everywhere).softmax(-1)
    for t in range(longest):
        probabilities = _policy(parts, walk, state, few) if table is None else table[each, state]
        move = choose(probabilities, walk.last[state], uniform[each, going, t])
        live = length[each, going] == 0
        states[each, going, t] = torch.where(live, state, 0).int()
        moves[each, going, t] = torch.where(live, move, 0).int()
        exits = move == walk.exit
        length[each, going] = torch.where(live & exits, t + 1, length[each, going])
        on = live & ~exits
        most = int(on.sum(1).max())
        if most == 0:
            break
        state = walk.after[state, move.clamp(max=walk.exit - 1)]
        order = on.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        state, going = state.gather(1, order), going.gather(1, order)
    return Trajectories(states, moves, length)


def transition_scores(parts: Parts, walk: Walk, rows: TransitionRows) -> Tensor:
    """log P_F(move | state) - log P_B(state before | state) of every row, the latter 0 at the start; (runs, rows).

    The network is evaluated once at each state, however many rows are there.
    """
    states, place = walk.distinct(rows.states.long())
    forward, backward = _chosen(walk, states, place, rows, logits(parts, walk.active[states]))
    return forward - backward


def transition_terms(parts: Parts, walk: Walk, rows: TransitionRows) -> tuple[Tensor, Tensor, Tensor]:
    """log P_F(move | state), log P_B(state before | state), 0 at the start, and log F(state) of every row, if there is
    a flow through states, else 0; (runs, rows) each."""
    states, place = walk.distinct(rows.states.long())
    active = walk.active[states]
    if "flow" not in parts:
        forward, backward = _chosen(walk, states, place, rows, logits(parts, active))
        return forward, backward, torch.zeros_like(forward)
    found, flow = logits_and_flows(parts, active)
    return *_chosen(walk, states, place, rows, found), flow.gather(1, place)


def log_inflow(parts: Parts, walk: Walk, states: Tensor) -> Tensor:
    """log sum F(s) P_F(s' | s) over the parents s of states s' (runs, n); -inf at the start."""
    runs, count = states.shape
    before, moves = (x[states].reshape(runs, -1) for x in (walk.before, walk.moved))
    parents, place = walk.distinct(before.clamp(min=0))
    found, flow = logits_and_flows(parts, walk.active[parents])
    each = torch.arange(runs, device=states.device).unsqueeze(1)
    log_p = _log_forward(walk, parents, found)[each, place, moves.clamp(min=0)]
    edges = torch.where(before >= 0, log_p + flow.gather(1, place), NEVER)
    return edges.reshape(runs, count, -1).logsumexp(-1)


def _chosen(walk: Walk, states: Tensor, place: Tensor, rows: TransitionRows, found: Tensor) -> tuple[Tensor, Tensor]:
    """log P_F of the move of every row and log P_B of the move back, from logits at each state once."""
    each = torch.arange(len(states), device=states.device).unsqueeze(1)
    backward = found[..., walk.exit + 1 :].masked_fill(~walk.backward[states], NEVER).log_softmax(-1)
    undone = backward[each, place, rows.undone.long().clamp(min=0)]
    chosen = _log_forward(walk, states, found)[each, place, rows.moves.long()]
    return chosen, torch.where(rows.undone >= 0, undone, 0)


def _log_forward(walk: Walk, states: Tensor, found: Tensor) -> Tensor:
    """log P_F at these states (runs, n), from logits."""
    return found[..., : walk.exit + 1].masked_fill(~walk.forward[states], NEVER).log_softmax(-1)
