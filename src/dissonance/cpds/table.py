"""Tables: fixed, learnable through a softmax, learnable in simplex coordinates."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dissonance import numerics
from dissonance.cpds.base import TableCPD, Variables
from dissonance.errors import DissonanceError

SUM_TOLERANCE = 1e-6 + 1e-12
"""How far from 1 a row may sum before it is an error; nearer rows are renormalised. Three times 0.333333 is near."""
EPSILON = sys.float_info.epsilon


def own(values: object) -> Tensor:
    """A detached float64 copy of the values."""
    try:
        if isinstance(values, np.ndarray) and values.dtype == np.float64 and not isinstance(values, np.ma.MaskedArray):
            return torch.from_numpy(np.array(values, order="C"))
        return numerics.real(values).detach().clone()
    except DissonanceError:
        raise
    except (TypeError, ValueError) as error:
        raise DissonanceError(f"a table is an array of numbers: {error}.") from None


def normalised(by_row: Tensor, sources: Variables) -> Tensor:
    """The rows renormalised, after checking that each was a distribution to begin with.

    Rows that all sum to 1 up to rounding come back as they are: writing a table and reading it again changes no bit.
    """
    listed = by_row.tolist()  # for a small table plain numbers are many times faster than tensor operations
    sums = [sum(row) for row in listed]
    rounding = len(listed[0]) * EPSILON
    if all([abs(total - 1) <= rounding and min(row) >= 0 for row, total in zip(listed, sums, strict=True)]):
        return by_row
    for i, (row, total) in enumerate(zip(listed, sums, strict=True)):
        if not abs(total - 1) <= SUM_TOLERANCE or min(row) < 0:
            raise DissonanceError(f"{describe_row(i, sources)} {_complaint(row)}.")
    return by_row / by_row.new_tensor(sums)[:, None]


def describe_row(row: int, sources: Variables) -> str:
    """A row of a table in words: 'the slice at Smokes=yes, Age=old'."""
    if not sources:
        return "the table"
    setting: list[str] = []
    for v in reversed(sources):
        row, i = divmod(row, v.size)
        setting.append(f"{v.name}={v.finite.labels[i]}")
    return f"the slice at {', '.join(reversed(setting))}"


def _complaint(row: list[float]) -> str:
    if not all(map(math.isfinite, row)):
        return "holds a number that is not finite"
    if min(row) < 0:
        return f"holds the negative number {min(row):.6g}"
    return f"sums to {sum(row):.9g}, not 1"


_BLANK = nn.Module().__dict__
"""What every module holds before anything is registered: for the most part, places for hooks."""


class Table(TableCPD):
    """A fixed table of probabilities; axes: the sources in order, then the targets in order.

    Rows within 1e-6 of summing to 1 are renormalised when the arc is made; zeros stay zeros.
    """

    p: Tensor

    def __init__(self, p: object) -> None:
        """What nn.Module and register_buffer do, without the places for hooks: a large PDG has a million of these."""
        self.__dict__.update(training=True, _parameters={}, _buffers={"p": own(p)}, _modules={})

    def __getattr__(self, name: str) -> Any:
        if name not in _BLANK:
            return super().__getattr__(name)
        return self.__dict__.setdefault(name, copy(_BLANK[name]))  # a hook is being registered

    @property
    def table_shape(self) -> tuple[int, ...]:
        """The sizes of the sources, then of the targets."""
        return tuple(self.p.shape)

    def check(self, sources: Variables) -> None:
        """Every slice must be a distribution."""
        by_row = self.by_row(self.p)
        p = normalised(by_row, sources)
        if p is not by_row:
            self.p = p.reshape(self.table_shape)

    def table(self) -> Tensor:
        """The probabilities."""
        return self.p.clone()

    def log_table(self) -> Tensor:
        """log p, -inf at the zeros."""
        return numerics.log(self.p) if self.p.requires_grad else torch.log(self.p)

    def learnable(self) -> SoftmaxTable:
        """The same probabilities, by their logits."""
        return SoftmaxTable(self.p.detach())


def log_tables(tables: Iterable[Table]) -> tuple[list[npt.NDArray[np.float64]], bool]:
    """log p of each as numbers, and whether they are: those of one shape together, since an operation takes longer than
    a small table."""
    held: list[Tensor] = [t.__dict__["_buffers"]["p"] for t in tables]
    groups: dict[object, list[int]] = {}
    for k, p in enumerate(held):
        groups.setdefault((p.shape, p.dtype, p.device), []).append(k)
    found: list[Any] = [None] * len(held)
    sound = True
    for group in groups.values():
        stacked = torch.stack([held[k] for k in group]).log_().numpy(force=True)
        sound = sound and stacked.max(initial=-math.inf) < math.inf
        for k, log_p in zip(group, stacked, strict=True):
            found[k] = log_p
    return found, bool(sound)


class _SaturatedTable(TableCPD):
    """A learnable table whose parameter can make any rows: the argmin of E_mu[-log p] is mu(t|s) itself."""

    saturated = True

    def _rows(self) -> Tensor:
        """The present p, row by row."""
        raise NotImplementedError

    def project(self, joint: Tensor) -> None:
        """p(t|s) <- mu(t|s); rows without mass keep their value."""
        self.match(joint)

    def expectations(self, joint: Tensor) -> Tensor:
        """mu(s,t) itself."""
        return joint

    @torch.no_grad()
    def match(self, expectations: Tensor, share: float = 1.0) -> None:
        """p(t|s) <- p(t|s) + share (mu(t|s) - p(t|s)); rows without mass keep their value."""
        current = self._rows()
        p = numerics.conditional(self.by_row(expectations), fallback=current)
        p = p if share == 1 else current + share * (p - current)
        getattr(self, self.stored).copy_(self.from_rows(p).reshape(self.table_shape))


class SoftmaxTable(_SaturatedTable):
    """A learnable table p(t|s) = exp z(s,t) / sum_t' exp z(s,t'); theta = the logits z.

    Made from probabilities (z = log p; zeros stay zeros: a logit of -inf has no gradient) or from logits.
    """

    stored = "logits"
    softmax = True

    def __init__(self, p: object = None, *, logits: object = None) -> None:
        super().__init__()
        if (p is None) == (logits is None):
            raise DissonanceError("SoftmaxTable takes either a table of probabilities or logits=.")
        self._given = None if p is None else own(p)
        self.logits = nn.Parameter(own(logits) if self._given is None else torch.log(self._given))

    def check(self, sources: Variables) -> None:
        """Every slice must be a distribution."""
        if self._given is None:
            if self.logits.isnan().any() or (self.by_row(self.logits) == -math.inf).all(-1).any():
                raise DissonanceError("every slice of the logits needs a finite entry, and none may be NaN.")
            return
        by_row = self.by_row(self._given)
        p = normalised(by_row, sources)
        if p is not by_row and self._unmoved:
            self._given = p.reshape(self.table_shape)
            self.logits.data.copy_(torch.log(self._given))

    @property
    def _unmoved(self) -> bool:
        return self._given is not None and torch.equal(self.logits, torch.log(self._given))

    def table(self) -> Tensor:
        """The probabilities: those it was made from, bit for bit, as long as the logits have not moved."""
        return self._given.clone() if self._given is not None and self._unmoved else super().table()

    log_rows = staticmethod(numerics.log_softmax)
    from_rows = staticmethod(numerics.log)

    def log_table(self) -> Tensor:
        """The log-softmax of the logits over the targets."""
        sizes = self.logits.shape
        return self.log_rows(self.logits.flatten(-(self.target_axes or 1))).reshape(sizes)

    def _rows(self) -> Tensor:
        return torch.softmax(self.by_row(self.logits), -1)


class SimplexTable(_SaturatedTable):
    """A learnable table in simplex coordinates: theta = the probabilities themselves.

    p = theta + (1 - sum_t theta)/k row by row, the affine projection onto rows that sum to 1, so that the gradient is
    tangent to the simplex. A step may leave the positive orthant: `retract()` brings theta back.
    """

    bounded = True

    def __init__(self, p: object) -> None:
        super().__init__()
        self.p = nn.Parameter(own(p))

    @torch.no_grad()
    def check(self, sources: Variables) -> None:
        """Every slice must be a distribution."""
        self.p.copy_(normalised(self.by_row(self.p), sources).reshape(self.table_shape))

    def log_table(self) -> Tensor:
        """log p at the affine projection of theta."""
        by_row = self.by_row(self.p)
        least = float(_affine(by_row.detach()).min())
        if least < -1e-12:
            raise DissonanceError(
                f"a SimplexTable has left the simplex (smallest entry {least:.3g}): "
                "call retract() after each optimiser step, or use SoftmaxTable."
            )
        return self.log_rows(by_row).reshape(self.table_shape)

    @staticmethod
    def log_rows(theta: Tensor) -> Tensor:
        """log p at the affine projection of theta."""
        p = _affine(theta)
        return numerics.log(torch.where(p < 1e-15, 0.0, p))

    @staticmethod
    def from_rows(p: Tensor) -> Tensor:
        """p itself."""
        return p

    @torch.no_grad()
    def retract(self) -> None:
        """Move theta to the nearest point of the simplex, row by row (Euclidean distance)."""
        self.p.copy_(nearest(self.by_row(self.p)).reshape(self.table_shape))

    def retracted(self, name: str, theta: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Rows that do not sum to 1, or have negative entries, moved to the nearest point of the simplex."""
        p = theta.reshape(len(theta), *self.by_row(self.p).shape)
        outside = (p < 0) | ((p.sum(-1, keepdim=True) - 1).abs() > 1e-12)
        left = (p < -1e-12).flatten(1).any(1)
        return (nearest(p).reshape(theta.shape) if outside.any() else theta), left

    def _rows(self) -> Tensor:
        return self.by_row(self.p)


def _affine(theta: Tensor) -> Tensor:
    """The affine projection of rows (..., t) onto those that sum to 1."""
    return theta + (1 - theta.sum(-1, keepdim=True)) / theta.shape[-1]


def nearest(p: Tensor) -> Tensor:
    """The nearest points of the simplex to rows (..., t), in Euclidean distance."""
    falling = p.sort(-1, descending=True).values
    surplus = (falling.cumsum(-1) - 1) / torch.arange(1, p.shape[-1] + 1, dtype=p.dtype)
    kept = (falling > surplus).sum(-1, keepdim=True)
    return (p - surplus.gather(-1, kept - 1)).clamp(min=0)
