"""Runs of `lir` and `lirs` on random PDGs: what they say before and after must agree with `inconsistency`.

Both are proved bounds of the same number, so that they overlap. Some variables are mentioned by no arc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attacks.drawn import Drawn, draw, skeleton
from dissonance.focus import Attention
from dissonance.inconsistency import Inconsistency, inconsistencies
from dissonance.lir import lir, lirs
from dissonance.lir.start import Run, Value
from dissonance.pdg import PDG
from dissonance.variables import Variable

DRAWS = 12
"""PDGs of one structure, whose runs are one batch."""
MOST = 30
"""Joint states."""


def attack(seed: int) -> Iterator[str | None]:
    """Structures without end; a line for every run that contradicts `inconsistency` before or after."""
    for k in range(1 << 62):
        rng = np.random.default_rng([seed, k, 2])
        drawn = draw(rng, skeleton(rng, MOST), DRAWS)
        free = [Variable(f"F{i}", int(rng.integers(1, 5))) for i in range(int(rng.integers(0, 3)))]
        pdgs = [_learnable(drawn, i, free) for i in range(DRAWS)]
        attention, steps = drawn.attention(0), int(rng.integers(0, 3))
        alone = k % DRAWS
        asked: Any = {"steps": steps, "attention": attention, "control": {a.name: 1.0 for a in pdgs[0].arcs}}
        runs = lirs(pdgs, **asked)
        runs.append(lir(pdgs[alone], **asked))
        pdgs.append(pdgs[alone])
        for i, odd in enumerate(_odd(pdgs, runs, attention)):
            yield odd and f"run {i} of structure {k} of seed {seed}, {steps} steps: {odd}"


def _learnable(drawn: Drawn, i: int, free: list[Variable]) -> PDG:
    pdg = drawn.pdg(i)
    return PDG(*pdg.arcs, variables=[*drawn.of.variables, *free]).learnable()


def _odd(pdgs: list[PDG], runs: list[Run], attention: Attention) -> Iterator[str | None]:
    """What is wrong with each run."""
    before = inconsistencies(pdgs, attention)
    after = inconsistencies([run.pdg for run in runs], attention)
    for run, *both in zip(runs, before, after, strict=True):
        told = (
            _apart(name, said, known)
            for name, said, known in zip(("before", "after"), (run.before, run.after), both, strict=True)
        )
        yield "; ".join(filter(None, told)) or None


def _apart(name: str, said: Value, known: Inconsistency) -> str:
    if known.within:  # an infimum over more mu
        return ""
    if said.lower <= said.upper and max(said.lower, known.lower) <= min(said.upper, known.upper):
        return ""
    return f"{name} is [{said.lower!r}, {said.upper!r}], inconsistency [{known.lower!r}, {known.upper!r}]"
