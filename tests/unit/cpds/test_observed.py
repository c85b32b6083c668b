"""Cpds of data: densities at the rows, weighted maximum likelihood, partial steps, shared parameters."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, CapabilityError, DissonanceError, SoftmaxTable, Variable
from dissonance.cpds import CPD, Evidence, ObservedCategorical, ObservedGaussian, TableInRows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2)) * [1.0, 3.0] + 2
HOLES = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
MEANS = np.array([[1.0, 2.0], [3.0, 0.0], [2.0, 2.0]])
FULL = np.stack([np.eye(2) + 0.3 * k for k in range(3)])
CODES = np.stack([RNG.integers(-1, 3, 30), RNG.integers(-1, 2, 30)], 1)
TABLES = [RNG.dirichlet(np.ones(3), 3), RNG.dirichlet(np.ones(2), 3)]
JOINT = torch.from_numpy(RNG.dirichlet(np.ones(90)).reshape(3, 30))
Z, ROW = Variable("Z", 3), Variable("row", 30)

MAKERS = {
    "full": lambda: ObservedGaussian(X, MEANS, FULL),
    "tied": lambda: ObservedGaussian(X, MEANS, FULL[1], "tied"),
    "diag": lambda: ObservedGaussian(X, MEANS, np.ones((3, 2)), "diag"),
    "diag with holes": lambda: ObservedGaussian(HOLES, MEANS, np.ones((3, 2)), "diag"),
    "full with a floor": lambda: ObservedGaussian(X, MEANS, FULL, floor=0.2),
    "tied with a floor": lambda: ObservedGaussian(X, MEANS, FULL[2], "tied", floor=0.2),
    "diag with a floor": lambda: ObservedGaussian(HOLES, MEANS, np.ones((3, 2)), "diag", floor=0.2),
    "categorical": lambda: ObservedCategorical(CODES, TABLES),
}
each = pytest.mark.parametrize("cpd", [pytest.param(m, id=n) for n, m in MAKERS.items()])


def cost(cpd: CPD) -> torch.Tensor:
    """E_mu[-log p]."""
    return -(JOINT * cpd.log_table()).sum()


@each
def test_the_projection_is_where_the_gradient_vanishes(cpd):
    made = cpd()
    before = float(cost(made).detach())
    made.project(JOINT)
    value = cost(made)
    value.backward()
    assert float(value.detach()) < before
    for p in made.parameters():
        assert float(p.grad.nan_to_num(0.0).abs().max()) < 1e-12


@each
def test_expectations_of_parts_of_the_data_add_up(cpd):
    whole = cpd()
    halves = [whole.rows(torch.arange(30)[half]) for half in (slice(0, 11), slice(11, 30))]
    parts = [h.expectations(JOINT[:, s]) for h, s in zip(halves, (slice(0, 11), slice(11, 30)), strict=True)]
    torch.testing.assert_close(whole.expectations(JOINT), parts[0] + parts[1], rtol=0, atol=1e-12)
    assert all(a is b for h in halves for a, b in zip(h.parameters(), whole.parameters(), strict=True))


@each
def test_partial_matches_add_up_as_times_of_a_flow_do(cpd):
    """1 - e^-(s + t) = 1 - (1 - share) (1 - other share), no share is no move, and a small one is downhill."""
    once, twice = cpd(), cpd()
    once.match(once.expectations(JOINT), 1 - 0.9 * 0.7)
    twice.match(twice.expectations(JOINT), 0.1)
    twice.match(twice.expectations(JOINT), 0.3)
    for a, b in zip(once.parameters(), twice.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
    still = cpd()
    still.match(still.expectations(JOINT), 0.0)
    for a, b in zip(still.parameters(), cpd().parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)
    near = cpd()
    before = float(cost(near).detach())
    near.match(near.expectations(JOINT), 1e-3)
    assert float(cost(near).detach()) < before


def test_a_small_partial_match_is_a_step_along_the_natural_gradient():
    """F = mass C^-1 for a mean, so -F^-1 grad = -C grad / mass."""
    made, share = MAKERS["full"](), 1e-7
    cost(made).backward()
    expected = -(torch.tensor(FULL) @ made.means.grad[..., None])[..., 0] / JOINT.sum(1, keepdim=True)
    made.match(made.expectations(JOINT), share)
    torch.testing.assert_close((made.means.detach() - torch.tensor(MEANS)) / share, expected, rtol=0, atol=1e-7)


@each
def test_the_table_is_kept_and_made_again_when_theta_moves(cpd):
    made = cpd()
    with torch.no_grad():
        first = made.log_table()
        assert made.log_table().data_ptr() == first.data_ptr()
        next(made.parameters()).data.add_(0.1)
        assert not torch.equal(made.log_table(), first)
        assert copy.deepcopy(made).sample is made.sample


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_densities_are_those_of_torch(kind: str):
    made = MAKERS[kind]()
    covariance = {"full": FULL, "tied": np.stack([FULL[1]] * 3), "diag": np.stack([np.eye(2)] * 3)}[kind]
    for k in range(3):
        normal = torch.distributions.MultivariateNormal(torch.tensor(MEANS[k]), torch.tensor(covariance[k]))
        torch.testing.assert_close(made.log_table()[k], normal.log_prob(torch.tensor(X)), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(made.log_prob([torch.tensor(4)], [torch.tensor(2)]), made.log_table()[2, 4])


def test_rows_without_any_entry_say_nothing():
    x = X.copy()
    x[3] = np.nan
    made = ObservedGaussian(x, MEANS, FULL)
    assert (made.log_table()[:, 3] == 0).all()
    joint = JOINT.clone()
    joint[:, 3] = 0
    other = ObservedGaussian(X, MEANS, FULL)
    torch.testing.assert_close(made.expectations(JOINT), other.expectations(joint))


@each
def test_settings_without_mass_keep_their_value(cpd):
    made, joint = cpd(), JOINT.clone()
    joint[1] = 0.0
    made.project(joint)
    fresh = cpd()
    names = ["logits"] if isinstance(made, ObservedCategorical) else ["means"]
    for name in names:
        torch.testing.assert_close(getattr(made, name)[1], getattr(fresh, name)[1], rtol=0, atol=1e-12)
        assert not torch.equal(getattr(made, name)[0], getattr(fresh, name)[0])


def test_evidence_is_one_where_the_row_agrees_or_does_not_say():
    made = Evidence([0, -1, 2], 3)
    expected = [[0, 0, -math.inf], [-math.inf, 0, -math.inf], [-math.inf, 0, 0]]
    assert made.log_table().tolist() == expected


def test_a_table_in_rows_holds_there_and_is_uniform_elsewhere():
    table = SoftmaxTable([[0.9, 0.1], [0.2, 0.8]])
    made = TableInRows(table, [True, False, True])
    arc = Arc("t", (Variable("A", 2), Variable("row", 3)), Variable("B", 2), made)
    torch.testing.assert_close(arc.log_table().exp()[:, 0], table.table())
    assert (arc.log_table().exp()[:, 1] == 0.5).all()
    joint = torch.from_numpy(RNG.dirichlet(np.ones(12)).reshape(6, 2))
    made.project(joint)
    wanted = joint.reshape(2, 3, 2)[:, [0, 2]].sum(1)
    torch.testing.assert_close(table.table(), wanted / wanted.sum(1, keepdim=True))
    assert len(list(PDG(arc, Arc("u", Variable("A", 2), Variable("B", 2), table)).parameters())) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ObservedGaussian(X, MEANS, FULL[:2]), "covariances the shape"),
        (lambda: ObservedGaussian(X, MEANS, -FULL), "the covariance of setting 0 is not positive definite"),
        (lambda: ObservedGaussian(X, MEANS, -FULL[0], "tied"), "the tied covariance is not positive definite"),
        (lambda: ObservedGaussian(X[0], MEANS, FULL), "the data: an array of 2 axes is needed, found 1"),
        (lambda: ObservedGaussian([["a"]], MEANS, FULL), "the data: an array of numbers is needed"),
        (lambda: ObservedCategorical([[0, 5]], TABLES), "row 0, column 1 holds 5; the values are 0 to 1"),
        (lambda: ObservedCategorical([[0]], TABLES), "the data has 1 columns, but there are tables for 2"),
        (lambda: ObservedCategorical([[0]], [[[0.5, 0.6]]]), "the table of column 0 needs 1 rows"),
        (lambda: Evidence([0, 3], 3), "row 1 holds 3"),
        (lambda: Arc("x", Z, Variable("row", 4), MAKERS["full"]()), "there are 30 rows of data"),
        (lambda: Arc("x", Variable("Z", 2), ROW, MAKERS["full"]()), r"3 distributions, but 2 settings of \(Z\)"),
        (lambda: Arc("x", Z, ROW, TableInRows(SoftmaxTable([[1.0]]), [True])), "a table in rows is about"),
    ],
)
def test_what_does_not_fit_is_refused(make, message: str):
    with pytest.raises(DissonanceError, match=message):
        make()


def test_partly_missing_rows_need_variances():
    with pytest.raises(CapabilityError, match=r'Use covariance="diag"'):
        ObservedGaussian(HOLES, MEANS, FULL)
