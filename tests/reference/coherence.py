"""The gain that is certain, over the joint distribution of all worlds, by cvxpy."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np

from dissonance import Belief
from dissonance.coherence.events import names as mentioned
from dissonance.coherence.events import parsed, truth


def dense(beliefs: list[Belief], score: str = "log") -> float:
    """The certain gain of beliefs about yes/no variables."""
    names = sorted({x for b in beliefs for e in (b.event, b.given) if e for x in mentioned(parsed(e))})
    every = np.array(list(itertools.product((False, True), repeat=len(names))))
    world = {n: np.where(x, "yes", "no").astype(object) for n, x in zip(names, every.T, strict=True)}
    mu = cp.Variable(len(every), nonneg=True)
    rules, total = [cp.sum(mu) == 1], 0
    for b in beliefs:
        event, condition = (truth(parsed(x), world)[0] if x else np.ones(len(every), bool) for x in (b.event, b.given))
        yes, no = (event & condition).astype(float) @ mu, (~event & condition).astype(float) @ mu
        if b.is_fact:
            rules.append(no == 0)
            continue
        q = cp.Variable()  # the mass that the nearest probability of the range gives the event
        rules += [q >= b.low * (yes + no), q <= b.high * (yes + no)]
        if score == "log":
            total += b.beta * (cp.rel_entr(yes, q) + cp.rel_entr(no, yes + no - q))
        else:
            total += b.beta * cp.quad_over_lin(yes - q, yes + no)
    problem = cp.Problem(cp.Minimize(total), rules)
    problem.solve(solver="CLARABEL")
    return float(problem.value)
