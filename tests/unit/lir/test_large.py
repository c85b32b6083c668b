"""A conflict in a large network is scored, blamed and resolved at the price of what leads to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from dissonance import Record, lir, lirs
from dissonance.arc import Arc
from dissonance.cpds import SoftmaxTable
from dissonance.distributions import CliqueTree
from dissonance.distributions.extended import Extended
from dissonance.flows import FullControl
from dissonance.focus import Attention, Control
from dissonance.inconsistency import inconsistency
from dissonance.lir.inner import inner_for
from dissonance.lir.inner.base import Attentions
from dissonance.lir.inner.batched import Batched
from dissonance.lir.parameters import Parameters
from dissonance.pdg import PDG
from dissonance.problem import Batch, prepare
from dissonance.solvers import Answer, Auto, Newton
from dissonance.solvers.peeled import PeeledAnswer
from dissonance.variables import Variable

EXPERTS = Control({"expert 1": 1.0, "expert 2": 1.0})
QUIET = Record()


def network(count: int, back: int = 0, learnable: bool = False) -> PDG:
    """A Bayesian network of ternary variables, each with up to two parents among the last ones before it: so many, or
    half of all, which makes a large network too wide to be solved whole."""
    rng = np.random.default_rng(3)
    v = [Variable(f"X{i}", 3) for i in range(count)]
    arcs: list[Arc] = []
    for i in range(count):
        parents = (
            [v[j] for j in sorted(set(rng.integers(max(0, i - back) if back else i // 2, i, 2).tolist()))] if i else []
        )
        table = rng.dirichlet(np.ones(3), 3 ** len(parents)).reshape([3] * (len(parents) + 1))
        arcs.append(Arc(f"X{i}", parents, v[i], SoftmaxTable(table) if learnable else table))
    return PDG(*arcs)


def above(pdg: PDG, name: str) -> list[str]:
    """A variable and its ancestors, in order."""
    parents = {a.name: [v.name for v in a.sources] for a in pdg}
    found, waiting = set[str](), [name]
    while waiting:
        n = waiting.pop()
        found.add(n)
        waiting += [p for p in parents[n] if p not in found]
    return [n for n in parents if n in found]


def disputed(pdg: PDG, name: str) -> PDG:
    """With two experts who disagree about a variable."""
    v = pdg.variable(name)
    one, two = ([0.9, 0.06, 0.04], [0.05, 0.05, 0.9])
    return pdg + Arc("expert 1", (), v, SoftmaxTable(one)) + Arc("expert 2", (), v, SoftmaxTable(two))


class Seen:
    """Which variables were asked about, and over how many cells mu was put together."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: set[str] = set()
        self.cells = 0
        marginal, calibrated = CliqueTree._marginal, Extended._calibrated

        def asked(mu: CliqueTree, names: tuple[str, ...]) -> torch.Tensor:
            self.names |= set(names)
            return marginal(mu, names)

        def made(mu: Extended, tree, parts: Sequence[CliqueTree], ends) -> list[torch.Tensor]:
            self.cells += tree.cells
            return calibrated(mu, tree, parts, ends)

        monkeypatch.setattr(CliqueTree, "_marginal", asked)
        monkeypatch.setattr(Extended, "_calibrated", made)


def test_a_conflict_in_a_large_network_costs_what_leads_to_it(monkeypatch: pytest.MonkeyPatch):
    pdg = network(400)
    both = disputed(pdg, "X9")
    matter = [*above(pdg, "X9"), "expert 1", "expert 2"]
    assert 4 < len(matter) < 12
    small = both.subgraph(*matter)
    seen = Seen(monkeypatch)
    result, expected = inconsistency(both), inconsistency(small)
    assert result.upper == pytest.approx(expected.upper, abs=1e-9) and result.upper > 0.5
    assert result.loose_ends == {a.name for a in both} - set(matter)
    blamed = {row.name: row for row in result.by_arc()}
    for row in expected.by_arc():
        assert blamed[row.name].contribution == pytest.approx(row.contribution, abs=1e-5)
        assert blamed[row.name].saved_if_dropped == pytest.approx(row.saved_if_dropped, abs=1e-6)
    assert all(blamed[n].contribution == blamed[n].saved_if_dropped == 0 for n in result.loose_ends)
    runs = [lir(x, "uniform", steps=4, control=EXPERTS, trace=QUIET, progress=False) for x in (both, small)]
    assert runs[0].resolution_percent > 95
    for key in ("expert 1.logits", "expert 2.logits"):
        p, q = (torch.softmax(r.theta[key], -1) for r in runs)
        torch.testing.assert_close(p, q, atol=1e-5, rtol=0)
    assert runs[0].distortion_tv <= runs[1].distortion_tv + 1e-5 <= 1
    assert seen.names <= set(matter) and seen.cells == 0


