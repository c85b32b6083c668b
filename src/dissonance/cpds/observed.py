"""Cpds of data: the target variable numbers the rows of a data set, and its table holds p(x_n | s) for every row n."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from dissonance.cpds.base import CPD, Values, Variables
from dissonance.errors import DissonanceError
from dissonance.variables import cells, shape

Self = TypeVar("Self", bound="Observed")


class Sample:
    """Columns of numbers about the same rows, which never change: copies of a cpd share them."""

    def __init__(self, **columns: Tensor) -> None:
        self.columns: Mapping[str, Tensor] = columns

    def __getitem__(self, name: str) -> Tensor:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def take(self, rows: Tensor) -> Sample:
        """Some of the rows."""
        return Sample(**{n: x[rows] for n, x in self.columns.items()})

    def __deepcopy__(self, memo: dict[int, Any]) -> Sample:
        return self


class _Last:
    """The last table and the parameters it was made at; copies of a cpd begin without."""

    forgettable = True  # and is no part of what a cpd is

    def __init__(self) -> None:
        self.at: list[Tensor] = []
        self.table: Tensor | None = None

    def recall(self, parameters: Sequence[Tensor]) -> Tensor | None:
        """The table, if it was made at these very numbers."""
        if self.table is None or not all(torch.equal(a, b) for a, b in zip(self.at, parameters, strict=True)):
            return None
        return self.table

    def keep(self, parameters: Sequence[Tensor], table: Tensor) -> Tensor:
        """Remember a table."""
        self.at, self.table = [p.detach().clone() for p in parameters], table.detach()
        return self.table

    def __deepcopy__(self, memo: dict[int, Any]) -> _Last:
        return _Last()


class Observed(CPD):
    """p(x_n | s; theta) for the rows x_n of a data set, as an arc S -> row whose target's values are the rows.

    Its table (source sizes..., rows) holds densities at the data, not a distribution over rows: with the data as a hard
    arc -> row, E_mu[-log p] is the expected negative log-likelihood, and `project` weighted maximum likelihood. What is
    missing from a row counts as probability 1. The table is made once for each theta.
    """

    density = True

    def __init__(self, sample: Sample, settings: int) -> None:
        super().__init__()
        self.sample, self.settings = sample, settings
        self._last = _Last()
        self._sources: tuple[int, ...] = (settings,)
        if not len(sample):
            raise DissonanceError("a data set needs at least one row.")

    @abstractmethod
    def densities(self) -> Tensor:
        """log p(x_n | s), (source settings, rows)."""

    def on(self: Self, sample: Sample) -> Self:
        """The same parameters, shared, about other rows."""
        made = object.__new__(type(self))
        nn.Module.__init__(made)
        made.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("_parameters", "sample", "_last")})
        made._parameters = dict(self._parameters)
        made.sample, made._last = sample, _Last()
        return made

    def rows(self: Self, rows: Tensor) -> Self:
        """The same parameters, shared, about some of the rows."""
        return self.on(self.sample.take(rows))

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """The one target has a value for each row; the sources have as many settings as there are distributions."""
        if len(targets) != 1 or targets[0].size != len(self.sample):
            raise DissonanceError(
                f"there are {len(self.sample)} rows of data: the target must be one variable with as many values, "
                f"found {', '.join(f'{v.name} with {v.size}' for v in targets)}."
            )
        if cells(sources) != self.settings:
            raise DissonanceError(
                f"there are {self.settings} distributions, but {cells(sources)} settings of "
                f"({', '.join(v.name for v in sources)})."
            )
        self._sources = shape(sources)
        return self

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """log p(x_n | s) by look-up."""
        index = tuple(torch.as_tensor(v, dtype=torch.long) for v in (*sources, *targets))
        return self.log_table()[index]

    def log_table(self) -> Tensor:
        """log p(x_n | s), (source sizes..., rows)."""
        own = list(self.parameters())
        wanted = (*self._sources, len(self.sample))
        if torch.is_grad_enabled() and any(p.requires_grad for p in own):
            return self.densities().reshape(wanted)
        with torch.no_grad():
            found = self._last.recall(own)
            found = self._last.keep(own, self.densities()) if found is None else found
        return found.reshape(wanted)

    def project(self, joint: Tensor) -> None:
        """Weighted maximum likelihood; what has no weight keeps its value."""
        self.match(self.expectations(joint))

    def extra_repr(self) -> str:
        """Its size, for printing."""
        return f"{prod(self._sources)} settings, {len(self.sample)} rows"


class Evidence(Observed):
    """What each row says about a finite variable: a value, or nothing. 1 where they agree, 0 where not; no parameters.

    `codes` are the values' numbers, -1 where the row does not say. The arc X -> row makes X known row by row.
    """

    def __init__(self, codes: object, size: int) -> None:
        given = torch.as_tensor(codes, dtype=torch.long).reshape(-1)
        wrong = (given < -1) | (given >= size)
        if wrong.any():
            n = int(wrong.nonzero()[0, 0])
            raise DissonanceError(f"row {n} holds {int(given[n])}; the values are 0 to {size - 1}, or -1 if missing.")
        super().__init__(Sample(codes=given), size)

    def densities(self) -> Tensor:
        """0 where the row agrees or does not say, -inf where it does not agree."""
        codes = self.sample["codes"]
        fits = (codes == torch.arange(self.settings)[:, None]) | (codes == -1)
        return torch.where(fits, 0.0, -torch.inf).to(torch.float64)
