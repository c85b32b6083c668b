"""pandas data frames: a table as a frame with a row a source setting, and data with a column a variable."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dissonance.errors import CapabilityError, DissonanceError, suggest
from dissonance.io.network import labelled, table_rows
from dissonance.pdg import Arc
from dissonance.variables import Variable, as_tuple, shape

if TYPE_CHECKING:
    import pandas as pd


def to_pandas(arc: Arc) -> pd.DataFrame:
    """The table of an arc: rows are settings of the sources, columns of the targets, labelled with both.

    The table of an arc without sources has one row.
    """
    pd = _pandas("to_pandas")
    return pd.DataFrame(table_rows(arc), index=_axis(pd, arc.sources), columns=_axis(pd, arc.targets))


def _axis(pd: Any, variables: Sequence[Variable]) -> Any:
    if not variables:
        return pd.RangeIndex(1)
    if len(variables) == 1:
        return pd.Index(list(variables[0].finite.labels), name=variables[0].name, dtype=object)
    return pd.MultiIndex.from_product([v.finite.labels for v in variables], names=[v.name for v in variables])


def from_pandas(name: str, frame: pd.DataFrame, variables: Sequence[Variable] = (), *, learnable: bool = False) -> Arc:
    """The arc whose table a frame shows: the names of its index are the sources, those of its columns the targets.

    Labels are those of `variables`, or else those of the frame in their order; every combination must be there, in any
    order, and once. `learnable`: it is a `SoftmaxTable`, which can move.
    """
    pd = _pandas("from_pandas")
    if not isinstance(frame, pd.DataFrame):
        raise DissonanceError(f"arc {name!r}: expected a data frame, found a {type(frame).__name__}.")
    known = {v.name: v for v in variables}
    sources, targets = (_read(name, axis, known) for axis in (frame.index, frame.columns))
    if not targets:
        raise DissonanceError(f"arc {name!r}: the columns of the frame need the names of the targets.")
    at = [_positions(name, axis, vs) for axis, vs in ((frame.index, sources), (frame.columns, targets))]
    try:
        table = np.asarray(frame, dtype=float)[np.ix_(*at)]
    except (TypeError, ValueError):
        raise DissonanceError(f"arc {name!r}: the frame holds what is not a number.") from None
    found = Arc(name, sources, targets, table.reshape(shape((*sources, *targets))))
    return found.learnable() if learnable else found


def _read(arc: str, axis: Any, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
    """The variables along an axis; none if it has no name."""
    if None in axis.names:
        if len(axis.names) > 1:
            raise DissonanceError(f"arc {arc!r}: every level of the frame needs a name, found {list(axis.names)}.")
        return ()
    levels = [(str(n), axis.get_level_values(i)) for i, n in enumerate(axis.names)]
    return tuple(known.get(n) or labelled(n, dict.fromkeys(_plain(x) for x in level)) for n, level in levels)


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
    return tuple(_of_column(name, data.iloc[:, i]) for name, i in _columns(data).items())


def _of_column(name: str, values: Any) -> Variable:
    categories = getattr(values.dtype, "categories", None)
    try:
        labels = categories if categories is not None else sorted(values.dropna().unique())
    except TypeError:
        raise DissonanceError(
            f"column {name!r} mixes kinds of values that have no order: make it categorical."
        ) from None
    if not len(labels):
        raise DissonanceError(f"column {name!r} has no values.")
    return labelled(name, map(_plain, labels))


def _columns(data: pd.DataFrame) -> dict[str, int]:
    """Where the column of a variable is, by its name as text."""
    found: dict[str, int] = {}
    for i, column in enumerate(data.columns):
        if found.setdefault(str(column), i) != i:
            raise DissonanceError(f"the data has two columns named {str(column)!r}.")
    return found


def fitted(
    name: str,
    data: pd.DataFrame,
    sources: Variable | Sequence[Variable],
    targets: Variable | Sequence[Variable],
    pseudocount: float = 0.0,
    *,
    learnable: bool = False,
) -> Arc:
    """The arc of the relative frequencies of the targets given the sources, in the rows of data that have all of them.

        p(t|s) = (n(s,t) + pseudocount) / (n(s) + pseudocount |T|)

    A setting of the sources that never occurs has the uniform distribution. `learnable`: it is a `SoftmaxTable`.
    """
    sources, targets = as_tuple(sources), as_tuple(targets)
    scope = (*sources, *targets)
    columns = _columns(data)
    for v in scope:
        if v.name not in columns:
            raise DissonanceError(f"arc {name!r}: no column {v.name!r}.{suggest(v.name, columns)}")
    if not 0 <= pseudocount < math.inf:
        raise DissonanceError(f"arc {name!r}: the pseudocount is {pseudocount}; it must be a number from 0 on.")
    complete = data.iloc[:, [columns[v.name] for v in scope]].dropna()
    if not len(complete):
        raise DissonanceError(f"arc {name!r}: no row of the data has all of {', '.join(v.name for v in scope)}.")
    counts = np.full(shape(scope), float(pseudocount))
    index = [_coded(name, v, complete.iloc[:, i]) for i, v in enumerate(scope)]
    np.add.at(counts, tuple(index), 1.0)
    by_row = counts.reshape(int(np.prod(shape(sources), dtype=int)), -1)
    total = by_row.sum(1, keepdims=True)
    by_row = np.where(total > 0, by_row / np.where(total > 0, total, 1.0), 1 / by_row.shape[1])
    found = Arc(name, sources, targets, by_row.reshape(counts.shape))
    return found.learnable() if learnable else found


def _coded(arc: str, v: Variable, values: Any) -> Any:
    """Data as the positions of its labels."""
    try:
        return np.array([v.finite.index(_plain(x)) for x in values])
    except DissonanceError as error:
        raise DissonanceError(
            f"arc {arc!r}: column {v.name!r} has a value that the variable has not: {error}"
        ) from None


def _plain(value: Any) -> Hashable:
    """A label as Python has it, not numpy."""
    return value.item() if isinstance(value, np.generic) else value


def _pandas(who: str) -> Any:
    try:
        import pandas
    except ImportError:
        raise CapabilityError(f"{who} needs pandas: pip install 'dissonance[pandas]'.") from None
    return pandas
