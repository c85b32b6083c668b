"""Points row by row: values, gradients, blame and effort where every arc is about the row at hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isnan, log
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dissonance import PDG, Arc, Attention, Euclidean, SoftmaxTable, Variable, inconsistency, lir
from dissonance.cpds import Data, Function, LinearGaussian, NeuralCategorical, PointMass
from dissonance.focus import Control
from dissonance.inconsistency import Inconsistency
from dissonance.instances import classification
from dissonance.problem import Batch
from dissonance.solvers import Answer, Auto, Newton

X, Y, Z = Variable("X", Euclidean(3)), Variable("Y", 4), Variable("Z", 3)
PRIOR = [0.4, 0.3, 0.2, 0.1]


def rows(count: int) -> Tensor:
    return torch.randn(count, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def net(outputs: int, seed: int, inputs: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, 5), nn.Tanh(), nn.Linear(5, outputs)).double()


def two_networks(count: int) -> PDG:
    return PDG(
        Arc("d", (), X, Data(rows(count))),
        Arc("f", X, Y, NeuralCategorical(net(4, 2))),
        Arc("g", X, Y, NeuralCategorical(net(4, 3))),
    )


def chain(count: int) -> PDG:
    """In a row: two beliefs about Z, one of them given Y."""
    return PDG(
        Arc("d", (), X, Data(rows(count))),
        Arc("f", X, Y, NeuralCategorical(net(4, 2))),
        Arc("g", (X, Y), Z, NeuralCategorical(net(3, 3, inputs=4))),
        Arc("h", X, Z, NeuralCategorical(net(3, 4))),
    )


def normaliser(x: Tensor, f: nn.Module, g: nn.Module, beta: tuple[float, float]) -> Tensor:
    """-(b1 + b2) log sum_y p1^(b1/(b1+b2)) p2^(b2/(b1+b2)), the mean over the rows."""
    total = sum(beta)
    logs = [torch.log_softmax(n(x), -1) * b / total for n, b in zip((f, g), beta, strict=True)]
    return (-total * torch.log((logs[0] + logs[1]).exp().sum(-1))).mean()


@dataclass(frozen=True)
class Recorder(Newton):
    """Newton, and how many cells each problem has that it is given."""

    name = "recorder"

    cells: list[int] = field(default_factory=list)

    def solve(self, part: Batch, *how: Any, **options: Any) -> Answer:
        self.cells.extend([part.tree.cells] * len(part))
        return super().solve(part, *how, **options)

    def __hash__(self) -> int:
        return id(self)


@pytest.mark.parametrize("beta", [(1.0, 1.0), (0.3, 2.5), (100.0, 1e-3)])
def test_two_networks_that_must_agree_have_the_closed_form_and_its_gradient(beta: tuple[float, float]):
    pdg = two_networks(50)
    found = inconsistency(pdg, Attention.only({"d": inf, "f": beta[0], "g": beta[1]}))
    f, g = net(4, 2), net(4, 3)
    closed = normaliser(rows(50), f, g, beta)
    assert found.lower <= closed.item() <= found.upper and found.upper - found.lower < 1e-9 and found.converged
    found.value.backward()
    closed.backward()
    for name, network in (("f", f), ("g", g)):
        for own, theirs in zip(pdg[name].cpd.parameters(), network.parameters(), strict=True):
            assert torch.allclose(own.grad, theirs.grad, rtol=1e-10, atol=1e-14)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("count", [8, 64])
def test_the_problems_of_rows_do_not_grow_with_their_number(count: int):
    solver = Recorder()
    inconsistency(chain(count), Attention.only({"d": inf, "f": 1.0, "g": 2.0, "h": 1.0}), solver=Auto(first=(solver,)))
    assert solver.cells == [12] * count


def test_pools_of_rows_are_closed_forms_that_no_solver_is_asked_for():
    solver = Recorder()
    found = inconsistency(
        two_networks(64), Attention.only({"d": inf, "f": 1.0, "g": 2.0}), solver=Auto(first=(solver,))
    )
    assert solver.cells == [] and found.stats["steps"] == 0 and found.method == "row by row"


def tabulated(pdg: PDG, data: dict[str, Tensor], count: int) -> PDG:
    """The same beliefs over finite variables: a Euclidean one becomes the number of its row."""
    stand = {v.name: v if v.is_finite else Variable(v.name, count) for v in pdg.variables}
    arcs: list[Arc] = []
    for a in pdg.arcs:
        sources, targets = ([stand[v.name] for v in side] for side in (a.sources, a.targets))
        grid = torch.cartesian_prod(*(torch.arange(v.size) for v in (*sources, *targets)))
        grid = grid.reshape(-1, len(sources) + len(targets))
        values = [i if v.is_finite else data[v.name][i] for v, i in zip(a.scope, grid.T, strict=True)]
        if isinstance(a.cpd, Data):
            held = [r if v.is_finite else torch.arange(count) for v, r in zip(a.targets, a.cpd.rows, strict=True)]
            p = sum((grid == torch.stack(row)).all(-1).double() for row in zip(*held, strict=True)) / count
        elif isinstance(a.cpd, Function):
            p = (grid[:, 0] == grid[:, 1]).double()
        else:
            p = a.cpd.log_prob(values[len(sources) :], values[: len(sources)]).exp()
        arcs.append(Arc(a.name, sources, targets, torch.as_tensor(p).reshape([v.size for v in (*sources, *targets)])))
    return PDG(*arcs, variables=stand.values())


def agree(found: Inconsistency, plain: Inconsistency, names: Sequence[str] = ("Y",)) -> None:
    assert found.upper == pytest.approx(plain.upper, abs=2e-7) and found.converged
    for ours, theirs in zip(found.by_arc(saved=False), plain.by_arc(saved=False), strict=True):
        assert ours.divergence == pytest.approx(theirs.divergence, abs=1e-4)
    for n in names:
        assert torch.allclose(found.mu.marginal(n), plain.mu.marginal(n), atol=1e-4)


@pytest.mark.parametrize("gamma", [0.0, 0.5])
@pytest.mark.parametrize("hard", [False, True])
def test_a_chain_in_every_row_is_the_finite_problem_over_all_rows(gamma: float, hard: bool):
    beta = {"d": inf, "f": inf if hard else 1.0, "g": 2.0, "h": 1.0}
    attention = Attention.only(beta, dict.fromkeys("dfgh", 1.0), gamma)
    pdg = chain(5)
    found, plain = (inconsistency(p, attention) for p in (pdg, tabulated(pdg, {"X": rows(5)}, 5)))
    agree(found, plain, ("Y", "Z") if gamma else ())
    assert "row by row" in found.method


@pytest.mark.parametrize("alpha", [0.0, 1.0, 1.5])
def test_pools_with_structure_are_the_finite_problem_over_all_rows(alpha: float):
    attention = Attention.only({"d": inf, "f": 1.0, "g": 2.0}, {"d": 0.7, "f": alpha, "g": alpha}, 0.4)
    pdg = two_networks(5)
    agree(inconsistency(pdg, attention), inconsistency(tabulated(pdg, {"X": rows(5)}, 5), attention))


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_two_networks_about_variables_that_must_be_equal_are_pools(gamma: float):
    S = Variable("S", 4)
    turn = torch.eye(4).roll(1, 0)
    pdg = two_networks(5).without("g") + Arc("g", X, S, NeuralCategorical(net(4, 3))) + Arc("e", Y, S, turn)
    attention = Attention.only({"d": inf, "f": 1.0, "g": 2.0, "e": inf}, dict.fromkeys("fge", 1.0), gamma)
    solver = Recorder()
    found = inconsistency(pdg, attention, solver=Auto(first=(solver,)))
    agree(found, inconsistency(tabulated(pdg, {"X": rows(5)}, 5), attention), ("Y", "S"))
    assert solver.cells == [] and found.method == "row by row"


def test_a_hard_function_that_is_no_bijection_is_solved_in_every_row():
    S = Variable("S", 2)
    parity = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    pdg = two_networks(5).without("g") + Arc("g", X, S, NeuralCategorical(net(2, 3))) + Arc("e", Y, S, parity)
    attention = Attention.only({"d": inf, "f": 1.0, "g": 2.0, "e": inf})
    solver = Recorder()
    found = inconsistency(pdg, attention, solver=Auto(first=(solver,)))
    agree(found, inconsistency(tabulated(pdg, {"X": rows(5)}, 5), attention), ("Y", "S"))
    assert solver.cells == [8] * 5


def test_functions_of_rows_and_finite_columns_belong_to_the_row():
    W, L = Variable("W", Euclidean(2)), Variable("L", 3)
    labels = torch.tensor([0, 2, 2, 1, 0])
    made = net(2, 7)
    pdg = PDG(
        Arc("d", (), (X, L), Data(rows(5), labels)),
        Arc("e", X, W, Function(made)),
        Arc("f", X, Y, NeuralCategorical(net(4, 2))),
        Arc("g", (W, L), Y, NeuralCategorical(net(4, 3, inputs=3))),
        Arc("h", (X, W), Y, NeuralCategorical(net(4, 5, inputs=5))),
    )
    with torch.no_grad():
        data = {"X": rows(5), "W": made(rows(5))}
    beta = {"d": inf, "e": inf, "f": 1.0, "g": 2.0, "h": 0.5}
    found, plain = (inconsistency(p, Attention.only(beta)) for p in (pdg, tabulated(pdg, data, 5)))
    agree(found, plain, ("Y", "L"))
    assert found.method == "row by row"


def test_a_density_of_the_rows_costs_what_it_says_of_them():
    normal = Arc("n", (), X, LinearGaussian(None, [0.0, 0.0, 0.0], 1.0, learnable=False))
    pdg = two_networks(5) + normal
    attention = Attention.only({"d": inf, "f": 1.0, "g": 1.0, "n": 2.0})
    found = inconsistency(pdg, attention)
    density = -torch.distributions.Normal(0.0, 1.0).log_prob(rows(5)).sum(-1).mean().item()
    closed = normaliser(rows(5), net(4, 2), net(4, 3), (1.0, 1.0)).item()
    assert found.upper == pytest.approx(closed + 2 * (density - log(5)), abs=1e-9) and found.up_to_constant
    assert [r.divergence for r in found.by_arc()][3] == pytest.approx(density - log(5), abs=1e-9)


def test_a_belief_about_all_rows_together_holds_them_together():
    pdg = two_networks(5) + Arc("y", (), Y, SoftmaxTable(PRIOR))
    attention = Attention.only({"d": inf, "f": 1.0, "g": 1.0, "y": 1.0})
    found = inconsistency(pdg, attention)
    agree(found, inconsistency(tabulated(pdg, {"X": rows(5)}, 5), attention))
    assert "row by row" not in found.method


def test_rows_that_contradict_each_other_outright_are_infinite():
    pdg = PDG(
        Arc("d", (), X, Data(rows(3))),
        Arc("f", X, Y, NeuralCategorical(nn.Sequential(net(4, 2), _Only(0)))),
        Arc("g", X, Y, NeuralCategorical(nn.Sequential(net(4, 3), _Only(1)))),
    )
    found = inconsistency(pdg, Attention.only({"d": inf, "f": 1.0, "g": 1.0}))
    assert found.lower == found.upper == inf and "inf" in repr(found)
    assert all(isnan(r.divergence) for r in found.by_arc() if r.name in "fg")


class _Only(nn.Module):
    """Logits that leave one value."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def forward(self, x: Tensor) -> Tensor:
        return torch.full_like(x, -inf).index_fill(-1, torch.tensor([self.index]), 0.0)


