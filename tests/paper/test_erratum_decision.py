"""Erratum 19: the decision rule. inconsistency(a) = -beta_p log sum_s p(s) exp((beta_b/beta_p)(EU(s,a) + log k))."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, PointMass, Table, Variable, inconsistency
from shared_files import SHARED, shared_json

VECTORS = shared_json("vectors", "decision.json")
CASES = VECTORS["cases"] if VECTORS else []
pytestmark = pytest.mark.skipif(not CASES, reason=f"no vectors under {SHARED}")


def decision(case, action: int) -> PDG:
    """State, action and outcome, and a belief B = 1 that is satisfied with probability k exp(u(o))."""
    tau, u = np.array(case["tau"]), np.array(case["u"])
    s, a, o = (Variable(n, k) for n, k in zip("SAO", tau.shape, strict=True))
    b = Variable("B", 2)
    good = case["k"] * np.exp(u)
    return PDG(
        Arc("p", (), s, Table(case["p"])),
        Arc("a", (), a, PointMass(action)),
        Arc("tau", (s, a), o, Table(tau)),
        Arc("b", o, b, Table(np.stack([1 - good, good], -1))),
        Arc("B=1", (), b, PointMass(1)),
    )


@pytest.mark.parametrize("case", CASES)
def test_every_row_of_the_table(case):
    for row in case["rows"]:
        found = []
        for action, expected in enumerate(row["inconsistency"]):
            beta_p, beta_b = float(row["beta_p"]), float(row["beta_b"])
            beta = {"p": beta_p, "a": math.inf, "tau": math.inf, "b": beta_b, "B=1": math.inf}
            result = inconsistency(decision(case, action), Attention.only(beta))
            slop = 1e-9 * max(1.0, abs(float(expected)))
            assert result.converged
            assert result.lower - slop <= float(expected) <= result.upper + slop, (row, action)
            found.append(result.upper)
        assert int(np.argmin(found)) == row["argmin"]


@pytest.mark.parametrize("case", CASES)
def test_a_hard_belief_taken_literally_is_infinite_for_every_action(case):
    for action in range(len(case["tau"][0])):
        beta = dict.fromkeys(("a", "tau", "b", "B=1"), math.inf) | {"p": 1.0}
        result = inconsistency(decision(case, action), Attention.only(beta))
        assert result.lower == result.upper == math.inf
