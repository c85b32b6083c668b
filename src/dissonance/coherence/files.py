"""Files of forecasts: CSV, JSON or the text form in; CSV or JSON out. Every error is one line with its place."""

from __future__ import annotations

import csv
import io
import logging
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dissonance.coherence.beliefs import Belief, BeliefError, read_lines
from dissonance.coherence.book import Coherence, coherences, record
from dissonance.coherence.exports import ExportRow, Exports
from dissonance.coherence.rows import COLUMNS, PROBABILITY, SET, BeliefLine, ForecastRows, Set, keys, meaning
from dissonance.coherence.tuples import is_tuples, tuple_lines
from dissonance.errors import ClusterError, DissonanceError, FormatError, one_line, suggest
from dissonance.io import files
from dissonance.io.delimited import Delimited, delimited
from dissonance.io.lines import line_of
from dissonance.io.strict import decode, text
from dissonance.solvers import Bounds

_log = logging.getLogger(__name__)

NUMBERS = (*PROBABILITY, "beta")
"""The columns that hold numbers."""


@dataclass(frozen=True)
class Book:
    """A set of beliefs, and where each was found."""

    name: str
    beliefs: list[Belief] = field(default_factory=list)
    places: list[str] = field(default_factory=list)

    def placed(self, error: BeliefError) -> FormatError:
        """The error of a belief, with the place where it was found."""
        place = self.places[error.belief] if error.belief < len(self.places) else self.name
        return FormatError(one_line(f"{place}: {error}"))


def load_books(
    sources: Iterable[files.Source], group: str | Sequence[str] = "set", *, drop_missing: bool = False
) -> list[Book]:
    """The books of files: beliefs that have the same value in the column `group`, or in several, in the order of files.

    Facts without such a value hold in every set, if there are any. Of a benchmark's tuple file every line is a set;
    with the group `model`, all sets of one forecaster are one book. `drop_missing`: leave out rows without a
    probability, which are an error otherwise in a file that has a column for it.
    """
    groups: Set = tuple(dict.fromkeys([group] if isinstance(group, str) else group)) or SET
    books: dict[Set, Book] = {}
    exports = Exports()

    def add(where: str, line: BeliefLine) -> None:
        book = books.setdefault(line.set, Book(", ".join(x for x in line.set if x)))
        book.beliefs.append(line.belief)
        book.places.append(f"{where}:{line.number}")

    sources = list(sources)
    for source in sources:
        content, where = files.read(source)
        reading = _Reading(groups, drop_missing, where)
        if is_tuples(content):
            if len(groups) > 1:
                raise FormatError(f"{where}: the sets of a tuple file are grouped by one column, set or model.")
            lines = [BeliefLine((name,), b, number) for name, b, number in tuple_lines(content, where, *groups)]
        else:
            try:
                lines = reading.lines(text(content), str(source), exports)
            except DissonanceError as error:
                line = getattr(error, "line", None)
                raise FormatError(one_line(f"{where if line is None else f'{where}:{line}'}: {error}"), line) from None
        for line in lines:
            add(where, line)
    for where, rows in exports.rows().items():
        if groups != SET:
            raise FormatError(
                f"{where}: an export has a book for every forecaster; it has no column {', '.join(groups)!r}."
            )
        try:
            for line in _Reading(groups, drop_missing, where).exported(rows):
                add(where, line)
        except DissonanceError as error:
            line = getattr(error, "line", 1)
            raise FormatError(one_line(f"{where}:{line}: {error}"), line) from None
    if not books:
        raise FormatError(one_line(f"{', '.join(map(str, sources))}: no forecasts are in there."))
    return _with_common_facts(books)


def _with_common_facts(books: Mapping[Set, Book]) -> list[Book]:
    """The books, where facts that leave a column of their set blank are in every book that they do not contradict."""
    common = {key: b for key, b in books.items() if "" in key and all(x.is_fact for x in b.beliefs)}
    found: list[Book] = []
    used: set[Set] = set()
    for key, b in books.items():
        if key not in common:
            here = {k: c for k, c in common.items() if all(x in ("", y) for x, y in zip(k, key, strict=True))}
            used |= here.keys()
            parts = [b, *here.values()]
            found.append(Book(b.name, [x for c in parts for x in c.beliefs], [x for c in parts for x in c.places]))
    return found + [c for key, c in common.items() if key not in used]


def scored_books(
    books: Sequence[Book],
    score: str = "log",
    progress: Callable[[int, int], None] | None = None,
    seconds: float = Bounds.seconds,
    cluster: Any = None,
) -> list[Coherence]:
    """What becomes of each book; an error says where the belief stands that it is about."""
    try:
        return coherences([b.beliefs for b in books], score=score, seconds=seconds, progress=progress, cluster=cluster)
    except ClusterError:
        raise
    except DissonanceError:
        for book in books:
            try:
                coherences([book.beliefs], score=score, seconds=0.0)
            except BeliefError as error:
                raise book.placed(error) from None
        raise