def test_a_step_of_lir_on_two_networks_is_a_gradient_step_of_the_closed_form():
    control = Control({"f": 0.5, "g": 0.25})
    run = lir(
        two_networks(20),
        attention=Attention.only({"d": inf, "f": 1.0, "g": 2.0}),
        control=control,
        steps=3,
        flow="step",
    )
    f, g = net(4, 2), net(4, 3)
    for _ in range(3):
        for n in (f, g):
            n.zero_grad()
        normaliser(rows(20), f, g, (1.0, 2.0)).backward()
        with torch.no_grad():
            for n, rate in ((f, 0.5), (g, 0.25)):
                for p in n.parameters():
                    p -= rate * p.grad  # pyright: ignore[reportOperatorIssue]
    for name, network in (("f", f), ("g", g)):
        for ours, theirs in zip(run.pdg[name].cpd.parameters(), network.parameters(), strict=True):
            assert torch.allclose(ours, theirs, atol=1e-12)
    assert run.after.upper < run.before.upper


@pytest.mark.parametrize("confidence", [inf, 1.0])
def test_results_at_points_are_printed_shown_and_blamed(confidence: float):
    label = torch.tensor(PRIOR, dtype=torch.float64)
    example = classification(net(4, 2), rows(1)[0], label, confidence=confidence)
    found = inconsistency(example.pdg, example.attention)
    p = torch.softmax(net(4, 2)(rows(1)[0]), -1).detach()
    assert f"{found.upper:.9g} nats" in repr(found) and "<svg" in found._repr_html_()
    at = {r.name: r for r in found.by_arc()}
    assert sum(r.contribution for r in at.values()) == pytest.approx(found.upper, abs=1e-9)
    mu = label if confidence == inf else (label * p).sqrt() / (label * p).sqrt().sum()
    assert at["p"].divergence == pytest.approx((mu * (mu / p).log()).sum().item(), abs=1e-9)
    assert [at[n].saved_if_dropped for n in "py"] == pytest.approx([found.upper] * 2, abs=1e-9)
    assert isnan(at["x"].saved_if_dropped or 0.0)  # nothing else makes X


