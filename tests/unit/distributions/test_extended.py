"""mu along loose ends: every marginal is that of the joint, and only what leads to it is put together."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from dissonance.arc import Arc
from dissonance.cpds import Table
from dissonance.distributions import CliqueTree
from dissonance.distributions.extended import Extended
from dissonance.distributions.tree import single
from dissonance.errors import SizeError
from dissonance.problem import BUDGET
from dissonance.variables import Variable

A, B, C, D, E, F, G = (Variable(n, k) for n, k in zip("ABCDEFG", (2, 3, 2, 3, 2, 3, 2), strict=True))
EVERY = (A, B, C, D, E, F, G)


def rows(rng: np.random.Generator, *scope: Variable) -> np.ndarray:
    return rng.dirichlet(np.ones(scope[-1].size), [v.size for v in scope[:-1]])


def made(budget: int = BUDGET) -> tuple[Extended, torch.Tensor]:
    """Parts over A, B and over C; A, C -> D -> E; B -> F; G is nobody's. And the same as a joint of all seven."""
    rng = np.random.default_rng(0)
    ab, c = rng.dirichlet(np.ones(6)).reshape(2, 3), rng.dirichlet(np.ones(2))
    d, e, f = rows(rng, A, C, D), rows(rng, D, E), rows(rng, B, F)
    parts = [
        CliqueTree(scope, single({v.name: v.size for v in scope}), [torch.from_numpy(p)])
        for scope, p in (((A, B), ab), ((C,), c))
    ]
    arcs = Arc("e", D, E, Table(e)), Arc("f", B, F, Table(f)), Arc("d", (A, C), D, Table(d))
    ends = [(a, a.log_table()) for a in arcs]
    joint = np.einsum("ab,c,acd,de,bf,g->abcdefg", ab, c, d, e, f, np.full(2, 0.5))
    return Extended(EVERY, parts, ends, budget), torch.from_numpy(joint)


@pytest.mark.parametrize("count", range(8))
def test_marginals_are_those_of_the_joint(count: int):
    mu, joint = made()
    for names in itertools.combinations("ABCDEFG", count):
        rest = [i for i, n in enumerate("ABCDEFG") if n not in names]
        torch.testing.assert_close(mu.marginal(*names), joint.sum(rest) if rest else joint, atol=1e-14, rtol=0)
    torch.testing.assert_close(mu.marginal("E", "A"), joint.sum([1, 2, 3, 5, 6]).T, atol=1e-14, rtol=0)


def test_entropy_and_samples_are_those_of_the_joint():
    mu, joint = made()
    assert float(mu.entropy()) == pytest.approx(-float((joint * joint.log()).sum()), abs=1e-12)
    drawn = mu.sample(20_000, torch.Generator().manual_seed(0))
    share = np.mean([x == y == 0 for x, y in zip(drawn["E"], drawn["B"], strict=True)])
    exact = float(mu.marginal("E", "B")[0, 0])
    assert abs(share - exact) < 4 * math.sqrt(exact * (1 - exact) / 20_000)


def test_only_what_leads_to_a_marginal_is_put_together():
    mu, _ = made()
    mu.marginal("A", "B")
    assert mu._worked == 0 and repr(mu) == "Extended(7 variables, 2 parts, 3 loose ends)"
    mu.marginal("F")  # over B, F and the part A, B
    assert mu._worked <= 6 + 9 and "tables" not in vars(mu)
    for _ in range(10):
        mu.marginal("E")
    assert "tables" in vars(mu)  # by now that is cheaper


def test_what_does_not_fit_is_refused_and_what_does_is_answered():
    mu, joint = made(budget=64 * 16)
    torch.testing.assert_close(mu.marginal("F"), joint.sum([0, 1, 2, 3, 4, 6]), atol=1e-14, rtol=0)
    with pytest.raises(SizeError, match="treewidth"):
        mu.marginal("E")
    for _ in range(10):
        mu.marginal("F")  # all of it does not fit, however often a part is asked for