def of_frame(frame: Any) -> list[Belief]:
    """The beliefs of a data frame with the columns of a file."""
    header = list(map(str, frame.columns))
    rows = ForecastRows(header, keys(header, SET))
    rows.cells += [(i, list(map(_cell, row))) for i, row in enumerate(frame.itertuples(index=False))]
    try:
        lines = rows.lines(1, False, lambda said: warnings.warn(said, stacklevel=5))
    except FormatError as error:
        if error.line is None:
            raise
        raise DissonanceError(f"row {frame.index[error.line]!r}: {error}") from None
    sets = list(dict.fromkeys(line.set for line in lines if line.set[0]))
    if len(sets) > 1:
        what = f"the frame is one book, and its column set has {len(sets)} values"
        raise DissonanceError(f"{what}: give coherences the groups of frame.groupby(...).")
    return [line.belief for line in lines]


def _cell(value: Any) -> str:
    return "" if value is None or str(value) in ("nan", "NaT", "<NA>") else str(value)


@dataclass(frozen=True)
class _Reading:
    """How a file is read: the columns to group by, and whether rows without a probability are left out."""

    groups: Set
    drop: bool
    where: str

    def lines(self, content: bytes, name: str, exports: Exports) -> list[BeliefLine]:
        """The beliefs of a file; none of an export's, which `exports` keep."""
        suffix = Path(name.removesuffix(".gz")).suffix.lower()
        start = content.lstrip()[:1]
        if suffix == ".json" or (suffix not in (".csv", ".tsv", ".txt") and start in (b"[", b"{")):
            held: Any = decode(content, Any)
            return [] if exports.read_json(held, self.where) else self._from_json(content, held)
        words = content.decode()
        first = next((x for x in words.splitlines() if x.strip()), "")
        if suffix in (".csv", ".tsv") or _is_header(first):
            table = delimited(words, short=True)
            return [] if exports.read_csv(table, self.where) else self._from_csv(table)
        return self._read(ForecastRows((), (), list(read_lines(words))))

    def exported(self, rows: Sequence[ExportRow]) -> list[BeliefLine]:
        """The beliefs of an export."""
        header = list(dict.fromkeys(k for row in rows for k in row.cells))
        found = ForecastRows(header, keys(header, self.groups))
        found.cells += [(row.line, [row.cells.get(k, "") for k in header]) for row in rows]
        return self._read(found)

    def _read(self, rows: ForecastRows) -> list[BeliefLine]:
        return rows.lines(len(self.groups), self.drop, lambda said: _log.warning("%s: %s", self.where, said))

    def _from_csv(self, table: Delimited) -> list[BeliefLine]:
        header = table.rows[0]
        names = keys(header, self.groups)
        table = table.with_points([i for i, key in enumerate(names) if key in NUMBERS])
        return self._read(ForecastRows(header, names, list(zip(table.lines[1:], table.rows[1:], strict=True))))

    def _from_json(self, content: bytes, held: Any) -> list[BeliefLine]:
        path: tuple[str, ...] = ()
        if isinstance(held, dict) and "beliefs" in held:
            held, path = held["beliefs"], ("beliefs",)
        if not isinstance(held, list):
            raise FormatError('expected a list of beliefs, or {"beliefs": [...]}.', 1)
        found: list[tuple[int, Belief | dict[str, str]]] = []
        for i, one in enumerate(held):
            line = line_of(content, *path, i) if len(held) < 1000 else 1
            try:
                found.append((line, Belief.read(one) if isinstance(one, str) else self._named(one, i)))
            except DissonanceError as error:
                raise FormatError(str(error), line) from None
        header = list(dict.fromkeys(k for _, one in found if isinstance(one, dict) for k in one))
        rows = ForecastRows(header, keys(header, self.groups) if header else ())
        for line, one in found:
            rows.cells.append((line, one if isinstance(one, Belief) else [one.get(k, "") for k in header]))
        return self._read(rows)

    def _named(self, one: Any, i: int) -> dict[str, str]:
        """An object of JSON with the names of columns for its keys."""
        if not isinstance(one, dict):
            raise FormatError(f"beliefs[{i}] is not an object.")
        names = [str(k) if k in self.groups else meaning(str(k)) for k in one]
        known = *COLUMNS, *SET, *self.groups
        unknown = next((k for k in names if k not in known), None)
        if unknown:
            raise FormatError(f"unknown key {unknown!r}.{suggest(unknown, known)}")
        keys(names, SET)
        return dict(zip(names, map(_cell, one.values()), strict=True))


def _is_header(line: str) -> bool:
    cells = {meaning(x) for x in line.replace("\t", ",").replace(";", ",").split(",")}
    return len(cells) > 1 and bool(cells & {"belief", "question"})


# -- out ---------------------------------------------------------------------------------------------------------------


def save_reconciled(path: str, books: Sequence[Book], results: Sequence[Coherence]) -> None:
    """The reconciled beliefs, as CSV or, if the suffix says so, JSON: all of the file or nothing."""
    rows = [
        {"set": book.name, **record(row), **{x: getattr(result, x) for x in ("lower", "upper", "converged")}}
        for book, result in zip(books, results, strict=True)
        for row in result.rows
    ]
    if path.removesuffix(".gz").lower().endswith(".json"):
        shown = [{k: str(v) if v in (math.inf, -math.inf) else v for k, v in row.items()} for row in rows]
        files.write(path, msgspec.json.format(msgspec.json.encode(shown), indent=2) + b"\n")
        return
    out = io.StringIO()
    columns = list(dict.fromkeys(k for row in rows for k in row)) or ["set", "belief"]
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    files.write(path, out.getvalue().encode())
