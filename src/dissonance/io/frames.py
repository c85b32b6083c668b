"""pandas data frames: a table as a frame with a row a source setting, and data with a column a variable."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dissonance.errors import CapabilityError, DissonanceError, suggest
from dissonance.io.network import rows
from dissonance.pdg import Arc
from dissonance.variables import Variable, as_tuple, shape

if TYPE_CHECKING:
    import pandas as pd


def to_pandas(arc: Arc) -> pd.DataFrame:
    """The table of an arc: rows are settings of the sources, columns of the targets, labelled with both.

    The table of an arc without sources has one row.
    """
    pd = _pandas()
    return pd.DataFrame(rows(arc), index=_axis(pd, arc.sources), columns=_axis(pd, arc.targets))


def _axis(pd: Any, variables: Sequence[Variable]) -> Any:
    if not variables:
        return pd.RangeIndex(1)
    if len(variables) == 1:
        return pd.Index(list(variables[0].finite.labels), name=variables[0].name, dtype=object)
    return pd.MultiIndex.from_product([v.finite.labels for v in variables], names=[v.name for v in variables])


def from_pandas(name: str, frame: pd.DataFrame, variables: Sequence[Variable] = ()) -> Arc:
    """The arc whose table a frame shows: the names of its index are the sources, those of its columns the targets.

    Labels are those of `variables`, or else those of the frame in their order; every combination must be there, in any
    order, and once.
    """
    known = {v.name: v for v in variables}
    sources, targets = _read(frame.index, known), _read(frame.columns, known)
    if not targets:
        raise DissonanceError(f"arc {name!r}: the columns of the frame need the names of the targets.")
    at = [_positions(name, axis, vs) for axis, vs in ((frame.index, sources), (frame.columns, targets))]
    table = np.asarray(frame, dtype=float)[np.ix_(*at)]
    return Arc(name, sources, targets, table.reshape(shape((*sources, *targets))))


def _read(axis: Any, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
    names = [n for n in axis.names if n is not None]
    found: list[Variable] = []
    for n in names:
        labels = list(dict.fromkeys(_plain(x) for x in axis.get_level_values(n)))
        plain = labels == list(range(len(labels))) and all(type(x) is int for x in labels)
        found.append(known.get(str(n)) or Variable(str(n), len(labels) if plain else labels))
    return tuple(found)


def _positions(name: str, axis: Any, variables: tuple[Variable, ...]) -> list[int]:
    """Where each setting of the variables is along an axis of a frame."""
    wanted = int(np.prod(shape(variables), dtype=int))
    if len(axis) != wanted:
        raise DissonanceError(f"arc {name!r}: the frame has {len(axis)} rows or columns where {wanted} are needed.")
    if not variables:
        return [0]
    position: dict[int, int] = {}
    for i, key in enumerate(axis):
        labels = key if isinstance(key, tuple) and len(variables) > 1 else (key,)
        cell = 0
        for v, x in zip(variables, labels, strict=True):
            cell = cell * v.size + v.finite.index(_plain(x))
        if cell in position:
            raise DissonanceError(f"arc {name!r}: the frame has {key!r} twice.")
        position[cell] = i
    return [position[i] for i in range(wanted)]


def variables_of(data: pd.DataFrame) -> tuple[Variable, ...]:
    """The columns of a data set as variables: the categories of a categorical column, else its sorted values."""
    found: list[Variable] = []
    for column in data.columns:
        values = data[column]
        categories = getattr(values.dtype, "categories", None)
        labels = [_plain(x) for x in (categories if categories is not None else sorted(values.dropna().unique()))]
        plain = labels == list(range(len(labels))) and all(type(x) is int for x in labels)
        found.append(Variable(str(column), len(labels) if plain else labels))
    return tuple(found)


def fitted(
    name: str,
    data: pd.DataFrame,
    sources: Variable | Sequence[Variable],
    targets: Variable | Sequence[Variable],
    pseudocount: float = 0.0,
) -> Arc:
    """The arc of the relative frequencies of the targets given the sources, in the rows of data that have all of them.

        p(t|s) = (n(s,t) + pseudocount) / (n(s) + pseudocount |T|)

    A setting of the sources that never occurs has the uniform distribution.
    """
    sources, targets = as_tuple(sources), as_tuple(targets)
    scope = (*sources, *targets)
    for v in scope:
        if v.name not in data.columns:
            raise DissonanceError(f"arc {name!r}: no column {v.name!r}.{suggest(v.name, map(str, data.columns))}")
    complete = data[[v.name for v in scope]].dropna()
    if not len(complete):
        raise DissonanceError(f"arc {name!r}: no row of the data has all of {', '.join(v.name for v in scope)}.")
    counts = np.full(shape(scope), float(pseudocount))
    index = [np.array([v.finite.index(_plain(x)) for x in complete[v.name]]) for v in scope]
    np.add.at(counts, tuple(index), 1.0)
    by_row = counts.reshape(int(np.prod(shape(sources), dtype=int)), -1)
    total = by_row.sum(1, keepdims=True)
    by_row = np.where(total > 0, by_row / np.where(total > 0, total, 1.0), 1 / by_row.shape[1])
    return Arc(name, sources, targets, by_row.reshape(counts.shape))


def _plain(value: Any) -> Hashable:
    """A label as Python has it, not numpy."""
    return value.item() if isinstance(value, np.generic) else value


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise CapabilityError("to_pandas needs pandas: pip install 'dissonance[pandas]'.") from None
    return pandas
