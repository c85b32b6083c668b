"""PDGs in columns: the same PDG as the one made arc by arc, in arrays and in files."""

from __future__ import annotations

import copy
import io
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    Focus,
    SoftmaxTable,
    Table,
    Variable,
    inconsistency,
    lir,
    load,
    save,
)
from dissonance.columns import Column, ColumnarPDG
from dissonance.errors import DissonanceError, FormatError


def tables(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1])


UNARY, PAIR = tables(4, 2), tables(3, 2, 2, seed=1)


def columnar(**options: Any) -> PDG:
    return PDG.from_columns(Column([], range(4), UNARY, **options), Column([0, 1, 2], [1, 2, 3], PAIR, **options))


def by_hand() -> PDG:
    x = [Variable(f"X{i}", 2) for i in range(4)]
    return PDG(
        *(Arc(f"a{i}", (), v, SoftmaxTable(UNARY[i])) for i, v in enumerate(x)),
        *(Arc(f"a{4 + i}", x[i], x[i + 1], SoftmaxTable(PAIR[i])) for i in range(3)),
    )


def test_it_is_the_pdg_made_arc_by_arc():
    made, hand = columnar(), by_hand()
    assert len(made) == 7 and made.variables == hand.variables and repr(made) == repr(hand)
    for a, b in zip(made, hand, strict=True):
        assert (a.name, a.sources, a.targets, a.beta) == (b.name, b.sources, b.targets, b.beta)
        assert torch.equal(a.cpd.log_table(), b.cpd.log_table())
    assert inconsistency(made).upper == inconsistency(hand).upper
    assert [a.name for a in made.around("X1")] == [a.name for a in hand.around("X1")] == ["a1", "a4", "a5"]
    assert "a6" in made and "a7" not in made and "a06" not in made and "X0" not in made
    with pytest.raises(DissonanceError, match="no arc named 'a7'"):
        made["a7"]
    run, known = (lir(pdg, "hub", steps=3, seed=1) for pdg in (made, hand))
    assert all(torch.allclose(run.theta[k], x) for k, x in known.theta.items())


def test_arcs_are_views_of_the_columns():
    made = columnar()
    assert isinstance(made, ColumnarPDG)
    with torch.no_grad():
        next(made["a5"].cpd.parameters()).add_(torch.tensor([1.0, 0.0]))
    assert torch.equal(made.columns[1].tables[1], next(made["a5"].cpd.parameters()))
    made.columns[0].tables[2] = 0.0
    assert made["a2"].cpd.table().tolist() == [0.5, 0.5]


def test_an_arc_is_made_when_it_is_asked_for():
    made = PDG.from_columns(Column([], range(100_000), np.full((100_000, 2), 0.5)))
    assert made["a99999"].targets[0].name == "X99999"
    assert "arcs" not in vars(made) and "variables" not in vars(made) and len(made) == 100_000


def test_it_is_copied_and_pickled_without_its_views():
    made = columnar()
    made["a1"]
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert isinstance(other, ColumnarPDG) and repr(other) == repr(made)
        assert all(torch.equal(a.cpd.log_table(), b.cpd.log_table()) for a, b in zip(made, other, strict=True))
        assert other["a1"].cpd is not made["a1"].cpd


def test_fixed_tables_can_be_made_to_move():
    made = columnar(learnable=False)
    assert all(type(a.cpd) is Table for a in made) and not made.theta
    moving = made.learnable()
    assert isinstance(moving, ColumnarPDG) and len(moving.theta) == 7
    assert torch.allclose(moving["a4"].cpd.log_table(), made["a4"].cpd.log_table(), rtol=1e-15)
    assert len(made.learnable("a4").theta) == 1


