"""Decisions as LIR: every step against the textbook's, exact at the limits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, DissonanceError, Record, SoftmaxTable, full_control, inconsistency, lir
from dissonance.instances import DecisionProblem, decision, wishful_thinking, zen
from reference import decisions
from shared_files import shared_json

inf = math.inf
QUICK = Record(globally=False)
VECTORS = shared_json("vectors", "decision.json")


def draw(seed: int, states: int = 3, actions: int = 3, outcomes: int = 4) -> DecisionProblem:
    rng = np.random.default_rng(seed)
    p, tau = rng.dirichlet(np.ones(states)), rng.dirichlet(np.ones(outcomes), (states, actions))
    return DecisionProblem(p.tolist(), tau.tolist(), rng.normal(size=outcomes).tolist())


def table(problem: DecisionProblem) -> np.ndarray:
    return decisions.expected_utility(np.array(problem.outcome), np.array(problem.utility))


@pytest.mark.skipif(VECTORS is None, reason="no shared vectors")
def test_the_shared_vectors_are_met_to_their_tolerance():
    for case in VECTORS["cases"]:
        problem = DecisionProblem(case["p"], case["tau"], case["u"], k=case["k"])
        for row in case["rows"]:
            chosen = decision(problem, confidence=float(row["beta_p"]), faith=float(row["beta_b"])).answer(
                1, trace=QUICK
            )
            for v, expected in zip(chosen.values.values(), row["inconsistency"], strict=True):
                slop = VECTORS["tolerance"] * max(1.0, abs(expected))
                assert v.lower - slop <= expected <= v.upper + slop and v.upper - v.lower <= 1e-7 * max(1.0, expected)
            assert chosen.actions == (row["argmin"],)
            assert int(chosen.policy.argmax()) == row["argmin"]
        limit = decision(problem, faith=inf, confidence=1.0).answer(1, trace=QUICK)
        assert [v.upper for v in limit.values.values()] == pytest.approx(case["scaled_limit_beta_b_to_inf"], abs=1e-9)
        assert limit.actions == (case["maxmax_action_supp"],)


@pytest.mark.parametrize(("confidence", "faith"), [(inf, 2.0), (0.0, 0.7), (0.2, 3.0), (5.0, 0.5)])
def test_the_value_of_every_action_is_the_closed_form_and_one_step_takes_the_best(confidence: float, faith: float):
    problem = draw(3)
    found = decision(problem, confidence=confidence, faith=faith).run(1)
    chosen = decision(problem, confidence=confidence, faith=faith).read(found)
    expected = decisions.value(np.array(problem.belief), table(problem), problem.log_k, confidence, faith)
    assert [v.upper for v in chosen.values.values()] == pytest.approx(expected, abs=1e-8)
    assert chosen.actions == (int(expected.argmin()),)
    assert chosen.policy.tolist() == pytest.approx(np.eye(3)[expected.argmin()].tolist(), abs=1e-7)
    assert found.before.upper == pytest.approx(expected.mean(), abs=1e-7)  # the policy was uniform
    assert found.after.upper == pytest.approx(expected.min(), abs=1e-7)


def test_the_rule_goes_from_expected_utility_to_max_max():
    problem = draw(5)
    eu, p = table(problem), np.array(problem.belief)
    ratios = [0.01, 0.3, 3.0, 1000.0]
    worth = [decision(problem, confidence=1.0, faith=r).answer(1, trace=QUICK).equivalents for r in ratios]
    for a in range(3):
        path = [w[a] for w in worth]
        assert all(x < y for x, y in itertools.pairwise(path))
        assert path[0] == pytest.approx(p @ eu[:, a], abs=0.01)
        assert path[-1] == pytest.approx(eu[:, a].max(), abs=0.01)
    ends = [decision(problem, confidence=c, faith=f).answer(1, trace=QUICK) for c, f in ((inf, 1.0), (1.0, inf))]
    assert list(ends[0].equivalents.values()) == pytest.approx(p @ eu, abs=1e-9)
    assert list(ends[1].equivalents.values()) == pytest.approx(eu.max(0), abs=1e-8)
    assert [e.rule for e in ends] == ["expected utility", "max-max over the states believed possible"]


def test_max_max_is_over_the_states_believed_possible_unless_nothing_is_believed():
    utility = [0.0, 1.0, 5.0]
    # the best outcome needs a state of probability 0, and the second action
    tau = np.zeros((3, 2, 3))
    tau[0, :, 0] = tau[1, 0, 1] = tau[1, 1, 0] = tau[2, 0, 0] = tau[2, 1, 2] = 1.0
    problem = DecisionProblem([0.5, 0.5, 0.0], tau.tolist(), utility, actions=["safe", "bold"])
    limit = decision(problem, confidence=1.0, faith=inf).answer(1, trace=QUICK)
    assert limit.actions == ("safe",) and limit.equivalents["safe"] == pytest.approx(1.0, abs=1e-8)
    free = decision(problem, confidence=0.0).answer(1, trace=QUICK)
    assert free.actions == ("bold",) and free.equivalents["bold"] == pytest.approx(5.0, abs=1e-8)
    assert free.rule == "max-max over all states" and "bold" in repr(free)


def test_near_the_limit_ties_of_the_best_case_are_broken_by_how_probable_it_is():
    tau = np.zeros((2, 2, 2))
    tau[0, 0, 1] = tau[1, 1, 1] = tau[0, 1, 0] = tau[1, 0, 0] = 1.0  # either action has the good outcome in one state
    problem = DecisionProblem([0.7, 0.3], tau.tolist(), [0.0, 1.0])
    assert decision(problem, confidence=1.0, faith=inf).answer(1, trace=QUICK).actions == (0, 1)
    assert decision(problem, confidence=1.0, faith=20.0).answer(1, trace=QUICK).actions == (0,)


def test_structure_does_not_matter_if_every_mechanism_is_believed():
    problem = draw(7)
    made = decision(problem, confidence=2.0)
    taken = made.pdg.replace(Arc("policy", (), problem.variables[1], [0.0, 1.0, 0.0]))
    pdg = PDG(
        *taken.without("possible", "Possible=1").arcs
    )  # without the variable Possible, which would add a constant
    plain = inconsistency(pdg, made.attention).upper
    believed = made.attention.replace(alpha={"p": 1.0, "tau": 1.0, "b": 1.0}, gamma=0.7)
    assert inconsistency(pdg, believed).upper == pytest.approx(plain, abs=1e-7)
    assert inconsistency(pdg, believed.replace(alpha={"tau": 0.0})).upper < plain - 0.1


def test_a_belief_that_does_not_know_the_action_lets_a_mixed_policy_know_the_state():
    tau = np.zeros((2, 3, 3))
    tau[0, 0, 2] = tau[1, 1, 2] = tau[0, 1, 0] = tau[1, 0, 0] = 1.0  # a bet on either state, or
    tau[:, 2, 1] = 1.0  # a sure outcome, which is better than either bet
    problem = DecisionProblem([0.5, 0.5], tau.tolist(), [0.0, 0.6, 1.0])
    made = decision(problem)
    assert made.answer(1, trace=QUICK).policy.tolist() == pytest.approx([0, 0, 1], abs=1e-6)
    loose = made.pdg.without("p") + PDG(Arc("p", (), problem.variables[0], problem.belief))
    run = lir(loose, steps=1, attention=made.attention, control=full_control("policy"))
    assert run.pdg["policy"].cpd.table().tolist() == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)
    assert run.after.upper == pytest.approx(0.0, abs=1e-6)  # as if every bet were won


@pytest.mark.parametrize("control", [0.4, 2.0])
def test_every_step_of_zen_is_the_closed_form(control: float):
    problem = draw(9)
    faith = 1.5
    bad = 1 - np.exp(problem.log_k + np.array(problem.utility))
    for steps in (1, 2, 3):
        mind = zen(problem, 1, faith=faith, control=control).answer(steps)
        expected = np.log1p(-bad * math.exp(-control * faith * steps)) - problem.log_k
        assert mind.utility.tolist() == pytest.approx(expected.tolist(), abs=1e-7)
        assert mind.belief.tolist() == pytest.approx(problem.belief, abs=1e-15)
    assert mind.after.upper < mind.before.upper


def test_full_control_of_what_is_wanted_makes_every_possible_outcome_welcome():
    problem = draw(9)
    mind = zen(problem, 1).answer(1)
    assert mind.utility.tolist() == pytest.approx([-problem.log_k] * 4, abs=1e-9)
    assert mind.after.upper == pytest.approx(0.0, abs=1e-9)


def test_every_step_of_wishful_thinking_is_the_closed_form():
    problem = draw(10)
    confidence, faith, control = 0.8, 2.0, 0.6
    p, eu = np.array(problem.belief), table(problem)[:, 2]
    for steps in (1, 2, 3):
        aim = decisions.tilted(p, eu, faith / confidence)
        p = aim + (p - aim) * math.exp(-control * confidence)
        mind = wishful_thinking(problem, 2, confidence=confidence, faith=faith, control=control).answer(steps)
        assert mind.belief.tolist() == pytest.approx(p.tolist(), abs=1e-6)
        assert mind.utility.tolist() == pytest.approx(problem.utility, abs=1e-9)


def test_full_control_of_what_is_believed_believes_the_best():
    problem = draw(10)
    eu = table(problem)[:, 2]
    mind = wishful_thinking(problem, 2).answer(1)
    assert mind.belief.tolist() == pytest.approx(np.eye(3)[eu.argmax()].tolist(), abs=1e-6)
    assert mind.after.upper == pytest.approx(-(eu.max() + problem.log_k), abs=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": [[[0.5, 0.5]]]}, "shape"),
        ({"utility": [0.0, inf]}, "finite"),
        ({"k": 1.0}, "at most exp"),
        ({"actions": ["one"]}, "A has 1 labels for 2 values"),
    ],
)
def test_a_wrong_problem_is_refused(change: dict, message: str):
    fine = {"belief": [0.5, 0.5], "outcome": [[[0.5, 0.5]] * 2] * 2, "utility": [0.0, 1.0]}
    with pytest.raises(DissonanceError, match=message):
        DecisionProblem(**{**fine, **change})


def test_wrong_weights_are_refused():
    problem = draw(1)
    for confidence, faith in ((inf, inf), (-1.0, 1.0), (1.0, 0.0), (math.nan, 1.0)):
        with pytest.raises(DissonanceError, match="confidence must be >= 0"):
            decision(problem, confidence=confidence, faith=faith)
    with pytest.raises(DissonanceError, match="finite faith"):
        zen(problem, 0, faith=inf)
    with pytest.raises(DissonanceError, match="no value 'stay'"):
        wishful_thinking(problem, "stay")


def test_hard_faith_taken_literally_is_infinite_where_no_outcome_is_certain():
    problem = draw(2)
    made = decision(problem, confidence=1.0)
    hard = Attention.only({**made.attention.beta, "b": inf})
    assert inconsistency(made.pdg, hard).lower == inf
    assert isinstance(made.pdg["policy"].cpd, SoftmaxTable) and torch.is_tensor(made.pdg["policy"].cpd.logits)
