"""Where messages meet: the edges at each region side by side, so that products over them are axis reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dissonance.instances.belief_propagation.blocks import FactorBlock

FEW_NEIGHBOURS = 8
"""Neighbours up to which messages are multiplied one by one; with more, their logarithms are added up."""

SPARE_PLACES = 2048
"""Empty places that a group may have whatever its size: fewer groups are fewer operations."""


@dataclass(frozen=True, eq=False)
class DegreeGroup:
    """N regions with at most D neighbours: `index` (D * N,) says which edge is in each place; the last edge of all is
    the empty one."""

    regions: Tensor
    index: Tensor
    degree: int

    @property
    def shape(self) -> tuple[int, int]:
        """(D, N)."""
        return self.degree, len(self.regions)


@dataclass(frozen=True, eq=False)
class RegionEdges:
    """All regions of one size k, and the E edges at them.

    `spans`: for each (block, slot) of this size, which edges are its. `back` (E,): where each edge is among the places
    of all groups.
    """

    size: int
    regions: Tensor
    edges: int
    spans: dict[tuple[int, int], slice]
    groups: tuple[DegreeGroup, ...]
    back: Tensor


def region_edges(
    sizes: Tensor, blocks: Sequence[FactorBlock], apart: frozenset[int], device: torch.device
) -> dict[int, RegionEdges]:
    """One for each size of region; the blocks `apart` have no edges in it."""
    found: dict[int, RegionEdges] = {}
    for k in torch.unique(sizes).tolist():
        spans: dict[tuple[int, int], slice] = {}
        ends: list[Tensor] = []
        at = 0
        for b, made in enumerate(blocks):
            for slot, regions in enumerate(made.regions):
                if b not in apart and made.size(slot) == k:
                    spans[b, slot] = slice(at, at + len(regions))
                    ends.append(regions.cpu())
                    at += len(regions)
        mine = torch.nonzero(sizes == k)[:, 0]
        found[k] = _edges_of_size(k, mine, torch.cat(ends) if ends else torch.zeros(0, dtype=torch.long), spans, device)
    return found


def _edges_of_size(
    k: int, mine: Tensor, ends: Tensor, spans: dict[tuple[int, int], slice], device: torch.device
) -> RegionEdges:
    place = torch.full((int(mine.max()) + 1,), -1)
    place[mine] = torch.arange(len(mine))
    at = place[ends]  # (E,) the region of each edge, numbered within this size
    degree = torch.bincount(at, minlength=len(mine))
    order = torch.argsort(at, stable=True)
    first = torch.cumsum(degree, 0) - degree
    rank = torch.empty_like(at)
    rank[order] = torch.arange(len(at)) - first[at[order]]
    groups: list[DegreeGroup] = []
    back = torch.empty_like(at)
    start = 0
    for members in _by_degree(degree):
        most = int(degree[members].max()) if len(members) else 0
        where = torch.full((len(mine),), -1)
        where[members] = torch.arange(len(members))
        inside = where[at] >= 0
        index = torch.full((most * len(members),), len(at))
        spot = rank[inside] * len(members) + where[at[inside]]
        index[spot] = torch.nonzero(inside)[:, 0]
        back[inside] = start + spot
        start += len(index)
        groups.append(DegreeGroup(mine[members].to(device), index.to(device), most))
    return RegionEdges(k, mine.to(device), len(at), spans, tuple(groups), back.to(device))


def _by_degree(degree: Tensor) -> list[Tensor]:
    """Regions with similar degrees, so that little is padded."""
    found: list[list[int]] = []
    most, spare = -1, 0
    for d in sorted(torch.unique(degree).tolist(), reverse=True):
        members = torch.nonzero(degree == d)[:, 0].tolist()
        waste = (most - d) * len(members)
        if most < 0 or waste > max(spare, d * len(members) // 4) or (most > FEW_NEIGHBOURS >= d):
            most, spare = d, SPARE_PLACES
            found.append([])
        spare -= waste if waste > d * len(members) // 4 else 0
        found[-1] += members
    return [torch.tensor(sorted(m)) for m in found]


def exclusive(heard: Tensor, out: Tensor, base: Tensor | None) -> None:
    """out[:, d] = base prod_{e != d} heard[:, e], for messages (k, D, N): no division, so that zeros are no trouble."""
    most = heard.shape[1]
    if most == 1:
        out[:, 0] = 1.0 if base is None else base
        return
    before = heard[:, 0] if base is None else base * heard[:, 0]
    for d in range(1, most):
        out[:, d] = before
        if d < most - 1:
            before = before * heard[:, d]
    after = heard[:, most - 1]
    for d in range(most - 2, 0, -1):
        out[:, d] *= after
        after = after * heard[:, d]
    if base is None:
        out[:, 0] = after
    else:
        torch.mul(base, after, out=out[:, 0])


def exclusive_by_logarithms(heard: Tensor, base: Tensor | None, weight: Tensor | None = None) -> Tensor:
    """The same for many neighbours, up to scale; `weight` (D, N): own and others are taken to the power w, and then m
    is divided out once.

    Zeros are counted apart: a product is 0 unless all its zeros are divided out.
    """
    zero = heard == 0
    logs = torch.where(zero, 0.0, heard.log())
    total = logs.sum(1) if weight is None else (weight * logs).sum(1)
    zeros = zero.sum(1)
    if base is not None:
        none = base == 0
        total, zeros = total + torch.where(none, 0.0, base.log()), zeros + none
    left = zeros[:, None] - (zero if weight is None else zero & (weight == 1)).to(zeros.dtype)
    found = torch.where(left > 0, -torch.inf, total[:, None] - logs)
    return (found - found.amax(0, keepdim=True).clamp(min=-1e300)).exp()