@pytest.mark.parametrize("flow", ["natural", "step", FullControl()], ids=["natural", "step", "full"])
@pytest.mark.parametrize("width", [0, 2])
def test_every_flow_moves_what_it_would_move_in_the_small_network(flow, width: int):
    pdg = network(120, back=width)
    both = disputed(pdg, "X5")
    small = both.subgraph(*above(pdg, "X5"), "expert 1", "expert 2")
    chi = Control({"expert 1": 0.5})
    record = Record(globally=False)
    little = lir(small, steps=2, flow=flow, control=chi, trace=record, progress=False).theta
    for count in (1, 2):  # many runs keep arcs without weight where clusters are not wide
        for run in lirs([both] * count, steps=2, flow=flow, control=chi, trace=record, progress=False):
            p, q = (torch.softmax(theta["expert 1.logits"], -1) for theta in (run.theta, little))
            torch.testing.assert_close(p, q, atol=1e-4, rtol=0)
            assert torch.equal(run.theta["expert 2.logits"], both.theta["expert 2.logits"].detach())


@pytest.mark.parametrize("flow", ["natural", FullControl()], ids=["natural", "full"])
def test_loose_ends_under_control_stay_where_they_are(flow, monkeypatch: pytest.MonkeyPatch):
    pdg = network(100, learnable=True)
    both = disputed(pdg, "X4")
    loose = inconsistency(both).loose_ends
    assert len(loose) > 80
    seen = Seen(monkeypatch)
    chi = Control(dict.fromkeys([*loose, "expert 1"], 1.0))
    start, record = both.theta, Record(globally=False)
    run, again = lirs([both, both], steps=1, flow=flow, control=chi, trace=record, progress=False)
    assert all(torch.equal(run.theta[f"{n}.logits"], again.theta[f"{n}.logits"]) for n in loose)
    run = lir(both, steps=1, flow=flow, control=chi, trace=record, progress=False)
    still = {n for n in loose if torch.equal(run.theta[f"{n}.logits"], start[f"{n}.logits"])}
    assert still == {n for n in loose if torch.equal(again.theta[f"{n}.logits"], start[f"{n}.logits"])}
    assert still == loose and seen.cells == 0
    assert not torch.equal(run.theta["expert 1.logits"], start["expert 1.logits"])


def test_a_loose_end_that_shares_its_table_holds_it_back():
    """Then its mu(s,t) matters: the flow leads to the mean of both, P(1) = m + (P - m) / e."""
    pdg = network(60, back=2)
    shared = SoftmaxTable(0.8 * np.full((3, 3), 1 / 3) + 0.2 * np.eye(3))
    u = Variable("U", 3)
    near, said = Arc("near", pdg.variable("X3"), u, shared), Arc("said", (), u, [0.8, 0.1, 0.1])
    end = Arc("end", pdg.variable("X50"), Variable("W", 3), shared)
    both = disputed(pdg, "X3") + near + said + end
    (solution,) = inconsistency(both).answers
    assert isinstance(solution, PeeledAnswer) and "end" in {arc.name for arc, _ in solution.ends}
    whole = CliqueTree(solution.mu.variables, solution.mu.tree, solution.mu.tables)
    joint = sum(whole.rows(a.sources, a.targets) for a in (near, end))
    p, m = shared.table().detach(), joint / joint.sum(-1, keepdim=True)
    record = Record(globally=False)
    for count in (1, 2):
        for run in lirs([both] * count, steps=1, control=Control({"near": 1.0}), trace=record, progress=False):
            found = torch.softmax(run.theta["near.logits"], -1)
            torch.testing.assert_close(found, m + (p - m) / np.e, atol=1e-9, rtol=0)


def test_runs_that_are_mostly_loose_ends_are_not_solved_whole(monkeypatch: pytest.MonkeyPatch):
    cells: list[tuple[int, int]] = []
    solve = Newton.solve

    def counted(self: Newton, part: Batch, *how: Any, **options: Any) -> Answer:
        cells.append((len(part), part.tree.cells))
        return solve(self, part, *how, **options)

    monkeypatch.setattr(Newton, "solve", counted)
    pdgs = {name: disputed(network(100, back=2), name) for name in ("X4", "X90")}
    for count in (1, 3):
        for name, pdg in pdgs.items():
            (whole,) = prepare(pdg, Attention.uniform(pdg)).parts
            parameters = Parameters([pdg] * count)
            inner = inner_for(parameters, Auto(), Attention.uniform(pdg))
            assert isinstance(inner, Batched)
            cells.clear()
            inner.solve(parameters.theta0, Attentions.of([Attention.uniform(pdg)] * count, [a.name for a in pdg]))
            assert sum(problems for problems, _ in cells) == count
            if name == "X4":
                assert all(size < 0.2 * whole.tree.cells for _, size in cells)
            else:
                assert all(size > 0.8 * whole.tree.cells for _, size in cells)
