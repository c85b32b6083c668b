"""Writing a PDG: nothing is lost on the way, and nothing is ever half-written."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dissonance.arc import Arc
from dissonance.cpds import Deterministic, SimplexTable, SoftmaxTable
from dissonance.errors import DissonanceError, FormatError
from dissonance.focus import Attention, Control, Focus
from dissonance.io import load, save
from dissonance.pdg import PDG
from dissonance.variables import Opaque, Variable

X, Y = Variable("X", 2), Variable("Y", ["low", "high"])
PAIR = PDG(Arc("p", (), X, [0.9, 0.1]), Arc("q", X, Y, [[0.3, 0.7], [1.0, 0.0]]))


def same(a: tuple[PDG, Focus], b: tuple[PDG, Focus]) -> None:
    """Fail unless two PDGs with their foci agree to the last bit."""
    assert a[0].variables == b[0].variables
    assert [(x.name, x.sources, x.targets) for x in a[0]] == [(x.name, x.sources, x.targets) for x in b[0]]
    for x, y in zip(a[0], b[0], strict=True):
        assert type(x.cpd) is type(y.cpd)
        assert torch.equal(x.cpd.table(), y.cpd.table())
        assert torch.equal(x.log_table(), y.log_table())
    assert a[1] == b[1]


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
weights = st.floats(0, 1e6, allow_subnormal=True)


@st.composite
def documents(draw: st.DrawFn) -> tuple[PDG, Focus]:
    """A PDG with any names and labels, any tables, and any focus that a file can hold."""
    variables = [
        Variable(
            name, draw(st.one_of(st.integers(1, 4), st.lists(st.text(max_size=5), min_size=1, max_size=4, unique=True)))
        )
        for name in draw(st.lists(names, min_size=1, max_size=4, unique=True))
    ]
    arcs: list[Arc] = []
    for name in draw(st.lists(names, max_size=4, unique=True)):
        order = draw(st.permutations(variables))
        cut = draw(st.integers(0, len(order) - 1))
        sources, targets = order[:cut], order[cut:][:2]
        sizes = [v.size for v in (*sources, *targets)]
        cells = draw(st.lists(weights, min_size=math.prod(sizes), max_size=math.prod(sizes)))
        rows = torch.tensor(cells, dtype=torch.float64).reshape(math.prod(v.size for v in sources), -1)
        rows = torch.where(rows.sum(-1, keepdim=True) > 0, rows, 1.0)
        arcs.append(Arc(name, sources, targets, (rows / rows.sum(-1, keepdim=True)).reshape(sizes)))
    beta = {a.name: draw(st.one_of(st.floats(-10, 10), st.just(math.inf))) for a in arcs}
    alpha = {a.name: draw(st.floats(-10, 10)) for a in arcs}
    chi = {a.name: draw(st.one_of(st.floats(0, 10), st.just(math.inf))) for a in arcs if draw(st.booleans())}
    return PDG(*arcs, variables=variables), Focus(Attention.only(beta, alpha, draw(st.floats(0, 10))), Control(chi))


@settings(max_examples=60)
@given(documents())
def test_a_round_trip_loses_nothing(tmp_path_factory: pytest.TempPathFactory, document: tuple[PDG, Focus]):
    folder = tmp_path_factory.mktemp("round")
    save(folder / "first.json", *document)
    first = load(folder / "first.json")
    assert first[0].variables == document[0].variables
    assert first[1] == document[1]
    for x, y in zip(first[0], document[0], strict=True):
        assert torch.equal(x.cpd.table(), y.cpd.table())
    save(folder / "second.json", *first)
    same(first, load(folder / "second.json"))
    assert (folder / "first.json").read_bytes() == (folder / "second.json").read_bytes()


def test_rows_a_little_off_are_renormalised_once(tmp_path: Path):
    content = (
        '{"format": "dissonance.pdg", "version": 1, "variables": [{"name": "X", "size": 3}],'
        ' "arcs": [{"name": "p", "targets": ["X"], "control": 1, "table": [0.3333333, 0.3333333, 0.3333333]}]}'
    )
    (tmp_path / "off.json").write_text(content)
    once = load(tmp_path / "off.json")
    save(tmp_path / "once.json", *once)
    same(once, load(tmp_path / "once.json"))


def test_without_a_focus_every_arc_is_attended(tmp_path: Path):
    save(tmp_path / "m.json", PAIR)
    assert load(tmp_path / "m.json")[1] == Focus(Attention.uniform(PAIR))


def test_an_arc_out_of_mind_stays_out_of_mind(tmp_path: Path):
    save(tmp_path / "m.json", PAIR, Focus(Attention.only({"p": 2.0})))
    attention = load(tmp_path / "m.json")[1].attention
    assert dict(attention.beta) == {"p": 2.0, "q": 0.0}
    assert dict(attention.alpha) == {"p": 0.0, "q": 0.0}


def test_every_finite_cpd_is_written_as_a_table(tmp_path: Path):
    moved = SoftmaxTable([[0.3, 0.7], [0.5, 0.5]])
    pdg = PDG(
        Arc("copy", X, Y, Deterministic({0: "low", 1: "high"})),
        Arc("soft", X, Y, moved),
        Arc("simplex", X, Y, SimplexTable([[0.3, 0.7], [0.5, 0.5]])),
    )
    with torch.no_grad():
        moved.logits[0, 0] += 1.0
    save(tmp_path / "m.json", pdg)
    loaded = load(tmp_path / "m.json")[0]
    assert loaded["copy"].cpd.table().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    for a in pdg:
        torch.testing.assert_close(loaded[a.name].log_table(), a.log_table().detach(), rtol=1e-14, atol=1e-15)


def test_labels_that_are_not_strings_are_written_as_strings(tmp_path: Path):
    save(tmp_path / "m.json", PDG(variables=[Variable("X", [1, 2]), Variable("Y", [False, True])]))
    assert [v.finite.labels for v in load(tmp_path / "m.json")[0].variables] == [("1", "2"), ("False", "True")]


UNWRITABLE = {
    "focus of another PDG": (PAIR, Focus(Attention.only({"r": 1.0})), "names an arc 'r'"),
    "a control for each component": (PAIR, Focus(control=Control({"q": torch.ones(2, 2)})), "one number"),
    "a control by parameter": (PAIR, Focus(control=Control({"q.p": 1.0})), "'q.p'"),
    "not finite": (PDG(variables=[Variable("Z", Opaque("a graph"))]), None, "variable 'Z' is Opaque(a graph)"),
    "labels that look alike": (PDG(variables=[Variable("Z", [1, "1"])]), None, "written the same"),
    "half a surrogate pair": (PDG(variables=[Variable("\ud800", 2)]), None, "cannot be written"),
}


@pytest.mark.parametrize(("pdg", "focus", "message"), UNWRITABLE.values(), ids=UNWRITABLE)
def test_what_a_file_cannot_hold_is_refused_and_nothing_is_written(
    tmp_path: Path, pdg: PDG, focus: Focus | None, message: str
):
    with pytest.raises(FormatError) as refused:
        save(tmp_path / "m.json", pdg, focus)
    assert message in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_parameters_that_are_not_numbers_are_not_written(tmp_path: Path):
    lost = SoftmaxTable([0.5, 0.5])
    pdg = PDG(Arc("lost", (), X, lost))
    with torch.no_grad():
        lost.logits.fill_(math.nan)
    with pytest.raises(FormatError, match="arc 'lost'"):
        save(tmp_path / "m.json", pdg)
    assert not list(tmp_path.iterdir())


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "m.json"
    save(path, PAIR)
    before = path.read_bytes()

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(FormatError, match="cannot be written: no space left on device"):
        save(path, PAIR.without("q"))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_writing_keeps_the_permissions_and_follows_a_link(tmp_path: Path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    save(real, PAIR)
    real.chmod(0o640)
    link.symlink_to(real)
    save(link, PAIR.without("q"))
    assert link.is_symlink()
    assert len(load(real)[0]) == 1
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path):
    save(os.devnull, PAIR)
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize("path", ["missing/m.json", ".", "nul\0.json"])
def test_a_place_that_cannot_be_written_is_one_clear_line(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DissonanceError, match="cannot be written") as refused:
        save(path, PAIR)
    assert len(str(refused.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["missing.json", ".", "nul\0.json", "a" * 5000])
def test_a_place_that_cannot_be_read_is_one_clear_line(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError, match="cannot be read") as refused:
        load(path)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
def test_an_unreadable_file_is_one_clear_line(tmp_path: Path):
    path = tmp_path / "secret.json"
    path.write_text("{}")
    path.chmod(0)
    with pytest.raises(FormatError, match="cannot be read: permission denied"):
        load(path)


@pytest.mark.parametrize("labels", [[False, True], [0.0], ["0", "1"], [1, "1"], [None, "None"], [2.5, -1]])
def test_values_of_columns_come_back_with_their_kinds(tmp_path: Path, labels: list[Hashable]):
    save(tmp_path / "m.npz", PDG(Arc("a", (), Variable("V", labels), [1 / len(labels)] * len(labels))))
    found = load(tmp_path / "m.npz")[0].variables[0].finite.labels
    assert [(type(x), x) for x in found] == [(type(x), x) for x in labels]


@pytest.mark.parametrize("suffix", ["npz", "json", "bif"])
def test_numbers_of_arrays_are_numbers(tmp_path: Path, suffix: str):
    save(tmp_path / f"m.{suffix}", PDG(Arc("V", (), Variable("V", np.arange(2)), [0.5, 0.5])))
    assert load(tmp_path / f"m.{suffix}")[0].variables == (Variable("V", 2),)


@pytest.mark.parametrize(
    ("arc", "offender"),
    [
        (Arc("a", (), Variable("V", [("x", 1), "y"]), [0.5, 0.5]), r"\('x', 1\)"),
        (Arc("a", (), Variable("V", [math.nan, "y"]), [0.5, 0.5]), "nan"),
        (Arc("a\0", (), X, [0.5, 0.5]), "a"),
        (Arc("a", (), Variable("V\0", 2), [0.5, 0.5]), "V"),
    ],
)
def test_what_arrays_would_change_is_not_written(tmp_path: Path, arc: Arc, offender: str):
    with pytest.raises(FormatError, match=f"cannot hold the .* ?'?{offender}"):
        save(tmp_path / "m.npz", PDG(arc))
    assert not list(tmp_path.iterdir())
