"""A linear-Gaussian part as a problem in the mean m and the covariance C of mu, and the parts in closed form.

With R = [-A, I] over (sources, targets) and P = Sigma^-1, arc a costs

    beta_a ( 1/2 log det 2 pi Sigma_a + 1/2 |R m - b|^2_P + 1/2 tr(P R C R') )

so with Q = sum_a beta_a R'P R the mean is a least-squares problem of its own, and C minimises

    1/2 tr(Q C) + sum_m -w_m H(T|S) - gamma H(mu),     w_m = sum of beta - gamma alpha over the mechanism.

Parts of C are known without iterating. If the targets T of a mechanism are in no other, mu(T|S) has precision
Q_TT / (w + gamma), and what is left is the same problem without T and with Q_SS - Q_ST Q_TT^-1 Q_TS in place of Q_SS.
If a hard arc makes them, mu(T|S) is its cpd. Variables of no mechanism follow the first rule with w = 0 given all
others. `peel` applies these rules while it can; `covariance.py` solves what they leave.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve, inv, null_space, solve

from dissonance.attended import Array, Mechanism
from dissonance.distributions.gaussian import LOG_2PI
from dissonance.errors import CapabilityError
from dissonance.gaussians.covariance import CovarianceProgram, Term, log_det
from dissonance.gaussians.means import GaussianBelief, norm
from dissonance.problem import EPS, Batch
from dissonance.variables import Euclidean, Variable


@dataclass
class MechanismArcs:
    """The arcs of one mechanism: its weight, its share of Q, and the hard arcs among them."""

    sources: list[int]
    targets: list[int]
    w: float
    soft: list[GaussianBelief] = field(default_factory=list)
    hard: list[GaussianBelief] = field(default_factory=list)

    @property
    def scope(self) -> set[int]:
        """Every coordinate it mentions."""
        return {*self.sources, *self.targets}


@dataclass(frozen=True)
class PeeledTargets:
    """Targets that were made by A given the sources, with noise of this covariance."""

    targets: list[int]
    sources: list[int]
    A: Array
    noise: Array


def coordinates(variables: Iterable[Variable]) -> dict[str, list[int]]:
    """Those of Euclidean variables laid end to end."""
    found, n = dict[str, list[int]](), 0
    for v in variables:
        assert isinstance(v.domain, Euclidean)
        found[v.name] = list(range(n, n := n + v.domain.dim))
    return found


def gaussian_beliefs(part: Batch) -> list[GaussianBelief]:
    """The arcs as numbers, over the coordinates of the part's variables."""
    place = coordinates(part.variables)
    n = sum(map(len, place.values()))
    found: list[GaussianBelief] = []
    for a in part.arcs:
        A, b, Sigma = (x.detach().cpu().numpy() for x in a.arc.linear_gaussian(part.theta))
        s, t = [i for v in a.sources for i in place[v]], [i for v in a.targets for i in place[v]]
        found.append(GaussianBelief(a, s, t, A, b, Sigma, n))
    return found


def mechanisms(part: Batch, arcs: Sequence[GaussianBelief]) -> list[MechanismArcs]:
    """The mechanisms that bend the objective (w > 0) or bind it (hard)."""
    scale = max((abs(a.arc.beta) for a in arcs if not a.arc.hard), default=0.0)
    found: dict[Mechanism, MechanismArcs] = {}
    for a in arcs:
        g = found.setdefault(a.arc.mechanism, MechanismArcs(a.sources, a.targets, 0.0))
        (g.hard if a.arc.hard else g.soft).append(a)
    for key, g in found.items():
        w = part.weights.get(key, 0.0)
        g.w = w if w > 1e-12 * scale else 0.0
    return [g for g in found.values() if g.w > 0 or g.hard]


