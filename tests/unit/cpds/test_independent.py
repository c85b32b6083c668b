"""A cpd that ignores its sources."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    Control,
    SoftmaxTable,
    Table,
    Variable,
    inconsistency,
    lir,
)
from dissonance.cpds import Independent

X, Y, Z = Variable("X", 2), Variable("Y", 3), Variable("Z", 2)


def test_the_table_is_the_product_at_every_source_setting():
    q, r = SoftmaxTable([0.2, 0.3, 0.5]), SoftmaxTable([0.6, 0.4])
    arc = Arc("a", X, (Y, Z), Independent(q, r))
    product = np.outer([0.2, 0.3, 0.5], [0.6, 0.4])
    assert arc.cpd.table().detach().numpy() == pytest.approx(np.stack([product, product]))
    index = [torch.tensor([1, 0])], [torch.tensor([0, 1])]
    alone = Arc("b", X, Y, Independent(q)).cpd
    assert alone.log_prob(*index).exp().tolist() == pytest.approx([0.3, 0.2])


def test_projecting_sets_each_table_to_its_marginal():
    q, r = SoftmaxTable([0.2, 0.3, 0.5]), SoftmaxTable([0.6, 0.4])
    arc = Arc("a", X, (Y, Z), Independent(q, r))
    mu = torch.softmax(torch.randn(2, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64).flatten(), 0)
    arc.cpd.project(mu.reshape(2, 6))
    joint = mu.reshape(2, 3, 2)
    assert q.table().tolist() == pytest.approx(joint.sum((0, 2)).tolist())
    assert r.table().tolist() == pytest.approx(joint.sum((0, 1)).tolist())


def test_the_natural_flow_takes_a_share_of_the_way_to_the_marginals_and_never_overshoots():
    """Steps through the Fisher matrix would jump from .9 to beyond .1, and away for ever."""
    pdg = PDG(
        Arc("p", (), (X, Z), Independent(SoftmaxTable([0.9, 0.1]), Table([0.3, 0.7]))),
        Arc("q", (), (X, Z), [[0.48, 0.02], [0.02, 0.48]]),
    )
    attention = Attention.only({"p": 1.0, "q": math.inf})
    run = lir(pdg, steps=3, attention=attention, control=Control({"p": 1.0}), progress=False)
    p = run.pdg["p"].cpd.table().detach()
    assert p.sum(1)[0].item() == pytest.approx(0.5 + 0.4 * math.exp(-3))
    assert p.sum(0).tolist() == pytest.approx([0.3, 0.7])
    assert run.trace.column("global_upper") == sorted(run.trace.column("global_upper"), reverse=True)


def test_a_hard_independent_arc_leaves_no_coupling_free():
    q = SoftmaxTable([0.5, 0.5])
    pdg = PDG(
        Arc("x", (), X, [0.5, 0.5]),
        Arc("z", (), Z, q),
        Arc("z|x", X, Z, Independent(q)),
        Arc("same", (), (X, Z), [[0.45, 0.05], [0.05, 0.45]]),
    )
    loose = inconsistency(pdg, Attention.only({"x": math.inf, "z": math.inf, "same": 1.0}))
    tight = inconsistency(pdg, Attention.only({"x": math.inf, "z|x": math.inf, "same": 1.0}))
    assert loose.upper == pytest.approx(0.0, abs=1e-7)
    assert tight.upper == pytest.approx(math.log(0.25) - 0.5 * math.log(0.45 * 0.05), abs=1e-9)
    assert tight.solver == "pinned"


def test_tables_and_targets_must_match():
    with pytest.raises(CapabilityError, match="1 axes in all, but there are 2 targets"):
        Arc("a", X, (Y, Z), Independent(SoftmaxTable([0.2, 0.3, 0.5])))
    with pytest.raises(CapabilityError, match="has shape"):
        Arc("a", X, Y, Independent(SoftmaxTable([0.6, 0.4])))
