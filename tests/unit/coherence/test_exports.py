"""Exports of forecasting platforms: real headers, invented contents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dissonance.cli.app import run
from dissonance.coherence.files import Book, load_books
from dissonance.errors import FormatError

QUESTIONS = """\
Question ID,Question URL,Question Title,Post ID,Label,Question Type,MC Options (All),Resolution,Question Weight
11,https://example.org/1,Will A win?,1,,binary,,yes,1.0
12,https://example.org/2,Will A be nominated?,2,,binary,,,1.0
13,https://example.org/3,Who wins?,3,,multiple_choice,"['A', 'B']",,1.0
14,https://example.org/4,How many will vote,4,1 million,binary,,annulled,1.0
"""
FORECASTS = """\
Question ID,Forecaster ID,Forecaster Username,Is Bot,Start Time,End Time,Forecaster Count,Probability Yes,\
Probability Yes Per Category,Continuous CDF
11,7,ada,False,2026-06-03 12:00:00+00:00,,,0.6,,
11,7,ada,False,2026-06-01 12:00:00+00:00,2026-06-03 12:00:00+00:00,,0.1,,
12,7,ada,False,2026-06-01 12:00:00+00:00,,,0.4,,
13,7,ada,False,2026-06-01 12:00:00+00:00,,,,"[0.5, 0.5]",
11,,recency_weighted,,2026-06-01 12:00:00+00:00,,9,0.3,,
14,,recency_weighted,,2026-06-01 12:00:00+00:00,,9,0.8,,
"""
MANIFOLD = [
    {"id": "a", "question": "Will A win?", "outcomeType": "BINARY", "probability": 0.6, "isResolved": False},
    {"id": "b", "question": "B?", "outcomeType": "BINARY", "probability": 0.2, "isResolved": True, "resolution": "NO"},
    {"id": "c", "question": "C?", "outcomeType": "BINARY", "probability": 0.5, "isResolved": True, "resolution": "MKT"},
    {"id": "d", "question": "Which?", "outcomeType": "MULTIPLE_CHOICE", "isResolved": False},
]
POLYMARKET = [
    {"question": "Will A win?", "outcomes": '["Yes", "No"]', "outcomePrices": '["0.61", "0.39"]', "closed": False},
    {"question": "Was B?", "outcomes": '["Yes", "No"]', "outcomePrices": '["1", "0"]', "closed": True},
    {"question": "A or B?", "outcomes": '["A", "B"]', "outcomePrices": '["0.5", "0.5"]', "closed": False},
]
QUESTION_SET = {
    "forecast_due_date": "2026-05-10",
    "question_set": "2026-05-10-llm.json",
    "questions": [
        {"id": "m", "source": "manifold", "question": "Will A win?", "resolution_dates": "N/A"},
        {"id": "d", "source": "fred", "question": "Is x higher on {resolution_date} than on {forecast_due_date}?"},
    ],
}
FORECAST_SET = {
    "organization": "us",
    "model": "ours",
    "question_set": "2026-05-10-llm.json",
    "forecasts": [
        {"id": "m", "source": "manifold", "forecast": 0.6, "resolution_date": None, "reasoning": None},
        {"id": "d", "source": "fred", "forecast": 0.3, "resolution_date": "2026-06-01", "reasoning": None},
        {"id": "d", "source": "fred", "forecast": 0.4, "resolution_date": "2026-07-01", "reasoning": None},
        {"id": ["d", "m"], "source": "fred", "forecast": 0.4, "resolution_date": "2026-07-01", "reasoning": None},
    ],
}
RESOLUTIONS = {
    "resolutions": [
        {"id": "d", "source": "fred", "resolution_date": "2026-06-01", "resolved_to": 1.0, "resolved": True},
        {"id": "d", "source": "fred", "resolution_date": "2026-07-01", "resolved_to": 0.4, "resolved": False},
    ]
}


def written(folder: Path, **files: object) -> list[str]:
    """Files with these contents, JSON unless it is text."""
    found = []
    for name, content in files.items():
        path = folder / (f"{name}.csv" if isinstance(content, str) else f"{name}.json")
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        found.append(str(path))
    return found


def said(books: list[Book]) -> dict[str, list[tuple[str, object, bool | None]]]:
    return {b.name: [(x.event, x.p, x.outcome) for x in b.beliefs] for b in books}


@pytest.mark.parametrize("order", [1, -1])
def test_metaculus_has_a_book_for_every_forecaster_with_the_last_forecasts(order: int, tmp_path: Path):
    files = written(tmp_path, question_data="\ufeff" + QUESTIONS, forecast_data=FORECASTS)[::order]
    assert said(load_books(files)) == {
        "ada": [('"Will A win?"', 0.6, True), ('"Will A be nominated?"', 0.4, None)],
        "recency_weighted": [('"Will A win?"', 0.3, True), ('"How many will vote (1 million)"', 0.8, None)],
    }


def test_what_relates_questions_is_in_a_file_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = written(tmp_path, question_data=QUESTIONS, forecast_data=FORECASTS)
    relations = tmp_path / "relations.txt"
    relations.write_text('"Will A win?" -> "Will A be nominated?"\n')
    assert run(["coherence", *files, str(relations), "--json"]) == 0
    printed = capsys.readouterr()
    sets = {s["set"]: s for s in json.loads(printed.out)["sets"]}
    assert sets["ada"]["lower"] > 0.01 and sets["recency_weighted"]["upper"] < 1e-6
    assert "forecast_data.csv: 1 records are left out: not of yes/no questions." in printed.err


def test_markets_are_one_book(tmp_path: Path):
    assert said(load_books(written(tmp_path, manifold=MANIFOLD))) == {
        "": [('"Will A win?"', 0.6, None), ('"B?"', 0.2, False), ('"C?"', 0.5, None)]
    }
    assert said(load_books(written(tmp_path, polymarket=POLYMARKET))) == {"": [('"Will A win?"', 0.61, None)]}


def test_forecastbench_is_joined_by_source_and_id_and_asks_once_a_date(tmp_path: Path):
    files = written(tmp_path, forecasts=FORECAST_SET, questions=QUESTION_SET, resolutions=RESOLUTIONS)
    assert said(load_books(files)) == {
        "ours": [
            ('"Will A win?"', 0.6, None),
            ('"Is x higher on 2026-06-01 than on 2026-05-10?"', 0.3, True),
            ('"Is x higher on 2026-07-01 than on 2026-05-10?"', 0.4, None),
        ]
    }


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        (
            {"forecast_data": FORECASTS},
            "forecast_data.csv:2: Metaculus: no question has the id 11: give question_data.csv",
        ),
        (
            {"question_data": QUESTIONS},
            "question_data.csv: Metaculus: there are no forecasts here: give forecast_data.csv",
        ),
        ({"f": FORECAST_SET}, "f.json:1: ForecastBench: no question has the id m: give the question set"),
        ({"q": QUESTION_SET}, "q.json: ForecastBench: there are no forecasts here: give the forecast set"),
        ({"q": {"questions": [{"id": "m"}]}}, "q.json:1: questions[0] has no 'source', as ForecastBench has it."),
        ({"m": [{**MANIFOLD[0], "probability": 1.2}]}, "m.json:1: the probability of '\"Will A win?\"' is 1.2"),
        ({"k": "ticker,yes_bid,yes_ask\nX,1,2\n"}, "k.csv:1: no column named belief"),
    ],
)
def test_what_is_missing_is_said_in_one_line(files: dict[str, object], complaint: str, tmp_path: Path):
    with pytest.raises(FormatError) as error:
        load_books(written(tmp_path, **files))
    assert complaint in str(error.value) and "\n" not in str(error.value)


def test_a_column_to_group_by_does_not_apply_to_exports(tmp_path: Path):
    with pytest.raises(FormatError, match="it has no column 'topic'"):
        load_books(written(tmp_path, manifold=MANIFOLD), "topic")