class Reduction:
    """C's problem after peeling: what is left over the coordinates `core`, and how to get the rest of C back.

    Coordinates are scaled so that Q, hard arcs included, has a unit diagonal; `constant` collects all that does not
    depend on the core's C.
    """

    def __init__(self, part: Batch, arcs: Sequence[GaussianBelief]) -> None:
        self.n = arcs[0].n
        self.gamma = part.gamma.item()
        self.arcs = arcs
        self.multipliers: dict[str, tuple[Array, Array]] = {}
        """Omega and Phi (not whitened) of hard arcs that were peeled."""
        self.Q = self._precision([a for a in arcs if not a.arc.hard])
        bound = self.Q + self._precision([a for a in arcs if a.arc.hard])
        diagonal = np.diag(bound)
        self.scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))  # y = scale x
        self.peeled: list[PeeledTargets] = []
        self.constant = self._constants(part)
        self.groups = mechanisms(part, arcs)
        self.core = set(range(self.n))
        self.links = [{*a.sources, *a.targets} for a in arcs if not a.arc.hard and a.arc.beta != 0]
        free = self.bounded(bound / np.outer(self.scale, self.scale))[1]
        self.check_scales(free, range(self.n))
        self.unbounded = self.gamma > 0 and len(free) > 0

    def _precision(self, arcs: Sequence[GaussianBelief]) -> Array:
        """sum_a beta_a R'P R; hard arcs count once."""
        weighted = ((1.0 if a.arc.hard else a.arc.beta) * a.white.T @ a.white for a in arcs)
        return sum(weighted, np.zeros((self.n, self.n)))

    def _constants(self, part: Batch) -> float:
        """All that depends neither on m nor on C; entropies of hard mechanisms among them."""
        total = 0.0
        fixed = {a.arc.mechanism: a for a in reversed(self.arcs) if a.arc.hard}
        for a in self.arcs:
            total += 0.0 if a.arc.hard else 0.5 * a.arc.beta * a.log_det
            if a.arc.mechanism in fixed:
                h = fixed[a.arc.mechanism]
                w = self.gamma * a.arc.alpha - (0.0 if a.arc.hard else a.arc.beta)
                total += 0.5 * w * (h.log_det + len(h.b))
        return total

    def bounded(self, Q: Array) -> tuple[Array, Array]:
        """Orthonormal directions (as rows) in which a scaled Q is positive, and those in which it is 0."""
        values, vectors = np.linalg.eigh(Q)
        null = values <= 16 * EPS * max(1, self.n) * float(values.max(initial=1.0))
        return vectors[:, ~null].T, vectors[:, null].T

    def check_scales(self, V: Array, core: Sequence[int]) -> None:
        """Directions that seem to be bounded by no arc are seen by none: or else some arc is too small to count."""
        for a in self.arcs:
            rows = (a.white / self.scale)[:, core]
            if len(V) and len(rows) and norm(rows @ V.T) > 1e-6 * norm(rows) and (a.arc.hard or a.arc.beta > 0):
                raise CapabilityError(
                    f"{a.arc.arc} is lost beside arcs whose noise is smaller by too many orders of magnitude for "
                    "double precision: choose variances that are nearer to each other."
                )

    # -- peeling -------------------------------------------------------------------------------------------------------

    def peel(self) -> None:
        """Take out what is known in closed form, until nothing more is."""
        while self._peel_one():
            pass

    def _peel_one(self) -> bool:
        seen = Counter(i for g in self.groups for i in g.scope)
        loose = sorted(self.core - set(seen))
        if loose and self._take(loose, sorted(self.core - set(loose)), self.gamma):
            return True
        for g in self.groups:
            linked = (link for link in self.links if not link.isdisjoint(g.targets))
            if any(seen[i] > 1 for i in g.targets) or any(not link <= g.scope for link in linked):
                continue
            if self._take_hard(g) if g.hard else self._take(g.targets, g.sources, g.w + self.gamma):
                self.groups.remove(g)
                return True
        return False

    def _take(self, t: list[int], s: list[int], weight: float) -> bool:
        Q = self.Q
        small = Q[np.ix_(t, t)] / np.outer(self.scale[t], self.scale[t])
        if log_det(small - 1e3 * EPS * len(t) * np.eye(len(t))) == -math.inf:
            return False  # a direction that only others bound: not in closed form
        factor = cho_factor(Q[np.ix_(t, t)], lower=True)
        A = -cho_solve(factor, Q[np.ix_(t, s)])
        self.peeled.append(PeeledTargets(t, s, A, weight * cho_solve(factor, np.eye(len(t)))))
        if weight:
            size = 2 * float(np.log(np.diag(factor[0])).sum()) - len(t) * math.log(weight)
            self.constant += 0.5 * weight * (size - len(t) * LOG_2PI)
        self._leave(t, s, Q[np.ix_(s, t)] @ A)
        return True

    def _take_hard(self, group: MechanismArcs) -> bool:
        """mu(T|S) is the cpd of a hard arc; T = A S + noise is substituted."""
        if len(group.hard) > 1:
            return False
        (h,) = group.hard
        Q, t, s, A = self.Q, h.targets, h.sources, h.A
        QT, across = Q[np.ix_(t, t)], Q[np.ix_(t, s)]
        self.peeled.append(PeeledTargets(t, s, A, h.Sigma))
        self.constant += 0.5 * float((QT * h.Sigma).sum()) - 0.5 * self.gamma * (h.log_det + len(t))
        self.multipliers[h.arc.name] = QT - self.gamma * inv(h.Sigma), -across - QT @ A
        self._leave(t, s, A.T @ across + across.T @ A + A.T @ QT @ A)
        return True

    def _leave(self, t: list[int], s: list[int], change: Array) -> None:
        self.Q[np.ix_(s, s)] += (change + change.T) / 2
        self.Q[t, :] = self.Q[:, t] = 0.0
        self.core -= set(t)
        self.links = [link for link in self.links if link.isdisjoint(t)] + [set(s)]

    # -- what is left --------------------------------------------------------------------------------------------------

    def program(self, prior: float = 0.0) -> tuple[CovarianceProgram, Array, Array, float]:
        """The program of the core, in coordinates y = W scale x; the rows W, the null directions; its constant.

        At gamma = 0 a direction v that no arc bounds (Q v = 0) leaves the coordinates: the more mu varies along it
        the better, and in the limit H(T|S) is the entropy given only what of S does not see v. `prior` instead adds
        that much precision there, and gamma as much: what mu is then called.
        """
        core = sorted(self.core)
        scale = self.scale[core]
        Q = self.Q[np.ix_(core, core)] / np.outer(scale, scale)
        hard = [(h.white / self.scale)[:, core] for g in self.groups for h in g.hard]
        W, V = self.bounded(Q + sum((h.T @ h for h in hard), np.zeros_like(Q)))
        constant = 0.0
        gamma = self.gamma
        if prior:
            gamma, Q, W, V = prior, Q + prior * V.T @ V, np.eye(len(core)), V[:0]
        if self.gamma:
            constant += 0.5 * self.gamma * (2 * float(np.log(scale).sum()) - len(core) * (1 + LOG_2PI))
            W, V = np.eye(len(core)), V[:0]
        elif not len(V):
            W = np.eye(len(core))
        unit = np.eye(len(core))
        at = {i: k for k, i in enumerate(core)}
        terms: list[Term] = []
        for g in self.groups:
            s, t = [at[i] for i in g.sources], [at[i] for i in g.targets]
            seen = null_space(V[:, s]).T if len(V) and len(s) else np.eye(len(s))
            S = seen @ unit[s] @ W.T
            for h in g.hard:
                terms.append(Term(0.0, (h.white / self.scale)[:, core] @ W.T, S, np.eye(len(t))))
            if g.w > 0 and not g.hard:
                slope, P = self._start(g)
                terms.append(Term(g.w, (unit[t] - slope @ unit[s]) @ W.T, S, P))
                constant += g.w * (float(np.log(scale[t]).sum()) - 0.5 * len(t) * (1 + LOG_2PI))
        return CovarianceProgram(W @ Q @ W.T, gamma, terms), W, V, constant

    def _start(self, g: MechanismArcs) -> tuple[Array, Array]:
        """The weighted geometric mean of a mechanism's cpds, half as sure: w J is then at most half of its own Q."""
        t, s = g.targets, g.sources
        own = self._precision(g.soft) / np.outer(self.scale, self.scale)
        trust = sum(a.arc.beta for a in g.soft)
        P = own[np.ix_(t, t)]
        if trust < g.w or log_det(P) == -math.inf:  # alpha < 0: more weight than belief
            return np.zeros((len(t), len(s))), 1e-3 * np.eye(len(t)) / (1 + g.w)
        return -solve(P, own[np.ix_(t, s)]), 0.5 * P / trust

    def covariance(self, core: Array) -> Array:
        """All of C, given the core's in scaled coordinates."""
        at = sorted(self.core)
        C = np.zeros((self.n, self.n))
        C[np.ix_(at, at)] = core / np.outer(self.scale[at], self.scale[at])
        known = list(at)
        for p in reversed(self.peeled):
            across = p.A @ C[np.ix_(p.sources, known)]
            C[np.ix_(p.targets, known)] = across
            C[np.ix_(known, p.targets)] = across.T
            C[np.ix_(p.targets, p.targets)] = p.A @ C[np.ix_(p.sources, p.sources)] @ p.A.T + p.noise
            known += p.targets
        return (C + C.T) / 2
