"""Erratum 19: the decision rule. inconsistency(a) = -beta_p log sum_s p(s) exp((beta_b/beta_p)(EU(s,a) + log k)).

It needs a hard tau, which Proposition 7 does not say; and beta_b = inf, taken literally, is infinite only for actions
that reach no best outcome for certain.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, PointMass, Table, Variable, inconsistency
from dissonance.instances import DecisionProblem
from dissonance.instances import decision as decide
from shared_files import SHARED, shared_json

VECTORS = shared_json("vectors", "decision.json")
CASES = VECTORS["cases"] if VECTORS else []
with_vectors = pytest.mark.skipif(not CASES, reason=f"no vectors under {SHARED}")
inf = math.inf

UMBRELLA = {  # of docs/decisions.md, with the default k = exp(-max u)
    "p": [0.7, 0.3],
    "tau": [[[0, 1, 0, 0], [1, 0, 0, 0]], [[0, 0, 1, 0], [0, 0, 0, 1]]],
    "u": [1.0, 0.6, 0.5, -1.5],
    "k": math.exp(-1.0),
    "log_k": -1.0,
}
GAMBLE = {  # a safe outcome worth .6, or as often 1 as 0
    "p": [1.0],
    "tau": [[[1, 0, 0], [0, 0.5, 0.5]]],
    "u": [0.6, 1.0, 0.0],
    "k": math.exp(-1.0),
    "log_k": -1.0,
}


def decision(case, action: int) -> PDG:
    """State, action and outcome, and a belief B = 1 that is satisfied with probability k exp(u(o))."""
    tau, u = np.array(case["tau"]), np.array(case["u"])
    s, a, o = (Variable(n, k) for n, k in zip("SAO", tau.shape, strict=True))
    b = Variable("B", 2)
    good = np.exp(case.get("log_k", math.log(case["k"])) + u)  # 1 to the bit where u is -log k
    return PDG(
        Arc("p", (), s, Table(case["p"])),
        Arc("a", (), a, PointMass(action)),
        Arc("tau", (s, a), o, Table(tau)),
        Arc("b", o, b, Table(np.stack([1 - good, good], -1))),
        Arc("B=1", (), b, PointMass(1)),
    )


def literally(case, action: int):
    """The inconsistency with a hard b, as Proposition 7 (b) has it."""
    beta = dict.fromkeys(("a", "tau", "b", "B=1"), inf) | {"p": 1.0}
    return inconsistency(decision(case, action), Attention.only(beta))


@with_vectors
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


@with_vectors
@pytest.mark.parametrize("case", CASES)
def test_a_hard_belief_taken_literally_is_infinite_if_no_action_reaches_the_best_for_certain(case):
    for action in range(len(case["tau"][0])):
        result = literally(case, action)
        assert result.lower == result.upper == inf


def test_a_hard_belief_taken_literally_is_finite_for_an_action_that_reaches_the_best_for_certain():
    """-beta_p log P(states in which it does): umbrella inf, none -log .7."""
    umbrella, none = (literally(UMBRELLA, action) for action in (0, 1))
    assert umbrella.lower == umbrella.upper == inf
    assert none.upper == pytest.approx(-math.log(0.7), abs=1e-7) == pytest.approx(0.3567, abs=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_literally_it_is_the_log_probability_of_reaching_the_best_for_certain(seed: int):
    rng = np.random.default_rng(seed)
    tau = rng.dirichlet(np.ones(3), (3, 2))
    sure = rng.random((3, 2)) < 0.6
    tau[sure] = np.eye(3)[rng.integers(3, size=sure.sum())]
    u, p = rng.normal(size=3), rng.dirichlet(np.ones(3))
    case = {"p": p, "tau": tau, "u": u, "k": math.exp(-u.max()), "log_k": -u.max()}
    reached = p @ (tau[:, :, u.argmax()] == 1)
    found = [literally(case, action) for action in range(2)]
    for result, chance in zip(found, reached, strict=True):
        if chance:
            assert result.lower - 1e-9 <= -math.log(chance) <= result.upper + 1e-9
        else:
            assert result.lower == inf
    if reached.any():  # then its minimisers are among the paper's
        best = (tau @ u).max(0)
        assert best[reached.argmax()] == pytest.approx(best.max())


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("beta_tau", [1.0, inf])
def test_expected_utility_needs_a_hard_tau(gamma: float, beta_tau: float):
    """Proposition 7 (a) as printed: only beta_p = inf. Then the gamble is thought to turn out well."""
    beta = {"p": inf, "a": inf, "tau": beta_tau, "b": 1.0, "B=1": inf}
    alpha = dict.fromkeys(beta, 1.0)
    safe, gamble = (
        inconsistency(decision(GAMBLE, action), Attention.only(beta, alpha, gamma)).upper for action in (0, 1)
    )
    assert safe == pytest.approx(0.4, abs=1e-7)
    expected = 0.5 if beta_tau == inf else -math.log((1 + math.exp(-1)) / 2)  # -log E exp(u + log k)
    assert gamble == pytest.approx(expected, abs=1e-7)
    assert (safe < gamble) == (beta_tau == inf)


def test_the_instance_holds_tau_hard_and_takes_the_safe_action():
    problem = DecisionProblem(GAMBLE["p"], GAMBLE["tau"], GAMBLE["u"], actions=["safe", "gamble"])
    made = decide(problem)
    assert made.attention is not None and made.attention.beta["tau"] == inf
    found = made.answer(1)
    assert found.actions == ("safe",) and found.policy.tolist() == [1.0, 0.0]
    assert found.equivalents == pytest.approx({"safe": 0.6, "gamble": 0.5}, abs=1e-7)
