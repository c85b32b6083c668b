"""Is it more than chance? Whether samples of one population would disagree as much, and how sure blame is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from dissonance.chance.geometry import chi_square_weights
from dissonance.chance.samples import Floats, SourceSamples, interior, solved_part
from dissonance.chance.tail import tail
from dissonance.errors import DissonanceError, SizeError
from dissonance.focus import Attention
from dissonance.inconsistency import Inconsistency, inconsistency
from dissonance.workers.base import Here, Workers
from dissonance.workers.cluster import to_cluster

__all__ = ["BlameInterval", "Chance", "chance"]

EXPECTED = 20.0
"""Observations to expect in every cell, from which on the asymptotic distribution is relied on."""

PARTS = 10
"""Into how many parts replicates are split, so that progress can be shown."""


@dataclass(frozen=True)
class BlameInterval:
    """What a sample is to blame for, n KL in nats, and between which bounds that is for the populations, with the
    confidence that was asked for.

    `by_chance`: what it would be on average, were all of them samples of one population. `most`: in which share of the
    replicates this sample was the one most to blame.
    """

    name: str
    contribution: float
    low: float
    high: float
    by_chance: float
    most: float


@dataclass(frozen=True)
class Chance:
    """How often samples of one population would disagree as much as these.

    `statistic` is twice the inconsistency of the samples, each with beta = n; `degrees` is how many independent ways
    they have to disagree. `asymptotic` is the p-value of large samples (None if it could not be had), `bootstrap` that
    of replicates drawn from the best compromise (None if none were drawn). `unmet` says in words which conditions of
    the asymptotic one are not met. `left_out`: beliefs that are no samples and have no part in this.
    """

    statistic: float
    degrees: int | None
    asymptotic: float | None
    bootstrap: float | None
    replicates: int
    unmet: tuple[str, ...]
    blame: tuple[BlameInterval, ...]
    left_out: tuple[str, ...]
    confidence: float

    @property
    def method(self) -> str:
        """Which p-value is relied on: "asymptotic", where its conditions are met, or "bootstrap"."""
        return "bootstrap" if self.unmet else "asymptotic"

    @property
    def p_value(self) -> float:
        """The probability that samples of one population disagree at least as much."""
        found = self.bootstrap if self.unmet else self.asymptotic
        assert found is not None
        return found

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        least = 1 / (self.replicates + 1) if self.unmet else 1e-4
        small = self.p_value <= least * (1 + 1e-9)
        how = f"p {'<' if small and not self.unmet else '<=' if small else '='} {max(self.p_value, least):.2g}"
        much = f"samples of one population would disagree as much {_often(self.p_value, least)}"
        if self.p_value >= 0.05:
            return f"This may be chance ({how}): {much}."
        return f"This is more than chance ({how}): {much}."

    def __str__(self) -> str:
        return self.sentence


def _often(p: float, least: float) -> str:
    return f"less than {100 * least:.2g} % of the time" if p <= least else f"{100 * p:.2g} % of the time"


def chance(
    result: Inconsistency,
    *,
    replicates: int = 1000,
    confidence: float = 0.95,
    pseudocount: float = 0.5,
    seed: int = 0,
    intervals: bool = True,
    progress: Callable[[int, int], None] | None = None,
    cluster: Any = None,
) -> Chance:
    """Whether the conflict of the samples among the beliefs of a result is more than chance.

    Samples are arcs with counts that are attended; each is weighed with its size, whatever its beta. Hard arcs
    (beta = inf) are facts about the population. All other beliefs are left out. `pseudocount` is added to every count,
    of the samples and of the replicates alike. `replicates`: how many are drawn, twice: from the best compromise, for
    the p-value, and from each sample's own table, for `intervals` of blame with this `confidence`. On a `cluster` (see
    `lir`) they are solved there.
    """
    if replicates < 0 or not 0 < confidence < 1:
        raise DissonanceError("replicates is a number from 0 on, and confidence lies between 0 and 1.")
    with torch.no_grad():
        test = Test(SourceSamples.of(result, pseudocount), result)
        draws = Draws(replicates, confidence, seed, intervals, progress or (lambda *_: None))
        with nullcontext(Here()) if cluster is None else to_cluster(cluster) as workers:
            return test(draws, workers)


@dataclass(frozen=True)
class Draws:
    """How many replicates are drawn, and what for."""

    replicates: int
    confidence: float
    seed: int
    intervals: bool
    progress: Callable[[int, int], None]


@dataclass(frozen=True)
class Test:
    """The test of the samples of a result."""

    given: SourceSamples
    result: Inconsistency

    @cached_property
    def samples(self) -> SourceSamples:
        """The samples, with the cells that the facts make impossible."""
        if not self.given.facts:
            return self.given
        base = _solved(self.given)
        masks = [base.mu.rows(a.sources, a.targets).numpy() > 0 for a in self.given.arcs]
        return self.given if all(m.all() for m in masks) else replace(self.given, possible=tuple(masks))

    @cached_property
    def base(self) -> Inconsistency:
        """Their inconsistency; its mu is the population that replicates are drawn from."""
        return _solved(self.samples)

    def __call__(self, draws: Draws, workers: Workers) -> Chance:
        """The result of the test."""
        statistic = 2 * self.base.upper
        asymptotic, degrees, unmet = self._asymptotic(statistic)
        if unmet and not draws.replicates:
            raise DissonanceError(f"the asymptotic p-value does not hold, as {unmet[0]}: ask for replicates.")
        bootstrap, blame = self._bootstrap(draws, workers) if draws.replicates else (None, ())
        mine = {a.name for a in (*self.given.arcs, *self.given.facts)}
        attended = (a.name for a in self.result.pdg.arcs if self.result.attention.beta.get(a.name, 0.0))
        left_out = tuple(n for n in attended if n not in mine)
        return Chance(
            statistic, degrees, asymptotic, bootstrap, draws.replicates, unmet, blame, left_out, draws.confidence
        )

    def _asymptotic(self, statistic: float) -> tuple[float | None, int | None, tuple[str, ...]]:
        """The p-value, the degrees of freedom, and the conditions of the asymptotics that are not met."""
        s, mu = self.samples, self.base.mu
        unmet: list[str] = []
        for a, n in zip(s.arcs, s.counts, strict=True):
            joint = mu.rows(a.sources, a.targets).numpy()
            q = joint / np.maximum(joint.sum(1, keepdims=True), 1e-300)
            expected = n.sum(1, keepdims=True) * q
            few = float(expected[joint > 0].min(initial=np.inf))
            if few < EXPECTED:
                unmet.append(f"a cell of {a.name} has {few:.2g} expected observations, of {EXPECTED:g} needed")
        if not interior(mu, float(s.sizes.min())):
            unmet.append("the best compromise lies at the edge of what is possible")
        try:
            found = chi_square_weights(mu, s.arcs, s.facts, s.counts)
        except SizeError as error:
            return None, None, (*unmet, str(error))
        return tail(found, statistic), len(found), tuple(unmet)

    def _bootstrap(self, draws: Draws, workers: Workers) -> tuple[float, tuple[BlameInterval, ...]]:
        """The p-value, and how sure blame is."""
        s, count, rng = self.samples, draws.replicates, np.random.default_rng(draws.seed)
        population = [self.base.mu.rows(a.sources, a.targets).numpy() for a in s.arcs]
        own = s.tables(s.counts)
        cuts, kinds = np.linspace(0, count, min(PARTS, count) + 1).astype(int), 1 + draws.intervals
        found: dict[int, tuple[Floats, Floats]] = {}

        def parts() -> Iterator[tuple[SourceSamples, list[Floats]]]:
            for begin, end in pairwise(cuts):
                for rows in (population, own)[:kinds]:
                    yield s, s.drawn(rows, end - begin, rng)

        def finished(i: int, solved: tuple[Floats, Floats]) -> None:
            found[i] = solved
            draws.progress(count * len(found) // (kinds * (len(cuts) - 1)), count)

        workers.each(solved_part, parts(), finished)
        null, spread = ([found[i] for i in range(k, len(found), kinds)] for k in (0, kinds - 1))
        values, by_chance = (np.concatenate([part[i] for part in null]) for i in (0, 1))
        here, mine = s.solved([n[None] for n in s.counts])
        p = (1 + int((values >= here[0] * (1 - 1e-9)).sum())) / (1 + count)
        if not draws.intervals:
            return p, ()
        names = [a.name for a in s.arcs]
        return p, _intervals(
            names, mine[0], np.concatenate([part[1] for part in spread]), by_chance.mean(0), draws.confidence
        )


def _solved(samples: SourceSamples) -> Inconsistency:
    found = inconsistency(samples.beliefs, Attention.only(samples.beta))
    if found.upper == float("inf"):
        raise DissonanceError("the facts contradict each other: there is no population to draw samples from.")
    return found


def _intervals(
    names: Sequence[str], mine: Floats, spread: Floats, by_chance: Floats, confidence: float
) -> tuple[BlameInterval, ...]:
    """Bootstrap intervals of the root: replicates are as far from what was found as that is from the truth.

    A divergence is about the square of a distance, whose noise does not grow with it. What was found less the bias (by
    how much replicates are larger in the middle) is the centre, and the wider half of the replicates counts on both
    sides.
    """
    edge, roots = (1 - confidence) / 2, np.sqrt(spread)
    lower, middle, upper = np.quantile(roots, (edge, 0.5, 1 - edge), axis=0)
    half = np.maximum(middle - lower, upper - middle)
    ends = (2 * np.sqrt(mine) - middle + sign * half for sign in (-1, 1))
    low, high = (np.maximum(0.0, end) ** 2 for end in ends)
    most = np.bincount(spread.argmax(1), minlength=len(names)) / len(spread)
    numbers = np.stack([mine, low, high, by_chance, most], 1).tolist()
    return tuple(BlameInterval(n, *x) for n, x in zip(names, numbers, strict=True))
