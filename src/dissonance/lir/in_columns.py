"""The parameters of a run on a PDG in columns: at the start they are the columns, and what a step moves lies on top.

Nothing is made for an arc that no step looks at.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import cached_property

import torch
from torch import Tensor

from dissonance.columns import Column, ColumnarPDG
from dissonance.errors import FormatError
from dissonance.lir.parameters import Parameters
from dissonance.pdg import PDG

LOGITS = ".logits"
"""What the parameter of an arc in a column is called, after the name of the arc."""

ON_TOP = 4096
"""How many moved parameters lie on top of the columns; more are written into a copy of these."""


class ColumnKeys(Mapping[str, str]):
    """The arc of every parameter "arc.logits"; arcs whose tables cannot move have none."""

    def __init__(self, pdg: ColumnarPDG) -> None:
        self.pdg = pdg

    def at(self, key: str) -> tuple[int, int]:
        """The column of a parameter, and its row there."""
        name = key.removesuffix(LOGITS)
        if name == key or name not in self.pdg:
            raise KeyError(key)
        column, row = self.pdg.place(self.pdg.number(name))
        if not self.pdg.columns[column].learnable:
            raise KeyError(key)
        return column, row

    def key(self, column: int, row: int) -> str:
        """The parameter of a row of a column."""
        return self.pdg.name(column, row) + LOGITS

    def __getitem__(self, key: str) -> str:
        self.at(key)
        return key.removesuffix(LOGITS)

    def __iter__(self) -> Iterator[str]:
        for k, column in enumerate(self.pdg.columns):
            if column.learnable:
                yield from (self.key(k, row) for row in range(len(column)))

    def __len__(self) -> int:
        return sum(len(c) for c in self.pdg.columns if c.learnable)


class Themselves(Mapping[str, str]):
    """Every parameter under its own name: no two arcs of a column share one."""

    def __init__(self, keys: ColumnKeys) -> None:
        self._keys = keys

    def __getitem__(self, key: str) -> str:
        self._keys.at(key)
        return key

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class ColumnTheta(MutableMapping[str, Tensor]):
    """theta of one run, (1, ...) of every parameter: `moved` by name, and all others where the columns have them."""

    def __init__(self, keys: ColumnKeys, tables: Sequence[Tensor] | None = None) -> None:
        """At the start of a run, or where these tables have it."""
        self.arc_of, self.moved = keys, dict[str, Tensor]()
        self._given = tables is None
        self.tables = [c.tables.detach() for c in keys.pdg.columns] if tables is None else list(tables)

    def __getitem__(self, key: str) -> Tensor:
        if key in self.moved:
            return self.moved[key]
        column, row = self.arc_of.at(key)
        return self.tables[column][row][None].clone()

    def __iter__(self) -> Iterator[str]:
        return iter(self.arc_of)

    def __len__(self) -> int:
        return len(self.arc_of)

    def __setitem__(self, key: str, value: Tensor) -> None:
        self.update({key: value})

    def __delitem__(self, key: str) -> None:
        raise TypeError("every arc of a column that can move has a parameter.")

    def update(self, moved: dict[str, Tensor]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take in what a step has moved, all at once: an interrupt finds it moved or not."""
        self.moved.update(moved)
        if len(self.moved) > ON_TOP:
            self.tables, self._given, self.moved = self.settled(), False, {}

    def settled(self) -> list[Tensor]:
        """The tables of all columns, with what has moved in its place."""
        if self.moved and self._given:  # those of the PDG are not changed
            self.tables = [x.clone() for x in self.tables]
            self._given = False
        for key, value in self.moved.items():
            column, row = self.arc_of.at(key)
            self.tables[column][row] = value[0]
        return self.tables


class OneOf(Mapping[str, Tensor]):
    """theta of the run by itself, keyed as its PDG has it."""

    def __init__(self, theta: Mapping[str, Tensor]) -> None:
        self._theta = theta

    def __getitem__(self, key: str) -> Tensor:
        return self._theta[key][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._theta)

    def __len__(self) -> int:
        return len(self._theta)


