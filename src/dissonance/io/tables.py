"""Labelled tables of any shape as arcs: crosstabs, conditional tables, long tables, counts, rows of data.

A table is first taken apart into cells, each with the labels of its variables and a number. An arc is then made of the
cells by their labels, never by their order. What the numbers are follows from their sums, unless the reader says so:

    they sum to 1                       a joint distribution
    every row (or column) sums to 1     a conditional distribution given what is along the rows (or columns)
    whole numbers that do neither       counts, n in all: relative frequencies, and beta = n
"""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dissonance.arc import Arc
from dissonance.cpds import Table
from dissonance.cpds.table import SUM_TOLERANCE
from dissonance.errors import DissonanceError, suggest
from dissonance.io.cells import ROUNDED, Cells, Floats, as_numbers, check_margins, is_one, python_label
from dissonance.io.limits import MAX_LABELS
from dissonance.io.network import labelled
from dissonance.variables import Variable, shape

log = logging.getLogger("dissonance")

Names = str | Variable | Iterable[str | Variable]


def from_table(
    name: str,
    table: object,
    *,
    given: Names = (),
    of: Names | None = None,
    counts: bool | float | None = None,
    confidence: float | None = None,
    values: str | None = None,
    pseudocount: float = 0.0,
    variables: Sequence[Variable] = (),
) -> Arc:
    """The arc of a table with labels: see `Arc.from_table`."""
    if isinstance(counts, str):
        raise DissonanceError(
            f"arc {name!r}: counts={counts!r} is no number of observations, nor True or False. The column with the "
            f"numbers is named by values={counts!r}."
        )
    cells = taken_apart(name, table, _names(of) if of is not None else (), _names(given), values)
    known = {v.name: v for v in (*variables, *_variables(given), *_variables(of or ()))}
    how = Reading(name, _names(given), None if of is None else _names(of), counts, confidence, pseudocount)
    return how.arc(cells, known)


def taken_apart(name: str, table: Any, of: tuple[str, ...], given: tuple[str, ...], values: str | None) -> Cells:
    """The cells of a pandas object, of a mapping, or of cells."""
    if isinstance(table, Cells):
        return table
    if isinstance(table, Mapping):
        return _of_mapping(name, table, (*given, *of))
    if type(table).__module__.partition(".")[0] == "pandas":
        from dissonance.io import frames

        return frames.frame_cells(name, table, of, values)
    raise DissonanceError(
        f"arc {name!r}: expected a table with labels (a data frame, a Series, a mapping), found "
        f"{type(table).__name__}. An array has no labels: Arc(name, sources, targets, array) takes variables."
    )


def _names(given: Names) -> tuple[str, ...]:
    return (
        (given,)
        if isinstance(given, str)
        else (given.name,)
        if isinstance(given, Variable)
        else tuple(x.name if isinstance(x, Variable) else x for x in given)
    )


def _variables(given: Names) -> list[Variable]:
    several = (given,) if isinstance(given, str | Variable) else given
    return [x for x in several if isinstance(x, Variable)]


def _of_mapping(name: str, table: Mapping[Any, Any], names: tuple[str, ...]) -> Cells:
    """{label: number}, {(label, ...): number} or {label: {label: number}}."""
    if not names:
        raise DissonanceError(f"arc {name!r}: a mapping from labels does not say of which variable: give of='...'.")
    rows: list[tuple[tuple[Hashable, ...], object]] = []

    def walk(part: Mapping[Any, Any], before: tuple[Hashable, ...]) -> None:
        for key, value in part.items():
            deep = len(before) + 1 < len(names)
            labels = (*before, *(key if isinstance(key, tuple) and deep else (key,)))
            walk(value, labels) if isinstance(value, Mapping) else rows.append((labels, value))

    walk(table, ())
    for labels, _ in rows:
        if len(labels) != len(names):
            raise DissonanceError(
                f"arc {name!r}: {', '.join(map(str, labels))} has {len(labels)} labels where "
                f"{', '.join(names)} need {len(names)}."
            )
    numbers = as_numbers(name, [x for _, x in rows])
    return Cells(names, tuple([labels[i] for labels, _ in rows] for i in range(len(names))), numbers)


