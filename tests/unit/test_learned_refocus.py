"""benchmarks/learned_refocus.py: its batch of PDGs against the library, and what a policy of keys and queries is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Control, SoftmaxTable, Variable, inconsistency, lir

ROOT = Path(__file__).parents[2]


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import learned_refocus

    return learned_refocus


def as_pdg(batch, k: int) -> PDG:
    """One PDG of a batch, with names."""
    xs = [Variable(f"X{i}", 2) for i in range(batch.source.shape[-1])]
    arcs = []
    for a in range(batch.tables.shape[1]):
        sources = [v for v, x in zip(xs, batch.source[k, a].tolist(), strict=True) if x]
        target = next(v for v, x in zip(xs, batch.target[k, a].tolist(), strict=True) if x)
        p = batch.tables[k, a].double() if sources else batch.tables[k, a, 0].double()
        arcs.append(Arc(f"p{a}", sources, target, SoftmaxTable(p)))
    return PDG(*arcs, variables=xs)


def test_the_batch_has_the_inconsistencies_of_the_library_and_falls_as_its_runs_do(study):
    batch = study.Batch.drawn(4, 4, 6, torch.Generator().manual_seed(0))
    start = torch.full((4, 16), -np.log(16.0))
    ones = torch.ones(4, 6)
    _, q, parts = batch.solve(batch.tables.log(), ones, start, 400)
    left, first = study.unrolled(batch, study.KeysAndQueries(), False, 2, 100)
    for k in range(4):
        pdg = as_pdg(batch, k)
        exact = inconsistency(pdg).upper
        assert parts[k].sum().item() == pytest.approx(exact, abs=1e-3)
        assert first[k].item() == pytest.approx(exact, abs=1e-3)
        run = lir(pdg, steps=2, control=Control({a.name: 1.0 for a in pdg}))  # mu* is not unique: nor is the step
        for after in ((left * first)[k].item(), run.after.upper):
            assert 0 <= after <= np.exp(-2) * exact + 1e-3  # docs/convergence.md, theorem 2
    torch.testing.assert_close(q.sum(-1), torch.ones(4, 6, 2))


def test_a_policy_does_not_depend_on_the_order_of_the_arcs(study):
    torch.manual_seed(0)
    policy = study.KeysAndQueries()
    torch.nn.init.normal_(policy.query.weight)
    batch = study.Batch.drawn(3, 5, 7, torch.Generator().manual_seed(1))
    seen = torch.rand(3, 7)
    other = torch.randperm(7)

    def scores(order: torch.Tensor) -> torch.Tensor:
        told = [x[:, order] for x in (batch.tables, batch.known, batch.target, batch.source, seen)]
        return policy(study.features_of(*told), batch.touching()[:, order][:, :, order], 0.5)

    mine = scores(torch.arange(7)).detach()
    torch.testing.assert_close(scores(other).detach(), mine[:, other], rtol=0, atol=1e-5)
    assert float(mine.std(1).min()) > 1e-3  # it does distinguish them


def test_the_refocus_attends_as_the_policy_did_in_training(study):
    torch.manual_seed(2)
    policy = study.KeysAndQueries()
    torch.nn.init.normal_(policy.query.weight)
    batch = study.Batch.drawn(2, 5, 7, torch.Generator().manual_seed(3))
    features = study.features_of(batch.tables, batch.known, batch.target, batch.source, torch.zeros(2, 7))
    expected = 7 * torch.softmax(policy(features, batch.touching(), 0.0), -1)
    policy = policy.double().eval()
    for k in range(2):
        pdg = as_pdg(batch, k)
        row = lir(pdg, study.KeyedRefocus(policy, False, 2), steps=1).trace.rows[0]
        assert list(row.beta.values()) == pytest.approx(expected[k].tolist(), abs=1e-4)
        row = lir(pdg, study.KeyedRefocus(policy, True, 2), steps=1).trace.rows[0]
        shared = set.intersection(*({v.name for v in pdg[n].scope} for n in row.beta))
        assert shared and set(row.beta.values()) == {1.0}  # the arcs at one variable
