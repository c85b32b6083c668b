"""The quadratic score of unconditional beliefs is non-negative least squares; tuple files are sets, or books."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import nnls

from dissonance.coherence.events import truth
from dissonance.coherence.files import load_books, scored_books
from dissonance.coherence.graph import worlds
from dissonance.errors import FormatError
from dissonance.forecasts import Template

SETS = {
    "and": ["P(A) = 0.5", "P(B) = 0.5", "P(A and B) = 0.5"],
    "and or": ["P(A) = 0.5", "P(B) = 0.5 @ 3", "P(A and B) = 0.5", "P(A or B) = 0.5 @ 0.2"],
    "one of three": ["P(A) = 0.5", "P(B) = 0.5", "P(C) = 0.5", "P(exactly one of A, B, C) = 0.5", "A -> B"],
    "values": ["P(W=x) = 0.5", "P(W=y) = 0.5", "P(W in {x, y}) = 0.5"],
}


@pytest.mark.parametrize("name", SETS)
def test_the_brier_score_is_nonnegative_least_squares(name: str):
    template = Template(SETS[name])
    scope = tuple(template.graph.named.values())
    here = worlds(scope)
    holds = np.array([truth(b.target, here)[0] for b in template.beliefs], dtype=float)
    possible = np.all([truth(b.fact, here)[0] for b in template.graph.beliefs if b.is_fact] or [True], axis=0)
    holds = holds[:, np.broadcast_to(possible, holds.shape[1:])]
    p = np.random.default_rng(0).random((20, len(template)))
    found = template.solve(p, score="brier")
    root, heavy = np.sqrt([b.beta for b in template.beliefs]), 1e5
    for k in range(len(p)):
        left = np.vstack([root[:, None] * holds, np.full((1, holds.shape[1]), heavy)])
        w, _ = nnls(left, np.append(root * p[k], heavy))
        w /= w.sum()
        value = float(((root * (holds @ w - p[k])) ** 2).sum())
        assert found.lower[k] - 1e-7 <= value and found.upper[k] <= value + 1e-7
        np.testing.assert_allclose(found.coherent[k], holds @ w, atol=1e-3)


LINES = [
    {
        "model": "m",
        "check": "And",
        "p": {"P": 0.5, "Q": 0.5, "P_and_Q": 0.6},
        "question": {"P": 1, "Q": 2, "P_and_Q": 3},
    },
    {
        "model": "m",
        "check": "Neg",
        "p": {"P": 0.5, "not_P": 0.7},
        "outcome": {"P": True},
        "question": {"P": 1, "not_P": 4},
    },
    {"model": "n", "check": "Consequence", "p": {"P": 0.5, "cons_P": 0.2}, "question": {"P": 1, "cons_P": 5}},
]


def test_tuple_files_are_sets_or_books(tmp_path: Path):
    path = tmp_path / "tuples.jsonl"
    path.write_text("\n".join(map(json.dumps, LINES)))
    sets = load_books([str(path)])
    assert [b.name for b in sets] == ["m And 1", "m Neg 2", "n Consequence 3"]
    assert sets[2].beliefs[-1].is_fact and sets[1].beliefs[0].outcome is True
    assert scored_books(sets)[0].upper == pytest.approx(0.0136, abs=1e-4)
    books = load_books([str(path)], "model")
    assert [b.name for b in books] == ["m", "n"] and len(books[0].beliefs) == 5
    with pytest.raises(FormatError, match="by set or by model"):
        load_books([str(path)], "day")
    path.write_text(path.read_text() + '\n{"model": "m", "check": "Nega", "p": {}}')
    with pytest.raises(FormatError, match=r"tuples.jsonl:4: no check 'Nega'. Did you mean 'Neg'"):
        load_books([str(path)])
