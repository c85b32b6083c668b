"""A cpd that ignores its sources: the targets are independent of them, and in groups of each other."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dissonance import numerics
from dissonance.cpds.base import CPD, TableCPD, Values, Variables
from dissonance.errors import CapabilityError
from dissonance.variables import shape


class Independent(CPD):
    """p(T_1, ..., T_n | S) = prod_k p_k(T_k): what hard arcs need to say that variables are independent.

    Hard arcs `-> X` and `-> Y` fix two marginals and leave the coupling free. `X -> Y` with Independent(q) makes Y
    independent of X with marginal q. The tables p_k may be those of other arcs: their parameters are then shared.
    """

    def __init__(self, *tables: TableCPD) -> None:
        super().__init__()
        self.tables = nn.ModuleList(tables)
        self.source_shape: tuple[int, ...] = ()

    @property
    def parts(self) -> list[TableCPD]:
        """The tables p_k."""
        return [t for t in self.tables if isinstance(t, TableCPD)]

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """Give each table as many of the targets, in order, as it has axes."""
        wanted = [len(t.table_shape) for t in self.parts]
        if sum(wanted) != len(targets):
            raise CapabilityError(f"the tables have {sum(wanted)} axes in all, but there are {len(targets)} targets.")
        rest = targets
        for t, n in zip(self.parts, wanted, strict=True):
            t.bind((), rest[:n])
            rest = rest[n:]
        self.source_shape = shape(sources)
        return self

    def log_table(self) -> Tensor:
        """The sum of the logarithms, the same at every source setting."""
        total = torch.zeros((), dtype=numerics.DTYPE)
        for t in self.parts:
            log_p = t.log_table()
            total = total[(..., *[None] * log_p.dim())] + log_p
        return total.expand(self.source_shape + total.shape)

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """log p(targets), whatever the sources."""
        index = tuple(torch.as_tensor(v, dtype=torch.long) for v in (*sources, *targets))
        return self.log_table()[index]

    def project(self, joint: Tensor) -> None:
        """p_k <- mu(T_k), each table by itself."""
        self.match(self.expectations(joint))

    def expectations(self, joint: Tensor) -> Tensor:
        """mu(T_k) of every table, one after the other."""
        sizes = [t.table_shape for t in self.parts]
        table = joint.sum(0).reshape([n for s in sizes for n in s])
        found: list[Tensor] = []
        at = 0
        for s in sizes:
            others = [i for i in range(table.dim()) if not at <= i < at + len(s)]
            found.append((table.sum(others) if others else table).reshape(1, -1))
            at += len(s)
        return torch.cat(found, 1)

    def match(self, expectations: Tensor, share: float = 1.0) -> None:
        """p_k <- p_k + share (mu(T_k) - p_k), each learnable table by itself: its probabilities are mean parameters."""
        sizes = [math.prod(t.table_shape) for t in self.parts]
        for t, mean in zip(self.parts, expectations.split(sizes, 1), strict=True):
            if any(True for _ in t.parameters()):
                t.match(mean, share)
