"""What forecasting platforms export, as rows with the columns of a file of forecasts: docs/coherence.md has the table.

An export may be spread over files: questions in one, forecasts in another, what became of them in a third. They are
joined by the question's id once all files are read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dissonance.errors import FormatError
from dissonance.io.delimited import Delimited

_log = logging.getLogger(__name__)

Cells = dict[str, str]
Record = Mapping[str, Any]


class ExportRow(NamedTuple):
    """A forecast with the columns of a file, and its line (of JSON, its number)."""

    cells: Cells
    line: int


def _plain(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _listed(value: Any) -> list[str]:
    """A list, or JSON text of one."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return []
    return [_plain(x) for x in found] if isinstance(found, list) else []


# -- a row a question, with its price ----------------------------------------------------------------------------------


def _manifold(r: Record) -> Cells | None:
    if r.get("outcomeType") != "BINARY" or not _plain(r.get("probability")):
        return None
    outcome = {"YES": "yes", "NO": "no"}.get(_plain(r.get("resolution")), "")
    return {"question": _plain(r.get("question")), "p": _plain(r["probability"]), "outcome": outcome}


def _polymarket(r: Record) -> Cells | None:
    names, prices = _listed(r.get("outcomes")), _listed(r.get("outcomePrices"))
    if [x.lower() for x in names] != ["yes", "no"] or len(prices) != 2 or _plain(r.get("closed")).lower() == "true":
        return None  # the prices of a closed market are what it paid
    return {"question": _plain(r.get("question")), "p": prices[0]}


class Market(NamedTuple):
    """A platform of which a record has the question and its price; `has`: what tells it from others."""

    has: frozenset[str]
    cells: Callable[[Record], Cells | None]
    other: str


MARKETS = (
    Market(frozenset({"question", "outcomeType"}), _manifold, "not binary, or without a probability"),
    Market(frozenset({"question", "outcomePrices"}), _polymarket, "closed, or not of yes and no"),
)
"""Manifold, Polymarket."""


# -- questions and forecasts in files of their own ---------------------------------------------------------------------


class ExportParts(NamedTuple):
    """A platform whose export has several files: what its questions and its forecasts are called."""

    platform: str
    questions: str
    forecasts: str


METACULUS = ExportParts("Metaculus", "question_data.csv", "forecast_data.csv")
FORECASTBENCH = ExportParts("ForecastBench", "the question set", "the forecast set")
NEEDED = {
    "questions": ("id", "source", "question"),
    "forecasts": ("id", "source", "forecast"),
    "resolutions": ("id", "source", "resolved_to"),
}
"""What ForecastBench's records have, by the key of the list that they are in."""


