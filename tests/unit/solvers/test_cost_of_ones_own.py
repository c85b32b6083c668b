"""A belief with a cost of its own, and a solver for it: every caller honours it, or refuses it by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from dissonance import PDG, Arc, CapabilityError, SoftmaxTable, Table, Variable, inconsistency, lir
from dissonance.answer import Answer, Marginals, Solver
from dissonance.chance import chance
from dissonance.costs import FlatRows
from dissonance.distributions.tree import single
from dissonance.inconsistency import inconsistencies
from dissonance.lir import lirs
from dissonance.problem import Batch
from dissonance.solvers import Auto, Newton

Floats = npt.NDArray[np.float64]
X = Variable("X", 3)
P, Q = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5])


class Squares:
    """The squared distance of mu(t|s) from p(t|s), twice the Brier score."""

    name, forbids, square, unit, least = "squares", False, True, 0.2, 0.0

    def value(self, m: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        mass = rows.totals(m)
        return (m - np.exp(log_p) * mass) ** 2 / np.where(mass > 0, mass, 1.0)

    def price(self, log_q: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        q, p = np.exp(log_q), np.exp(log_p)
        return 2 * (q - p) - rows.totals((q - p) * (q + p))

    def slope(self, m: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        p = np.exp(log_p)
        return 2 * p * (p * rows.totals(m) - m)

    def free(self, log_p: Floats) -> Floats:
        return np.exp(log_p)

    def bets(self, z: Floats, rows: FlatRows) -> Floats:
        return np.log(np.maximum(z, 1e-300))

    def size(self, log_q: Floats, log_p: Floats, rows: FlatRows) -> Floats:
        return 2 + 2 * rows.totals(np.exp(2 * log_q) + np.exp(2 * log_p))


SQUARES = Squares()


class Squared(Table):
    """A fixed table whose cost is the squared distance."""

    cost = SQUARES


class SquaredSoftmax(SoftmaxTable):
    """A table that can move, and whose cost is the squared distance."""

    cost = SQUARES


@dataclass(frozen=True)
class Descent(Solver):
    """Beliefs about one variable at gamma = 0: mirror descent, and a lower bound from prices at its last mu."""

    name = "mirror descent"
    takes = frozenset({"squares"})

    def fits(self, part: Batch) -> bool:
        return "squares" in part.kinds and len(part.variables) == 1 and not part.gamma.any()

    def solve(self, part: Batch, *how: Any, **options: Any) -> Answer:
        rows, arcs = FlatRows.wide([part.log_p.shape[1] // len(part.beliefs)]), part.arcs
        mu = np.full(len(arcs[0].log_p), 1 / len(arcs[0].log_p))
        total = sum(a.beta for a in arcs)
        for k in range(5_000):
            mu = mu * np.exp(-self.price(arcs, mu, rows) / (total * (3 + 0.01 * k)))
            mu /= mu.sum()
        high = sum(a.beta * a.arc.cpd.cost.value(mu, a.log_p, rows).sum() for a in arcs)
        bounds = part.proved(self.price(arcs, mu, rows).min(), high, tol=1e-6)
        return Answer(part, bounds, self.name, Marginals(single(part.sizes), (torch.from_numpy(mu),)))

    def price(self, arcs: Sequence[Any], mu: Floats, rows: FlatRows) -> Floats:
        return sum((a.beta * a.arc.cpd.cost.price(np.log(mu), a.log_p, rows) for a in arcs), np.zeros(len(mu)))


MINE = Auto(first=(Descent(),))


def pdg(kind: type[Table | SoftmaxTable] = Squared, other: object = Q) -> PDG:
    return PDG(Arc("p", (), X, kind(P)), Arc("q", (), X, other))


def expected(p: Floats = P, q: Floats = Q) -> tuple[float, Floats]:
    """The least of |mu - p|^2 + KL(mu || q) over the simplex, by a grid that is refined."""
    best, at, width = math.inf, np.full(3, 1 / 3), 1.0
    for _ in range(60):
        step = np.linspace(-width, width, 41)
        a, b = np.meshgrid(at[0] + step, at[1] + step)
        mu = np.stack([a, b, 1 - a - b], -1).reshape(-1, 3)
        mu = mu[(mu > 0).all(1)]
        cost = ((mu - p) ** 2).sum(1) + (mu * np.log(mu / q)).sum(1)
        if cost.min() < best:
            best, at = float(cost.min()), mu[cost.argmin()]
        width *= 0.6
    return best, at


def test_the_inconsistency_honours_it():
    value, mu = expected()
    found = inconsistency(pdg(), solver=MINE)
    assert found.solver == "mirror descent" and found.converged
    assert found.lower - 1e-9 <= value <= found.upper + 1e-9
    np.testing.assert_allclose(found.mu.marginal("X"), mu, atol=1e-3)
    many = inconsistencies([pdg()] * 3, solver=MINE)
    assert [x.upper for x in many] == [found.upper] * 3


def test_blame_is_in_its_units_and_saves_what_it_costs():
    value, mu = expected()
    rows = {row.name: row for row in inconsistency(pdg(), solver=MINE).by_arc()}
    assert rows["p"].contribution == pytest.approx(float(((mu - P) ** 2).sum()), abs=1e-4)
    assert rows["q"].contribution == pytest.approx(float((mu * np.log(mu / Q)).sum()), abs=1e-4)
    assert rows["p"].saved_if_dropped == pytest.approx(value, abs=1e-5)
    cells = [row for row in inconsistency(pdg(), solver=MINE).by_cell() if row.arc == "p"]
    assert sum(row.contribution for row in cells) == pytest.approx(rows["p"].contribution, abs=1e-9)


def test_its_gradient_is_the_difference_of_values():
    made = pdg(SquaredSoftmax)
    inconsistency(made, solver=MINE).value.backward()
    logits = made["p"].cpd.get_parameter("logits")
    assert logits.grad is not None
    for k in range(3):
        moved = [logits.detach() + sign * 1e-4 * torch.eye(3)[k] for sign in (1, -1)]
        up, down = (expected(torch.softmax(x.double(), 0).numpy())[0] for x in moved)
        assert float(logits.grad[k]) == pytest.approx((up - down) / 2e-4, abs=1e-3)


@pytest.mark.parametrize("flow", ["natural", "step"])
def test_lir_honours_it_alone_and_among_many(flow: str):
    value, _ = expected()
    made = pdg(SquaredSoftmax, SoftmaxTable(Q))
    run = lir(made, steps=3, solver=MINE, flow=flow)
    assert run.before.lower - 1e-9 <= value <= run.before.upper + 1e-9
    assert run.after.upper < 0.9 * run.before.upper
    again = inconsistency(run.pdg, solver=MINE)
    assert run.after.lower - 1e-9 <= again.upper and again.lower <= run.after.upper + 1e-9
    both = lirs([made] * 2, steps=3, solver=MINE, flow=flow)
    assert [x.after.upper for x in both] == pytest.approx([run.after.upper] * 2, abs=1e-9)


def test_without_its_solver_it_is_refused_by_name():
    for ask in (
        lambda: inconsistency(pdg()),
        lambda: inconsistency(pdg(), solver=Newton()),
        lambda: lir(pdg(SquaredSoftmax), steps=1),
    ):
        with pytest.raises(CapabilityError, match=r"arc 'p' \(-> X\) has the cost 'squares'"):
            ask()


def test_sweeps_and_chance_refuse_it_by_name():
    made = pdg(SquaredSoftmax, SoftmaxTable(Q))
    with pytest.raises(CapabilityError, match=r"arc 'p' \(-> X\) has the cost 'squares'"):
        lir(made, "sweep", sweeps=1, solver=MINE)
    counts = torch.tensor([60.0, 30.0, 10.0])
    seen = PDG(Arc("p", (), X, Squared(P), beta=100.0, counts=counts), Arc("q", (), X, Q, beta=100.0, counts=counts))
    with pytest.raises(CapabilityError, match=r"arc 'p' \(-> X\) has the cost 'squares'"):
        chance(inconsistency(seen, solver=MINE), replicates=10)
