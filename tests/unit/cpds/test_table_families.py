"""What tables share, and what softmax and simplex coordinates add."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    DissonanceError,
    SimplexTable,
    SoftmaxTable,
    Table,
    Variable,
)
from dissonance import inconsistency as score

X, Y, Z = Variable("X", ["a", "b"]), Variable("Y", 3), Variable("Z", 2)
FAMILIES = [Table, SoftmaxTable, SimplexTable]
each_family = pytest.mark.parametrize("family", FAMILIES)
ROWS = np.array([[0.2, 0.3, 0.5], [0.0, 0.1, 0.9]])


@each_family
def test_a_table_is_what_it_was_made_from(family):
    cpd = Arc("p", X, Y, family(ROWS)).cpd
    assert cpd.table().dtype == torch.float64
    np.testing.assert_allclose(cpd.table().detach(), ROWS, atol=1e-15)
    np.testing.assert_allclose(cpd.log_table().exp().detach(), ROWS, atol=1e-15)
    assert cpd.log_table()[1, 0] == -torch.inf  # zeros stay zeros
    assert cpd.table()[1, 0] == 0


@each_family
@pytest.mark.parametrize("shape", [(3, 2), (2, 3, 2), (3,), (2, 2)])
def test_a_wrong_shape_is_refused_with_the_names(family, shape):
    with pytest.raises(
        CapabilityError, match=r"arc 'p' \(X -> Y\): the table has shape .* \(X\) -> \(Y\) needs \(2, 3\)"
    ):
        Arc("p", X, Y, family(np.full(shape, 1 / shape[-1])))


@each_family
def test_rows_nearly_right_are_renormalised_and_no_further(family):
    near = ROWS * (1 + 9e-7)
    table = Arc("p", X, Y, family(near)).cpd.table().detach()
    np.testing.assert_allclose(table.sum(1), 1, atol=1e-15)
    assert table[1, 0] == 0
    with pytest.raises(DissonanceError, match="sums to"):
        Arc("p", X, Y, family(ROWS * (1 + 2e-6)))


@pytest.mark.parametrize("family", [Table, SoftmaxTable])
def test_rows_that_sum_to_one_keep_every_bit(family):
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=2)
    assert np.array_equal(Arc("p", X, Y, family(p)).cpd.table().detach().numpy(), p)


@each_family
def test_the_caller_keeps_its_array(family):
    p = ROWS.copy()
    cpd = Arc("p", X, Y, family(p)).cpd
    p[:] = 0
    np.testing.assert_allclose(cpd.table().detach(), ROWS, atol=1e-15)
    q = torch.tensor(ROWS * (1 + 5e-7))
    Arc("p", X, Y, family(q))
    np.testing.assert_array_equal(q, ROWS * (1 + 5e-7))


@each_family
def test_several_sources_and_targets(family):
    p = np.random.default_rng(1).dirichlet(np.ones(6), size=2).reshape(2, 3, 2)
    cpd = Arc("p", X, (Y, Z), family(p)).cpd
    np.testing.assert_allclose(cpd.table().detach().sum((1, 2)), [1, 1], atol=1e-15)
    index = [torch.tensor([0, 1, 1]), torch.tensor([2, 0, 2]), torch.tensor([1, 1, 0])]
    found = cpd.log_prob(index[1:], index[:1]).detach()
    np.testing.assert_allclose(found.exp(), p[tuple(i.numpy() for i in index)], atol=1e-15)


@each_family
def test_no_sources_is_one_row(family):
    with pytest.raises(DissonanceError, match="the table sums to"):
        Arc("p", (), X, family([0.5, 0.6]))
    assert Arc("p", (), X, family([0.5, 0.5])).cpd.table().shape == (2,)


@each_family
def test_one_table_cannot_serve_arcs_with_different_numbers_of_targets(family):
    cpd = family(np.full((2, 2), 0.25))
    Arc("joint", (), (X, Z), cpd)
    with pytest.raises(CapabilityError, match="make a copy"):
        Arc("conditional", X, Z, cpd)


@each_family
def test_a_table_may_be_shared_and_then_its_parameters_are_shared(family):
    cpd = family([[0.2, 0.8], [0.5, 0.5]])
    pdg = PDG(Arc("p", X, Z, cpd), Arc("q", Z, X, cpd))
    assert pdg["p"].cpd is pdg["q"].cpd
    assert len(list(pdg.parameters())) == (0 if family is Table else 1)
    apart = PDG(Arc("p", X, Z, cpd), Arc("q", Z, X, copy.deepcopy(cpd)))
    assert len(list(apart.parameters())) == (0 if family is Table else 2)


# -- softmax -----------------------------------------------------------------------------------------------------------


def test_a_softmax_table_takes_probabilities_or_logits_but_not_both():
    logits = np.array([[0.0, 1.0, 2.0], [3.0, -1.0, -np.inf]])
    cpd = Arc("p", X, Y, SoftmaxTable(logits=logits)).cpd
    np.testing.assert_allclose(cpd.table().detach(), np.exp(logits) / np.exp(logits).sum(1, keepdims=True), atol=1e-15)
    for bad in ({}, {"p": ROWS, "logits": logits}):
        with pytest.raises(DissonanceError, match="either"):
            SoftmaxTable(**bad)


@pytest.mark.parametrize("bad", [[-np.inf, -np.inf, -np.inf], [0.0, np.nan, 0.0]])
def test_logits_need_a_finite_entry_a_row(bad):
    with pytest.raises(DissonanceError, match="finite entry"):
        Arc("p", X, Y, SoftmaxTable(logits=[[0.0, 0.0, 0.0], bad]))


def test_a_zero_of_a_softmax_table_has_no_gradient():
    cpd = Arc("p", X, Y, SoftmaxTable(ROWS)).cpd
    cpd.log_table()[:, 1:].sum().backward()
    assert cpd.logits.grad.isfinite().all()
    assert cpd.logits.grad[1, 0] == 0


def test_the_table_follows_the_logits_once_they_move():
    cpd = Arc("p", (), X, SoftmaxTable([0.5, 0.5])).cpd
    with torch.no_grad():
        cpd.logits += torch.tensor([1.0, 0.0])
    assert cpd.table().tolist() == pytest.approx([np.e / (1 + np.e), 1 / (1 + np.e)])


# -- projection --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [SoftmaxTable, SimplexTable])
def test_the_projection_is_the_conditional_and_keeps_rows_without_mass(family):
    cpd = Arc("p", X, Y, family([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])).cpd
    cpd.project(torch.tensor([[0.3, 0.0, 0.7], [0.0, 0.0, 0.0]], dtype=torch.float64))
    np.testing.assert_allclose(cpd.table().detach(), [[0.3, 0.0, 0.7], [0.1, 0.1, 0.8]], atol=1e-15)


def test_a_fixed_table_has_no_projection():
    with pytest.raises(CapabilityError, match="Table has no closed-form projection"):
        Table([0.5, 0.5]).project(torch.ones(2))


# -- simplex -----------------------------------------------------------------------------------------------------------


def test_the_gradient_of_a_simplex_table_is_tangent_and_right():
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.25, 0.25])
    pdg = PDG(Arc("p", (), Y, SimplexTable(p)), Arc("q", (), Y, q))
    score(pdg).value.backward()
    gradient = pdg["p"].cpd.p.grad.numpy()
    mean = np.sqrt(p * q) / np.sqrt(p * q).sum()
    raw = -mean / p  # the envelope theorem, before the projection onto the tangent space
    np.testing.assert_allclose(gradient, raw - raw.mean(), atol=1e-6)
    assert gradient.sum() == pytest.approx(0, abs=1e-12)


def test_a_simplex_table_that_left_the_simplex_says_so_and_can_be_brought_back():
    pdg = PDG(Arc("p", X, Y, SimplexTable([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])))
    cpd = pdg["p"].cpd
    with torch.no_grad():
        cpd.p[0] += torch.tensor([-0.5, 0.25, 0.25])
    with pytest.raises(DissonanceError, match=r"left the simplex.*retract"):
        score(pdg, Attention.only({"p": 1.0}))
    cpd.retract()
    np.testing.assert_allclose(cpd.table().detach(), [[0.0, 0.4, 0.6], [0.1, 0.1, 0.8]], atol=1e-15)


def nearest_on_simplex(point: np.ndarray) -> np.ndarray:
    """Brute force: the best projection over all supports."""
    best, found = np.inf, None
    for size in range(1, len(point) + 1):
        for support in itertools.combinations(range(len(point)), size):
            x = np.zeros_like(point)
            x[list(support)] = point[list(support)] + (1 - point[list(support)].sum()) / size
            if x.min() >= 0 and ((x - point) ** 2).sum() < best:
                best, found = ((x - point) ** 2).sum(), x
    return found


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 5))
def test_retraction_is_the_nearest_point_of_the_simplex(seed: int, spread: float):
    rng = np.random.default_rng(seed)
    cpd = Arc("p", X, Y, SimplexTable(rng.dirichlet(np.ones(3), size=2))).cpd
    moved = rng.normal(scale=spread, size=(2, 3))
    with torch.no_grad():
        cpd.p.copy_(torch.from_numpy(moved))
    cpd.retract()
    np.testing.assert_allclose(cpd.p.detach(), [nearest_on_simplex(row) for row in moved], atol=1e-12)


def test_descent_with_retraction_stays_on_the_simplex_and_reaches_the_target():
    pdg = PDG(Arc("p", (), Y, SimplexTable([0.6, 0.3, 0.1])), Arc("q", (), Y, [0.1, 0.2, 0.7]))
    optimiser = torch.optim.SGD(pdg.parameters(), lr=0.1)
    for _ in range(60):
        optimiser.zero_grad()
        score(pdg).value.backward()
        optimiser.step()
        pdg["p"].cpd.retract()
    np.testing.assert_allclose(pdg["p"].cpd.table().detach(), [0.1, 0.2, 0.7], atol=1e-3)
