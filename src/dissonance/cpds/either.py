"""One of several cpds, chosen by a finite source."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dissonance.cpds.base import CPD, Drawn, Values, Variables
from dissonance.errors import DissonanceError


class Either(CPD):
    """p(t | c, s) = p_c(t | s): the first source says which cpd the targets are drawn from.

    The cpds keep their own parameters and buffers ("x.parts.1.logits"), and may be those of other arcs. It is a table
    if they all are (`EitherTable`), and can be drawn from if they all can.
    """

    def __init__(self, *parts: CPD) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.points = all(p.points for p in parts)

    def __getitem__(self, i: int) -> CPD:
        """The cpd that is used where the source has its i-th value."""
        part = self.parts[i]
        assert isinstance(part, CPD)
        return part

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """As many cpds as the first source has values; each is fitted to the other sources and the targets."""
        if not sources or not sources[0].is_finite or sources[0].size != len(self.parts):
            found = f"{sources[0].name} is {sources[0].domain}" if sources else "there is no source"
            raise DissonanceError(
                f"a choice between {len(self.parts)} cpds needs a first source with {len(self.parts)} values; {found}."
            )
        bound = [self[i].bind(sources[1:], targets) for i in range(len(self.parts))]
        if all(type(p).log_table is not CPD.log_table for p in bound):
            return EitherTable(*bound)
        self.parts = nn.ModuleList(bound)
        return self

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """log p_c(t | s)."""
        rows, order = self._apart(sources[0])
        found = [self[i].log_prob([t[at] for t in targets], [s[at] for s in sources[1:]]) for i, at in rows]
        return torch.cat(found)[order]

    def draw(self, sources: Values, count: int, generator: torch.Generator) -> Drawn:
        """What the chosen cpds draw; where one draws fewer than another, the rest counts for nothing."""
        rows, order = self._apart(sources[0])
        found = [(len(at), self[i].draw([s[at] for s in sources[1:]], count, generator)) for i, at in rows]
        most = max(drawn.weights.shape[1] for _, drawn in found)
        values = zip(*([_filled(v, n, most) for v in drawn.values] for n, drawn in found), strict=True)
        weights: list[Tensor] = []
        for n, drawn in found:
            w = _filled(drawn.weights, n, most)
            weights.append(torch.where(torch.arange(most) < drawn.weights.shape[1], w, 0.0))
        return Drawn(tuple(torch.cat(v)[order] for v in values), torch.cat(weights)[order])

    def _apart(self, chosen: Tensor) -> tuple[list[tuple[int, Tensor]], Tensor]:
        """The rows of each cpd that has any, and where each row is when they are laid end to end."""
        rows = [(i, (chosen == i).nonzero()[:, 0]) for i in range(len(self.parts))]
        return [(i, at) for i, at in rows if len(at)], torch.cat([at for _, at in rows]).argsort()


class EitherTable(Either):
    """The same where every cpd is a table: what `Either` becomes when it is bound to an arc."""

    def log_table(self) -> Tensor:
        """The tables one after another."""
        return torch.stack([self[i].log_table() for i in range(len(self.parts))])


def _filled(values: Tensor, rows: int, most: int) -> Tensor:
    """(rows, most, ...) of (rows or 1, k, ...): the last of each row again and again."""
    values = values if len(values) == rows else values.expand(rows, *values.shape[1:])
    return values[:, torch.arange(most).clamp(max=values.shape[1] - 1)]
