"""Beliefs about one variable with weights up to 1e12, read off counts; and variables that no arc mentions.

    inf_mu  sum_a beta_a KL(mu|p_a) + gamma (-H(mu) + sum_a alpha_a H(mu))  =  inf_mu  E_mu[cost] - W H(mu)

with cost = -sum_a beta_a log p_a and W = sum_a beta_a - gamma alpha_a + gamma: -W log sum e^(-cost/W) if W > 0, the
least cost otherwise. p is a quotient of counts, so that 60 digits say what is true of the counts: every bracket must
hold that, of `inconsistency`, `lir` and `lirs`, and none that is called converged is wider than its numbers round.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import mpmath

from attacks.closed_forms import DIGITS
from dissonance.arc import Arc
from dissonance.focus import Attention
from dissonance.inconsistency import inconsistency
from dissonance.lir import lir, lirs
from dissonance.pdg import PDG
from dissonance.variables import Variable

EPS = 2.0**-52
TOL, WIDEST = 1e-6, 400
"""The loosest tolerance of a solver; and how wide a bracket may be in units of what its numbers are rounded by."""


class Beliefs:
    """Counts about X and how they are attended to; `free`: how many values variables have that no arc mentions."""

    def __init__(self, rng: random.Random) -> None:
        size, arcs = rng.randint(1, 5), rng.randint(1, 4)
        largest = rng.choice([10, 1e3, 1e6, 1e9, 1e12])
        self.counts = [[rng.randint(1, int(largest ** rng.random()) + 1) for _ in range(size)] for _ in range(arcs)]
        if rng.random() < 0.2:  # one state that some exclude, but never the first
            self.counts[0][-1] = 0 if size > 1 else self.counts[0][-1]
        self.gamma = rng.choice([0.0, 1.0, 10 ** rng.uniform(-2, 2)])
        self.hard = rng.random() < 0.15
        self.beta = [float(sum(n)) if rng.random() < 0.7 else 10 ** rng.uniform(-2, 12) for n in self.counts]
        share = rng.choice([0.0, 1.0, 1.0, rng.random(), 1.5])
        self.alpha = [b * share / self.gamma if self.gamma else 1.0 for b in self.beta]
        if rng.random() < 0.3:  # weights that nearly cancel
            self.alpha = [a * (1 + rng.randint(-3, 3) * EPS) + rng.choice([0.0, 0.0, 0.5]) for a in self.alpha]
        self.free = [rng.randint(1, 9) for _ in range(rng.choice([0, 0, 1, 3]))]

    def pdg(self) -> PDG:
        """The PDG of these counts."""
        X = Variable("X", len(self.counts[0]))
        arcs = [Arc(f"a{j}", (), X, [k / sum(n) for k in n]) for j, n in enumerate(self.counts)]
        return PDG(*arcs, variables=[X, *(Variable(f"F{i}", n) for i, n in enumerate(self.free))])

    def attention(self) -> Attention:
        """The weights; the first arc is hard, now and then."""
        beta = [math.inf if self.hard and j == 0 else b for j, b in enumerate(self.beta)]
        named = [{f"a{j}": x for j, x in enumerate(xs)} for xs in (beta, self.alpha)]
        return Attention.only(named[0], named[1], self.gamma)

    def exactly(self) -> Any:
        """The inconsistency with 60 digits."""
        gamma, found = mpmath.mpf(self.gamma), mpmath.mpf(0)
        p = [[mpmath.mpf(k) / sum(n) for k in n] for n in self.counts]
        found -= gamma * mpmath.fsum(mpmath.log(n) for n in self.free)
        soft = range(1 if self.hard else 0, len(p))
        beta = mpmath.fsum(mpmath.mpf(self.beta[j]) for j in soft)
        weight = beta + gamma - gamma * mpmath.fsum(map(mpmath.mpf, self.alpha))
        mentioned = [x for x in range(len(p[0])) if not self.hard or p[0][x] > 0]
        cost = {x: -mpmath.fsum(self.beta[j] * _log(p[j][x]) for j in soft) for x in mentioned}
        if self.hard:
            return found + mpmath.fsum(p[0][x] * (cost[x] + weight * mpmath.log(p[0][x])) for x in mentioned)
        if weight <= 0:
            return found + min(cost.values())
        least = min(cost.values())
        return found + least - weight * mpmath.log(mpmath.fsum(mpmath.exp((least - c) / weight) for c in cost.values()))

    def widest(self, value: float) -> float:
        """How wide a bracket may be."""
        weights = sum(self.beta) + self.gamma * (1 + sum(self.alpha) + math.log(math.prod(self.free)))
        return TOL * max(1.0, abs(value)) + WIDEST * EPS * (weights + abs(value))


def _log(p: Any) -> Any:
    return mpmath.log(p) if p > 0 else -mpmath.inf


def attack(seed: int) -> Iterator[str | None]:
    """Cases without end; a line for every bracket that does not hold the closed form, or is too wide."""
    for k in range(1 << 62):
        rng = random.Random(f"{seed} {k} rounded")
        of = Beliefs(rng)
        pdg, attention = of.pdg(), of.attention()
        with mpmath.workdps(DIGITS):
            exactly = of.exactly()
            found = {"inconsistency": inconsistency(pdg, attention)}
            if k % 4 == 0:
                asked: Any = {"steps": 0, "attention": attention, "control": {a.name: 1.0 for a in pdg.arcs}}
                runs = lirs([pdg.learnable()] * 3, **asked)
                found |= {"lir": lir(pdg.learnable(), **asked).before, "lirs": runs[1].before}
            said = [
                f"{name} {wrong} {mpmath.nstr(exactly, 20)}"
                for name, x in found.items()
                if (wrong := _wrong(x.lower, x.upper, x.converged, exactly, of))
            ]
        yield f"{k} of seed {seed}: {'; '.join(said)}" if said else None


def _wrong(lower: float, upper: float, converged: bool, exactly: Any, of: Beliefs) -> str:
    digits = mpmath.mpf(10) ** (10 - DIGITS) * (1 + sum(of.beta))
    if not lower - digits <= exactly <= upper + digits:
        return f"[{lower!r}, {upper!r}] without"
    if converged and math.isfinite(upper) and upper - lower > of.widest(float(exactly)):
        return f"[{lower!r}, {upper!r}] is called converged at"
    return ""
