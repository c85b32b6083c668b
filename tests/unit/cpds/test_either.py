"""A cpd chosen by a finite source, and one that is made of noise."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.distributions import Normal

from dissonance import PDG, Arc, Attention, DissonanceError, Euclidean, Table, Variable, inconsistency
from dissonance.cpds import Data, Either, Generated, LinearGaussian
from dissonance.distributions.samples import Samples
from dissonance.solvers import Sampled

inf = math.inf
C, X, F = Variable("C", ["a", "b", "c"]), Variable("X", Euclidean(1)), Variable("F", 2)


class Affine(nn.Module):
    """3 z + 1."""

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return 3 * z + 1


def test_a_choice_of_tables_is_a_table():
    rows = [[0.1, 0.9], [0.4, 0.6], [1.0, 0.0]]
    chosen = Arc("x", C, F, Either(*(Table(row) for row in rows)))
    torch.testing.assert_close(chosen.log_table().exp(), torch.tensor(rows, dtype=torch.float64))


def test_the_density_of_a_choice_is_that_of_the_chosen_one():
    normals = [(0.0, 1.0), (3.0, 2.0), (-1.0, 0.5)]
    p = Arc("x", C, X, Either(*(LinearGaussian(None, m, s**2) for m, s in normals))).cpd
    values, chosen = torch.tensor([[0.5], [3.0], [1.0], [0.0]]), torch.tensor([2, 0, 1, 1])
    expected = [Normal(*normals[c]).log_prob(v[0]) for c, v in zip(chosen.tolist(), values, strict=True)]
    torch.testing.assert_close(p.log_prob([values], [chosen]).float(), torch.stack(expected))


def test_a_choice_is_drawn_from_the_chosen_one_however_many_values_each_has():
    rows = torch.tensor([[1.0], [2.0], [6.0]])
    parts = Either(Data(rows), Generated(Affine(), 1), LinearGaussian(None, -2.0, 0.25))
    weights = torch.tensor([0.5, 0.3, 0.2])
    pdg = PDG(
        Arc("c", (), C, weights.tolist()),
        Arc("x", C, X, parts),
        Arc("n", (), X, LinearGaussian(None, 0.0, 1.0, learnable=False)),
        Arc("m", (), X, LinearGaussian(None, 0.0, 100.0, learnable=False)),
    )
    squares = torch.tensor([41 / 3, 9 + 1, 4 + 0.25])
    near = float(weights @ squares) / 2 + 0.5 * math.log(2 * math.pi)
    wide = float(weights @ squares) / 200 + 0.5 * math.log(200 * math.pi)
    attention = Attention.only({"c": inf, "x": inf, "n": 1.0, "m": -1.0})
    found = inconsistency(pdg, attention, solver=Sampled(20_000))
    assert found.upper == pytest.approx(near - wide, abs=0.08)
    torch.testing.assert_close(found.mu.marginal("C").float(), weights)
    one = inconsistency(pdg, attention, solver=Sampled(1))
    assert (
        isinstance(one.mu, Samples) and len(one.mu) == 9
    )  # three rows of data, and for the others one value that counts and two that do not
    torch.testing.assert_close(one.mu.marginal("C").float(), weights)


def test_a_generator_is_a_function_of_its_sources_and_noise():
    torch.manual_seed(0)
    f = nn.Linear(3, 2)
    y, z = Variable("Y", Euclidean(1)), Variable("Z", Euclidean(2))
    p = Arc("g", y, z, Generated(f, 2)).cpd
    sources = torch.tensor([[1.0], [5.0]])
    drawn = p.draw([sources], 3, torch.Generator().manual_seed(7))
    noise = torch.randn(6, 2, generator=torch.Generator().manual_seed(7)).reshape(2, 3, 2)
    for i in range(2):
        for k in range(3):
            torch.testing.assert_close(drawn.values[0][i, k], f(torch.cat([sources[i], noise[i, k]])))
    assert drawn.weights.tolist() == [[pytest.approx(1 / 3)] * 3] * 2


def test_what_does_not_fit_is_refused():
    with pytest.raises(DissonanceError, match="a choice between 2 cpds needs a first source with 2 values; C is"):
        Arc("x", C, F, Either(Table([0.5, 0.5]), Table([0.5, 0.5])))
    with pytest.raises(DissonanceError, match="there is no source"):
        Arc("x", (), F, Either(Table([0.5, 0.5]), Table([0.5, 0.5])))
    with pytest.raises(DissonanceError, match="one dimension of noise at least"):
        Generated(Affine(), 0)
    with pytest.raises(
        DissonanceError, match=r"arc 'x' \(-> Y\): Affine makes \(1,\) numbers of a row; the targets need 2"
    ):
        Arc("x", (), Variable("Y", Euclidean(2)), Generated(Affine(), 1))
