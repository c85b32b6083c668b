"""Sets of forecasts of a published benchmark, from ../shared: our certain gains against a dense reference."""

from __future__ import annotations

import random
from functools import cache

import pytest

from dissonance.forecasts import Book, coherences, load_books
from reference.coherence import dense
from shared_files import SHARED

FILE = SHARED / "forecasts" / "tuples.jsonl.gz"


@cache
def books() -> list[Book]:
    return load_books([FILE])


@pytest.mark.skipif(not FILE.is_file(), reason="needs ../shared/forecasts")
@pytest.mark.parametrize("count", [15, pytest.param(500, marks=pytest.mark.slow)])
def test_the_gain_of_published_sets_is_that_of_a_dense_reference(count: int):
    some = random.Random(count).sample(books(), count)
    for book, found in zip(some, coherences([b.beliefs for b in some]), strict=True):
        assert found.upper - found.lower <= 1e-7 * max(1.0, found.upper), book.name
        assert found.upper == pytest.approx(dense(list(book.beliefs)), abs=2e-6), book.name
