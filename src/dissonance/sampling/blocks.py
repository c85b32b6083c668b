"""Averages over more draws than fit into memory: block by block, derivatives too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dissonance.arc import Theta
from dissonance.errors import SizeError
from dissonance.numerics import DTYPE
from dissonance.sampling.plan import Estimate, Plan, Tables

DRAWS = 10_000
"""How many draws there are in all, at least, if no number is asked for."""

NUMBERS = 2**21
"""At most so many numbers are drawn at a time: more draws are made in blocks, one after another."""


def estimate(plan: Plan, theta: Theta | None, count: int | None, seed: int) -> Estimate:
    """The average over `count` draws of each row: all at once if they are few."""
    if count == 1 or not plan.random:
        return plan.estimate(theta, 1, seed)
    rows = plan.rows(theta)
    count = max(2, -(-DRAWS // rows)) if count is None else count
    most = max(1, NUMBERS // (rows * plan.size))
    if count <= most:
        return plan.estimate(theta, count, seed)
    if plan.varies:
        raise SizeError(
            f"{count} draws of each of {rows} rows are about {8 * count * rows * plan.size / 2**30:.3g} GiB at once, "
            "and attention that depends on the sample sees all of them at once: ask for fewer draws."
        )
    return _Blocks(plan, count, most, seed).estimate(theta)


@dataclass(frozen=True)
class _Blocks:
    """`count` draws of each row, at most `most` at a time."""

    plan: Plan
    count: int
    most: int
    seed: int

    def each(self, theta: Theta | None, tables: Tables | None) -> Iterator[tuple[float, Estimate]]:
        """The blocks, and the share of the draws in each; the same ones every time."""
        generator, left = torch.Generator().manual_seed(self.seed), self.count
        while left:
            size = min(left, self.most)
            yield size / self.count, self.plan.estimate(theta, size, generator, tables)
            left -= size

    def estimate(self, theta: Theta | None) -> Estimate:
        """The average of the blocks; derivatives are made, block by block again, when they are asked for."""
        own = theta
        if own is None:
            own = {f"{a.name}.{n}": p for a in self.plan.arcs for n, p in a.arc.cpd.named_parameters()}
        with torch.no_grad():
            tables = self._tables(theta) if self.plan.finite else {}
            first, value, tally = None, 0.0, None
            for share, one in self.each(theta, tables):
                first = first or one
                value += share * float(one.value)
                tally = one.tallied() if tally is None else tally.and_then(one.tallied())
        assert first is not None
        keys = tuple(key for key, v in own.items() if v.requires_grad) if torch.is_grad_enabled() else ()
        held = {key: v.detach() for key, v in own.items()}
        total = torch.tensor(value, dtype=DTYPE)
        live = _Derived.apply(self, held, tables, total, keys, *(own[key] for key in keys)) if keys else total
        return replace(first, value=live, tally=tally)

    def _tables(self, theta: Theta | None) -> Tables:
        """Probabilities of the finite variables whose entropy is counted, under all draws."""
        found: dict[tuple[str, ...], Tensor] = {}
        for share, one in self.each(theta, None):
            for names in self.plan.finite:
                part = share * one.mu.marginal(*names)
                found[names] = found[names] + part if names in found else part
        return found


class _Derived(torch.autograd.Function):
    """A value whose derivatives are made block by block from the same draws. (A probability p of finite variables
    counts as known in E[-log p]: the mean of d log p is 0.)"""

    @staticmethod
    def forward(ctx: Any, blocks: _Blocks, held: Theta, tables: Tables, value: Tensor, keys: Any, *_: Tensor) -> Tensor:
        """Return the value that was computed already."""
        ctx.asked = blocks, held, tables, keys
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Any, ...]:
        """The derivatives of every block, added up."""
        blocks, held, tables, keys = ctx.asked
        leaves = [held[key].clone().requires_grad_() for key in keys]
        found = [torch.zeros_like(x) for x in leaves]
        with torch.enable_grad():
            for share, one in blocks.each({**held, **dict(zip(keys, leaves, strict=True))}, tables):
                if one.value.requires_grad:
                    more = torch.autograd.grad(one.value, leaves, allow_unused=True, materialize_grads=True)
                    found = [a + share * b for a, b in zip(found, more, strict=True)]
        return (None, None, None, None, None, *(grad[0].to(x.dtype) * x for x in found))
