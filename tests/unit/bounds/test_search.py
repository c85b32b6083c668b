"""Lower bounds by the cheapest joint state: what the search finds is proved, and exact in the end."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dissonance import coherence
from dissonance.bounds import bracketing
from dissonance.bounds.oracle import cheapest
from dissonance.bounds.regions import regions_of
from dissonance.bounds.states import Sampler
from dissonance.bounds.terms import SOFT, terms_of
from dissonance.coherence.beliefs import as_beliefs
from dissonance.coherence.book import _report
from dissonance.coherence.facts import component, hard_facts
from dissonance.coherence.graph import graph
from dissonance.forecasts import Template

pytest.importorskip("pytoulbar2")

RNG = np.random.default_rng(0)
DENSE = [f"P(x{i}) = {RNG.uniform(0.1, 0.9):.3f}" for i in range(9)]
DENSE += [f"P(x{i} and x{j}) = {RNG.uniform(0.05, 0.5):.3f}" for i in range(9) for j in range(i)]
DENSE += ["x0 -> x1", "P(x2 | x3) in [0.1, 0.2]"]
"""Small enough for an exact answer; the relaxation leaves a wide gap."""


def bracket(monkeypatch: pytest.MonkeyPatch, search: bool):
    monkeypatch.setattr(bracketing, "installed", lambda: search)
    past = Template(DENSE)
    past.past_tree = True
    p, high = ([[getattr(b, end) for b in past.beliefs]] for end in ("low", "high"))
    return past, past.solve(p, high, seconds=6.0)


def test_the_search_closes_the_gap_that_the_relaxation_leaves_and_its_bets_win_in_every_world(
    monkeypatch: pytest.MonkeyPatch,
):
    exact = coherence(DENSE)
    past, found = bracket(monkeypatch, True)
    assert found.lower[0] <= exact.upper and found.upper[0] >= exact.lower
    assert found.upper[0] - found.lower[0] < 0.01 * exact.upper
    report = _report(as_beliefs(DENSE), past, found, 0, "log")
    assert report.worlds is not None and report.worlds[0].gain >= report.lower - 1e-9


def test_without_it_the_bracket_holds_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr("dissonance.bounds.larger.MOST_CELLS", 4)  # no larger regions
    with caplog.at_level("INFO"):
        _, found = bracket(monkeypatch, False)
    exact = coherence(DENSE).upper
    assert found.lower[0] < 0.9 * exact <= 0.9 * found.upper[0]
    assert "pip install 'dissonance[search]'" in caplog.text


def test_the_cheapest_state_is_that_of_all_states():
    made = graph(
        ["P(A and B) = 0.3", "P(B or C) = 0.6", "P(C) = 0.2", "P(A) = 0.5", "exactly one of A, B, D", "D -> C"]
    )
    from dissonance.attended import Attended, tabulated

    held = [h.arc for h in made.held]
    said = [Attended(a, p, 1.0, 0.0) for a, p in zip(held, tabulated(held, None), strict=True)]
    terms = terms_of(component(made, [*hard_facts(made), *said]))
    sampler = Sampler(terms, regions_of(terms))
    soft = [t for t in terms.terms if t.kind == SOFT]
    rng = np.random.default_rng(3)
    for _ in range(5):
        gains = [rng.normal(size=len(t.log_p)) for t in soft]
        found = cheapest(sampler, soft, gains, 5.0)
        assert found is not None and found[1] is not None
        prices = {}
        for world in product(*(range(n) for n in sampler.sizes)):
            if sampler.possible(np.array(world, dtype=np.uint8)[:, None]).shape[1]:
                prices[world] = 0.0
                for t, gain in zip(soft, gains, strict=True):
                    at = np.ravel_multi_index([world[sampler.place[v]] for v in t.scope], [2] * len(t.scope))
                    prices[world] += gain[t.entry[at]]
        least = min(prices.values())
        assert found[0] <= least <= found[0] + 1e-5
        assert prices[tuple(found[1].tolist())] == pytest.approx(least, abs=1e-5)
