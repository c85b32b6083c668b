"""A bracket never looks like a value: in text, JSON, notebooks, reports and runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, Variable, inconsistency
from dissonance.lir.start import Value
from dissonance.reporting import report
from dissonance.results import Inconsistency
from dissonance.scored import scored
from dissonance.solvers import Bounds
from dissonance.verdict import verdict


def loop(beta: float) -> tuple[PDG, Attention]:
    rng = np.random.default_rng(0)
    x = [Variable(f"X{i}", 2) for i in range(5)]
    arcs = [Arc(f"a{i}", x[i], x[(i + 1) % 5], rng.dirichlet([1, 1], 2)) for i in range(5)]
    pdg = PDG(*arcs, *(Arc(f"u{i}", (), v, rng.dirichlet([1, 1])) for i, v in enumerate(x)))
    return pdg, Attention.uniform(pdg).replace(beta={"a0": beta})


@pytest.fixture(params=[1.0, math.inf])
def bracketed(request: pytest.FixtureRequest) -> Inconsistency:
    with torch.no_grad():
        found = inconsistency(*loop(request.param), solver=Bounds(seconds=0.0, tol=0.0))
    assert found.is_bracket and math.isinf(found.upper) == math.isinf(request.param)
    return found


def test_text_notebooks_reports_and_verdicts_say_between(bracketed: Inconsistency):
    between = f"between {bracketed.lower:.6g}"[:14]
    text = report(bracketed, steps=0, replicates=0).markdown()
    assert between in repr(bracketed) and between in bracketed._repr_html_() and between in text
    for shown in (repr(bracketed), text):
        assert "a bracket, not a value" in shown
    said = verdict(bracketed)
    assert "contradict" not in said and "infinite" not in text
    if bracketed.upper < math.inf:
        worst = max(bracketed.by_arc(saved=False), key=lambda r: r.contribution)
        assert said.startswith(f"{worst.name} costs most in the compromise that was found: it says X")


def test_json_has_no_value_where_there_is_a_bracket():
    pdg, attention = loop(1.0)
    found = scored(pdg, attention, solver=Bounds(seconds=0.0, tol=0.0), saved=False).record()
    assert found["bracket"] is True and found["inconsistency"] is None and found["lower"] < found["upper"]
    known = scored(pdg, attention, saved=False).record()
    assert known["bracket"] is False and known["inconsistency"] == known["upper"]


def test_runs_show_bounds_that_do_not_meet():
    assert str(Value(1.0, 2.0)) == "between 1 and 2" and str(Value(1.0, 1.0)) == "1"
    assert not Value(-math.inf, 2.0).is_bracket and not Value(1.0, math.nan).is_bracket
