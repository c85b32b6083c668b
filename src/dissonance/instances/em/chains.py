"""EM of hidden Markov models by compiled passes along the sequences: what `em` of `hidden_markov` does, step by step.

The generic engine has a variable for every time. Here the posterior q(Z_t | Z_t-1, row) stays inside one pass forward
and one backward, time linear in the observations, and the M-step is that of the same cpds: `match` of what the E-step
expects. `tests/unit/instances/em/test_chains.py` compares the two, iteration by iteration.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from dissonance.compiled import compiled, expect
from dissonance.cpds import Observed, SoftmaxTable
from dissonance.instances.base import Instance
from dissonance.instances.em.fitted import Fitted
from dissonance.instances.em.instance import em
from dissonance.instances.em.latent import ROW
from dissonance.instances.em.likelihood import density
from dissonance.lir import Run
from dissonance.pdg import PDG

Array = npt.NDArray[np.float64]

INTERPRETED = 4e-6
"""Seconds that one entry of one transition takes if it is interpreted."""


@dataclass(frozen=True)
class Smoothed:
    """What an E-step knows: log p(x) of each sequence; p(Z_t | x) of every observation, (N, states); E of the moves
    from state to state, weighted by sequence; and where each sequence becomes impossible (-1: nowhere)."""

    evidence: Array
    states: Array
    moves: Array
    impossible: npt.NDArray[np.int64]


@dataclass
class Chains:
    """p(Z_0), p(Z_t | Z_t-1) and p(x_t | Z_t), and sequences laid end to end: `emission` is about every observation.

    `shares`: how much each sequence counts; they add up to 1.
    """

    start: SoftmaxTable
    move: SoftmaxTable
    emission: Observed
    lengths: Sequence[int]
    shares: Array

    def smooth(self) -> Smoothed:
        """Forward and backward along every sequence: the E-step."""
        with torch.no_grad():
            log_p = np.ascontiguousarray(self.emission.log_table().numpy().T)
            start, move = (torch.softmax(t.logits, -1).numpy() for t in (self.start, self.move))
        expect(INTERPRETED * log_p.size * log_p.shape[1])
        lengths = np.asarray(self.lengths, dtype=np.int64)
        return Smoothed(*_smooth(log_p, start, move, lengths, self.shares))

    def maximise(self, found: Smoothed) -> None:
        """The argmin of E[-log p] over all parameters: the M-step."""
        first = np.cumsum([0, *self.lengths[:-1]])
        weighted = found.states * np.repeat(self.shares, self.lengths)[:, None]
        self.start.match(torch.from_numpy(weighted[first].sum(0)))
        if found.moves.any():
            self.move.match(torch.from_numpy(found.moves))
        joint = torch.from_numpy(np.ascontiguousarray(weighted.T))
        self.emission.match(self.emission.expectations(joint))

    def fit(self, iterations: int, tol: float, about: Callable[[Chains], PDG]) -> FittedChains:
        """So many iterations of EM, or until one gains less than `tol` nats a sequence; `about` makes the PDG."""
        before = last = copy.deepcopy(self)
        bounds: list[float] = []
        for _ in range(iterations):
            last = replace(self, **{name: copy.deepcopy(getattr(self, name)) for name in ("start", "move", "emission")})
            found = self.smooth()
            bounds.append(float(self.shares @ found.evidence))
            self.maximise(found)
            if len(bounds) > 1 and abs(bounds[-1] - bounds[-2]) < tol:
                break
        settled = len(bounds) > 1 and abs(bounds[-1] - bounds[-2]) < tol
        return FittedChains(self, before, last, bounds, settled, about)


@dataclass(frozen=True)
class FittedChains:
    """What EM has learned, what it began with, where its last E-step was, and what every E-step found of the objective:
    the mean log-likelihood of a sequence, less the term of a floor."""

    chains: Chains
    before: Chains
    last: Chains
    bounds: list[float]
    settled: bool
    about: Callable[[Chains], PDG] = field(repr=False)

    @property
    def pdg(self) -> PDG:
        """The beliefs that were learned, with a variable for every time."""
        return self.about(self.chains)

    @property
    def likelihood(self) -> float:
        """The mean log-likelihood of a sequence at the last E-step."""
        plain = replace(self.last, emission=density(self.last.emission))
        return (
            self.bounds[-1] if plain.emission is self.last.emission else float(plain.shares @ plain.smooth().evidence)
        )

    @property
    def instance(self) -> Instance[Fitted]:
        """The same EM as an instance of LIR, from the same start."""
        p = self.about(self.before)
        return em(p, p.variable(ROW), weights=self.before.shares)

    @cached_property
    def run(self) -> Run:
        """The run of LIR that these iterations are, made by the generic engine when it is asked for."""
        return self.instance.run(2 * len(self.bounds))


@compiled
def _smooth(
    log_p: Array, start: Array, move: Array, lengths: npt.NDArray[np.int64], shares: Array
) -> tuple[Array, Array, Array, npt.NDArray[np.int64]]:
    """Scaled messages: alpha_t sums to 1, beta_t is divided by the same scale."""
    count, k = log_p.shape
    evidence = np.zeros(len(lengths))
    states = np.zeros((count, k))
    moves = np.zeros((k, k))
    impossible = np.full(len(lengths), -1)
    alpha, beta, b, sizes = np.zeros((count, k)), np.zeros((2, k)), np.zeros((count, k)), np.zeros(count)
    at = 0
    for n in range(len(lengths)):
        end = at + lengths[n]
        total = 0.0
        for t in range(at, end):
            top = log_p[t].max()
            size = 0.0
            for j in range(k):
                if t == at:
                    a = start[j]
                else:
                    a = 0.0
                    for i in range(k):
                        a += alpha[t - 1, i] * move[i, j]
                b[t, j] = math.exp(log_p[t, j] - top) if top > -math.inf else 0.0
                alpha[t, j] = a * b[t, j]
                size += alpha[t, j]
            if not size > 0.0:
                impossible[n] = t - at
                total = -math.inf
                break
            sizes[t] = size
            total += math.log(size) + top
            for j in range(k):
                alpha[t, j] /= size
        evidence[n] = total
        if impossible[n] < 0:
            now, then = 0, 1
            for j in range(k):
                beta[now, j] = 1.0
                states[end - 1, j] = alpha[end - 1, j]
            for t in range(end - 2, at - 1, -1):
                now, then = then, now  # `then` holds beta of t + 1
                for i in range(k):
                    total = 0.0
                    for j in range(k):
                        part = move[i, j] * b[t + 1, j] * beta[then, j] / sizes[t + 1]
                        total += part
                        moves[i, j] += shares[n] * alpha[t, i] * part
                    beta[now, i] = total
                    states[t, i] = alpha[t, i] * total
        at = end
    return evidence, states, moves, impossible