@dataclass
class Exports:
    """The records of all files so far."""

    markets: list[tuple[str, ExportRow]] = field(default_factory=list)
    questions: dict[tuple[str, ...], Record] = field(default_factory=dict)
    outcomes: dict[tuple[str, ...], str] = field(default_factory=dict)
    forecasts: list[tuple[str, ExportParts, tuple[str, ...], Cells, int]] = field(default_factory=list)
    parts: dict[ExportParts, str] = field(default_factory=dict)

    def read_csv(self, table: Delimited, where: str) -> bool:
        """Whether a CSV file is one of an export, which is then kept."""
        names = {x.strip() for x in table.rows[0]}
        if "Question ID" in names and names & {"Question Title", "Probability Yes"}:
            self.parts.setdefault(METACULUS, where)
            if "Question Title" in names:
                for r, _ in _rows(table):
                    key = METACULUS.platform, _plain(r["Question ID"])
                    self.questions[key], self.outcomes[key] = r, _plain(r.get("Resolution")).lower()
            else:
                self._metaculus(table, where)
            return True
        return self._market(names, _rows(table), where)

    def _metaculus(self, table: Delimited, where: str) -> None:
        """The last forecast of every forecaster about every question."""
        last: dict[tuple[str, str], tuple[str, Cells, int]] = {}
        other = 0
        for r, line in _rows(table):
            p, question, began = (_plain(r.get(k)) for k in ("Probability Yes", "Question ID", "Start Time"))
            who = _plain(r.get("Forecaster Username") or r.get("Forecaster (Anonymized)"))
            other += not p
            if p and ((who, question) not in last or last[who, question][0] <= began):
                last[who, question] = began, {"set": who, "p": p}, line
        for (_, question), (_, cells, line) in last.items():
            self.forecasts.append((where, METACULUS, (METACULUS.platform, question), cells, line))
        _left_out(where, other, "not of yes/no questions")

    def read_json(self, held: Any, where: str) -> bool:
        """Whether JSON is an export, which is then kept."""
        if isinstance(held, dict):
            return self._forecastbench(held, where)
        if not (isinstance(held, list) and held and all(isinstance(x, dict) for x in held)):
            return False
        return self._market(held[0].keys(), ((x, i) for i, x in enumerate(held, 1)), where)

    def _market(self, names: Iterable[str], rows: Iterable[tuple[Record, int]], where: str) -> bool:
        market = next((m for m in MARKETS if m.has <= set(names)), None)
        if market is None:
            return False
        found = [(market.cells(r), line) for r, line in rows]
        self.markets += [(where, ExportRow(cells, line)) for cells, line in found if cells is not None]
        _left_out(where, sum(cells is None for cells, _ in found), market.other)
        return True

    def _forecastbench(self, held: Record, where: str) -> bool:
        kind = next((k for k in NEEDED if isinstance(held.get(k), list)), None)
        if kind is None:
            return False
        due, who = _plain(held.get("forecast_due_date")), _plain(held.get("model"))
        self.parts.setdefault(FORECASTBENCH, where)
        two = 0
        for i, r in enumerate(held[kind], 1):
            gone = next((k for k in NEEDED[kind] if not isinstance(r, dict) or k not in r), None)
            if gone is not None:
                raise FormatError(f"{kind}[{i - 1}] has no {gone!r}, as ForecastBench has it.", 1)
            if isinstance(r["id"], list):
                two += 1
                continue
            key, date = (FORECASTBENCH.platform, _plain(r["source"]), _plain(r["id"])), _plain(r.get("resolution_date"))
            if kind == "questions":
                self.questions[key] = {"Question Title": _plain(r["question"]).replace("{forecast_due_date}", due)}
            elif kind == "forecasts":
                cells = {"set": who, "p": _plain(r["forecast"])}
                self.forecasts.append((where, FORECASTBENCH, (*key, date), cells, i))
            elif r.get("resolved", True) and r["resolved_to"] in (0, 1):
                self.outcomes[*key, date] = str(int(r["resolved_to"]))
        _left_out(where, two, "of two questions at once")
        return True

    def rows(self) -> dict[str, list[ExportRow]]:
        """All forecasts by their file, joined."""
        found: dict[str, list[ExportRow]] = {}
        for where, row in [*self.markets, *self._joined()]:
            found.setdefault(where, []).append(row)
        return found

    def _joined(self) -> Iterator[tuple[str, ExportRow]]:
        """Forecasts with their file and their questions."""
        for where, part, key, cells, line in self.forecasts:
            question = self.questions.get(key[:3])
            if question is None:
                what = f"no question has the id {key[:3][-1]}: give {part.questions} of the same export too."
                raise FormatError(f"{where}:{line}: {part.platform}: {what}", line)
            label, date = _plain(question.get("Label")), "".join(key[3:])
            text = _plain(question["Question Title"]).replace("{resolution_date}", date)
            text += f" ({label})" * bool(label) + f" ({date})" * (date not in text)
            yield where, ExportRow({**cells, "question": text, "outcome": self.outcomes.get(key, "")}, line)
        for part, where in self.parts.items():
            if not any(f[1] is part for f in self.forecasts):
                raise FormatError(f"{where}: {part.platform}: there are no forecasts here: give {part.forecasts} too.")


def _rows(table: Delimited) -> Iterator[tuple[dict[str, str], int]]:
    """The rows of CSV, and their lines."""
    names = [x.strip() for x in table.rows[0]]
    for line, row in zip(table.lines[1:], table.rows[1:], strict=True):
        yield dict.fromkeys(names, "") | dict(zip(names, row, strict=False)), line


def _left_out(where: str, count: int, why: str) -> None:
    if count:
        _log.info("%s: %d records are left out: %s.", where, count, why)
