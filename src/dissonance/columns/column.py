"""A column: arcs of one shape as rows of arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dissonance import numerics
from dissonance.cpds import SoftmaxTable, Table
from dissonance.cpds.table import SUM_TOLERANCE, own
from dissonance.errors import DissonanceError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Column:
    """n arcs of one shape: `sources` (n, k) and `targets` (n, m) number their variables, or name them.

    `tables` (n, source sizes..., target sizes...) holds the probabilities; of `learnable` arcs it holds logits, as a
    `SoftmaxTable` does. `names` (n,): by default a and the number of the arc. `beta` (n,): confidence.

    >>> column = Column([0, 1], [1, 2], [[[0.9, 0.1], [0.2, 0.8]]] * 2)
    >>> PDG.from_columns(Column([], [0, 1, 2], [[0.5, 0.5]] * 3), column)["a4"]
    <arc 'a4' (X1 -> X2): SoftmaxTable>
    """

    sources: npt.NDArray[Any]
    targets: npt.NDArray[Any]
    tables: Tensor
    names: Sequence[str] | None
    beta: Floats
    learnable: bool

    def __init__(
        self,
        sources: object,
        targets: object,
        tables: object = None,
        *,
        logits: object = None,
        names: Sequence[str] | None = None,
        beta: object = 1.0,
        learnable: bool = True,
    ) -> None:
        """From anything that numpy takes for an array: lists, columns of a data frame. No sources: [].

        `tables` of probabilities, or else `logits`; `learnable` False: tables that cannot move.
        """
        if (tables is None) == (logits is None) or (tables is None and not learnable):
            raise DissonanceError("a column takes tables of probabilities, or else logits, which can move.")
        p = own(logits if tables is None else tables)
        count = len(p)
        found = [np.asarray(side) for side in (sources, targets)]
        found = [x.reshape(count, -1) if x.size else np.zeros((count, 0), dtype=np.int64) for x in found]
        weights = np.broadcast_to(np.asarray(beta, dtype=np.float64), (count,))
        self.__dict__.update(sources=found[0], targets=found[1], names=names, beta=weights, learnable=learnable)
        self._check(p)
        if tables is not None:
            p = self._normalised(p)
            p = p.log() if learnable else p
        else:
            rows = p.reshape(count, -1, self.width(p.shape[1:]))
            self._refuse(rows.isnan().any(-1) | (rows == math.inf).any(-1) | (rows == -math.inf).all(-1), rows)
        self.__dict__["tables"] = p

    def _normalised(self, p: Tensor) -> Tensor:
        """Rows within 1e-6 of summing to 1 renormalised, unless they do but for rounding."""
        rows = p.reshape(len(p), -1, self.width(p.shape[1:]))
        sums = rows.sum(-1, keepdim=True)
        off = (sums - 1).abs()
        self._refuse((~(off <= SUM_TOLERANCE) | (rows < 0).any(-1, keepdim=True))[..., 0], rows)
        exact = off <= rows.shape[-1] * torch.finfo(p.dtype).eps
        return torch.where(exact, rows, rows / sums).reshape(p.shape)

    def _refuse(self, odd: Tensor, rows: Tensor) -> None:
        if bool(odd.any()):
            k, row = (int(i) for i in odd.nonzero()[0])
            name = k if self.names is None else repr(self.names[k])
            raise DissonanceError(f"arc {name} of a column: row {row} is {rows[k, row].tolist()}, no distribution.")

    def _check(self, p: Tensor) -> None:
        axes = self.sources.shape[1] + self.targets.shape[1]
        if not self.targets.shape[1]:
            raise DissonanceError("a column needs at least one target of every arc.")
        if p.dim() != 1 + axes:
            raise DissonanceError(
                f"a column of arcs over {axes} variables needs tables of {1 + axes} axes, arcs first, found {p.dim()}."
            )
        if self.names is not None and (len(self.names) != len(p) or len(set(self.names)) != len(p)):
            raise DissonanceError(f"a column of {len(p)} arcs needs {len(p)} different names.")
        if np.isnan(self.beta).any() or (self.beta == -math.inf).any():
            raise DissonanceError("beta must be a number or inf.")

    def __len__(self) -> int:
        return len(self.tables)

    def width(self, sizes: Sequence[int]) -> int:
        """How many settings the targets have."""
        return math.prod(sizes[self.sources.shape[1] :])

    @property
    def scopes(self) -> npt.NDArray[Any]:
        """Sources, then targets, (n, k + m)."""
        return np.concatenate([self.sources, self.targets], 1)

    @property
    def log_p(self) -> Tensor:
        """log p(t|s), (n, source settings, target settings)."""
        rows = self.tables.detach().reshape(len(self), -1, self.width(self.tables.shape[1:]))
        return numerics.log_softmax(rows) if self.learnable else rows.log()

    def at(self, sources: npt.NDArray[Any], targets: npt.NDArray[Any]) -> Column:
        """The same tables about other variables."""
        return self._with(sources=sources, targets=targets)

    def with_tables(self, tables: Tensor) -> Column:
        """The same arcs with other tables, of what is learnable logits."""
        return self._with(tables=tables)

    def moved(self, log_p: Tensor) -> Column:
        """The same arcs with other log p(t|s)."""
        return self.with_tables((log_p if self.learnable else log_p.exp()).reshape(self.tables.shape))

    def made_learnable(self) -> Column:
        """The same beliefs with parameters that can move."""
        return self if self.learnable else self._with(tables=self.tables.log(), learnable=True)

    def _with(self, **changes: object) -> Column:
        return self.made(**{**self.__dict__, **changes})

    @classmethod
    def made(cls, **fields: object) -> Column:
        """A column of these fields, which are known to be sound."""
        made = object.__new__(cls)
        made.__dict__.update(fields)
        return made

    def cpd(self, row: int) -> Table | SoftmaxTable:
        """The cpd of one arc: its table is the column's, not a copy."""
        kind = SoftmaxTable if self.learnable else Table
        made = object.__new__(kind)  # the rows are known to be distributions, and are not to be copied
        nn.Module.__init__(made)
        if self.learnable:
            made.__dict__["_parameters"]["logits"] = nn.Parameter(self.tables[row])
            made.__dict__["_given"] = None
        else:
            made.__dict__["_buffers"]["p"] = self.tables[row]
        made.__dict__["target_axes"] = self.targets.shape[1]
        return made