def test_the_blame_of_a_result_at_points_does_not_move_with_the_parameters():
    example = classification(net(4, 2), rows(1)[0], 2)
    found = inconsistency(example.pdg, example.attention)
    with torch.no_grad():
        for p in example.pdg.parameters():
            p += 1.0
    assert found.by_arc(saved=False)[1].divergence == pytest.approx(found.upper, abs=1e-12)


def test_a_point_mass_beside_rows_is_the_same_in_every_row():
    V = Variable("V", Euclidean(2))
    point = torch.tensor([0.5, -1.0], dtype=torch.float64)
    pdg = PDG(
        Arc("v", (), V, PointMass(point)),
        Arc("d", (), X, Data(rows(6))),
        Arc("f", X, Y, NeuralCategorical(net(4, 2))),
        Arc("g", (X, V), Y, NeuralCategorical(net(4, 3, inputs=5))),
    )
    found = inconsistency(pdg, Attention.only({"d": inf, "v": inf, "f": 1.0, "g": 1.0}), solver=Auto())
    both = torch.cat([rows(6), point.expand(6, 2)], -1)
    p, q = torch.softmax(net(4, 2)(rows(6)), -1), torch.softmax(net(4, 3, inputs=5)(both), -1)
    closed = (-2 * (p * q).sqrt().sum(-1).log()).mean()
    assert found.upper == pytest.approx(closed.item(), abs=1e-9) and found.method == "row by row"
    (slope,) = torch.autograd.grad(found.value, pdg["v"].cpd.parameters())
    leaf = point.clone().requires_grad_()
    q = torch.softmax(net(4, 3, inputs=5)(torch.cat([rows(6), leaf.expand(6, 2)], -1)), -1)
    (wanted,) = torch.autograd.grad((-2 * (p.detach() * q).sqrt().sum(-1).log()).mean(), leaf)
    assert torch.allclose(slope.reshape(-1), wanted, rtol=1e-10)


def test_rows_that_leave_nothing_open_are_added_up():
    example = classification(net(4, 2), rows(1)[0], 2)
    found, sampled = (inconsistency(example.pdg, example.attention, solver=s) for s in ("at-points", "sampled"))
    assert found.upper == pytest.approx(sampled.upper, abs=1e-12) and len(found.mu.values["X"]) == 1
