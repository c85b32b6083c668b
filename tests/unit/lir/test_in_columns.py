"""A run on columns is the run on the same beliefs arc by arc, and makes nothing for an arc that no focus looks at."""

from __future__ import annotations

import math
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, Control, Focus, SoftmaxTable, Table, lir
from dissonance.columns import Column, ColumnarPDG
from dissonance.errors import DissonanceError, FormatError
from dissonance.io import sealed
from dissonance.lir import in_columns
from dissonance.lir.run import Algorithm
from dissonance.refocus import Cycle, Hub
from dissonance.runs import Record

QUIET = Record(globally=False)
SAME = ("beta", "chi", "gamma", "local_lower", "local_upper", "tv_theta", "newton_steps", "solves", "projected")


def ring(n: int = 120, named: bool = False) -> ColumnarPDG:
    """Beliefs about variables of a ring, along it both ways, and some that cannot move."""
    rng, at = np.random.default_rng(0), np.arange(n)

    def names(letter: str, count: int) -> list[str] | None:
        return [f"{letter}.{i}" for i in range(count)] if named else None

    made = PDG.from_columns(
        Column([], at, rng.dirichlet([1, 1], n), names=names("u", n)),
        Column(at, (at + 1) % n, rng.dirichlet([1, 1], (n, 2)), names=names("e", n)),
        Column((at + 1) % n, at, rng.dirichlet([1, 1], (n, 2)), names=names("b", n), beta=rng.uniform(0.5, 2, n)),
        Column([], at[::3], rng.dirichlet([1, 1], len(at[::3])), names=names("f", len(at[::3])), learnable=False),
    )
    assert isinstance(made, ColumnarPDG)
    return made


def arc_by_arc(columns: ColumnarPDG) -> PDG:
    """The same beliefs with an object for each, and tables of its own."""
    arcs: list[Arc] = []
    for a in columns.arcs:
        moves = isinstance(a.cpd, SoftmaxTable)
        table = a.cpd.logits.detach().clone() if moves else a.cpd.table()
        cpd = SoftmaxTable(logits=table) if moves else Table(table)
        arcs.append(Arc(a.name, a.sources, a.targets, cpd, beta=a.beta))
    return PDG(*arcs, variables=columns.variables)


def foci(pdg: ColumnarPDG, gamma: float = 0.0, chi: float = 1.0) -> Cycle:
    """Foci of five arcs that overlap, one of them fixed, one that cannot move."""
    n, found = len(pdg.sizes), list[Focus]()
    for i in range(9, 14):
        arcs = [pdg.arc(k).name for k in (i, n + i, i + 1, 2 * n + i, 3 * n + i // 3)]
        alpha = dict.fromkeys(arcs, 0.4)
        control = Control({**dict.fromkeys(arcs[:2], chi), f"{arcs[2]}.logits": chi})
        found.append(Focus(Attention.only(dict.fromkeys(arcs, 1.0), alpha, gamma), control))
    return Cycle(*found)


def same(one: Any, other: Any) -> None:
    """Bit for bit."""
    for a, b in zip(one.trace.rows, other.trace.rows, strict=True):
        assert all(str(getattr(a, name)) == str(getattr(b, name)) for name in SAME)
    assert list(one.theta) == list(other.theta)
    assert all(torch.equal(one.theta[key], x) for key, x in other.theta.items())


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gamma": 0.3},
        {"chi": math.inf},
        {"flow": "adam"},
        {"refocus": Hub()},
        {"refocus": Hub(), "attention": {"a7": 3.0}},
    ],
    ids=["natural", "gamma", "full control", "adam", "hub", "attention"],
)
@pytest.mark.filterwarnings("ignore:a controlled arc")
def test_a_run_on_columns_is_the_run_arc_by_arc(options: dict[str, Any], named: bool):
    columns = ring(named=named)
    given = {"steps": 8, "trace": QUIET, "seed": 3, **{k: v for k, v in options.items() if k not in ("gamma", "chi")}}
    if named and "attention" in given:
        given["attention"] = {"u.7": 3.0}
    given.setdefault("refocus", foci(columns, options.get("gamma", 0.0), options.get("chi", 1.0)))
    here, there = lir(columns, **given), lir(arc_by_arc(columns), **given)
    same(here, there)
    assert isinstance(here.pdg, ColumnarPDG)
    for a in there.pdg.arcs:
        assert torch.equal(here.pdg[a.name].cpd.table(), a.cpd.table())


def test_what_is_moved_is_written_into_a_copy_of_the_columns(monkeypatch: pytest.MonkeyPatch):
    columns = ring()
    before = [c.tables.clone() for c in columns.columns]
    straight = lir(columns, Hub(), steps=30, trace=QUIET)
    monkeypatch.setattr(in_columns, "ON_TOP", 7)
    same(lir(columns, Hub(), steps=30, trace=QUIET), straight)
    assert all(torch.equal(x, c.tables) for x, c in zip(before, columns.columns, strict=True))


