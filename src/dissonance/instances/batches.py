"""A refocus that looks at a few rows of the data at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dissonance.errors import DissonanceError
from dissonance.focus import Focus
from dissonance.lir import Trace
from dissonance.pdg import PDG


@dataclass(frozen=True)
class Batches:
    """Given foci in turn, each on fresh rows: `size` of them, drawn without replacement, or all if `size` is None.

    `data` has all rows of each buffer, keyed "arc.buffer" as in `Focus.context`.
    """

    foci: Sequence[Focus]
    data: Mapping[str, Tensor]
    size: int | None = None
    name: str = "batches"

    def __post_init__(self) -> None:
        rows = {key: len(x) for key, x in self.data.items()}
        if self.size is not None and not 1 <= self.size <= min(rows.values()):
            raise DissonanceError(f"a batch of {self.size} rows cannot be drawn from {min(rows.values())}.")

    @cached_property
    def count(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.data.values())))

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """The next focus on the next rows."""
        focus = self.foci[step % len(self.foci)]
        if self.size is None:
            return focus
        rows = torch.from_numpy(generator.permutation(self.count)[: self.size])
        context = {**focus.context, **{key: x.index_select(0, rows) for key, x in self.data.items()}}
        return Focus(focus.attention, focus.control, context)


def of_round(generator: np.random.Generator, number: int) -> np.random.Generator:
    """Make the generator of a round: it depends on the seed of the run's generator and the number of the round only."""
    seed = generator.bit_generator.seed_seq
    assert isinstance(seed, np.random.SeedSequence)
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number)))
