"""Tables: what they accept, what they refuse, and that their numbers stay what they were."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dissonance.arc import Arc
from dissonance.cpds import SimplexTable, SoftmaxTable, Table
from dissonance.cpds.table import log_tables
from dissonance.errors import DissonanceError
from dissonance.variables import Variable

X, Y = Variable("X", 2), Variable("Y", ["a", "b", "c"])
FAMILIES = [Table, SoftmaxTable, SimplexTable]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0.2, 0.3, 0.5], [0.0, 0.5, 0.6]], "arc 'q' (X -> Y): the slice at X=1 sums to 1.1, not 1."),
        ([[0.2, 0.3, 0.5], [-0.5, 0.5, 1.0]], "arc 'q' (X -> Y): the slice at X=1 holds the negative number -0.5."),
        ([[math.nan, 0.5, 0.5], [0.0, 0.5, 0.5]], "the slice at X=0 holds a number that is not finite."),
        ([[math.inf, 0.5, 0.5], [0.0, 0.5, 0.5]], "the slice at X=0 holds a number that is not finite."),
        ([0.2, 0.8], "the table has shape (2,), but (X) -> (Y) needs (2, 3)."),
        ([[0.2, 0.3, 0.5], [1.0]], "a table is an array of numbers"),
        ("half", "a table is an array of numbers"),
    ],
)
def test_what_is_no_table_of_probabilities_is_refused(family: type, table: object, message: str):
    with pytest.raises(DissonanceError) as refused:
        Arc("q", X, Y, family(table))
    assert message in str(refused.value)


@pytest.mark.parametrize("family", FAMILIES)
@given(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3).filter(lambda row: sum(row) > 1e-3))
def test_renormalising_twice_changes_no_bit(family: type, row: list[float]):
    p = torch.tensor(row, dtype=torch.float64)
    p = p / p.sum() * (1 + 5e-7)
    once = Arc("p", (), Y, Table(p)).cpd.table()
    assert abs(float(once.sum()) - 1) <= 3 * np.finfo(float).eps
    torch.testing.assert_close(once, p / p.sum(), rtol=1e-14, atol=0)
    twice = Arc("p", (), Y, family(once)).cpd
    if family is not SimplexTable:  # whose table is an affine function of its parameters
        assert torch.equal(twice.table(), once)
    torch.testing.assert_close(twice.log_table().detach().exp(), once, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("make", [torch.tensor, np.array, lambda x, dtype: x], ids=["tensor", "array", "list"])
def test_a_table_keeps_its_own_copy(family: type, make):
    given = make([[0.2, 0.3, 0.5], [0.0, 0.5, 0.5]], dtype=torch.float64 if make is torch.tensor else np.float64)
    cpd = Arc("q", X, Y, family(given)).cpd
    before = cpd.table().detach().clone()
    given[0][0] = 9.0
    assert torch.equal(cpd.table().detach(), before)


def test_a_softmax_table_that_moved_no_longer_says_what_it_was_made_from():
    cpd = SoftmaxTable([0.25, 0.75])
    Arc("p", (), X, cpd)
    assert cpd.table().tolist() == [0.25, 0.75]
    with torch.no_grad():
        cpd.logits += torch.tensor([math.log(3.0), 0.0])
    assert cpd.table().tolist() == pytest.approx([0.5, 0.5])


def test_a_table_is_a_buffer_and_no_parameter():
    cpd = Table([0.25, 0.75])
    assert list(cpd.state_dict()) == ["p"]
    assert not list(cpd.parameters())
    assert cpd.to(torch.float64).p.tolist() == [0.25, 0.75]


def test_a_table_is_a_module_like_any_other():
    cpd = Arc("p", X, Y, [[0.2, 0.3, 0.5], [0.0, 0.5, 0.5]]).cpd
    assert isinstance(cpd, Table) and isinstance(cpd, torch.nn.Module)
    plain, seen = torch.nn.Module(), []
    plain.register_buffer("p", cpd.p.clone())
    assert repr(dict(cpd.state_dict())) == repr(dict(plain.state_dict()))
    cpd.register_forward_hook(lambda module, args, result: seen.append(args))
    assert torch.equal(cpd("table"), cpd.p) and seen == [("table",)]
    for twin in (copy.deepcopy(cpd), pickle.loads(pickle.dumps(Table([0.5, 0.5])))):
        assert all(hasattr(twin, name) for name in vars(plain))
    assert len(copy.deepcopy(cpd)._forward_hooks) == 1 and not Table([0.5, 0.5])._forward_hooks
    assert [n for n, _ in torch.nn.ModuleList([cpd]).named_buffers()] == ["0.p"]
    assert not cpd.eval().training and cpd.float().p.dtype == torch.float32
    with pytest.raises(AttributeError, match="'Table' object has no attribute 'q'"):
        _ = cpd.q


def test_logarithms_taken_together_are_those_of_each_table():
    rng = np.random.default_rng(0)
    shapes = [(2, 3), (3,), (2, 3), (2, 2, 2), (3,), (5, 7)]
    tables = [Table(rng.dirichlet(np.full(s[-1], 0.3), s[:-1]).round(1)) for s in shapes]  # some entries are 0
    together, sound = log_tables(tables)
    assert sound
    for table, log_p in zip(tables, together, strict=True):
        np.testing.assert_array_equal(log_p, table.log_table().numpy())
