"""A table that holds in some rows of a data set only: transitions of sequences that are still going on."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.cpds.base import CPD, Variables
from dissonance.cpds.observed import Sample
from dissonance.cpds.table import SoftmaxTable
from dissonance.errors import DissonanceError
from dissonance.variables import shape

Self = TypeVar("Self", bound="TableInRows")


class TableInRows(CPD):
    """p(t | s, row) = the p(t | s) of a `SoftmaxTable` where `holds[row]`, and uniform where not.

    It shares the table's parameters; the row is the last source. Where the table does not hold nothing is learned, and
    at alpha = beta = gamma = 1 nothing is lost: the targets are uniform there.
    """

    def __init__(self, table: SoftmaxTable, holds: object) -> None:
        super().__init__()
        self.logits = table.logits
        self.sample = Sample(holds=torch.as_tensor(holds, dtype=torch.bool))

    def rows(self: Self, rows: Tensor) -> Self:
        """The same parameters, shared, in some of the rows."""
        made = type(self)(SoftmaxTable(logits=self.logits), self.sample["holds"][rows])
        made.logits = self.logits
        return made

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """The last source has a value for each row, the others and the targets are those of the table."""
        wanted = (*self.logits.shape[:1], len(self.sample), *self.logits.shape[1:])
        if shape((*sources, *targets)) != wanted or self.logits.dim() != 2:
            raise DissonanceError(
                f"a table in rows is about one source, the {len(self.sample)} rows and one target: sizes {wanted}, "
                f"found {shape((*sources, *targets))}."
            )
        return self

    def log_table(self) -> Tensor:
        """log p(t | s, row), (source, rows, target)."""
        log_p = torch.log_softmax(self.logits, -1)[:, None]
        return torch.where(self.sample["holds"][:, None], log_p, -math.log(self.logits.shape[1]))

    def expectations(self, joint: Tensor) -> Tensor:
        """mu(s, t) in the rows where the table holds."""
        source, target = self.logits.shape
        return joint.reshape(source, -1, target)[:, self.sample["holds"]].sum(1)

    def project(self, joint: Tensor) -> None:
        """p(t|s) <- mu(t|s) in the rows where it holds; without mass it keeps its value."""
        self.match(self.expectations(joint))

    @torch.no_grad()
    def match(self, expectations: Tensor, share: float = 1.0) -> None:
        """p(t|s) <- p(t|s) + share (mu(t|s) - p(t|s)); without mass it keeps its value."""
        current = torch.softmax(self.logits, -1)
        p = numerics.conditional(expectations, fallback=current)
        self.logits.copy_(numerics.log(p if share == 1 else current + share * (p - current)))
