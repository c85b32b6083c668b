"""What the study runs; the defaults are the published settings, with a search of its own and three clamps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import product
from typing import Any

from dissonance.errors import DissonanceError, SizeError
from dissonance.gflownets.dag import Dag, check_size
from dissonance.gflownets.grids import hyper_grid
from dissonance.gflownets.losses import LOSSES, Clamp, loss_named
from dissonance.gflownets.trainer import TrainingPlan, TrainingRun

MOST = 1 << 24
REWARDS = ("original", "cosine", "xor", "coprime")


@dataclass(frozen=True)
class Pair:
    """A loss on a reward under a clamp: what hyperparameters are searched for."""

    loss: str
    reward: str
    clamp: str

    @property
    def name(self) -> str:
        """What its search is called."""
        return f"{self.loss}-{self.reward}-{self.clamp}"


@dataclass(frozen=True)
class Job:
    """One run of the confirmation: a pair, the rank of its hyperparameters in the search, and a seed."""

    pair: Pair
    rank: int
    run: TrainingRun


@dataclass(frozen=True)
class Settings:
    """A study: a search for every pair, then a confirmation with seeds that the search has not seen."""

    dimensions: int = 4
    height: int = 24
    rewards: tuple[str, ...] = REWARDS
    base: float = 0.1  # the reward of every state; of xor and coprime it is 0 in the paper's text, 0.1 in its runs
    losses: tuple[str, ...] = tuple(LOSSES)
    clamps: tuple[str, ...] = tuple(c.value for c in Clamp)
    searched: tuple[str, ...] = ("none",)  # the clamps that are searched under; the others take what "none" found
    trials: int = 20
    asked: int = 5  # trials of a pair that run together, before the sampler hears of them
    search_iterations: int = 2000
    search_seed: int = 7
    iterations: int = 4000
    seeds: tuple[int, ...] = (14, 21, 28, 35, 42)
    top: int = 1  # how many of the best hyperparameters of a pair are confirmed
    every: int = 200  # iterations between two exact evaluations
    samples: int = 1_000_000  # of the published, sampled metrics
    batch: int = 1024
    capacity: int = 10_000
    width: int = 256
    depth: int = 3

    def __post_init__(self) -> None:
        for name in ("rewards", "losses", "clamps", "searched", "seeds"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise DissonanceError(f"{name} = {', '.join(map(str, values)) or 'nothing'}: name some, each once.")
        for loss in self.losses:
            loss_named(loss)
        for clamp in (*self.clamps, *self.searched):
            Clamp.named(clamp)
        for name in ("trials", "asked", "search_iterations", "iterations", "top", "every", "samples"):
            if getattr(self, name) < 1:
                raise DissonanceError(f"{name} must be at least 1, found {getattr(self, name)}.")
        if self.top > self.trials:
            raise DissonanceError(f"the best {self.top} of {self.trials} trials cannot be confirmed: search more.")
        if "none" not in self.searched and set(self.clamps) - set(self.searched):
            raise DissonanceError("clamps that are not searched use what the search under 'none' found: search it too.")
        if not 0 <= self.base < float("inf"):
            raise DissonanceError(f"a reward of {self.base:g} where there is no mode: give 0 or more.")
        self.plan(self.iterations)
        for reward in self.rewards:
            hyper_grid(1, 2, reward)  # a name that is not known is refused here
        if self.dimensions < 1 or self.height < 2 or self.dimensions > 24:
            raise DissonanceError(
                f"a grid needs 1 to 24 dimensions and height >= 2, found {self.dimensions} and {self.height}."
            )
        states = self.height**self.dimensions
        check_size(states, f"{self.dimensions}-dimensional grid of height {self.height}")
        if states > MOST:
            raise SizeError(f"torch draws samples from at most {MOST} states, the grid has {states}: make it smaller.")

    @classmethod
    def tiny(cls) -> Settings:
        """A study that a laptop finishes in a minute or two."""
        return cls(
            dimensions=2, height=8, rewards=("original", "cosine"), trials=8, asked=8, search_iterations=200,
            iterations=400, seeds=(14, 21, 28), every=50, samples=20_000, batch=128, capacity=1000, width=64, depth=2,
        )  # fmt: skip

    @classmethod
    def of(cls, identity: Mapping[str, Any]) -> Settings:
        """The settings of this identity."""
        known = {f.name for f in fields(cls)}
        if set(identity) != known:
            odd = sorted(known.symmetric_difference(identity))
            raise DissonanceError(f"these are not the settings of a study of GFlowNets: {', '.join(odd)}.")
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in identity.items()}
        try:
            return cls(**values)
        except TypeError as error:  # a word where a number should be
            raise DissonanceError(f"these are not the settings of a study of GFlowNets: {error}.") from None

    def plan(self, iterations: int) -> TrainingPlan:
        """How every run is trained."""
        return TrainingPlan(iterations, self.batch, self.capacity, width=self.width, depth=self.depth)

    def graphs(self) -> dict[str, Dag]:
        """The grid under each reward."""
        grid = self.dimensions, self.height
        return {reward: hyper_grid(*grid, reward, base=self.base) for reward in self.rewards}

    def pairs(self, clamp: str) -> Iterator[Pair]:
        """Every loss on every reward, under this clamp."""
        return (Pair(loss, reward, clamp) for loss, reward in product(self.losses, self.rewards))

    @property
    def trajectories(self) -> int:
        """How many trajectories all trials and runs are trained on."""
        pairs = len(self.losses) * len(self.rewards)
        searched = pairs * len(self.searched) * self.trials * self.search_iterations
        confirmed = pairs * len(self.clamps) * self.top * len(self.seeds) * self.iterations
        return (searched + confirmed) * self.batch

    def source(self, pair: Pair) -> Pair:
        """The pair whose search gives this one its hyperparameters."""
        return pair if pair.clamp in self.searched else Pair(pair.loss, pair.reward, "none")

    @property
    def identity(self) -> dict[str, object]:
        """What two studies share exactly when they come to the same numbers, as plain values."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
