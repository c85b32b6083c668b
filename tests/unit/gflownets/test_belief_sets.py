"""GFlowNets whose reward is an inconsistency: sets of beliefs, against closed forms in numpy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, DissonanceError, SizeError, Variable
from dissonance.flows import Descent
from dissonance.gflownets import belief_sets, flow_network

X = Variable("X", 2)
WITNESSES = {"a": 0.9, "b": 0.8, "c": 0.1, "d": 0.2}


def witnesses(said: dict[str, float] | None = None) -> PDG:
    return PDG(*(Arc(n, (), X, [1 - p, p]) for n, p in (said or WITNESSES).items()))


def pool(said: list[float]) -> float:
    """-n log sum_x (prod_a p_a(x))^(1/n): what n beliefs about one variable cost."""
    n = len(said)
    return -n * math.log(math.prod(said) ** (1 / n) + math.prod(1 - p for p in said) ** (1 / n)) if n else 0.0


def rewards(worth: dict[str, float], temperature: float) -> dict[tuple[str, ...], float]:
    sets = [s for k in range(5) for s in itertools.combinations(WITNESSES, k)]
    return {s: math.exp((sum(worth[n] for n in s) - pool([WITNESSES[n] for n in s])) / temperature) for s in sets}


@pytest.mark.parametrize("worth", [0.3, {"a": 0.1, "b": 0.2, "c": 0.5, "d": 0.4}])
def test_the_target_is_the_boltzmann_distribution_of_the_inconsistencies(worth):
    dag = belief_sets(witnesses(), worth=worth, temperature=0.2)
    expected = rewards(worth if isinstance(worth, dict) else dict.fromkeys(WITNESSES, worth), 0.2)
    total = sum(expected.values())
    assert dag.labels is not None and set(dag.labels) == set(expected)
    for label, found in zip(dag.labels, dag.target.tolist(), strict=True):
        assert found == pytest.approx(expected[label] / total, abs=1e-5)
    assert dag.log_partition == pytest.approx(math.log(total), abs=1e-5)
    assert dag.longest == 5  # all four, and the exit


def test_a_run_of_lir_samples_sets_of_beliefs_that_go_together():
    dag = belief_sets(witnesses(), worth=0.3, temperature=0.1)
    start, trained = (
        flow_network(dag, balance="LPV", explore=0.1).answer(n, flow=Descent("Adam", rate=0.1, steps=10, keep=True))
        for n in (0, 25)
    )
    assert start.distance > 1.0 and trained.distance < 0.01
    expected = rewards(dict.fromkeys(WITNESSES, 0.3), 0.1)
    exact = np.array([expected[label] for label in dag.labels or ()])
    assert np.abs(trained.terminating.numpy() - exact / exact.sum()).sum() < 0.01
    drawn = [dag.labels[i] for i in trained.sample(200, torch.Generator().manual_seed(0)).tolist()]  # pyright: ignore[reportOptionalSubscript]
    camps = sum(set(s) in ({"a", "b"}, {"c", "d"}) for s in drawn)
    assert camps > 0.5 * len(drawn)


def test_conditional_beliefs_and_hard_ones():
    """Hard a and hard c contradict each other: no set with both. What is not attended to is not chosen from."""
    pdg = witnesses({"a": 1.0, "c": 0.0, "other": 0.5})
    dag = belief_sets(pdg, Attention.only({"a": math.inf, "c": math.inf}), temperature=0.5)
    assert dag.labels == ((), ("a",), ("c",), ("a", "c"))
    assert dag.target.tolist() == pytest.approx([1 / (1 + 2 * math.e**2), *[math.e**2 / (1 + 2 * math.e**2)] * 2, 0.0])


def test_what_it_does_not_take():
    with pytest.raises(DissonanceError, match="no arc is attended"):
        belief_sets(witnesses(), Attention.only({}))
    with pytest.raises(DissonanceError, match="'e' is not in both"):
        belief_sets(witnesses(), worth={**dict.fromkeys(WITNESSES, 1.0), "e": 1.0})
    with pytest.raises(DissonanceError, match="negative"):
        belief_sets(witnesses(), {"a": -1.0})
    with pytest.raises(DissonanceError, match="temperature"):
        belief_sets(witnesses(), temperature=0.0)
    with pytest.raises(SizeError, match=r"2\^17 sets"):
        belief_sets(witnesses({f"w{i}": 0.5 for i in range(17)}))
