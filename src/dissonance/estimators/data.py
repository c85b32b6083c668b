"""Data as users have it: rows of numbers or labels, sequences, columns by name; checked, with one-line errors."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dissonance.errors import DissonanceError, suggest

Array = npt.NDArray[np.float64]


class NotNumbersError(DissonanceError, TypeError):
    """Data holds something that is neither a number nor a string of one."""


def matrix(X: Any, what: str = "X") -> Array:  # noqa: N803
    """Rows of numbers of one length."""
    _dense(X, what)
    try:
        found = np.asarray(X)
        if np.iscomplexobj(found):
            raise DissonanceError(f"{what}: Complex data not supported: give real and imaginary parts as two columns.")
        found = found.astype(np.float64, copy=False)
    except TypeError as error:
        raise NotNumbersError(f"{what}: rows of numbers are needed ({error}).") from None
    except ValueError as error:
        if isinstance(error, DissonanceError):
            raise
        listed = [np.atleast_1d(np.asarray(r, dtype=object)) for r in X]
        odd = next((n for n, r in enumerate(listed) if len(r) != len(listed[0])), None)
        why = f"row {odd} has {len(listed[odd])} entries, row 0 has {len(listed[0])}" if odd else "not all are numbers"
        raise DissonanceError(f"{what}: rows of numbers of one length are needed; {why}.") from None
    if found.ndim != 2:
        raise DissonanceError(
            f"{what}: an array (rows, columns) is needed, found the shape {found.shape}. Reshape your data: "
            "x.reshape(-1, 1) for one column, x.reshape(1, -1) for one row."
        )
    _some(found.shape, what)
    if np.isinf(found).any():
        n, j = np.argwhere(np.isinf(found))[0]
        raise DissonanceError(f"{what}: row {n}, column {j} is infinite.")
    return found


def _dense(X: Any, what: str) -> None:  # noqa: N803
    if hasattr(X, "toarray"):
        raise DissonanceError(f"{what}: sparse data is not supported; X.toarray() is dense.")


def _some(shape: tuple[int, ...], what: str) -> None:
    for count, kind in zip(shape, ("sample", "feature"), strict=False):
        if not count:
            raise DissonanceError(f"{what}: 0 {kind}(s) (shape={shape}) while a minimum of 1 is required.")


def missing(label: Any) -> bool:
    """Whether a label says nothing: None, NaN or -1."""
    return label is None or label != label or (isinstance(label, int | np.integer) and label == -1)


def label_rows(X: Any) -> list[list[Any]]:  # noqa: N803
    """Rows of labels of one length."""
    _dense(X, "X")
    values = np.asarray(X) if hasattr(X, "__array__") else X
    if isinstance(values, np.ndarray) and np.iscomplexobj(values):
        raise DissonanceError("X: Complex data not supported: give real and imaginary parts as two columns of labels.")
    cells = [None if isinstance(r, str) or not hasattr(r, "__iter__") else list(r) for r in values]
    found = [r for r in cells if r is not None]
    if len(found) < len(cells):
        n = cells.index(None)
        raise DissonanceError(
            f"X: rows of labels are needed, row {n} is {values[n]!r}. Reshape your data: [[x] for x in X] is a column."
        )
    _some((len(found), *(len(r) for r in found[:1])), "X")
    for n, r in enumerate(found):
        if len(r) != len(found[0]):
            raise DissonanceError(f"X: row {n} has {len(r)} entries, row 0 has {len(found[0])}.")
    return [[c.item() if isinstance(c, np.generic) else c for c in r] for r in found]


def encoded(
    cells: list[list[Any]], categories: Sequence[Sequence[Hashable]], where: str = "row"
) -> npt.NDArray[np.int64]:
    """Labels as numbers, -1 where one is missing."""
    if cells and len(cells[0]) != len(categories):
        raise DissonanceError(f"X has {len(cells[0])} columns, but there are {len(categories)}.")
    place = [{label: i for i, label in enumerate(c)} for c in categories]
    found = np.empty((len(cells), len(categories)), dtype=np.int64)
    for n, r in enumerate(cells):
        for j, label in enumerate(r):
            if missing(label):
                found[n, j] = -1
            elif label in place[j]:
                found[n, j] = place[j][label]
            else:
                at = f"{where} {n}" if len(r) == 1 else f"{where} {n}, column {j}"
                raise DissonanceError(f"{at}: unknown label {label!r}.{suggest(str(label), map(str, categories[j]))}")
    return found


def sequences(X: Any) -> list[Any]:  # noqa: N803
    """Sequences, none of them empty, of plain labels or vectors."""
    found = list(X)
    empty = next((n for n, s in enumerate(found) if not len(s)), None)
    if not found or empty is not None:
        raise DissonanceError("X: at least one sequence is needed." if not found else f"sequence {empty} is empty.")
    return [[c.item() if isinstance(c, np.generic) else c for c in s] for s in found]


def columns_by_name(X: Any) -> dict[str, list[Any]]:  # noqa: N803
    """Columns by name."""
    if not hasattr(X, "keys"):
        raise DissonanceError(f"X: columns by name are needed, as in a data frame; found {type(X).__name__}.")
    found = {str(n): [c.item() if isinstance(c, np.generic) else c for c in X[n]] for n in X.keys()}  # noqa: SIM118
    counts = {n: len(c) for n, c in found.items()}
    if len(set(counts.values())) != 1 or 0 in counts.values():
        raise DissonanceError(f"X: columns of one length are needed, at least one row; found {counts}.")
    return found


def distinct(columns: dict[str, list[Any]], weights: object) -> tuple[dict[str, list[Any]], list[float]]:
    """The different rows, and how much each weighs."""
    each = [tuple(None if missing(c) else c for c in r) for r in zip(*columns.values(), strict=True)]
    share = [1.0] * len(each) if weights is None else [float(w) for w in np.asarray(weights)]
    if len(share) != len(each):
        raise DissonanceError(f"sample_weight: {len(each)} numbers are needed, one a row; found {len(share)}.")
    place: dict[tuple[Any, ...], int] = {}
    total: list[float] = []
    for r, w in zip(each, share, strict=True):
        if place.setdefault(r, len(total)) == len(total):
            total.append(0.0)
        total[place[r]] += w
    return {n: [r[j] for r in place] for j, n in enumerate(columns)}, total


def completed(x: Array) -> Array:
    """The mean of its column for every missing entry."""
    gone = np.isnan(x)
    if gone.all(0).any():
        raise DissonanceError(f"column {int(np.argmax(gone.all(0)))} is missing from every row.")
    return np.where(gone, np.nansum(x, 0) / (~gone).sum(0), x)


def spread_out(x: Array, count: int, generator: np.random.Generator) -> Array:
    """Rows drawn one after another with probability proportional to the squared distance from those drawn before."""
    if count > len(x):
        raise DissonanceError(f"{count} components need at least as many rows, found {len(x)}.")
    chosen = [x[generator.integers(len(x))]]
    nearest = np.full(len(x), np.inf)
    for _ in range(count - 1):
        nearest = np.minimum(nearest, ((x - chosen[-1]) ** 2).sum(1))
        total = nearest.sum()
        shares = nearest / total if total > 0 else np.full(len(x), 1 / len(x))
        chosen.append(x[generator.choice(len(x), p=shares)])
    return np.stack(chosen)


def category_draws(tables: Array, generator: np.random.Generator) -> npt.NDArray[np.intp]:
    """A draw from each row of probabilities."""
    reached = tables.cumsum(1)
    return (reached < generator.random(len(tables))[:, None] * reached[:, -1:]).sum(1)
