"""Columns put together: variables by name or by number, and how many values each has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dissonance.columns.column import Column
from dissonance.columns.columnar import ColumnarPDG, Ints
from dissonance.errors import DissonanceError
from dissonance.variables import Variable, shape


def columnar(columns: Sequence[Column], variables: Sequence[Variable] | Sequence[int] | None) -> ColumnarPDG:
    """The PDG of these columns; `variables`, or their sizes, if numbers are not to be read off the tables."""
    given = None if variables is None else list(variables)
    if given and not isinstance(given[0], Variable):
        known: Any = np.array(given, dtype=np.int64)
    else:
        known = given
    named = [c for c in columns if c.scopes.dtype.kind in "OUS"]
    if named and len(named) != len(columns):
        raise DissonanceError("the variables of a column are given by name or by number, in all columns alike.")
    if named:
        columns, names = _numbered(columns, known)
        sizes = _sizes(columns, len(names), known)
        return ColumnarPDG(columns, known or [Variable(n, int(k)) for n, k in zip(names, sizes, strict=True)])
    columns = [c.at(c.sources.astype(np.int64), c.targets.astype(np.int64)) for c in columns]
    most = max((int(c.scopes.max(initial=-1)) + 1 for c in columns), default=0)
    if min((int(c.scopes.min(initial=0)) for c in columns), default=0) < 0:
        raise DissonanceError("variables are numbered from 0.")
    if known is not None and most > len(known):
        raise DissonanceError(f"a column mentions variable {most - 1}, and there are {len(known)} of them.")
    sizes = _sizes(columns, most if known is None else len(known), known)
    return ColumnarPDG(columns, sizes if known is None or isinstance(known, np.ndarray) else known)


def _numbered(columns: Sequence[Column], known: Sequence[Variable] | None) -> tuple[list[Column], list[str]]:
    """Columns whose variables are names, by numbers: in the order of the variables given, or of their names."""
    names = (
        [v.name for v in known]
        if known is not None
        else sorted({str(n) for c in columns for n in np.unique(c.scopes.astype(str))})
    )
    listed = np.array(names, dtype=str)
    order = np.argsort(listed)
    found: list[Column] = []
    for c in columns:
        sides: list[Ints] = []
        for side in (c.sources.astype(str), c.targets.astype(str)):
            at = np.searchsorted(listed[order], side).clip(max=max(len(listed) - 1, 0))
            numbers = order[at] if len(listed) else at
            if side.size and (listed[numbers] != side).any():
                raise DissonanceError(f"no variable named {str(side[listed[numbers] != side][0])!r}.")
            sides.append(numbers.astype(np.int64).reshape(side.shape))
        found.append(c.at(*sides))
    return found, names


def _sizes(columns: Sequence[Column], count: int, known: Any) -> Ints:
    """How many values each variable has, by the tables; an error where tables, or what is known, do not agree."""
    given = None
    if known is not None:
        given = known if isinstance(known, np.ndarray) else np.array(shape(known), dtype=np.int64)
    sizes = np.zeros(count, dtype=np.int64) if given is None else given.copy()
    for c in columns:
        scopes = c.scopes
        for j, size in enumerate(c.tables.shape[1:]):
            seen = scopes[:, j]
            sizes[seen[sizes[seen] == 0]] = size
            if (sizes[seen] != size).any():
                odd = int(seen[sizes[seen] != size][0])
                raise DissonanceError(f"variable {odd} has {int(sizes[odd])} values, and {size} in a column's tables.")
        ordered = np.sort(scopes, 1)
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            raise DissonanceError("an arc of a column mentions a variable twice.")
    if (sizes < 1).any():
        raise DissonanceError(
            f"variable {int(np.flatnonzero(sizes < 1)[0])} is in no arc: give `variables`, or how many values each has."
        )
    return sizes
