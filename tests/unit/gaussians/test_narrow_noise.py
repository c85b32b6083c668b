"""Linear-Gaussian arcs whose noise differs by more than double precision can tell."""

from __future__ import annotations

import math

import pytest

from dissonance import PDG, Arc, Attention, CapabilityError, Euclidean, LinearGaussian, Variable, inconsistency


def test_a_conditional_that_rounding_makes_singular_is_refused_and_not_nan():
    """Var(Z1 | Z0, Z2) is lost beside Var(Z2), twenty orders of magnitude larger."""
    x, y, z = (Variable(f"Z{i}", Euclidean(1)) for i in range(3))
    pdg = PDG(
        Arc("a0", (), x, LinearGaussian([[]], [1.0], [[53.63841263991887]])),
        Arc("a1", x, y, LinearGaussian([[0.6092509032754574]], [0.0], [[1.6721192648851152e-06]])),
        Arc("a2", (x, y), z, LinearGaussian([[1.0, 1.0]], [1.277150669832543], [[2.8336651035103255e-18]])),
        Arc("a3", z, x, LinearGaussian([[0.0]], [0.0], [[2.80143810567371e-08]])),
        Arc("a4", (z, x), y, LinearGaussian([[1.900794883028774, 1.0]], [1.0], [[2.7665358202966267e-07]])),
    )
    hard = {name: math.inf for name in ("a0", "a1", "a2")}
    with pytest.raises(CapabilityError, match="orders of magnitude"):
        inconsistency(pdg, Attention.only({**hard, "a3": 1.0, "a4": 1.0}))