def test_a_focus_on_most_arcs_looks_at_all_of_them():
    columns = ring()
    every = Focus(Attention(), Control(dict.fromkeys(columns.arc_names[:300], 1.0)))
    refocus = Cycle(*foci(columns).foci[:2], every)
    here, there = (lir(x, refocus, steps=5, trace=QUIET) for x in (columns, arc_by_arc(columns)))
    same(here, there)


def test_a_run_makes_no_object_for_an_arc_out_of_focus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pdg, made = ring(30_000), list[int]()
    make = ColumnarPDG._made
    monkeypatch.setattr(ColumnarPDG, "_made", lambda self, i: made.append(i) or make(self, i))
    refocus, touched = foci(pdg), set(made)
    pdg.__dict__["_arc"]._made.clear()
    made.clear()
    size = sum(c.tables.numel() * 8 + c.sources.nbytes + c.targets.nbytes for c in pdg.columns)
    tracemalloc.start()
    run = lir(pdg, refocus, steps=6, trace=QUIET, checkpoint=tmp_path / "run")
    assert not run.interrupted and run.trace.base.attention.beta["a5"] == 1.0
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert set(made) == touched and len(touched) < 30
    assert "arcs" not in pdg.__dict__ and "variables" not in pdg.__dict__
    assert len(pdg.__dict__["_variable"]._made) < 30
    assert most < 3 * size  # 100,000 arcs as objects take about a hundred times as much
    lir(pdg, Hub(), steps=6, trace=QUIET)
    assert len(made) < 100


def test_a_run_on_columns_goes_on_from_what_was_appended_bit_for_bit(tmp_path: Path):
    path, pdg = tmp_path / "run", ring(600)
    straight = lir(pdg, Hub(), steps=12, trace=QUIET)
    sizes: list[int] = []

    def watch(done: int, _: object) -> bool:
        sizes.append(path.stat().st_size)
        return done == 7

    lir(pdg, Hub(), steps=12, trace=QUIET, checkpoint=path, callbacks=[watch])
    assert all(0 < b - a < sizes[0] / 5 for a, b in pairwise(sizes))
    whole = path.read_bytes()
    for cut in (0, 1, 700):  # killed while the last step was appended
        path.write_bytes(whole[: len(whole) - cut])
        same(lir(pdg, Hub(), steps=12, trace=QUIET, checkpoint=path), straight)
    path.write_bytes(whole)
    other = ring(600, named=True)
    with pytest.raises(FormatError, match="another run"):
        lir(other, Hub(), steps=12, trace=QUIET, checkpoint=path)
    state = sealed.read_states(path, "a checkpoint")[0]
    sealed.write_state(path, state | {"theta": {**state["theta"], "0": state["theta"]["0"][1:]}})
    with pytest.raises(FormatError, match="other shapes"):
        lir(pdg, Hub(), steps=12, trace=QUIET, checkpoint=path)


def test_what_is_not_finite_is_named():
    pdg = ring()
    pdg.columns[1].tables[5, 0, 1] = math.nan
    with pytest.raises(DissonanceError, match=r"'a125\.logits' holds nan"):
        lir(pdg, foci(ring()), steps=1, trace=QUIET)


def test_ctrl_c_leaves_whole_steps(monkeypatch: pytest.MonkeyPatch):
    pdg, straight = ring(), lir(ring(), Hub(), steps=3, trace=QUIET)
    advance = Algorithm.advance

    def interrupted(state: Algorithm) -> None:
        if state.step == 3:
            raise KeyboardInterrupt
        advance(state)

    monkeypatch.setattr(Algorithm, "advance", interrupted)
    run = lir(pdg, Hub(), steps=9, trace=QUIET)
    assert run.interrupted and run.steps == 3
    assert all(torch.equal(run.theta[key], x) for key, x in straight.theta.items())


def test_weights_of_columns_are_those_of_the_arcs():
    pdg = ring()
    plain = arc_by_arc(pdg)
    assert dict(pdg.confidence) == dict(plain.confidence) and dict(pdg.movable) == dict(plain.movable)
    assert len(pdg.movable) == 360 and "a0" in pdg.movable and "a399" not in pdg.movable
    one, other = (Attention({"a3": 5, "a4": math.inf}, gamma=0.5).on(x) for x in (pdg, plain))
    assert dict(one.beta) == dict(other.beta) and dict(one.alpha) == dict(other.alpha)
    assert Attention.uniform(pdg, beta=2.0) == Attention.uniform(plain, beta=2.0)
    assert Control(pdg.movable).within(["a3", "a399"]).chi == {"a3": 1.0}
    with pytest.raises(DissonanceError, match="no arc named 'a400'"):
        Attention({"a400": 1.0}).on(pdg)
    with pytest.raises(DissonanceError, match="at most 1e"):
        Attention.of(None, PDG.from_columns(Column([], [0, 1], [[0.5, 0.5]] * 2, beta=1e200)))
