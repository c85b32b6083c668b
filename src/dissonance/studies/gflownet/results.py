"""What a finished study says: its runs in groups, the modified losses beside the others, and the noise of sampling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, geometric_mean

import torch

from dissonance.gflownets.exact import Fit, sampled
from dissonance.studies.gflownet.confirmation import Point, TrainingOutcome
from dissonance.studies.gflownet.folder import GflownetFolder, Trial
from dissonance.studies.gflownet.published import GRID, PUBLISHED, SAMPLES, TOP_SHARE
from dissonance.studies.gflownet.settings import Settings
from dissonance.studies.gflownet.statistics import LEAST, Interval, MedianSpread, Ratio

FAMILIES = (("ModTB", "TB"), ("ModLPV", "LPV"))
"""Each modified loss, and what it modifies."""
WORST = 2.0
"""The largest L1 there is: that of a policy which is not a number."""
ALL = "all"
FROZEN = 0.5
"""A run counts as frozen if the clamp cut off its loss in more than this share of the iterations."""
GAP = 0.01
"""A difference of L1 that is large enough to be explained."""
DRAWS = 5


@dataclass(frozen=True)
class Comparison:
    """A modified loss beside the one it modifies, run by run: under a clamp, on a reward or on all of them."""

    clamp: str
    reward: str
    modified: str
    original: str
    measure: str  # l1: at the end; mean_l1: on average over the training; top_l1: l1, over all ranks confirmed
    ratio: Ratio


@dataclass(frozen=True)
class Explained:
    """How much larger the L1 of the original loss is than that of the modified one, under each clamp."""

    reward: str
    modified: str
    original: str
    published: float  # of samples
    gaps: dict[str, Interval]  # of exact medians, by clamp
    change: Interval  # the gap under the clamp of the batch, less that without one; nan unless both were run
    frozen: tuple[int, int]  # runs of the modified and of the original loss that the clamp of the batch froze

    @property
    def share(self) -> float:
        """The part of the gap under the published clamp that is gone without a clamp; nan if there is no gap."""
        with_clamp = self.gaps["batch"].mean if "batch" in self.gaps else math.nan
        return self.change.mean / with_clamp if with_clamp > GAP else math.nan


@dataclass(frozen=True)
class Searched:
    """A modified loss beside the one it modifies in the search: intervals by resampling the trials."""

    clamp: str
    reward: str
    modified: str
    original: str
    best: Interval  # ratio of the smallest L1s: how far the search came
    typical: Interval  # ratio of the medians: how much hyperparameters matter


@dataclass(frozen=True)
class Results:
    """The tables of a study, and what can be asked of them. Only the best hyperparameters of a pair are compared."""

    settings: Settings
    trials: Sequence[Trial]
    outcomes: Sequence[TrainingOutcome]
    points: Sequence[Point]

    @classmethod
    def of(cls, folder: GflownetFolder) -> Results:
        """What is in the folder."""
        return cls(folder.settings, folder.trials(), folder.outcomes(), folder.traces())

    def runs(self, clamp: str, reward: str, loss: str) -> list[TrainingOutcome]:
        """The runs of a pair with its best hyperparameters, by seed."""
        return self._groups.get((clamp, reward, loss), [])

    @cached_property
    def _groups(self) -> dict[tuple[str, str, str], list[TrainingOutcome]]:
        groups: dict[tuple[str, str, str], list[TrainingOutcome]] = {}
        for o in self.outcomes:
            if o.rank == 0:
                groups.setdefault((o.clamp, o.reward, o.loss), []).append(o)
        return groups

    def spread(self, clamp: str, reward: str, loss: str, measure: str) -> MedianSpread:
        """Median and interquartile range of a column of runs.csv over the seeds."""
        return MedianSpread.of([getattr(o, measure) for o in self.runs(clamp, reward, loss)])

    def trace(self, clamp: str, reward: str, loss: str) -> dict[int, list[Point]]:
        """The points of these runs, by seed."""
        return self._traces.get((clamp, reward, loss), {})

    @cached_property
    def _traces(self) -> dict[tuple[str, str, str], dict[int, list[Point]]]:
        groups: dict[tuple[str, str, str], dict[int, list[Point]]] = {}
        for p in sorted(self.points, key=lambda p: p.iteration):
            if p.rank == 0:
                groups.setdefault((p.clamp, p.reward, p.loss), {}).setdefault(p.seed, []).append(p)
        return groups

    @property
    def families(self) -> list[tuple[str, str]]:
        """The modified losses whose originals were run as well."""
        return [f for f in FAMILIES if set(f) <= set(self.settings.losses)]

    @property
    def comparable(self) -> bool:
        """Whether the grid is the published one."""
        return (self.settings.dimensions, self.settings.height) == GRID

    @property
    def measures(self) -> tuple[str, ...]:
        """What is compared."""
        return ("l1", "mean_l1") if self.settings.top == 1 else ("l1", "mean_l1", "top_l1")

    # -- comparisons ---------------------------------------------------------------------------------------------------

    def comparisons(self) -> Iterator[Comparison]:
        """Every modified loss beside its original, under every clamp, on every reward and on all together."""
        for clamp in self.settings.clamps:
            for modified, original in self.families:
                for measure in self.measures:
                    each = {r: self._logs(clamp, r, modified, original, measure) for r in self.settings.rewards}
                    for reward, logs in each.items():
                        yield Comparison(clamp, reward, modified, original, measure, Ratio.of(list(logs.values())))
                    common = [s for s in self.settings.seeds if all(s in logs for logs in each.values())]
                    if len(each) > 1:
                        means = [fmean(logs[seed] for logs in each.values()) for seed in common]
                        yield Comparison(clamp, ALL, modified, original, measure, Ratio.of(means))

    def _logs(self, clamp: str, reward: str, modified: str, original: str, measure: str) -> dict[int, float]:
        """By seed, the logarithm of how many times as large the modified loss's value is."""
        first, second = (self._values(clamp, reward, loss, measure) for loss in (modified, original))
        return {seed: math.log(value / second[seed]) for seed, value in first.items() if seed in second}

    def _values(self, clamp: str, reward: str, loss: str, measure: str) -> dict[int, float]:
        if measure == "mean_l1":
            found = {s: fmean(p.l1 for p in points) for s, points in self.trace(clamp, reward, loss).items()}
            return {seed: _positive(x) for seed, x in found.items()}
        ranks: dict[int, list[float]] = {}
        for o in self.outcomes:
            if (o.clamp, o.reward, o.loss) == (clamp, reward, loss) and (o.rank == 0 or measure == "top_l1"):
                ranks.setdefault(o.seed, []).append(_positive(o.l1))
        return {seed: geometric_mean(values) for seed, values in ranks.items()}

    def explained(self) -> Iterator[Explained]:
        """What the clamp does to the gap between a modified loss and its original."""
        for modified, original in self.families:
            for reward in self.settings.rewards:
                theirs = PUBLISHED["sampled_l1"]
                gaps = {clamp: self._gap((clamp,), reward, modified, original) for clamp in self.settings.clamps}
                change = self._gap(("batch", "none"), reward, modified, original)
                frozen = [sum(o.frozen > FROZEN for o in self.runs("batch", reward, x)) for x in (modified, original)]
                published = theirs[reward, original].median - theirs[reward, modified].median
                yield Explained(reward, modified, original, published, gaps, change, (frozen[0], frozen[1]))

    def _gap(self, clamps: Sequence[str], reward: str, modified: str, original: str) -> Interval:
        """By how much the median L1 of the original loss is the larger one under the first clamp, less that under the
        second if there is one; seeds are resampled."""
        pairs = [(clamp, loss) for clamp in clamps for loss in (original, modified)]
        columns = [self._values(clamp, reward, loss, "l1") for clamp, loss in pairs]
        seeds = [seed for seed in self.settings.seeds if all(seed in column for column in columns)]
        signs = torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=torch.float64)[: len(pairs)]
        return Interval.over([[c[seed] for c in columns] for seed in seeds], lambda x: x.quantile(0.5, -2) @ signs)

    # -- the search ----------------------------------------------------------------------------------------------------

    def tried(self, clamp: str, reward: str, loss: str) -> list[Trial]:
        """The trials of a pair, the best first."""
        found = [t for t in self.trials if (t.clamp, t.reward, t.loss) == (clamp, reward, loss)]
        return sorted(found, key=lambda t: t.l1)

    def searched(self) -> Iterator[Searched]:
        """Every modified loss beside its original in the search."""
        for clamp in self.settings.searched:
            for modified, original in self.families:
                for reward in self.settings.rewards:
                    first, second = ([t.l1 for t in self.tried(clamp, reward, x)] for x in (modified, original))
                    best = Interval.between(first, second, lambda x: x.amin(-1))
                    typical = Interval.between(first, second, lambda x: x.quantile(0.5, -1))
                    yield Searched(clamp, reward, modified, original, best, typical)

    def best(self, clamp: str, reward: str, loss: str) -> list[Trial]:
        """The best fifth of the trials of a pair: 10 of 50, as published."""
        found = self.tried(clamp, reward, loss)
        return found[: max(1, round(TOP_SHARE * len(found)))]

    # -- noise ---------------------------------------------------------------------------------------------------------

    @cached_property
    def floors(self) -> dict[str, tuple[float, float]]:
        """L1 and JSD that a perfect sampler scores on each reward, by drawing so many samples from the target."""
        generator = torch.Generator().manual_seed(0)
        floors: dict[str, tuple[float, float]] = {}
        for reward, dag in self.settings.graphs().items():
            target = dag.target.expand(DRAWS, -1)
            drawn = sampled(target, self.settings.samples, generator)
            fit = Fit.of(drawn, target, torch.zeros_like(target, dtype=torch.bool))
            floors[reward] = fit.l1.mean().item(), fit.jsd.mean().item()
        return floors

    @property
    def noisy(self) -> bool:
        """Whether the noise is that of the published metrics."""
        return self.comparable and self.settings.samples == SAMPLES


def _positive(l1: float) -> float:
    """An L1 that has a logarithm."""
    return WORST if math.isnan(l1) else max(l1, LEAST)
