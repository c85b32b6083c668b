"""The losses of GFlowNets as the textbooks have them: one trajectory after another, by recursion and plain loops."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor


def walks(dag, path=None) -> list[list[int]]:
    """Every walk from the start to a state with an exit, as lists of states."""
    path = [dag.start] if path is None else path
    found = [path] if bool(dag.exits[path[-1]]) else []
    for there in dag.after[path[-1]].tolist():
        if there >= 0:
            found += walks(dag, [*path, there])
    return found


def log_forward(dag, logits: Tensor, here: int, there: int | None) -> Tensor:
    """log P_F(there | here); None is the exit."""
    allowed = [a for a in range(dag.actions) if int(dag.after[here, a]) >= 0]
    columns = allowed + ([dag.actions] if bool(dag.exits[here]) else [])
    column = dag.actions if there is None else next(a for a in allowed if int(dag.after[here, a]) == there)
    return logits[here, column] - torch.logsumexp(torch.stack([logits[here, c] for c in columns]), 0)


def log_backward(dag, logits: Tensor, here: int, there: int) -> Tensor:
    """log P_B(here | there)."""
    parents = {int(s): j for j, s in enumerate(dag.before[there]) if s >= 0}
    every = torch.stack([logits[there, j] for j in parents.values()])
    return logits[there, parents[here]] - torch.logsumexp(every, 0)


def steps(dag, forward: Tensor, backward: Tensor, path: list[int]) -> list[Tensor]:
    """log P_F - log P_B of every transition of a walk; of the exit log P_F - log R."""
    found = [log_forward(dag, forward, a, b) - log_backward(dag, backward, a, b) for a, b in pairwise(path)]
    return [*found, log_forward(dag, forward, path[-1], None) - dag.log_reward[path[-1]]]


def loss(name: str, dag, q: dict, forward: Tensor, backward: Tensor, log_z=0.0, log_flow=None, decay=0.9) -> Tensor:
    """A loss under a distribution q over walks, {tuple of states: probability}."""
    total = torch.zeros((), dtype=torch.float64)
    score = {w: torch.stack(steps(dag, forward, backward, list(w))) for w in q}
    mean = sum(p * score[w].sum() for w, p in q.items())
    for w, p in q.items():
        length = len(w)  # the moves and the exit
        s = score[w].sum()
        if name == "TB":
            total = total + p * (s + log_z) ** 2
        elif name == "ModTB":
            total = total + p * (s + log_z) ** 2 / length
        elif name == "LPV":
            total = total + p * (s - mean) ** 2
        elif name == "ModLPV":
            total = total + p * (s - mean) ** 2 / length
        else:
            flow = [*(log_flow[x] for x in w), torch.zeros((), dtype=torch.float64)]
            value, norm = 0.0, 0.0
            for j in range(length):
                for k in range(j + 1, length + 1):
                    weight = (k - j == 1) if name == "DB" else decay ** (k - j)
                    value = value + weight * (flow[j] + score[w][j:k].sum() - flow[k]) ** 2
                    norm = norm + weight
            total = total + p * value / norm
    return total
