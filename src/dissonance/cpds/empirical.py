"""The empirical distribution of a data set, and unnormalised factors."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.cpds.base import CPD, Variables
from dissonance.cpds.deterministic import labels_to_indices
from dissonance.cpds.table import Table
from dissonance.errors import DissonanceError
from dissonance.variables import shape


class Empirical(CPD):
    """The relative frequencies of rows of labels (one label a target), optionally weighted; no sources."""

    def __init__(self, data: Iterable[object], weights: Iterable[float] | None = None) -> None:
        super().__init__()
        if hasattr(data, "columns"):  # its elements are the names of the columns, not the rows
            numerics.check_unlabelled(data)
        self.data = list(data)
        self.weights = [1.0] * len(self.data) if weights is None else [float(w) for w in weights]
        if not self.data:
            raise DissonanceError("an empirical distribution needs at least one row of data.")
        if len(self.weights) != len(self.data):
            raise DissonanceError(f"{len(self.data)} rows of data, but {len(self.weights)} weights.")
        if min(self.weights) < 0 or sum(self.weights) <= 0:
            raise DissonanceError("the weights of an empirical distribution are non-negative and not all 0.")

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """Count the rows into a table over the targets."""
        if sources:
            raise DissonanceError("an empirical distribution has no sources; make its variables targets.")
        counts = torch.zeros(shape(targets), dtype=numerics.DTYPE)
        for row, weight in zip(self.data, self.weights, strict=True):
            counts[labels_to_indices(row, targets)] += weight
        return Table(counts / counts.sum()).bind(sources, targets)


class Factor(Table):
    """p proportional to a non-negative phi over the targets, as the factors of a factor graph are.

    p = phi / Z, log Z = `log_normalizer`. With alpha = beta = gamma = 1 the PDG of factors phi_a has inconsistency
    sum_a log Z_a - log sum_x prod_a phi_a(x).
    """

    log_normalizer: Tensor
    phi: Tensor
    """What it was made of, bit for bit."""

    def __init__(self, phi: object) -> None:
        values = numerics.real(phi).detach().clone()
        total = values.sum()
        if not torch.isfinite(total) or (values < 0).any() or total <= 0:
            raise DissonanceError("a factor needs finite non-negative entries, not all 0.")
        super().__init__(values / total)
        self.register_buffer("log_normalizer", torch.log(total))
        self.phi = values

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """Check the shape; a factor has no sources."""
        if sources:
            raise DissonanceError("a factor has no sources: its whole scope is its targets.")
        return super().bind(sources, targets)