@dataclass(frozen=True)
class Reading:
    """How cells become an arc: what is a source, what a target, what the numbers are, and how far to trust them."""

    name: str
    given: tuple[str, ...]
    of: tuple[str, ...] | None
    counts: bool | float | None
    confidence: float | None
    pseudocount: float

    def arc(self, cells: Cells, known: Mapping[str, Variable]) -> Arc:
        """The arc."""
        joint, scope = self._joint(cells, known)
        given = self._sources(cells, joint, scope)
        of = tuple(v.name for v in scope if v.name not in given) if self.of is None else self.of
        if not of:
            raise self._error("every variable is given: nothing is left to be believed.")
        if both := set(of) & set(given):
            raise self._error(f"{min(both)!r} is both given and believed.")
        sources, targets = ([next(v for v in scope if v.name == n) for n in names] for names in (given, of))
        rest = tuple(i for i, v in enumerate(scope) if v.name not in (*given, *of))
        if rest and cells.given:
            raise self._error(
                f"{scope[rest[0]].name!r} cannot be added up in a table that is given {cells.given[0]!r}."
            )
        kept = [v for i, v in enumerate(scope) if i not in rest]
        joint = joint.sum(rest) if rest else joint
        joint = joint.transpose([kept.index(v) for v in (*sources, *targets)])
        rows = joint.reshape(int(np.prod(shape(sources), dtype=int)), -1)
        counts = self._counts(cells, rows, sources)
        if counts is None and self.pseudocount:
            raise self._error("a pseudocount goes with counts, and these are probabilities.")
        p = self._frequencies(counts, sources) if counts is not None else self._probabilities(rows, sources)
        beta = self.confidence if self.confidence is not None else 1.0 if counts is None else float(counts.sum())
        kept_counts = None if counts is None else torch.from_numpy(counts.reshape(joint.shape).copy())
        return Arc(self.name, sources, targets, Table(p.reshape(joint.shape)), beta=beta, counts=kept_counts)

    def _joint(self, cells: Cells, known: Mapping[str, Variable]) -> tuple[Floats, list[Variable]]:
        """The numbers as an array over all variables of the table."""
        check_margins(self.name, cells)
        if len(set(cells.names)) < len(cells.names):
            raise self._error(f"a variable is there twice: {', '.join(cells.names)}.")
        for n in (*self.given, *(self.of or ())):
            if n not in cells.names:
                raise self._error(f"the table has no variable {n!r}.{suggest(n, cells.names)}")
        wanted = (
            cells.names if self.of is None else [n for n in cells.names if n in (*self.given, *self.of, *cells.given)]
        )
        if not (self.counts or cells.counted):
            wanted = cells.names
        scope: list[Variable] = []
        index: list[NDArray[np.int64]] = []
        for n, column in zip(cells.names, cells.columns, strict=True):
            if n not in wanted:
                continue
            values = cells.domains.get(n) or list(dict.fromkeys(map(python_label, column)))
            if any(x is None or x != x for x in values):
                raise self._error(f"a label of {n!r} is missing.")
            v = known.get(n) or labelled(n, values)
            scope.append(v)
            index.append(self._codes(v, column))
        size = math.prod(shape(scope))
        if size > MAX_LABELS:
            raise self._error(f"a table over {', '.join(v.name for v in scope)} would have {size:,} cells.")
        found = np.zeros(shape(scope))
        np.add.at(found, tuple(index), cells.numbers)
        if not (self.counts is True or cells.counted):
            times = np.zeros(shape(scope), dtype=int)
            np.add.at(times, tuple(index), 1)
            if (times > 1).any():
                at = np.argwhere(times > 1)[0]
                cell = ", ".join(f"{v.name}={v.finite.labels[i]}" for v, i in zip(scope, at, strict=True))
                raise self._error(f"the cell {cell} is there twice.")
        return found, scope

    def _codes(self, v: Variable, column: Sequence[Hashable]) -> NDArray[np.int64]:
        """Labels as positions in the domain; labels that read the same are the same."""
        place = {label: i for i, label in enumerate(v.finite.labels)}
        text = {str(label): i for label, i in place.items()}
        found = np.empty(len(column), dtype=np.int64)
        for k, x in enumerate(column):
            label = python_label(x)
            at = place.get(label, text.get(str(label).strip()))
            if at is None:
                raise self._error(f"{v.name!r} has no value {label!r}.{suggest(str(label), text)}")
            found[k] = at
        return found

    def _sources(self, cells: Cells, joint: Floats, scope: Sequence[Variable]) -> tuple[str, ...]:
        """The variables the belief is conditional on: as said, as the table marks them, or as its sums show."""
        if self.given and cells.given and set(self.given) != set(cells.given):
            raise self._error(f"the table itself says it is given {', '.join(cells.given)}.")
        if self.given or cells.given:
            return self.given or cells.given
        if not cells.along or self.counts or cells.counted:
            return ()
        across = tuple(n for n in cells.names if n not in cells.along)
        along, down = (
            joint.sum(tuple(i for i, v in enumerate(scope) if v.name not in x)) for x in (cells.along, across)
        )
        if bool(is_one(along[along > 0]).all()):
            return cells.along
        return across if bool(is_one(down[down > 0]).all()) and not is_one(float(down.sum())) else ()

    def _counts(self, cells: Cells, rows: Floats, sources: Sequence[Variable]) -> Floats | None:
        """The counts behind the rows, if they are a sample's."""
        if self.counts is True or (self.counts is None and cells.counted):
            return rows
        total = float(rows.sum())
        if self.counts is False or cells.counted is False or is_one(total) or bool(is_one(rows.sum(1)).all()):
            return self._sample(rows, total, sources)
        if self.counts is not None or not (rows == np.round(rows)).all():
            return self._sample(rows, total, sources)
        if abs(total - 100) < 1 or bool((np.abs(rows.sum(1) - 100) < 1).all()):
            raise self._error("the numbers sum to 100: say counts=True if they are counts; divide percentages by 100.")
        return rows

    def _sample(self, rows: Floats, total: float, sources: Sequence[Variable]) -> Floats | None:
        """What so many observations come to in these proportions; None if no number of them is known."""
        if self.counts is None or self.counts is False:
            return None
        if not 0 < self.counts < math.inf:
            raise self._error(f"counts is True or the size of the sample, found {self.counts!r}.")
        if is_one(total):
            return rows / total * self.counts
        why = "how many there are of each row is not known: give counts" if sources else f"they sum to {total:.6g}"
        raise self._error(f"a sample of {self.counts:g} goes with proportions that sum to 1 in all; {why}.")

    def _frequencies(self, counts: Floats, sources: Sequence[Variable]) -> Floats:
        """(n(s,t) + pseudocount) / (n(s) + pseudocount |T|)."""
        if not 0 <= self.pseudocount < math.inf:
            raise self._error(f"the pseudocount is {self.pseudocount}; it must be a number from 0 on.")
        return self._divided(counts + self.pseudocount, sources, "Give a pseudocount, or leave it out.")

    def _probabilities(self, rows: Floats, sources: Sequence[Variable]) -> Floats:
        """Every row divided by its sum: 1 but for rounding, or that of a joint that is to be given others."""
        sums = rows.sum(1)
        odd = np.abs(sums - 1)
        if not is_one(float(rows.sum())) and (odd > ROUNDED).any():
            at = int(np.argmax(odd))
            where = f"row {at + 1} sums" if len(sums) > 1 else "the numbers sum"
            raise self._error(
                f"{where} to {sums[at]:.6g}, not 1. Say counts=True if they are counts, and given=... what the "
                "belief is conditional on."
            )
        if (odd <= SUM_TOLERANCE).all():
            return rows
        if (odd <= ROUNDED).all():
            log.info("%s: numbers that sum to %.4g were divided by that.", self.name, sums[int(np.argmax(odd))])
        return self._divided(rows, sources, "Every setting of what is given needs its probabilities.")

    def _divided(self, rows: Floats, sources: Sequence[Variable], remedy: str) -> Floats:
        sums = rows.sum(1)
        if (sums <= 0).any():
            at = np.unravel_index(int(np.argmin(sums)), shape(sources)) if sources else ()
            where = ", ".join(f"{v.name}={v.finite.labels[i]}" for v, i in zip(sources, at, strict=True))
            raise self._error(f"nothing is said{f' of {where}' if where else ''}: all its numbers are 0. {remedy}")
        return rows / sums[:, None]

    def _error(self, message: str) -> DissonanceError:
        return DissonanceError(f"arc {self.name!r}: {message}")