class ColumnParameters(Parameters):
    """The parameters of one run on a PDG in columns. What looks at all arcs makes them all, as it does anywhere."""

    def __init__(self, pdg: ColumnarPDG) -> None:
        self.pdgs, self.columns = (pdg,), pdg

    @cached_property
    def arc_of(self) -> Mapping[str, str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The arc of every parameter."""
        return self._arc_of

    @cached_property
    def _arc_of(self) -> ColumnKeys:
        return ColumnKeys(self.columns)

    @cached_property
    def home(self) -> Mapping[str, str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name under which theta has each parameter."""
        return Themselves(self._arc_of)

    @cached_property
    def theta0(self) -> Mapping[str, Tensor]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The default parameters."""
        return ColumnTheta(self._arc_of)

    def begin(self) -> ColumnTheta:
        """theta at the start, to be moved."""
        return ColumnTheta(self._arc_of)

    def moved(self, theta: dict[str, Tensor]) -> ColumnTheta:
        """theta after a step that may have moved all of it."""
        found = self.begin()
        found.update(theta)
        return found

    def place(self, name: str) -> int:
        """Where an arc is among the arcs."""
        return self.columns.number(name)

    def held_outside(self, keys: Iterable[str], names: Collection[str]) -> bool:
        """Whether an arc that is not among these has one of the parameters: none has."""
        return False

    @property
    def drawn(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether some arc can only be drawn from and scored."""
        return False

    @property
    def tabular(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether every arc is a table of probabilities."""
        return True

    @cached_property
    def rows(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The rows of all tables."""
        return sum(c.tables.numel() // c.width(c.tables.shape[1:]) for c in self.columns.columns)

    def distance(self, theta: Mapping[str, Tensor], start: Mapping[str, Tensor]) -> Tensor:
        """The total variation between the tables at theta and at the start, added up over all rows, (1,)."""
        found = torch.zeros(1, dtype=torch.float64)
        for p, q in zip(self._at(theta), self._at(start), strict=True):
            if p.tables.data_ptr() != q.tables.data_ptr():
                found += 0.5 * (p.log_p.exp() - q.log_p.exp()).abs().sum()
        return found

    def _at(self, theta: Mapping[str, Tensor]) -> list[Column]:
        """The columns at theta."""
        assert isinstance(theta, ColumnTheta)
        return [c.with_tables(x) for c, x in zip(self.columns.columns, theta.settled(), strict=True)]

    def nonfinite(self, theta: Mapping[str, Tensor]) -> list[str]:
        """The parameters whose components do not add up to a finite number."""
        if not isinstance(theta, ColumnTheta):
            return super().nonfinite(theta)
        found: list[str] = []
        for k, (column, table) in enumerate(zip(self.columns.columns, theta.settled(), strict=True)):
            if column.learnable and not math.isfinite(float(table.sum())):
                rows = torch.nonzero(~torch.isfinite(table.flatten(1).sum(1))).flatten().tolist()
                found += [self._arc_of.key(k, row) for row in rows]
        return found

    def of(self, k: int, theta: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The parameters of the run, keyed as its PDG has them."""
        return OneOf(theta)

    def pdg(self, k: int, theta: Mapping[str, Tensor]) -> PDG:
        """The PDG at theta, which is a copy."""
        return self.columns.with_columns([c.with_tables(c.tables.clone()) for c in self._at(theta)])

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def kept(self, theta: Mapping[str, Tensor], keys: Collection[str]) -> dict[str, Tensor]:
        """The parameters that are asked for; if that is all of them, whole columns, by their numbers."""
        assert isinstance(theta, ColumnTheta)
        if len(keys) < len(theta):
            return super().kept(theta, keys)
        return {str(k): table for k, table in enumerate(theta.settled())}

    def resumed(self, kept: Mapping[str, Tensor], where: str) -> ColumnTheta:
        """theta of what was kept: all of it, and what has moved since."""
        columns = self.columns.columns
        tables = [kept.get(str(k)) for k in range(len(columns))]
        moved = {key: x for key, x in kept.items() if key in self.home}
        if len(moved) + len(columns) != len(kept) or any(
            x is None or x.shape != c.tables.shape for c, x in zip(columns, tables, strict=True)
        ):
            raise FormatError(f"{where}: holds parameters of other shapes. Delete it, or name another file.")
        theta = ColumnTheta(self._arc_of, [x for x in tables if x is not None])
        theta.update(moved)
        return theta
