"""Rows of labels whose columns are independent given the sources: mixtures of categoricals, naive Bayes."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dissonance import numerics
from dissonance.cpds.observed import Observed, Sample
from dissonance.cpds.table import own
from dissonance.errors import DissonanceError


class ObservedCategorical(Observed):
    """p(x_n | s) = prod_j p_j(x_nj | s) over the columns j of the data, at the rows x_n.

    `codes` (rows, columns) number the values of each column from 0, -1 where one is missing. `p[j]` is column j's table
    (settings, values), as probabilities. theta = `logits` (settings, columns, most values), -inf where a column has
    fewer values.
    """

    def __init__(self, codes: object, p: list[object]) -> None:
        tables = [own(x) for x in p]
        given = torch.as_tensor(codes, dtype=torch.long)
        given = given[:, None] if given.dim() == 1 else given
        if given.shape[1] != len(tables):
            raise DissonanceError(f"the data has {given.shape[1]} columns, but there are tables for {len(tables)}.")
        most = max(t.shape[1] for t in tables)
        logits = torch.full((len(tables[0]), len(tables), most), -math.inf, dtype=numerics.DTYPE)
        for j, table in enumerate(tables):
            if table.dim() != 2 or len(table) != len(tables[0]) or not _rows_are_distributions(table):
                raise DissonanceError(
                    f"the table of column {j} needs {len(tables[0])} rows of probabilities that sum to 1."
                )
            wrong = (given[:, j] < -1) | (given[:, j] >= table.shape[1])
            if wrong.any():
                n = int(wrong.nonzero()[0, 0])
                raise DissonanceError(
                    f"row {n}, column {j} holds {int(given[n, j])}; the values are 0 to {table.shape[1] - 1}, or -1 if "
                    "missing."
                )
            logits[:, j, : table.shape[1]] = numerics.log(table)
        # a missing value is one more, of probability 1
        super().__init__(Sample(codes=torch.where(given < 0, most, given)), len(tables[0]))
        self.logits = nn.Parameter(logits)

    def tables(self) -> Tensor:
        """p_j(x | s), (settings, columns, most values)."""
        return torch.softmax(self.logits, -1)

    def densities(self) -> Tensor:
        """sum_j log p_j(x_nj | s)."""
        log_p = torch.nn.functional.pad(torch.log_softmax(self.logits, -1), (0, 1))  # (settings, columns, values + 1)
        codes = self.sample["codes"]
        total = log_p[:, 0].index_select(1, codes[:, 0])
        for j in range(1, codes.shape[1]):
            total = total + log_p[:, j].index_select(1, codes[:, j])
        return total

    def expectations(self, joint: Tensor) -> Tensor:
        """mu(s, x_j) for every column, (settings, columns, values); rows where it is missing do not count."""
        codes = self.sample["codes"]
        settings, columns, most = self.logits.shape
        found = joint.new_zeros(settings, columns, most + 1)
        for j in range(columns):
            found[:, j].index_add_(1, codes[:, j], joint.reshape(settings, -1))
        return found[..., :-1]

    @torch.no_grad()
    def match(self, expectations: Tensor, share: float = 1.0) -> None:
        """p_j(x|s) <- p_j(x|s) + share (mu(x_j|s) - p_j(x|s)); what has no mass keeps its value."""
        current = self.tables()
        p = numerics.conditional(expectations, fallback=current)
        p = p if share == 1 else current + share * (p - current)
        self.logits.copy_(torch.where(self.logits == -math.inf, self.logits, numerics.log(p)))


def _rows_are_distributions(table: Tensor) -> bool:
    return bool(((table >= 0).all(1) & ((table.sum(1) - 1).abs() < 1e-6)).all())
