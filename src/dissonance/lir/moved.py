"""What moved in a run: row by row, the beliefs before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product

import numpy as np
import torch
from torch import Tensor

from dissonance.arc import Arc
from dissonance.columns import Column, ColumnarPDG
from dissonance.columns.weights import ColumnWeights
from dissonance.cpds import Table
from dissonance.numerics import DTYPE
from dissonance.pdg import PDG
from dissonance.variables import cells, label_texts, setting_texts

SAME = 1e-8
"""Probabilities of an arc of beta <= 1 that moved by less have not moved: mu* is not known better than that."""
ROUNDING = 1e-15
"""Probabilities that moved by less have not moved, however large beta is."""


@dataclass(frozen=True)
class MovedRow:
    """A row of a table that moved: how probable each value was and is; `distance` in total variation."""

    arc: str
    given: Mapping[str, str]
    changes: tuple[tuple[str, float, float], ...]
    distance: float

    @property
    def given_text(self) -> str:
        """The condition in words."""
        return ", ".join(f"{n}={x}" for n, x in self.given.items())

    @property
    def record(self) -> dict[str, object]:
        """The row as a JSON object."""
        was, now = ({label: pair[i] for label, *pair in self.changes} for i in (0, 1))
        return {"arc": self.arc, "given": dict(self.given), "was": was, "is": now, "distance": self.distance}


def moved_rows(before: PDG, after: PDG, most: int | None = None) -> list[MovedRow]:
    """Return the rows of tables that differ, the furthest first; no more than `most` of them."""
    far, arcs, rows = _far(before, after)
    first = torch.argsort(far, descending=True, stable=True)[:most].tolist()
    names = before.arc_names
    return [_moved_row(before[names[arcs[k]]], after[names[arcs[k]]], int(rows[k])) for k in first]


def moved_count(before: PDG, after: PDG) -> int:
    """Return how many rows of tables moved."""
    return len(_far(before, after)[0])


def _far(before: PDG, after: PDG) -> tuple[Tensor, Tensor, Tensor]:
    """Return of every row that moved its total variation, the number of its arc, and its number in the table."""
    far, arcs, rows, first = list[Tensor](), list[Tensor](), list[Tensor](), 0
    for old, new in _tables(before, after):
        apart = (old - new).abs().sum(-1) / 2
        where = torch.nonzero(apart)
        far.append(apart[where[:, 0], where[:, 1]])
        arcs.append(where[:, 0] + first)
        rows.append(where[:, 1])
        first += len(old)
    none = torch.zeros(0, dtype=torch.long)
    return torch.cat([none.to(DTYPE), *far]), torch.cat([none, *arcs]), torch.cat([none, *rows])


def _tables(before: PDG, after: PDG) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the tables of the arcs in order, before and after, (arcs, rows, targets): those of a column at once if both
    are in columns; no rows where there is no table."""
    if isinstance(before, ColumnarPDG) and isinstance(after, ColumnarPDG):
        for old, new in zip(before.columns, after.columns, strict=True):
            yield old.log_p.exp(), new.log_p.exp()
    else:
        for a in before.arcs:
            none = torch.zeros(1, 0, 1)
            yield (_by_row(a)[None], _by_row(after[a.name])[None]) if a.has_table else (none, none)


def _by_row(a: Arc) -> Tensor:
    return a.cpd.table().detach().reshape(-1, cells(a.targets))


def _moved_row(a: Arc, after: Arc, k: int) -> MovedRow:
    """Row k of an arc, before and after."""
    old, new = _by_row(a)[k], _by_row(after)[k]
    setting = next(islice(product(*map(label_texts, a.sources)), k, None))
    given = dict(zip(a.source_names, setting, strict=True))
    changes = tuple(zip(setting_texts(a.targets), old.tolist(), new.tolist(), strict=True))
    return MovedRow(a.name, given, changes, float((old - new).abs().sum() / 2))


def restored(before: PDG, after: PDG, beta: Mapping[str, float] | None = None) -> PDG:
    """The moved beliefs, with every row that did not move as it was, bit for bit.

    `beta`: by arc; the more a belief counts, the less its rows may have moved for that.
    """
    weights: Mapping[str, float] = beta or {}
    if isinstance(before, ColumnarPDG) and isinstance(after, ColumnarPDG):
        pairs = zip(before.columns, after.columns, _limits(before, weights), strict=True)
        return before.with_columns([_restored_column(old, new, limit) for old, new, limit in pairs])
    arcs = (_restored_arc(a, after[a.name], _limit(weights.get(a.name, 1.0))) for a in before.arcs)
    return PDG(*arcs, variables=before.variables)


def _limit(beta: float) -> float:
    """How far probabilities may have moved that have not moved."""
    return max(SAME / max(1.0, abs(beta)), ROUNDING)


def _limits(pdg: ColumnarPDG, beta: Mapping[str, float]) -> Iterator[Tensor]:
    """The limit of every arc of each column, (arcs, 1, 1)."""
    numbers = beta.numbers if isinstance(beta, ColumnWeights) else np.array([beta.get(n, 1.0) for n in pdg.arc_names])
    limits = np.maximum(SAME / np.maximum(1.0, np.abs(np.where(np.isnan(numbers), 0.0, numbers))), ROUNDING)
    first = 0
    for column in pdg.columns:
        yield torch.from_numpy(limits[first : first + len(column)])[:, None, None]
        first += len(column)


def _restored_column(old: Column, new: Column, limit: Tensor) -> Column:
    """Rows that did not move as they were; tables that could not move before cannot now."""
    start, q = old.made_learnable().log_p.exp(), new.log_p.exp()
    still = ((start - q).abs() <= limit).all(-1, keepdim=True)
    kept = old.tables.detach().reshape(q.shape)
    moved = new.log_p if old.learnable else q
    return old.with_tables(torch.where(still, kept, moved).reshape(old.tables.shape))


def _restored_arc(a: Arc, now: Arc, limit: float) -> Arc:
    """A moved arc, with every row that did not move as it was."""
    start = a.learnable()
    if all(torch.equal(x, y) for x, y in zip(start.cpd.parameters(), now.cpd.parameters(), strict=True)):
        return a
    if not a.has_table:
        return now
    began, ended = (x.log_table().detach().exp().reshape(-1, cells(a.targets)) for x in (start, now))
    still = ((began - ended).abs() <= limit).all(-1)
    if bool(still.all()):
        return a
    table = torch.where(still[:, None], _by_row(a), _by_row(now))
    return a.with_cpd(Table(table.reshape([v.size for v in a.scope])))
