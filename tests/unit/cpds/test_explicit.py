"""A parameter space as an explicit variable, and back."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, CapabilityError, SoftmaxTable, Table, Variable, inconsistency

X, Y = Variable("X", 2), Variable("Y", 3)
LOGITS = np.random.default_rng(3).normal(size=(4, 2, 3))
SETTINGS = [{"logits": torch.from_numpy(z)} for z in LOGITS]


def believed(logits: np.ndarray = LOGITS[0]) -> PDG:
    return PDG(
        Arc("p", X, Y, SoftmaxTable(logits=logits)),
        Arc("x", (), X, [0.3, 0.7]),
        Arc("y", (), Y, [0.6, 0.2, 0.2]),
    )


def attention(gamma: float = 0.0, **beta: float) -> Attention:
    return Attention.only({"p": 1.0, "x": 2.0, "y": 1.5, **beta}, {"p": 0.5, "x": 1.0}, gamma)


def test_a_euclidean_parameter_becomes_a_variable_and_an_arc():
    pdg = believed().explicit("p")
    assert [a.name for a in pdg.arcs] == ["p", "x", "y", "theta_p"]
    assert pdg["p"].sources == (X, pdg.variable("Theta_p"))
    assert str(pdg.variable("Theta_p").domain) == "Euclidean(6)"
    assert set(pdg.theta) == {"theta_p.value"}
    np.testing.assert_array_equal(pdg.theta["theta_p.value"].detach().reshape(2, 3), LOGITS[0])


def test_the_explicit_cpd_is_the_family_at_its_last_source():
    pdg = believed().explicit("p")
    index = [torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1])]
    for logits in LOGITS:
        theta = torch.from_numpy(logits).reshape(-1).expand(3, 6)
        found = pdg["p"].cpd.log_prob(index[1:], [index[0], theta])
        inner = Arc("p", X, Y, SoftmaxTable(logits=logits)).cpd.log_prob(index[1:], index[:1])
        np.testing.assert_allclose(found.detach(), inner.detach(), atol=1e-15)
    with pytest.raises(CapabilityError, match="one value in a batch"):
        pdg["p"].cpd.log_prob(index[1:], [index[0], torch.arange(18.0, dtype=torch.float64).reshape(3, 6)])


def test_a_euclidean_parameter_can_be_a_point_and_made_implicit_again():
    there = believed().explicit("p")
    with pytest.raises(
        CapabilityError, match=r"arc 'p' \(X, Theta_p -> Y\) cannot be tabulated: Theta_p is Euclidean\(6\)"
    ):
        inconsistency(there, attention(theta_p=1.0))
    pinned = inconsistency(there, attention(theta_p=math.inf))
    plain = inconsistency(believed(), attention())
    assert pinned.solver == "at points" and pinned.upper == pytest.approx(plain.upper, abs=1e-9)
    (slope,) = torch.autograd.grad(pinned.value, there.theta["theta_p.value"])
    assert torch.allclose(
        slope, torch.autograd.grad(plain.value, plain.pdg.theta["p.logits"])[0].reshape(-1), atol=1e-6
    )
    with torch.no_grad():
        there.theta["theta_p.value"].copy_(torch.from_numpy(LOGITS[2]).reshape(-1))
    back = there.implicit("p")
    assert [a.name for a in back.arcs] == ["p", "x", "y"] and back.variables == (X, Y)
    moved = inconsistency(back, attention())
    direct = inconsistency(believed(LOGITS[2]), attention())
    assert moved.lower <= direct.upper and direct.lower <= moved.upper
    assert moved.upper == pytest.approx(direct.upper, abs=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.5])
@pytest.mark.parametrize("k", range(4))
def test_with_finite_settings_the_pinned_parameter_gives_the_same_inconsistency(k: int, gamma: float):
    there = believed().explicit("p", SETTINGS)
    theta = there.variable("Theta_p")
    there = there.replace(Arc("theta_p", (), theta, Table(np.eye(4)[k])))
    explicit = inconsistency(there, attention(gamma, theta_p=math.inf))
    direct = inconsistency(believed(LOGITS[k]), attention(gamma))
    assert explicit.converged and explicit.lower <= direct.upper and direct.lower <= explicit.upper
    back = inconsistency(there.implicit("p"), attention(gamma))
    assert back.upper == pytest.approx(direct.upper, abs=1e-12)


def test_without_the_pin_the_best_setting_wins():
    there = believed().explicit("p", SETTINGS)
    free = inconsistency(there, attention())
    best = min((inconsistency(believed(z), attention()) for z in LOGITS), key=lambda r: r.upper)
    # a mixture of settings may do better than the best of them, never worse
    assert free.lower <= best.upper
    assert there["p"].log_table().shape == (2, 4, 3)


def test_the_point_mass_sits_on_the_first_setting():
    there = believed().explicit("p", SETTINGS[1:])
    assert there["theta_p"].cpd.table().tolist() == [1, 0, 0]
    pinned = inconsistency(there, attention(theta_p=math.inf))
    direct = inconsistency(believed(LOGITS[1]), attention())
    assert pinned.lower <= direct.upper and direct.lower <= pinned.upper


def test_log_prob_looks_the_setting_up():
    cpd = believed().explicit("p", SETTINGS)["p"].cpd
    table = cpd.log_table()
    x, k, y = torch.tensor([0, 1, 1]), torch.tensor([3, 0, 2]), torch.tensor([2, 2, 0])
    np.testing.assert_allclose(cpd.log_prob([y], [x, k]).detach(), table[x, k, y].detach(), atol=1e-15)


def test_the_original_is_left_alone():
    pdg = believed()
    before = pdg["p"].cpd.logits.detach().clone()
    there = pdg.explicit("p", SETTINGS)
    back = there.implicit("p")
    with torch.no_grad():
        back["p"].cpd.logits.zero_()
    assert torch.equal(pdg["p"].cpd.logits, before)
    assert pdg["p"].sources == (X,)


def test_what_has_no_parameters_cannot_be_made_explicit_nor_twice_undone():
    with pytest.raises(CapabilityError, match=r"arc 'x' \(-> X\) has no parameters"):
        believed().explicit("x")
    with pytest.raises(CapabilityError, match=r"call explicit\('p'\) first"):
        believed().implicit("p")
