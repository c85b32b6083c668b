"""Sets of beliefs, put together one by one: the reward of a set is how consistent it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from dissonance.errors import DissonanceError, SizeError
from dissonance.focus import Attention
from dissonance.gflownets.dag import FLOOR, Dag
from dissonance.inconsistency import inconsistencies
from dissonance.numerics import DTYPE
from dissonance.pdg import PDG

MOST = 16
"""Arcs of which all sets are made: 65,536 of them."""

TOGETHER = 1024
"""How many sets are solved at a time."""


def belief_sets(
    pdg: PDG,
    attention: Attention | Mapping[str, float] | None = None,
    *,
    worth: float | Mapping[str, float] = 1.0,
    temperature: float = 1.0,
    progress: Callable[[int, int], None] | None = None,
) -> Dag:
    """All sets A of the attended arcs of a PDG; a move adds an arc, and every set is an exit with the reward

        R(A) = exp( ( sum_{a in A} worth_a - <<M restricted to A>> ) / temperature )

    A belief is worth so many nats of inconsistency, one number for all or {arc: number}; without any worth the empty
    set, which is consistent, would be as good as a set can be. A policy that samples R draws sets of beliefs that go
    together; as the temperature goes to 0, only the best. Sets that contradict each other outright have the reward 0.

    State number sum_a 2^a is the set of the arcs a, counted in the PDG's order; `labels` has their names. A network
    sees for each arc whether it is in. Every set is solved once: 2^arcs inconsistencies, by batches, so that there
    may be at most 16 arcs. `progress(done, total)` is called after each.
    """
    base = Attention.of(attention, pdg)
    names = [a.name for a in pdg if base.beta.get(a.name)]
    if not names:
        raise DissonanceError("no arc is attended to: there are no beliefs to choose from.")
    disbelieved = [n for n in names if base.beta[n] < 0]
    if disbelieved:
        raise DissonanceError(f"beta[{disbelieved[0]!r}] is negative: how consistent disbelief is has no lower bound.")
    if len(names) > MOST:
        raise SizeError(f"{len(names)} beliefs have 2^{len(names)} sets; at most {MOST} can be enumerated.")
    if not 0 < temperature < math.inf:
        raise DissonanceError(f"the temperature must be positive and finite, found {temperature}.")
    each = _worths(names, worth)
    count = 2 ** len(names)
    inside = torch.arange(count)[:, None] // 2 ** torch.arange(len(names)) % 2 == 1  # (sets, arcs)
    costs = _costs(pdg, base, names, inside, progress)
    log_reward = (inside.to(DTYPE) @ each - costs) / temperature
    log_reward = torch.where(torch.isfinite(log_reward), log_reward, FLOOR)
    after = torch.where(inside, -1, torch.arange(count)[:, None] + 2 ** torch.arange(len(names)))
    labels = tuple(tuple(n for n, is_in in zip(names, row, strict=True) if is_in) for row in inside.tolist())
    active = inside.long() + 2 * torch.arange(len(names))
    exits = torch.ones(count, dtype=torch.bool)
    name = f"graph of sets of {len(names)} beliefs"
    return Dag(after, exits, active, 2 * len(names), log_reward, name=name, labels=labels)


def _worths(names: list[str], worth: float | Mapping[str, float]) -> Tensor:
    given = worth if isinstance(worth, Mapping) else dict.fromkeys(names, worth)
    odd = [n for n in given if n not in names] or [n for n in names if n not in given]
    if odd:
        raise DissonanceError(f"worth is one number, or one for each attended arc: {odd[0]!r} is not in both.")
    found = torch.tensor([float(given[n]) for n in names], dtype=DTYPE)
    if not bool(torch.isfinite(found).all()):
        raise DissonanceError("what a belief is worth must be finite.")
    return found


def _costs(
    pdg: PDG, base: Attention, names: list[str], inside: Tensor, progress: Callable[[int, int], None] | None
) -> Tensor:
    """The inconsistency of every set, (sets,)."""
    found: list[float] = []
    for rows in inside.split(TOGETHER):
        left_out = [[n for n, is_in in zip(names, row, strict=True) if not is_in] for row in rows.tolist()]
        with torch.no_grad():
            results = inconsistencies(pdg, [base.without(*out) for out in left_out])
        found += [r.upper for r in results]
        if progress is not None:
            progress(len(found), len(inside))
    return torch.tensor(found, dtype=DTYPE)
