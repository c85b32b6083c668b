"""Raking: a table is scaled until it has given margins. Iterative proportional fitting is LIR with hard margins."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import numpy.typing as npt
import torch

from dissonance.arc import Arc
from dissonance.distributions import Joint
from dissonance.errors import DissonanceError, suggest
from dissonance.focus import Attention, Focus, full_control
from dissonance.instances.base import Instance
from dissonance.lir import Cycle
from dissonance.pdg import PDG

Floats = npt.NDArray[np.float64]

log = logging.getLogger("dissonance")

STALLED = 100
"""Sweeps in which the worst margin must come nearer by a tenth; else it is going round in circles."""


def raking(seed: Arc, *margins: Arc) -> Instance[Joint]:
    """Iterative proportional fitting as LIR: the seed gives way to one margin after another, each a fact for a step.

    The PDG has the seed q(X) and a margin m_k(X_k) for each k. Focus k attends to the seed (beta = 1) and to margin k
    (beta = inf), with full control of the seed:

        mu* = argmin { KL(mu || q) : mu(X_k) = m_k } = q(x) m_k(x_k) / q(x_k),      q <- mu*

    which is the textbook's step, so that n sweeps over K margins are n K steps of LIR. Large tables: `rake`.
    """
    _check(seed, margins)
    pdg = PDG(seed.learnable(), *margins)
    foci = [Focus(Attention.only({seed.name: 1.0, m.name: math.inf}), full_control(seed.name)) for m in margins]
    facts = Attention.only({seed.name: 1.0} | {m.name: math.inf for m in margins})
    return Instance(pdg, Cycle(*foci), lambda run: _joint(run.pdg[seed.name]), attention=facts, flow="full")


def _joint(arc: Arc) -> Joint:
    return Joint(arc.targets, arc.cpd.table().detach())


@dataclass(frozen=True)
class Raked:
    """What raking came to: the scaled table `mu`, and the proof of how good it is.

        lower  <=  min_mu  KL(mu || seed) + sum_k c_k KL( mu(X_k) || m_k )  <=  upper

    for margins of confidence c_k. Of hard margins (c = inf) nothing is added at a mu that has them, to the tolerance:
    `within` is how far the furthest entry of such a margin is off. `upper` is inf if no such mu was found.
    """

    mu: Joint
    lower: float
    upper: float
    within: float
    converged: bool
    sweeps: int
    seed: Arc = field(repr=False)

    @property
    def arc(self) -> Arc:
        """The scaled table in the place of the seed."""
        return self.seed.with_cpd(self.mu.table)


def rake(
    seed: Arc,
    *margins: Arc,
    confidence: float | Mapping[str, float] = math.inf,
    tol: float = 1e-10,
    sweeps: int = 2000,
) -> Raked:
    """The table nearest to the seed that has these margins, by scaling; for tables of millions of cells.

    `confidence`: how much the margins, or each by its name, weigh beside the seed. inf, the default, is iterative
    proportional fitting. Margins that contradict each other leave that going round in circles; with finite confidence c
    every margin is followed part of the way, q(x) (m_k(x_k) / q(x_k))^(c/(1+c)) with what it did before undone, and the
    compromise is the mu* of `inconsistency` with beta = 1 for the seed and c for the margin, between proved bounds.

    The bounds: mu = seed exp(sum_k l_k), normalised, is dual feasible for any l (Donsker and Varadhan), which gives

        lower = -log sum_x seed(x) exp(sum_k l_k(x_k)) - sum_k c_k log sum_x m_k(x) exp(-l_k(x) / c_k)

    >>> A, B = Variable("A", 2), Variable("B", 2)
    >>> seed = Arc("old", (), (A, B), [[0.4, 0.1], [0.2, 0.3]])
    >>> found = rake(seed, Arc("a", (), A, [0.6, 0.4]), Arc("b", (), B, [0.5, 0.5]))
    >>> found.mu.marginal("A"), found.converged
    (tensor([0.6000, 0.4000], dtype=torch.float64), True)
    """
    _check(seed, margins)
    weights = _weights(margins, confidence)
    held = [_Margin(seed, m, c) for m, c in zip(margins, weights, strict=True)]
    with torch.no_grad():
        mu = seed.cpd.table().numpy().astype(np.float64)
    done, worst, before = 0, math.inf, math.inf
    while done < sweeps and worst > tol:
        worst = max(m.scale(mu) for m in held)
        done += 1
        if done % STALLED == 0:
            if worst > 0.9 * before:
                break
            before = worst
    mu /= mu.sum()
    lower, upper, within = _bounds(held, mu)
    if worst > tol:
        _warn(held, worst, upper - lower)
        if within > tol:  # no mu was found that has the hard margins
            upper = math.inf
    return Raked(Joint(seed.targets, mu), lower, upper, within, worst <= tol, done, seed)


class _Margin:
    """A margin on its way into the table: l_k, whose exponential the table has been multiplied with."""

    def __init__(self, seed: Arc, margin: Arc, confidence: float) -> None:
        place = {v.name: i for i, v in enumerate(seed.targets)}
        axes = [place[n] for n in margin.names]
        self.name, self.names, self.confidence = margin.name, margin.names, confidence
        self.rest = tuple(i for i in place.values() if i not in axes)
        self.shape = tuple(1 if i in self.rest else v.size for i, v in enumerate(seed.targets))
        with torch.no_grad():
            table = margin.cpd.table().numpy()
        self.table: Floats = table.transpose(np.argsort(axes)).reshape(self.shape).astype(np.float64)
        self.multiplier: Floats = np.ones(self.shape)
        """exp l_k."""

    def of(self, mu: Floats) -> Floats:
        """The margin of a table, of its shape but with axes of length 1 for what is added up."""
        return mu.sum(self.rest, keepdims=True)

    def scale(self, mu: Floats) -> float:
        """Multiply the table in place; how far it was off: from the margin, or if that is soft, from where it belongs.

        With q the table without what this margin did: exp l = (m / q)^(c/(1+c)), and then sum 1.
        """
        now = self.of(mu)
        if bool(((now <= 0) & (self.table > 0)).any()) and self.confidence == math.inf:
            raise DissonanceError(f"the seed has nothing where margin {self.name!r} has something: no scaling helps.")
        some = now > 0
        hard = self.confidence == math.inf
        power = 1.0 if hard else self.confidence / (1.0 + self.confidence)
        ratio = np.divide(self.table * (1.0 if hard else self.multiplier), now, out=np.zeros_like(now), where=some)
        factor = ratio if hard else np.divide(
            ratio**power, self.multiplier, out=np.zeros_like(ratio), where=self.multiplier > 0
        )  # fmt: skip
        wanted = now * factor
        factor = factor / wanted.sum()
        off = float(np.abs(now * factor - now).max())
        mu *= factor
        self.multiplier = self.multiplier * factor
        return off


def _bounds(held: Sequence[_Margin], mu: Floats) -> tuple[float, float, float]:
    """Lower and upper bound, and how far hard margins are off, at mu = seed exp(sum l) up to a constant."""
    margins = [m.of(mu) for m in held]
    logs = [np.log(np.where(m.multiplier > 0, m.multiplier, 1.0)) for m in held]
    # sum_x seed exp(sum l) is 1: every scaling left the sum of the table at 1, but for rounding, which mu /= sum took
    upper = sum(float((now * x).sum()) for now, x in zip(margins, logs, strict=True))
    lower, within = 0.0, 0.0
    for m, now, x in zip(held, margins, logs, strict=True):
        if m.confidence == math.inf:
            within = max(within, float(np.abs(now - m.table).max()))
            lower += float((m.table * x).sum())
            continue
        c, some = m.confidence, now > 0
        ratio = np.log(np.where(some, now / np.where(some & (m.table > 0), m.table, 1.0), 1.0))
        upper += c * float((now * ratio).sum())
        lower -= c * math.log(float((m.table * np.exp(np.where(m.multiplier > 0, -x / c, 0.0))).sum()))
    lower = max(0.0, lower)
    return lower, max(lower, upper), within


def _check(seed: Arc, margins: Sequence[Arc]) -> None:
    if not margins:
        raise DissonanceError("raking needs at least one margin.")
    names = {v.name: v for v in seed.targets}
    for arc in (seed, *margins):
        if arc.sources or not arc.has_table:
            raise DissonanceError(f"{arc}: raking takes tables without sources.")
        for v in arc.targets:
            if v.name not in names:
                raise DissonanceError(f"{arc}: the seed has no variable {v.name!r}.{suggest(v.name, names)}")
            if v != names[v.name]:
                raise DissonanceError(f"{arc}: {v.name!r} has other values, or in another order, than in the seed.")


def _weights(margins: Sequence[Arc], confidence: float | Mapping[str, float]) -> list[float]:
    names = [m.name for m in margins]
    if not isinstance(confidence, Mapping):
        confidence = dict.fromkeys(names, confidence)
    for n, c in confidence.items():
        if n not in names:
            raise DissonanceError(f"confidence: no margin named {n!r}.{suggest(n, names)}")
        if not c > 0:
            raise DissonanceError(f"the confidence in {n!r} is {c}; it must be a number above 0, or inf.")
    return [float(confidence.get(n, math.inf)) for n in names]


def _warn(held: Sequence[_Margin], worst: float, gap: float) -> None:
    """Say which hard margins contradict each other, if two do by themselves."""
    hard = [m for m in held if m.confidence == math.inf]
    for a, b in combinations(hard, 2):
        shared = [n for n in a.names if n in b.names]
        if not shared:
            continue
        ours, theirs = (m.table.sum(tuple(i for i in b.rest + a.rest if m.shape[i] > 1), keepdims=True) for m in (a, b))
        if float(np.abs(ours - theirs).max()) > 1e-9:
            log.warning(
                "margins %s and %s disagree about %s by up to %.3g: no table has both. A finite confidence has a "
                "compromise.",
                a.name, b.name, ", ".join(shared), float(np.abs(ours - theirs).max()),
            )  # fmt: skip
            return
    if hard:
        log.warning("raking stopped with entries off by up to %.3g: more sweeps, or a finite confidence.", worst)
    else:
        log.warning("raking stopped with bounds %.3g apart: more sweeps, or less confidence.", gap)
