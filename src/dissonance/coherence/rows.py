"""Rows of forecasts, of a file or a data frame: what columns mean, which are not read, the belief of each row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dissonance.coherence.beliefs import Belief
from dissonance.errors import DissonanceError, FormatError, suggest

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

PROBABILITY = ("p", "low", "high")
"""The columns of which one at least says how probable an event is."""

COLUMNS = ("belief", "given", *PROBABILITY, "beta", "outcome", "name", "question")
"""The columns that are read. A `question` is a yes/no event by whatever text it has, a `belief` is an expression."""

SET = ("set",)
"""What rows are grouped by, unless other columns are named: this column, if there is one."""

_OUTCOMES = {
    **dict.fromkeys(("true", "yes", "1", "1.0"), True),
    **dict.fromkeys(("false", "no", "0", "0.0"), False),
    **dict.fromkeys(("", "none", "nan", "null", "unknown", "ambiguous", "annulled"), None),
}

_MISSING = ("", "nan", "na", "n/a", "<na>", "none", "null")
"""What stands in a cell that is missing."""

Set = tuple[str, ...]
"""What a row has in the columns that rows are grouped by."""


class BeliefLine(NamedTuple):
    """A belief, the set that it belongs to, and its line in the file."""

    set: Set
    belief: Belief
    number: int


def meaning(name: str) -> str:
    """Return what a column of this name means."""
    return ALSO.get(name.strip().lower(), name.strip().lower())


def keys(header: Sequence[str], groups: Sequence[str]) -> list[str | int]:
    """Return what columns mean: the place of a column among those that rows are grouped by, or one of `COLUMNS`; other
    names are those of columns that are not read."""
    found: list[str | int] = [meaning(x) for x in header]
    for place, group in enumerate(groups):
        named = [i for i, x in enumerate(header) if x.strip() == group]
        named = named or [i for i, x in enumerate(found) if x == group == "set"]
        if len(named) > 1:
            raise FormatError(f"two columns mean {group!r}.", 1)
        if not named and tuple(groups) != SET:
            raise FormatError(f"no column {group!r} to group by.{suggest(group, header)}", 1)
        for i in named:
            found[i] = place
    if "belief" not in found and "question" not in found:
        raise FormatError(f"no column named belief.{suggest('belief', header)}", 1)
    twice = next((k for k in COLUMNS if found.count(k) > 1), None)
    if twice:
        raise FormatError(f"two columns mean {twice!r}.", 1)
    return found


@dataclass
class ForecastRows:
    """Rows of one header, or beliefs without a set among them, with their lines; what their columns mean, `keys`."""

    header: Sequence[str]
    keys: Sequence[str | int]
    cells: list[tuple[int, Sequence[str] | Belief]] = field(default_factory=list)

    def lines(self, size: int, drop: bool, tell: Callable[[str], None]) -> list[BeliefLine]:
        """Return the belief of every row, in sets of so many columns.

        Where there is a probability column no row may leave it blank, unless such rows are to be dropped; a question
        has a probability in any case. `tell`: what to do with words on what was not read.
        """
        self._unread(tell)
        asked = any(k in (*PROBABILITY, "question") for k in self.keys)
        found: list[BeliefLine] = []
        dropped: list[int] = []
        for number, row in self.cells:
            if isinstance(row, Belief):
                found.append(BeliefLine(("",) * size, row, number))
                continue
            cells = dict(zip(self.keys, map(str.strip, row), strict=False))
            missing = asked and all(cells.get(k, "").lower() in _MISSING for k in PROBABILITY)
            if missing and drop:
                dropped.append(number)
                continue
            try:
                if missing:
                    raise FormatError(_BLANK.format(cells.get("belief") or cells.get("question", "")))
                said = read_belief({k: v for k, v in cells.items() if isinstance(k, str)})
            except DissonanceError as error:
                raise FormatError(str(error), number) from None
            found.append(BeliefLine(tuple(cells.get(i, "") for i in range(size)), said, number))
        if dropped:
            some = f"{', '.join(map(str, dropped[:5]))}{', ...' if len(dropped) > 5 else ''}"
            tell(f"{len(dropped)} rows without a probability are left out: {some}.")
        return found

    def _unread(self, tell: Callable[[str], None]) -> None:
        """Name the columns that are not read; refuse numbers where there is no probability."""
        unread = [i for i, k in enumerate(self.keys) if isinstance(k, str) and k not in COLUMNS]
        numbers = [self.header[i] for i in unread if self.header[i].strip() and self._is_numeric(i)]
        if numbers and not any(k in PROBABILITY for k in self.keys):
            what = f"no column named p, and numbers that are not read in {_listed(numbers)}"
            raise FormatError(f"{what}: name one of them p, or remove them if every row is a fact.")
        if unread:
            tell(f"not read: {_listed([self.header[i] for i in unread])}.")

    def _is_numeric(self, column: int) -> bool:
        rows = [row for _, row in self.cells if not isinstance(row, Belief)]
        cells = [row[column].strip() for row in rows if column < len(row)]
        return all(_is_number(x) for x in cells if x.lower() not in _MISSING) and any(map(_is_number, cells))


_BLANK = "the probability of {!r} is missing: fill it in, or drop the row (--drop-missing); a fact has p 1, beta inf."


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:10]))
    return f"the column{'s' * (len(names) > 1)} {shown}{', ...' if len(names) > 10 else ''}"


def read_belief(cells: Mapping[str, str]) -> Belief:
    """Return the belief of a row. One that has p 1 and beta inf is a fact, and so is one without a probability."""
    had = {k: v for k, v in cells.items() if v}
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
    if p == 1.0 and beta == math.inf:
        p, beta = None, 1.0
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


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell.removesuffix("%").replace(",", ".")))
    except ValueError:
        return False
