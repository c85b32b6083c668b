"""Tables: fixed, learnable through a softmax, learnable in simplex coordinates."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dissonance import numerics
from dissonance.cpds.base import TableCPD, Variables
from dissonance.errors import DissonanceError
from dissonance.variables import cells

SUM_TOLERANCE = 1e-6
"""How far from 1 a row may sum before it is an error; nearer rows are renormalised."""


def rows(table: Tensor, sources: Variables, targets: Variables) -> Tensor:
    """A table seen as (source settings, target settings)."""
    return table.reshape(cells(sources), cells(targets))


def normalised(p: Tensor, sources: Variables, targets: Variables) -> Tensor:
    """The table with every row renormalised, after checking that it was a distribution to begin with."""
    by_row = rows(p, sources, targets)
    sums = by_row.sum(-1)
    wrong = ~((sums - 1).abs() <= SUM_TOLERANCE) | (by_row < 0).any(-1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise DissonanceError(f"{describe_row(row, sources)} {_complaint(by_row[row])}.")
    return (by_row / sums[:, None]).reshape(p.shape)


def describe_row(row: int, sources: Variables) -> str:
    """A row of a table in words: 'the slice at Smokes=yes, Age=old'."""
    if not sources:
        return "the table"
    setting: list[str] = []
    for v in reversed(sources):
        row, i = divmod(row, v.size)
        setting.append(f"{v.name}={v.finite.labels[i]}")
    return f"the slice at {', '.join(reversed(setting))}"


def _complaint(row: Tensor) -> str:
    if not torch.isfinite(row).all():
        return "holds a number that is not finite"
    if (row < 0).any():
        return f"holds the negative number {float(row.min()):.6g}"
    return f"sums to {float(row.sum()):.9g}, not 1"


class Table(TableCPD):
    """A fixed table of probabilities; axes: the sources in order, then the targets in order.

    Rows within 1e-6 of summing to 1 are renormalised when the arc is made; zeros stay zeros.
    """

    p: Tensor

    def __init__(self, p: object) -> None:
        super().__init__()
        self.register_buffer("p", numerics.real(p).detach().clone())
        self.table_shape = tuple(self.p.shape)

    def check(self, sources: Variables, targets: Variables) -> None:
        """Every slice must be a distribution."""
        self.p = normalised(self.p, sources, targets)

    def log_table(self) -> Tensor:
        """log p, -inf at the zeros."""
        return numerics.log(self.p)


class SoftmaxTable(TableCPD):
    """A learnable table p(t|s) = exp z(s,t) / sum_t' exp z(s,t'); theta = the logits z.

    Made from probabilities (z = log p; zeros stay zeros: a logit of -inf has no gradient) or from logits.
    """

    def __init__(self, p: object = None, *, logits: object = None) -> None:
        super().__init__()
        if (p is None) == (logits is None):
            raise DissonanceError("SoftmaxTable takes either a table of probabilities or logits=.")
        z = numerics.log(numerics.real(p)) if logits is None else numerics.real(logits)
        self.logits = nn.Parameter(z.detach().clone())
        self._given = None if p is None else numerics.real(p).detach()
        self.table_shape = tuple(self.logits.shape)

    def check(self, sources: Variables, targets: Variables) -> None:
        """Every slice must be a distribution."""
        if self._given is not None:
            normalised(self._given, sources, targets)
        elif self.logits.isnan().any() or (rows(self.logits, sources, targets) == -math.inf).all(-1).any():
            raise DissonanceError("every slice of the logits needs a finite entry, and none may be NaN.")

    def log_table(self) -> Tensor:
        """The log-softmax of the logits over the targets."""
        return torch.log_softmax(self.by_row(self.logits), -1).reshape(self.table_shape)

    @torch.no_grad()
    def project(self, joint: Tensor) -> None:
        """p(t|s) <- mu(t|s); rows without mass keep their value."""
        current = torch.softmax(self.by_row(self.logits), -1)
        p = numerics.conditional(self.by_row(joint), fallback=current)
        self.logits.copy_(numerics.log(p).reshape(self.table_shape))


class SimplexTable(TableCPD):
    """A learnable table in simplex coordinates: theta = the probabilities themselves.

    p = theta + (1 - sum_t theta)/k row by row, the affine projection onto rows that sum to 1, so that the gradient is
    tangent to the simplex. A step may leave the positive orthant: `retract()` brings theta back.
    """

    def __init__(self, p: object) -> None:
        super().__init__()
        self.p = nn.Parameter(numerics.real(p).detach().clone())
        self.table_shape = tuple(self.p.shape)

    @torch.no_grad()
    def check(self, sources: Variables, targets: Variables) -> None:
        """Every slice must be a distribution."""
        self.p.copy_(normalised(self.p, sources, targets))

    def log_table(self) -> Tensor:
        """log p at the affine projection of theta."""
        by_row = self.by_row(self.p)
        p = by_row + (1 - by_row.sum(-1, keepdim=True)) / by_row.shape[-1]
        if (p < -1e-12).any():
            raise DissonanceError(
                f"a SimplexTable has left the simplex (smallest entry {float(p.min()):.3g}): "
                "call retract() after each optimiser step, or use SoftmaxTable."
            )
        return numerics.log(torch.where(p < 1e-15, 0.0, p)).reshape(self.table_shape)

    @torch.no_grad()
    def retract(self) -> None:
        """Move theta to the nearest point of the simplex, row by row (Euclidean distance)."""
        by_row = self.by_row(self.p)
        falling = by_row.sort(-1, descending=True).values
        surplus = (falling.cumsum(-1) - 1) / torch.arange(1, by_row.shape[-1] + 1, dtype=by_row.dtype)
        kept = (falling > surplus).sum(-1, keepdim=True)
        self.p.copy_((by_row - surplus.gather(-1, kept - 1)).clamp(min=0).reshape(self.table_shape))

    @torch.no_grad()
    def project(self, joint: Tensor) -> None:
        """p(t|s) <- mu(t|s); rows without mass keep their value."""
        p = numerics.conditional(self.by_row(joint), fallback=self.by_row(self.p))
        self.p.copy_(p.reshape(self.table_shape))
