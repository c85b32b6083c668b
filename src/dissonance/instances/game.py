"""Deciding against nature: maximin and minimax by two foci that pull in opposite directions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dissonance.arc import Arc
from dissonance.cpds import Independent, PointMass, SoftmaxTable, Table
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus
from dissonance.instances.base import Instance
from dissonance.instances.decision import DecisionProblem
from dissonance.lir import Cycle, Run
from dissonance.pdg import PDG
from dissonance.variables import Variable

inf = math.inf


@dataclass(frozen=True)
class Game:
    """What the two sides came to, and what that is worth to the agent, in utility.

    `policy` and `nature` are the last ones, or if the run kept snapshots (`trace=Record(snapshots=1)`) their averages,
    a row for each thing seen. The agent is sure of `guaranteed` whatever nature does, and gets no more than `at_most`
    against this nature: the value of the game lies between. `actions` are those the policy still takes.
    """

    policy: Tensor
    nature: Tensor
    guaranteed: float
    at_most: float
    actions: tuple[Hashable, ...]


def game(problem: DecisionProblem, *, informed: str | None = "nature", control: float = inf) -> Instance[Game]:
    """Nature has a focus of her own, in which she controls the state and hopes for the worst.

    `informed` says who sees the other's move, and so which order of max and min is meant:

    - "nature":  max_a min_s EU(s,a)    maximin; nature's arc is A -> S, the agent's -> A.
    - "agent":   min_s max_a EU(s,a)    minimax; nature's arc is -> S, the agent's S -> A.
    - None:      neither; what each side does is independent of the other.

    The agent attends to faith, f(1|o) = k exp u(o), nature to dread, d(1|o) = k' exp -u(o). With full control a focus
    is a best response, and the side that sees moves first: two steps are exact. If neither sees, best responses go
    round in circles; a small finite control follows multiplicative weights, whose averages approach the value.
    """
    s, a, o = problem.variables
    hope, dread = Variable("Hope", 2), Variable("Dread", 2)
    u = np.asarray(problem.utility, dtype=np.float64)
    pdg = PDG(
        *_sides(problem, informed),
        Arc("tau", (s, a), o, Table(problem.outcome)),
        *_soft("faith", o, hope, u - u.max()),
        *_soft("dread", o, dread, u.min() - u),
    )
    foci = {
        "agent": _focus("policy", "nature|A" if informed is None else "nature", "faith", "Hope=1", control),
        "nature": _focus("nature", "policy|S" if informed is None else "policy", "dread", "Dread=1", control),
    }
    first = informed or "agent"
    second = next(name for name in foci if name != first)
    return Instance(
        pdg, Cycle(foci[first], foci[second]), lambda run: _read(problem, run, informed), foci["agent"].attention
    )


def _sides(problem: DecisionProblem, informed: str | None) -> list[Arc]:
    """The arcs of the agent and of nature, uniform to begin with: a row that is never taken is never resolved."""
    s, a, _ = problem.variables

    def even(*sizes: int) -> SoftmaxTable:
        return SoftmaxTable(np.full(sizes, 1 / sizes[-1]))

    if informed == "nature":
        return [Arc("policy", (), a, even(a.size)), Arc("nature", a, s, even(a.size, s.size))]
    if informed == "agent":
        return [Arc("nature", (), s, even(s.size)), Arc("policy", s, a, even(s.size, a.size))]
    if informed is not None:
        raise DissonanceError(f'informed is "nature", "agent" or None, found {informed!r}.')
    policy, nature = even(a.size), even(s.size)
    return [
        Arc("policy", (), a, policy),
        Arc("nature", (), s, nature),
        Arc("nature|A", a, s, Independent(nature)),
        Arc("policy|S", s, a, Independent(policy)),
    ]


def _soft(name: str, outcome: Variable, satisfied: Variable, log_p: Sequence[float] | np.ndarray) -> list[Arc]:
    """A soft constraint: satisfied with probability exp log_p(o), and it is."""
    good = np.exp(log_p)
    return [
        Arc(name, outcome, satisfied, Table(np.stack([1 - good, good], -1))),
        Arc(f"{satisfied.name}=1", (), satisfied, PointMass(1)),
    ]


def _focus(own: str, other: str, soft: str, satisfied: str, control: float) -> Focus:
    return Focus(Attention.only({own: inf, other: inf, "tau": inf, soft: 1.0, satisfied: inf}), Control({own: control}))


def _read(problem: DecisionProblem, run: Run, informed: str | None) -> Game:
    mean = {n: _mean(run, n) for n in ("policy", "nature")}
    policy, nature = mean["policy"], mean["nature"]
    eu = torch.as_tensor(problem.outcome, dtype=torch.float64) @ torch.as_tensor(problem.utility, dtype=torch.float64)
    if informed == "nature":
        guaranteed, at_most = (policy * eu.amin(0)).sum(), (nature * eu.T).sum(1).amax()
    elif informed == "agent":
        guaranteed, at_most = (policy * eu).sum(1).amin(), (nature * eu.amax(1)).sum()
    else:
        guaranteed, at_most = (eu @ policy).amin(), (nature @ eu).amax()
    labels = problem.variables[1].finite.labels
    taken = policy.reshape(-1, len(labels)).amax(0) > 1e-6
    return Game(
        policy, nature, float(guaranteed), float(at_most), tuple(x for x, t in zip(labels, taken, strict=True) if t)
    )


def _mean(run: Run, side: str) -> Tensor:
    """The table of a side, averaged over the snapshots of the run if there are any."""
    kept = [theta[f"{side}.logits"] for theta in run.trace.snapshots.values()]
    if not kept:
        return run.pdg[side].cpd.table().detach()
    return torch.stack([torch.softmax(x, -1) for x in kept]).mean(0)
