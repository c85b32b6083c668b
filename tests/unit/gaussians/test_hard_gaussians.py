"""When hard linear-Gaussian arcs hold: the definition of tables, in units of the noise, in the solver and in scores."""

from __future__ import annotations

import math

import pytest

from dissonance import PDG, Arc, Attention, incompatibility, inconsistency, tolerances
from dissonance.cpds import LinearGaussian
from dissonance.inconsistency import Inconsistency
from dissonance.scores import amiss
from dissonance.variables import Euclidean, Variable

inf = math.inf
X, Y = Variable("X", Euclidean(1)), Variable("Y", Euclidean(1))
KINDS = [("mean", False), ("mean", True), ("variance", False), ("variance", True), ("slope", True)]
"""What differs, and whether X is given. Where it is not, an X that hardly varies satisfies slopes that differ."""


def belief(b: float, variance: float, slope: float | None = None) -> LinearGaussian:
    return LinearGaussian(A=None if slope is None else [[slope]], b=[b], Sigma=[[variance]])


def two(off: float, what: str, pinned: bool) -> Inconsistency:
    """Hard arcs a and b on X -> Y that differ by so much in one of their numbers, X given if `pinned`; soft ones."""
    b, variance, slope = (off if what == kind else 0.0 for kind in ("mean", "variance", "slope"))
    arcs = [Arc("a", X, Y, belief(0.0, 1.0, 0.5)), Arc("b", X, Y, belief(b, 1.0 + variance, 0.5 + slope))]
    pdg = PDG(*arcs, Arc("c", (), X, belief(1.0, 2.0)), Arc("d", (), Y, belief(0.0, 1.0)))
    return inconsistency(pdg, Attention.only({"a": inf, "b": inf, "c": inf if pinned else 1.0, "d": 1.0}))


def own_score(result: Inconsistency) -> float:
    return float(incompatibility(result.mu, result.pdg, result.attention).detach())


@pytest.mark.parametrize("off", [0.0, 1e-14, 1e-13])
@pytest.mark.parametrize(("what", "pinned"), KINDS)
def test_gaussians_that_differ_by_rounding_hold(what, pinned, off):
    result = two(off, what, pinned)
    assert result.converged and result.within == 0
    assert own_score(result) == pytest.approx(result.upper, abs=1e-9)
    assert max(amiss(result.mu, result.pdg[name]) for name in "ab") <= tolerances.ROUNDING


@pytest.mark.parametrize("off", [1e-11, 1e-10, 3e-9])
@pytest.mark.parametrize(("what", "pinned"), KINDS)
def test_gaussians_that_hold_within_1e_8_only_say_so(what, pinned, off):
    result, same = two(off, what, pinned), two(0.0, what, pinned)
    assert result.converged and result.within == tolerances.FEASIBLE
    assert "hold only within 1e-08" in repr(result)
    assert own_score(result) == pytest.approx(result.upper, abs=1e-7)
    assert result.lower <= same.upper + 1e-7 and result.upper >= same.lower - 1e-7


@pytest.mark.parametrize("off", [1e-4, 0.1])
@pytest.mark.parametrize(("what", "pinned"), KINDS)
def test_gaussians_that_differ_by_more_contradict_each_other(what, pinned, off):
    result = two(off, what, pinned)
    assert (result.lower, result.upper, result.converged) == (inf, inf, True)


@pytest.mark.parametrize("off", [1e-8, 2e-8, 4e-8, 1e-7, 1e-6])
@pytest.mark.parametrize(("what", "pinned"), KINDS)
def test_of_gaussians_between_the_two_nothing_wrong_is_said(what, pinned, off):
    result, same = two(off, what, pinned), two(0.0, what, pinned)
    assert result.lower == inf or result.lower <= same.upper
    assert not result.converged or result.lower == inf or result.upper < inf
    if result.upper < inf:
        assert own_score(result) == pytest.approx(result.upper, abs=1e-6)
    elif result.lower < inf:
        assert "undecided" in repr(result)
