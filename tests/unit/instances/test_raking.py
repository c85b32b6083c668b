"""Raking: every step of LIR is the textbook's; contradictory margins get a compromise, between proved bounds."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest

from dissonance import PDG, Arc, DissonanceError, Variable, inconsistency
from dissonance.instances import rake, raking
from reference import ipf

A, B, C = Variable("A", 3), Variable("B", 4), Variable("C", 2)
RNG = np.random.default_rng(0)
SEED = RNG.dirichlet(np.ones(24)).reshape(3, 4, 2)
TRUTH = RNG.dirichlet(np.ones(24)).reshape(3, 4, 2)
OTHER = RNG.dirichlet(np.ones(24)).reshape(3, 4, 2)
SEED_ARC = Arc("seed", (), (A, B, C), SEED)
MARGINS = [
    Arc("ba", (), (B, A), TRUTH.sum(2).T),
    Arc("c", (), C, TRUTH.sum((0, 1))),
    Arc("bc", (), (B, C), TRUTH.sum(0)),
]
REPORTS = [((1, 0), TRUTH.sum(2).T), ((2,), TRUTH.sum((0, 1))), ((1, 2), TRUTH.sum(0))]
ODD = [MARGINS[0], Arc("bc", (), (B, C), OTHER.sum(0))]


@pytest.mark.parametrize("sweeps", [1, 2, 4])
def test_sweeps_of_lir_with_hard_margins_are_iterative_proportional_fitting(sweeps: int):
    expected = ipf.fit(SEED, REPORTS, sweeps)
    found = raking(SEED_ARC, *MARGINS).answer(sweeps * len(MARGINS))
    assert np.abs(found.table.numpy() - expected).max() < 1e-7
    with_bounds = rake(SEED_ARC, *MARGINS, sweeps=sweeps, tol=0.0)
    assert np.abs(with_bounds.mu.table.numpy() - expected).max() < 1e-14


def test_a_table_that_has_its_margins_is_the_nearest_to_the_seed():
    found = rake(SEED_ARC, *MARGINS)
    hard = inconsistency(PDG(SEED_ARC, *MARGINS), dict.fromkeys((m.name for m in MARGINS), math.inf))
    assert found.converged and found.within < 1e-9
    assert found.lower == pytest.approx(hard.upper, abs=1e-8) and found.upper == pytest.approx(hard.upper, abs=1e-8)
    for m in MARGINS:
        assert (found.mu.marginal(*m.names) - m.cpd.table()).abs().max() < 1e-9
    assert found.arc.name == "seed" and (found.arc.cpd.table() - found.mu.table).abs().max() == 0


def test_contradictory_hard_margins_go_round_and_it_is_said(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "dissonance"):
        found = rake(SEED_ARC, *ODD)
    assert not found.converged and found.upper == math.inf and found.within > 1e-3
    assert "margins ba and bc disagree about B" in caplog.text


@pytest.mark.parametrize("confidence", [0.5, 2.0, {"ba": math.inf, "bc": 3.0}, {"ba": 1.0, "bc": 10.0}])
def test_with_confidence_the_compromise_is_that_of_the_inconsistency(confidence: float | dict[str, float]):
    found = rake(SEED_ARC, *ODD, confidence=confidence)
    beta: dict[str, float] = confidence if isinstance(confidence, dict) else {"ba": confidence, "bc": confidence}
    exact = inconsistency(PDG(SEED_ARC, *ODD), beta)
    assert found.converged and found.lower == pytest.approx(exact.upper, abs=1e-8)
    assert found.upper == pytest.approx(exact.upper, abs=1e-8)
    assert (found.mu.table - exact.mu.marginal("A", "B", "C")).abs().max() < 1e-6


def test_bounds_hold_however_early_it_stops():
    exact = inconsistency(PDG(SEED_ARC, *ODD), {"ba": 4.0, "bc": 4.0}).upper
    for sweeps in (1, 2, 5):
        found = rake(SEED_ARC, *ODD, confidence=4.0, sweeps=sweeps)
        assert not found.converged and found.lower <= exact <= found.upper


def test_zeros_of_the_seed_stay_zeros():
    seed = Arc("seed", (), (A, C), [[0.5, 0.0], [0.25, 0.25], [0.0, 0.0]])
    found = rake(seed, Arc("c", (), C, [0.4, 0.6]))
    assert found.mu.table.tolist() == [[pytest.approx(0.4 * 2 / 3), 0], [pytest.approx(0.4 / 3), 0.6], [0, 0]]
    with pytest.raises(DissonanceError, match="the seed has nothing where margin 'a' has something"):
        rake(seed, Arc("a", (), A, [0.3, 0.3, 0.4]))


@pytest.mark.parametrize(
    ("margins", "options", "said"),
    [
        ([], {}, "at least one margin"),
        ([Arc("d", (), Variable("D", 2), [0.5, 0.5])], {}, "the seed has no variable 'D'"),
        ([Arc("c", (), Variable("C", ["x", "y"]), [0.5, 0.5])], {}, "has other values"),
        ([Arc("c", A, C, [[0.5, 0.5]] * 3)], {}, "takes tables without sources"),
        (MARGINS[:1], {"confidence": {"bb": 1.0}}, "no margin named 'bb'"),
        (MARGINS[:1], {"confidence": 0.0}, "must be a number above 0"),
    ],
)
def test_what_cannot_be_raked_is_refused(margins: list[Arc], options: dict[str, object], said: str):
    with pytest.raises(DissonanceError, match=said):
        rake(SEED_ARC, *margins, **options)  # pyright: ignore[reportArgumentType]
