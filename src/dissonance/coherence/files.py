"""Files of forecasts: CSV, JSON or the text form in; CSV or JSON out. Every error is one line with its place."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dissonance.coherence.beliefs import Belief, BeliefError, read_lines
from dissonance.coherence.book import Coherence, coherences, record
from dissonance.coherence.exports import Exports
from dissonance.coherence.tuples import is_tuples, tuple_lines
from dissonance.errors import ClusterError, DissonanceError, FormatError, one_line, suggest
from dissonance.io import files
from dissonance.io.delimited import Delimited, delimited
from dissonance.io.lines import line_of
from dissonance.io.strict import decode, text
from dissonance.solvers import Bounds

ALSO = {
    **{
        "event": "belief",
        "probability": "p",
        "forecast": "p",
        "prediction": "p",
        "probability yes": "p",
        "group": "set",
    },
    **{
        "weight": "beta",
        "confidence": "beta",
        "resolution": "outcome",
        "title": "question",
        "question title": "question",
    },
}
"""Other names of columns."""

COLUMNS = ("set", "belief", "given", "p", "low", "high", "beta", "outcome", "name", "question")
"""The columns that are read. A `question` is a yes/no event by whatever text it has, a `belief` is an expression."""

NUMBERS = ("p", "low", "high", "beta")
"""The columns that hold numbers."""

_OUTCOMES = {
    **dict.fromkeys(("true", "yes", "1", "1.0"), True),
    **dict.fromkeys(("false", "no", "0", "0.0"), False),
    **dict.fromkeys(("", "none", "nan", "null", "unknown", "ambiguous", "annulled"), None),
}


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


def load_books(sources: Iterable[files.Source], group: str = "set") -> list[Book]:
    """The books of files: beliefs that have the same value in the column `group`, in the order of the files.

    Facts without such a value hold in every set, if there are any. Of a benchmark's tuple file every line is a set;
    with the group `model`, all sets of one forecaster are one book.
    """
    books: dict[str, Book] = {}
    exports = Exports()

    def add(name: str, belief: Belief, place: str) -> None:
        book = books.setdefault(name, Book(name))
        book.beliefs.append(belief)
        book.places.append(place)

    sources = list(sources)
    for source in sources:
        content, where = files.read(source)
        if is_tuples(content):
            lines = tuple_lines(content, where, group)
        else:
            try:
                lines = _lines(text(content), str(source), group, exports, where)
            except DissonanceError as error:
                line = getattr(error, "line", None)
                raise FormatError(one_line(f"{where if line is None else f'{where}:{line}'}: {error}"), line) from None
        for name, belief, line in lines:
            add(name, belief, f"{where}:{line}")
    for where, row in exports.rows():
        if group != "set":
            raise FormatError(f"{where}: an export has a book for every forecaster; it has no column {group!r}.")
        try:
            add(row.cells.get("set", ""), _belief(row.cells), f"{where}:{row.line}")
        except DissonanceError as error:
            raise FormatError(one_line(f"{where}:{row.line}: {error}"), row.line) from None
    if not books:
        raise FormatError(one_line(f"{', '.join(map(str, sources))}: no forecasts are in there."))
    common = books.get("")
    if common is not None and len(books) > 1 and all(b.is_fact for b in common.beliefs):
        del books[""]
        return [Book(b.name, b.beliefs + common.beliefs, b.places + common.places) for b in books.values()]
    return list(books.values())


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
    keys = _keys(list(map(str, frame.columns)), "set")
    return [_belief(dict(zip(keys, map(_cell, row), strict=True))) for row in frame.itertuples(index=False)]


def _cell(value: Any) -> str:
    return "" if value is None or value != value else str(value)


Line = tuple[str, Belief, int]
"""The set, the belief, and the line of the file."""


def _lines(content: bytes, name: str, group: str, exports: Exports, where: str) -> list[Line]:
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    start = content.lstrip()[:1]
    if suffix == ".json" or (suffix not in (".csv", ".tsv", ".txt") and start in (b"[", b"{")):
        held: Any = decode(content, Any)
        return [] if exports.read_json(held, where) else _from_json(content, held, group)
    words = content.decode()
    first = next((x for x in words.splitlines() if x.strip()), "")
    if suffix in (".csv", ".tsv") or _is_header(first):
        table = delimited(words, short=True)
        return [] if exports.read_csv(table, where) else _from_csv(table, group)
    return [("", b, i) for i, b in read_lines(words)]


def _is_header(line: str) -> bool:
    cells = {
        ALSO.get(x.strip().lower(), x.strip().lower()) for x in line.replace("\t", ",").replace(";", ",").split(",")
    }
    return len(cells) > 1 and bool(cells & {"belief", "question"})


def _keys(header: Sequence[str], group: str) -> list[str]:
    """What columns mean; others than those that are known are left alone."""
    keys = ["set" if x.strip() == group else ALSO.get(x.strip().lower(), x.strip().lower()) for x in header]
    if group != "set" and "set" not in keys:
        raise FormatError(f"no column {group!r} to group by.{suggest(group, header)}", 1)
    if "belief" not in keys and "question" not in keys:
        raise FormatError(f"no column named belief.{suggest('belief', header)}", 1)
    twice = next((k for k in COLUMNS if keys.count(k) > 1), None)
    if twice:
        raise FormatError(f"two columns mean {twice!r}.", 1)
    return keys


def _from_csv(table: Delimited, group: str) -> list[Line]:
    keys = _keys(table.rows[0], group)
    table = table.with_points([i for i, key in enumerate(keys) if key in NUMBERS])
    found: list[Line] = []
    for line, row in zip(table.lines[1:], table.rows[1:], strict=True):
        cells = dict(zip(keys, row, strict=False))
        found.append((cells.get("set", "").strip(), _at(line, cells), line))
    return found


def _from_json(content: bytes, held: Any, group: str) -> list[Line]:
    path: tuple[str, ...] = ()
    if isinstance(held, dict) and "beliefs" in held:
        held, path = held["beliefs"], ("beliefs",)
    if not isinstance(held, list):
        raise FormatError('expected a list of beliefs, or {"beliefs": [...]}.', 1)
    found: list[Line] = []
    for i, one in enumerate(held):
        line = line_of(content, *path, i) if len(held) < 1000 else 1
        if isinstance(one, str):
            try:
                found.append(("", Belief.read(one), line))
            except DissonanceError as error:
                raise FormatError(str(error), line) from None
            continue
        if not isinstance(one, dict):
            raise FormatError(f"beliefs[{i}] is not an object.", line)
        cells = dict(zip(_keys(list(one), "set" if group not in one else group), map(_cell, one.values()), strict=True))
        unknown = next((k for k in cells if k not in COLUMNS), None)
        if unknown:
            raise FormatError(f"unknown key {unknown!r}.{suggest(unknown, COLUMNS)}", line)
        found.append((cells.get("set", ""), _at(line, cells), line))
    return found


def _at(line: int, cells: Mapping[str, str]) -> Belief:
    try:
        return _belief(cells)
    except DissonanceError as error:
        raise FormatError(str(error), line) from None


def _belief(cells: Mapping[str, str]) -> Belief:
    """The belief of a row."""
    had = {k: v.strip() for k, v in cells.items() if v.strip()}
    if "belief" not in had and "question" not in had:
        raise FormatError("the belief is missing.")
    if "p" in had and ("low" in had or "high" in had):
        raise FormatError("has both p and a range.")
    p: float | tuple[float, float] | None = _number(had["p"]) if "p" in had else None
    if "low" in had or "high" in had:
        p = _number(had.get("low", "0")), _number(had.get("high", "1"))
    outcome = had.get("outcome", "").lower()
    if outcome not in _OUTCOMES:
        raise FormatError(f"the outcome is {outcome!r}; it must be true, false or empty.")
    beta = _number(had["beta"]) if "beta" in had else 1.0
    event = had["belief"] if "belief" in had else _quoted(had["question"])
    made = Belief(event, p, had.get("given", ""), beta, had.get("name", ""), _OUTCOMES[outcome])
    _ = made.target, made.source  # they can be read
    return made


def _quoted(question: str) -> str:
    return f'"{question}"' if '"' not in question else "'" + question.replace("'", "`") + "'"


def _number(cell: str) -> float:
    try:
        found = float(cell.removesuffix("%")) / (100 if cell.endswith("%") else 1)
    except ValueError:
        hint = "; the decimal point is a point" if cell.replace(",", "").removesuffix("%").isdecimal() else ""
        raise FormatError(f"{cell!r} is not a number{hint}.") from None
    if math.isnan(found):
        raise FormatError(f"{cell!r} is not a number.")
    return found


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
