"""What moved in a run: row by row, the beliefs before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import torch

from dissonance.cpds import Table
from dissonance.pdg import PDG, Arc
from dissonance.variables import cells

SAME = 1e-8
"""Probabilities that moved by less have not moved: mu* is not known better than that."""


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
        """As JSON has it."""
        was, now = ({label: pair[i] for label, *pair in self.changes} for i in (0, 1))
        return {"arc": self.arc, "given": dict(self.given), "was": was, "is": now, "distance": self.distance}


def moved_rows(before: PDG, after: PDG) -> list[MovedRow]:
    """The rows of tables that moved, the furthest first."""
    found: list[MovedRow] = []
    for a in before.arcs:
        if not a.has_table:
            continue
        old, new = (x.cpd.table().detach().reshape(-1, cells(a.targets)) for x in (a, after[a.name]))
        far = (old - new).abs().sum(-1) / 2
        settings = list(product(*(v.finite.labels for v in a.sources)))
        values = [", ".join(map(str, setting)) for setting in product(*(v.finite.labels for v in a.targets))]
        for k in torch.nonzero(far > SAME).flatten().tolist():
            given = dict(zip(a.source_names, map(str, settings[k]), strict=True))
            changes = tuple(zip(values, old[k].tolist(), new[k].tolist(), strict=True))
            found.append(MovedRow(a.name, given, changes, float(far[k])))
    return sorted(found, key=lambda m: -m.distance)


def restored(before: PDG, after: PDG) -> PDG:
    """The moved beliefs, with every row that did not move as it was, bit for bit."""
    arcs: list[Arc] = []
    for a in before.arcs:
        now = after[a.name]
        if not a.has_table:
            arcs.append(now)
            continue
        old, new = (x.cpd.table().detach().reshape(-1, cells(a.targets)) for x in (a, now))
        still = ((old - new).abs() <= SAME).all(-1)
        if bool(still.all()):
            arcs.append(a)
            continue
        table = torch.where(still[:, None], old, new)
        arcs.append(a.with_cpd(Table(table.reshape([v.size for v in a.scope]))))
    return PDG(*arcs, variables=before.variables)