def test_variables_by_name_and_arcs_by_name_from_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"from": ["Rain", "Rain"], "to": ["Wet", "Jam"], "p": [0.9, 0.6], "q": [0.2, 0.3]})
    p = np.stack([frame[["p", "q"]], 1 - frame[["p", "q"]]], -1)
    made = PDG.from_columns(Column(frame["from"], frame["to"], p, names=["wet", "jam"], beta=[1.0, 3.0]))
    assert [v.name for v in made.variables] == ["Jam", "Rain", "Wet"]
    assert str(made["jam"]) == "arc 'jam' (Rain -> Jam)" and made["jam"].beta == 3.0
    assert made["wet"].cpd.table().tolist() == pytest.approx(np.array([[0.9, 0.1], [0.2, 0.8]]))
    rain = [Variable("Rain", ["no", "yes"]), Variable("Wet", 2), Variable("Jam", 2)]
    assert PDG.from_columns(Column(frame["from"], frame["to"], p), variables=rain).variables == tuple(rain)
    with pytest.raises(DissonanceError, match="no variable named 'Jam'"):
        PDG.from_columns(Column(frame["from"], frame["to"], p), variables=rain[:2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Column([], [0, 1], [[0.5, 0.5], [0.5, 0.6]]), "arc 1 of a column: row 0"),
        (lambda: Column([], [0], [[-0.5, 1.5]]), "no distribution"),
        (lambda: Column([], [0], [[math.nan, 1.0]]), "no distribution"),
        (lambda: Column([], [0], logits=[[-math.inf, -math.inf]]), "no distribution"),
        (lambda: Column([], [0], [[[1.0]]]), "needs tables of 2 axes"),
        (lambda: Column([0], [], [[0.5, 0.5]]), "at least one target"),
        (lambda: Column([], [0], [[0.5, 0.5]], names=["a", "b"]), "1 different names"),
        (lambda: Column([], [0]), "or else logits"),
        (lambda: PDG.from_columns(Column([0], [0], [[[0.5, 0.5]] * 2])), "mentions a variable twice"),
        (lambda: PDG.from_columns(Column([], [1], [[0.5, 0.5]])), "variable 0 is in no arc"),
        (lambda: PDG.from_columns(Column([], [0], [[0.5, 0.5]]), variables=[3]), "has 3 values, and 2"),
        (lambda: PDG.from_columns(Column([], [2], [[0.5, 0.5]]), variables=[2, 2]), "there are 2 of them"),
        (lambda: PDG.from_columns(*[Column([], [0], [[0.5, 0.5]], names=["p"])] * 2), "the same name"),
    ],
)
def test_what_does_not_fit_is_an_error_of_one_line(make: Any, message: str):
    with pytest.raises(DissonanceError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def test_a_file_holds_it_to_the_last_bit(tmp_path: Path):
    path, made = tmp_path / "big.npz", columnar()
    save(path, made)
    read, focus = load(path)
    assert isinstance(read, ColumnarPDG) and read.implicit_names == (True, True)
    for a, b in zip(read.columns, made.columns, strict=True):  # pyright: ignore[reportAttributeAccessIssue]
        assert torch.equal(a.tables, b.tables) and (a.sources == b.sources).all() and (a.targets == b.targets).all()
    assert focus.attention.on(read).beta == {f"a{i}": 1.0 for i in range(7)} and not focus.control.chi


def test_a_file_holds_names_labels_weights_and_control(tmp_path: Path):
    X, Y = Variable("X", ["no", "yes"]), Variable("Y", 3)
    pdg = PDG(
        Arc("p", (), X, [0.3, 0.7]),
        Arc("q", X, Y, SoftmaxTable(tables(2, 3))),
        Arc("r", (), X, [0.6, 0.4], beta=5.0),
        variables=[Y, X, Variable("Z", 4)],
    )
    focus = Focus(Attention({"q": 2.0}, {"p": 0.5}, gamma=0.25), Control({"q": 3.0}))
    save(tmp_path / "m.npz", pdg, focus)
    read, found = load(tmp_path / "m.npz")
    assert read.variables == pdg.variables and {a.name for a in read} == {"p", "q", "r"}
    spelled = found.attention.on(read)
    assert dict(spelled.beta) == {"p": 1.0, "q": 2.0, "r": 5.0} and spelled.gamma == 0.25
    assert dict(spelled.alpha) == {"p": 0.5, "q": 1.0, "r": 1.0} and dict(found.control.chi) == {"q": 3.0}
    given, again = inconsistency(pdg, focus.attention), inconsistency(read, found.attention)
    assert again.upper == pytest.approx(given.upper, abs=1e-9)
    assert all(type(a.cpd) is SoftmaxTable for a in load(tmp_path / "m.npz", learnable=True)[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": None}, "no array 'sizes'"),
        ({"targets.0": None}, "no array 'targets.0'"),
        ({"oops": np.ones(2)}, "holds an array 'oops'"),
        ({"tables.9": np.ones(2)}, "holds an array 'tables.9'"),
        ({"targets.0": np.array([0.5])}, "must be whole numbers"),
        ({"tables.0": np.array([[0.5, 0.7]])}, "column 0: arc 0 of a column: row 0"),
        ({"tables.0": np.array([["a", "b"]])}, "must be numbers"),
        ({"sizes": np.array([3])}, "has 3 values, and 2"),
        ({"sizes": np.array(["x"], dtype=object)}, "not a whole .npz file"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(change: dict[str, Any], message: str, tmp_path: Path):
    arrays = {"sizes": np.array([2]), "sources.0": np.zeros((1, 0), int), "targets.0": np.array([[0]])}
    arrays |= {"tables.0": np.array([[0.5, 0.5]])}
    buffer = io.BytesIO()
    held: dict[str, Any] = {k: x for k, x in {**arrays, **change}.items() if x is not None}
    np.savez(buffer, **held)
    (tmp_path / "m.npz").write_bytes(buffer.getvalue())
    with pytest.raises(FormatError, match=message) as error:
        load(tmp_path / "m.npz")
    assert "m.npz: " in str(error.value) and "\n" not in str(error.value)
    (tmp_path / "m.npz").write_bytes(buffer.getvalue()[:100])
    with pytest.raises(FormatError, match="whole"):
        load(tmp_path / "m.npz")
