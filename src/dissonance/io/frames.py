"""pandas data frames: a table as a frame with a row a source setting, and data with a column a variable."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from dissonance.arc import Arc
from dissonance.errors import CapabilityError, DissonanceError, suggest
from dissonance.io.cells import COUNTS, NUMBERS, PROBABILITIES, Cells, as_numbers, of_columns, python_label
from dissonance.io.network import labelled, table_rows
from dissonance.variables import Variable, as_tuple

if TYPE_CHECKING:
    import pandas as pd


def to_pandas(arc: Arc) -> pd.DataFrame:
    """The table of an arc: rows are settings of the sources, columns of the targets, labelled with both.

    The table of an arc without sources has one row.
    """
    pd = _pandas("to_pandas")
    return pd.DataFrame(table_rows(arc), index=_axis(pd, arc.sources), columns=_axis(pd, arc.targets))


def framed(variables: Sequence[Variable], table: Tensor) -> pd.DataFrame | pd.Series:
    """A table over these variables with its labels: of one a Series, else a frame with the last along its columns."""
    pd = _pandas("frame()")
    if len(variables) == 1:
        return pd.Series(table.detach().tolist(), index=_axis(pd, variables), name="p")
    rows = table.detach().reshape(-1, variables[-1].size).numpy()
    return pd.DataFrame(rows, index=_axis(pd, variables[:-1]), columns=_axis(pd, variables[-1:]))


def rows_framed(rows: Sequence[Any]) -> pd.DataFrame:
    """Dataclasses as the rows of a frame."""
    return _pandas("to_frame()").DataFrame([asdict(r) for r in rows])


def _axis(pd: Any, variables: Sequence[Variable]) -> Any:
    if not variables:
        return pd.RangeIndex(1)
    if len(variables) == 1:
        return pd.Index(list(variables[0].finite.labels), name=variables[0].name, dtype=object)
    return pd.MultiIndex.from_product([v.finite.labels for v in variables], names=[v.name for v in variables])


def from_pandas(name: str, table: pd.DataFrame | pd.Series, variables: Sequence[Variable] = (), **options: Any) -> Arc:
    """The arc that a frame or a Series shows; the options are those of `Arc.from_table`.

    What `to_pandas` makes of an arc comes back as the same arc: rows that each sum to 1 are given what is along them.
    """
    _pandas("from_pandas")
    return Arc.from_table(name, table, variables=variables, **options)


def frame_cells(name: str, table: Any, of: tuple[str, ...], values: str | None) -> Cells:
    """A frame or a Series taken apart: named axes are variables; without names, its columns are read as in a file."""
    pd = _pandas("from_pandas")
    if isinstance(table, pd.Series):
        return _of_series(name, table, of)
    if not isinstance(table, pd.DataFrame):
        raise DissonanceError(f"arc {name!r}: expected a data frame or a Series, found a {type(table).__name__}.")
    if None not in table.columns.names:
        return _of_crosstab(name, table)
    inside = table if None in table.index.names else table.reset_index()
    headings = list(_columns(inside))
    categories = [_categories(inside.iloc[:, i]) for i in range(len(headings))]
    if len(of) == 1 and of[0] not in headings and not any("=" in h for h in headings):
        numeric = [getattr(d, "kind", "O") in "iuf" for d in inside.dtypes]
        headings = [f"{of[0]}={h}" if number else h for h, number in zip(headings, numeric, strict=True)]
    inside = inside.set_axis(headings, axis=1)
    found = of_columns(name, headings, [inside.iloc[:, i].tolist() for i in range(len(headings))], values)
    if len(found.names) == len(headings):  # every row is an observation
        complete = inside.dropna()
        if not len(complete):
            raise DissonanceError(f"arc {name!r}: no row of the data has all of {', '.join(headings)}.")
        orders = [c or sorted_values(h, complete[h]) for h, c in zip(headings, categories, strict=True)]
        tally = complete.value_counts(sort=False)
        keys = tuple(tally.index.get_level_values(i).tolist() for i in range(len(headings)))
        numbers, domains = tally.to_numpy(dtype=float), dict(zip(found.names, orders, strict=True))
        return replace(found, columns=keys, numbers=numbers, domains=domains)
    domains = {h: c for h, c in zip(headings, categories, strict=True) if c is not None and h in found.names}
    return replace(found, domains=domains)


def _of_series(name: str, series: Any, of: tuple[str, ...]) -> Cells:
    """The index holds the labels; its names are the variables, or else `of`, or else the name of the Series."""
    levels = [series.index.get_level_values(i).tolist() for i in range(series.index.nlevels)]
    names = [str(n) for n in series.index.names if n is not None] or list(of)
    if not names and series.name is not None and str(series.name).lower() not in NUMBERS:
        names = [str(series.name)]
    if len(names) != len(levels):
        raise DissonanceError(f"arc {name!r}: the index of the Series needs the names of its variables: give of='...'.")
    heading = str(series.name).lower()
    counted = True if heading in COUNTS else False if heading in PROBABILITIES else None
    return Cells(tuple(names), tuple(levels), as_numbers(name, series.tolist()), counted=counted)


def _of_crosstab(name: str, frame: Any) -> Cells:
    """Rows and columns are settings of the variables that the axes are named after."""
    rows = [str(n) for n in frame.index.names if n is not None]
    if len(rows) < len(frame.index.names) and (len(frame) != 1 or rows):
        raise DissonanceError(f"arc {name!r}: every level of the rows needs a name, found {list(frame.index.names)}.")
    columns = [str(n) for n in frame.columns.names]
    down = [frame.index.get_level_values(i).tolist() for i in range(len(rows))]
    across = [frame.columns.get_level_values(i).tolist() for i in range(len(columns))]
    width, height = frame.shape[1], frame.shape[0]
    labels = [[x for x in level for _ in range(width)] for level in down] + [level * height for level in across]
    numbers = as_numbers(name, frame.to_numpy().reshape(-1).tolist())
    return Cells((*rows, *columns), tuple(labels), numbers, along=tuple(rows))


def _categories(values: Any) -> list[Hashable] | None:
    categories = getattr(values.dtype, "categories", None)
    return None if categories is None else list(map(python_label, categories))


def variables_of(data: pd.DataFrame) -> tuple[Variable, ...]:
    """The columns of a data set as variables: the categories of a categorical column, else its sorted values."""
    return tuple(_of_column(name, data.iloc[:, i]) for name, i in _columns(data).items())


def _of_column(name: str, values: Any) -> Variable:
    categories = _categories(values)
    return labelled(name, sorted_values(name, values.dropna()) if categories is None else categories)


def sorted_values(name: str, values: Any) -> list[Hashable]:
    """The different values of a column, in their order."""
    try:
        labels = sorted(values.unique())
    except TypeError:
        raise DissonanceError(
            f"column {name!r} mixes kinds of values that have no order: make it categorical."
        ) from None
    if not labels:
        raise DissonanceError(f"column {name!r} has no values.")
    return list(map(python_label, labels))


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

    It is believed with beta = 1, whatever the number of rows. `learnable`: it is a `SoftmaxTable`, which can move.
    """
    scope = (*as_tuple(sources), *as_tuple(targets))
    columns = _columns(data)
    for v in scope:
        if v.name not in columns:
            raise DissonanceError(f"arc {name!r}: no column {v.name!r}.{suggest(v.name, columns)}")
    complete = data.iloc[:, [columns[v.name] for v in scope]]
    how: dict[str, Any] = {"counts": True, "confidence": 1.0, "pseudocount": pseudocount, "learnable": learnable}
    return Arc.from_table(name, complete, given=sources, of=targets, **how)


def _pandas(who: str) -> Any:
    try:
        import pandas
    except ImportError:
        raise CapabilityError(f"{who} needs pandas: pip install 'dissonance[pandas]'.") from None
    return pandas
