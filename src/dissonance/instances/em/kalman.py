"""EM of linear-Gaussian state-space models by compiled passes along the sequences: what `gaussian_em` of `state_space`
does, step by step, in time linear in the observations.

    z_0 = b + noise,   z_t = A z_t-1 + b + noise (transition),   x_t = C z_t + d + noise (emission)

E-step: the posterior q(z_t-1, z_t | x) stays inside one pass forward (Kalman's filter) and one backward (Rauch, Tung
and Striebel's smoother); an entry of x_t that is missing is hidden, and expected like the states. M-step: `match` of
what the E-step expects, of the same cpds. `tests/unit/instances/em/test_kalman.py` compares the two, iteration by
iteration.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from dissonance.compiled import compiled, expect
from dissonance.cpds import LinearGaussian
from dissonance.errors import DissonanceError
from dissonance.instances.base import Instance
from dissonance.instances.em.gaussian import FittedGaussian, gaussian_em, patterns, state_space
from dissonance.lir import Run
from dissonance.pdg import PDG

Array = npt.NDArray[np.float64]

INTERPRETED = 2e-4
"""Seconds that one observation takes if it is interpreted."""


@dataclass(frozen=True)
class SmoothedStates:
    """What an E-step knows: log p(x) of each sequence; the mean (N, k) and covariance (N, k, k) of every state given
    all of its sequence; and E[v v'] of v = (1, z_t-1, z_t), the sum over all moves."""

    evidence: Array
    means: Array
    covariances: Array
    moves: Array


@dataclass
class StateSpace:
    """p(z_0), p(z_t | z_t-1) and p(x_t | z_t), and sequences x (N, width) laid end to end, NaN where missing."""

    initial: LinearGaussian
    transition: LinearGaussian
    emission: LinearGaussian
    x: Array
    lengths: Sequence[int]

    def smooth(self) -> SmoothedStates:
        """Forward and backward along every sequence: the E-step."""
        expect(INTERPRETED * len(self.x))
        with torch.no_grad():
            (_, first, spread), (A, b, Q), (C, d, R) = (
                tuple(np.ascontiguousarray(x.numpy()) for x in cpd.linear_gaussian())
                for cpd in (self.initial, self.transition, self.emission)
            )
        there = (~np.isnan(self.x)).astype(np.float64)
        off = np.where(there > 0, self.x, 0.0) - there * d
        lengths = np.asarray(self.lengths, dtype=np.int64)
        return SmoothedStates(*_smooth(off, there, lengths, first, spread, A, b, Q, C, R))

    def maximise(self, found: SmoothedStates) -> None:
        """The argmin of E[-log p] over all parameters that can be learned: the M-step."""
        states = np.concatenate([np.ones((len(self.x), 1)), found.means], 1)
        second = states[:, :, None] * states[:, None, :]
        second[:, 1:, 1:] += found.covariances  # E[v v'] of v = (1, z_t)
        seen = self._seen(second)
        first = np.cumsum([0, *self.lengths[:-1]])
        for cpd, expected in (
            (self.initial, second[first].sum(0)),
            (self.transition, found.moves),
            (self.emission, seen),
        ):
            if any(w.requires_grad for w in cpd.parameters()) and expected[0, 0] > 0:
                cpd.match(torch.from_numpy(expected))

    def _seen(self, second: Array) -> Array:
        """E[v v'] of v = (1, z_t, x_t), the sum over all times: what x_t lacks is C z + d + L (x - C z - d), with L
        from the noise that it shares with what is there, and noise of its own."""
        with torch.no_grad():
            C, d, R = (x.numpy() for x in self.emission.linear_gaussian())
        k, width = second.shape[1], len(d)
        total = np.zeros((k + width, k + width))
        for rows, there in patterns(self.x):
            lack = ~there
            known = np.linalg.solve(R[np.ix_(there, there)], R[np.ix_(there, lack)]).T
            H = np.zeros((len(rows), width, k))  # x_t = H (1, z_t) + noise
            H[:, there, 0] = self.x[rows][:, there]
            H[:, lack, 0] = d[lack] + (self.x[rows][:, there] - d[there]) @ known.T
            H[:, lack, 1:] = C[lack] - known @ C[there]
            M = second[rows]
            across = H @ M
            total[:k, :k] += M.sum(0)
            total[k:, :k] += across.sum(0)
            total[k:, k:] += np.einsum("tij,tkj->ik", across, H)
            spread = R[np.ix_(lack, lack)] - known @ R[np.ix_(there, lack)]
            total[k:, k:][np.ix_(lack, lack)] += len(rows) * spread
        total[:k, k:] = total[k:, :k].T
        return total

    @property
    def pdg(self) -> PDG:
        """The beliefs, with a variable for every time of the longest sequence."""
        return state_space(max(self.lengths), self.initial, self.transition, self.emission)


@dataclass(frozen=True)
class FittedStateSpace:
    """What EM has learned, what it began with, and the mean log-likelihood of a sequence at every E-step."""

    learned: StateSpace
    before: StateSpace
    bounds: list[float]

    @property
    def pdg(self) -> PDG:
        """The beliefs that were learned, with a variable for every time."""
        return self.learned.pdg

    @property
    def states(self) -> SmoothedStates:
        """The states given all that was seen, at what was learned."""
        return self.learned.smooth()

    @property
    def instance(self) -> Instance[FittedGaussian]:
        """The same EM as an instance of LIR, from the same start; for sequences of one length."""
        steps = set(self.before.lengths)
        if len(steps) > 1:
            raise DissonanceError(f"the instance has a variable for every time: sequences of one length, not {steps}.")
        x = self.before.x.reshape(len(self.before.lengths), steps.pop(), -1)
        names = (v.name for a in self.before.pdg if a.name.startswith("emission") for v in a.targets)
        columns = x.reshape(len(x), -1).T
        return gaussian_em(self.before.pdg, dict(zip(names, columns, strict=True)))

    @cached_property
    def run(self) -> Run:
        """The run of LIR that these iterations are, made by the generic engine when it is asked for."""
        return self.instance.run(2 * len(self.bounds))


def state_space_em(
    initial: LinearGaussian,
    transition: LinearGaussian,
    emission: LinearGaussian,
    x: object,
    iterations: int = 100,
    tol: float = 1e-6,
) -> FittedStateSpace:
    """EM for long sequences: so many iterations, or until one gains less than `tol` nats a sequence.

    `x`: a sequence (T,) or (T, width), NaN where an entry is missing; or a list of sequences of any lengths. The cpds
    are where it starts, and are not touched; those made with learnable=False stay as they are.
    """
    sequences = [np.asarray(s, dtype=np.float64) for s in (x if isinstance(x, list | tuple) else [x])]
    width = emission.b.numel()
    flat = [s.reshape(len(s), -1) for s in sequences if s.ndim in (1, 2) and len(s)]
    if len(flat) < max(1, len(sequences)) or any(s.shape[1] != width for s in flat):
        shapes = ", ".join(str(s.shape) for s in sequences[:4]) or "none"
        raise DissonanceError(
            f"sequences of shape (T, {width}) are needed, T >= 1, as emissions have it; found {shapes}."
        )
    before = StateSpace(initial, transition, emission, np.concatenate(flat), [len(s) for s in flat])
    if np.isinf(before.x).any() or np.isnan(before.x).all():
        raise DissonanceError("the sequences hold inf, or nothing but NaN.")
    before, now = copy.deepcopy(before), copy.deepcopy(before)
    bounds: list[float] = []
    for _ in range(iterations):
        found = now.smooth()
        bounds.append(float(found.evidence.mean()))
        now.maximise(found)
        if len(bounds) > 1 and abs(bounds[-1] - bounds[-2]) < tol:
            break
    return FittedStateSpace(now, before, bounds)


@compiled
def _smooth(
    off: Array,
    there: Array,
    lengths: npt.NDArray[np.int64],
    first: Array,
    spread: Array,
    A: Array,
    b: Array,
    Q: Array,
    C: Array,
    R: Array,
) -> tuple[Array, Array, Array, Array]:
    """`off` is x_t - d, 0 where missing: there its row of C is 0 and its noise a 1 of its own: that changes nothing."""
    count, width = off.shape
    k = len(b)
    evidence = np.zeros(len(lengths))
    m, P = np.zeros((count, k)), np.zeros((count, k, k))  # given what was seen so far, and then given all
    ahead, wide = np.zeros((count, k)), np.zeros((count, k, k))  # given what was seen before
    moves = np.zeros((1 + 2 * k, 1 + 2 * k))
    v = np.zeros(1 + 2 * k)
    at = 0
    for n in range(len(lengths)):
        end = at + lengths[n]
        for t in range(at, end):
            if t == at:
                ahead[t], wide[t] = first, spread
            else:
                ahead[t], wide[t] = A @ m[t - 1] + b, A @ P[t - 1] @ A.T + Q
            H, noise = C.copy(), R.copy()
            present = 0.0
            for i in range(width):
                present += there[t, i]
                if there[t, i] == 0.0:
                    H[i] = 0.0
                    for j in range(width):
                        noise[i, j] = noise[j, i] = 0.0
                    noise[i, i] = 1.0
            across = H @ wide[t]
            S = across @ H.T + noise
            r = off[t] - H @ ahead[t]
            gain = np.linalg.solve(S, across)
            evidence[n] -= 0.5 * (present * math.log(2 * math.pi) + np.linalg.slogdet(S)[1] + r @ np.linalg.solve(S, r))
            m[t] = ahead[t] + gain.T @ r
            left = wide[t] - gain.T @ across
            P[t] = 0.5 * (left + left.T)
        for t in range(end - 2, at - 1, -1):
            J = np.linalg.solve(wide[t + 1], A @ P[t]).T
            m[t] += J @ (m[t + 1] - ahead[t + 1])
            P[t] += J @ (P[t + 1] - wide[t + 1]) @ J.T
            lag = P[t + 1] @ J.T  # Cov(z_t+1, z_t)
            v[0] = 1.0
            v[1 : 1 + k] = m[t]
            v[1 + k :] = m[t + 1]
            moves += np.outer(v, v)
            moves[1 : 1 + k, 1 : 1 + k] += P[t]
            moves[1 + k :, 1 + k :] += P[t + 1]
            moves[1 + k :, 1 : 1 + k] += lag
            moves[1 : 1 + k, 1 + k :] += lag.T
        at = end
    return evidence, m, P, moves
