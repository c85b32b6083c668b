"""Sweeps: Algorithm 1 over the foci of a neighbourhood, those that do not touch at once."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
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
    SimplexTable,
    SoftmaxTable,
    Table,
    Variable,
    inconsistency,
    lir,
    lirs,
    threads,
)
from dissonance.columns import Column, ColumnarPDG
from dissonance.errors import DissonanceError, FormatError
from dissonance.lir.sweep import on_device, sweeping
from dissonance.lir.sweep.neighbourhoods import NEIGHBOURHOODS, batches
from dissonance.lir.sweep.on_device import DeviceTables
from dissonance.lir.sweep.run import Sweeping
from dissonance.refocus import Cycle
from dissonance.runs import Record

QUIET = Record(globally=False)


def tables(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.dirichlet(np.ones(shape[-1]), shape[:-1])


def pairs(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """The ends of the pair arcs of a graph of n variables."""
    if kind == "chain":
        forth = np.stack([np.arange(n - 1), np.arange(1, n)], 1)
        return np.concatenate([forth, forth[:, ::-1]])
    if kind == "hub":
        return np.stack([np.zeros(n - 1, dtype=int), np.arange(1, n)], 1)
    drawn = rng.integers(0, n, (3 * n // 2, 2))
    return np.unique(drawn[drawn[:, 0] != drawn[:, 1]], axis=0)


def graph(kind: str = "random", n: int = 30, seed: int = 0) -> PDG:
    """Beliefs about every variable, about pairs, and some about three variables; sizes 2 and 3."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, n)
    columns = [Column([], np.flatnonzero(sizes == k), tables(rng, int((sizes == k).sum()), k)) for k in (2, 3)]
    ends = pairs(kind, n, rng)
    for a in (2, 3):
        for b in (2, 3):
            some = ends[(sizes[ends[:, 0]] == a) & (sizes[ends[:, 1]] == b)]
            if len(some):
                columns.append(Column(some[:, 0], some[:, 1], tables(rng, len(some), a, b)))
    three = np.flatnonzero(sizes == 2)[: 3 * (n // 10)].reshape(-1, 3)
    columns.append(Column(three[:, :2], three[:, 2:], tables(rng, len(three), 2, 2, 2)))
    return PDG.from_columns(*columns, variables=sizes.tolist())


def foci_of(pdg: ColumnarPDG, neighbourhood: str) -> list[list[str]]:
    """The arcs of every focus, in the order of a sweep."""
    found = batches(pdg, np.ones(len(pdg), dtype=bool), neighbourhood)
    return [[pdg.arc(int(a)).name for a in row] for colour in found for batch in colour for row in batch.arcs]


@pytest.mark.parametrize("kind", ["random", "chain", "hub"])
@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
def test_a_sweep_is_lir_over_the_same_foci(neighbourhood: str, kind: str):
    pdg = graph(kind, 12)
    assert isinstance(pdg, ColumnarPDG)
    swept = lir(pdg, "sweep", neighbourhood=neighbourhood, sweeps=1, tol=1e-9)
    foci = [
        Focus(Attention.only(dict.fromkeys(f, 1.0)), Control(dict.fromkeys(f, 1.0)))
        for f in foci_of(pdg, neighbourhood)
    ]
    for focus in foci:  # each focus by itself: at gamma = 0 another structure may find another of several minimisers
        names = list(focus.attention.beta)
        stepped = lir(PDG(*(pdg[n] for n in names)), Cycle(focus), steps=1, tol=1e-9, trace=QUIET)
        with torch.no_grad():
            for n in names:
                next(pdg[n].cpd.parameters()).copy_(next(stepped.pdg[n].cpd.parameters()))
    for a in pdg:
        assert torch.allclose(swept.pdg[a.name].cpd.table(), a.cpd.table(), atol=1e-6), a


@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
def test_foci_of_one_colour_do_not_touch_and_every_conflict_is_in_one(neighbourhood: str):
    for kind in ("random", "chain", "hub"):
        pdg = graph(kind)
        assert isinstance(pdg, ColumnarPDG)
        colours = batches(pdg, np.ones(len(pdg), dtype=bool), neighbourhood)
        for colour in colours:
            arcs = np.concatenate([b.arcs.ravel() for b in colour])
            assert len(np.unique(arcs)) == len(arcs)
        visited = {a for colour in colours for b in colour for a in b.arcs.ravel().tolist()}
        assert visited == set(range(len(pdg)))


def test_a_neighbourhood_has_the_arcs_it_says():
    x = [Variable(n, 2) for n in "ABCD"]
    even = [0.5, 0.5]
    pdg = PDG(
        *(Arc(v.name.lower(), (), v, SoftmaxTable(even)) for v in x),
        Arc("ab", x[0], x[1], SoftmaxTable([even] * 2)),
        Arc("ba", x[1], x[0], SoftmaxTable([even] * 2)),
        Arc("bc", x[1], x[2], SoftmaxTable([even] * 2)),
        Arc("d2", (), x[3], SoftmaxTable(even)),
    )
    columns = ColumnarPDG.of(pdg)
    found = {k: {frozenset(f) for f in foci_of(columns, k)} for k in NEIGHBOURHOODS}
    assert found["edge"] == {frozenset({"a", "b", "ab", "ba"}), frozenset({"b", "c", "bc"}), frozenset({"d", "d2"})}
    around_b = {"b", "ab", "ba", "bc"}
    assert found["star"] == {frozenset(x) for x in ({"a", "ab", "ba"}, around_b, {"c", "bc"}, {"d", "d2"})}
    assert frozenset(around_b | {"a", "c"}) in found["closed"] and frozenset({"a", "ab", "ba", "b"}) in found["closed"]
    assert found["blocks"] == {frozenset({"a", "b", "c", "ab", "ba", "bc"}), frozenset({"d", "d2"})}


def test_sweeps_resolve_the_whole_and_bounds_are_bounds():
    pdg = graph("chain", 40)
    run = lir(pdg, "sweep", sweeps=25, trace=Record(globally=True))
    uppers = run.trace.column("global_upper")
    assert uppers[0] > 5 and uppers[-1] < 0.02 * uppers[0]
    alone = lir(pdg, "sweep", sweeps=2)
    for row, known in zip(alone.trace.rows, run.trace.rows, strict=False):
        assert 0 < row.global_lower <= known.global_upper + 1e-7
    assert math.isnan(alone.after.upper) and alone.after.lower < alone.before.lower
    assert float(inconsistency(run.pdg).upper) == pytest.approx(run.after.upper, abs=1e-6)


def test_plain_stars_stall_where_edges_do_not():
    """Local consistency is not global: a star does not hold the beliefs about its leaves."""
    pdg = graph("chain", 40)
    left = {k: lir(pdg, "sweep", neighbourhood=k, sweeps=30) for k in ("edge", "star")}
    assert left["star"].trace.rows[-2].local_upper < 1e-3
    star, edge = (inconsistency(left[k].pdg).upper for k in ("star", "edge"))
    assert star > 10 * edge


@pytest.mark.parametrize("kind", ["fixed", "control", "attention", "beta"])
def test_what_may_not_move_stays_and_what_is_not_attended_does_not_count(kind: str):
    rng = np.random.default_rng(1)
    pdg = graph("random", 20, seed=1)
    columns = list(pdg.columns)  # pyright: ignore[reportAttributeAccessIssue]
    options: dict[str, Any] = {}
    if kind == "fixed":
        columns[0] = Column([], columns[0].targets, tables(rng, len(columns[0]), 2), learnable=False)
    pdg = PDG.from_columns(*columns, variables=[v.size for v in pdg.variables])
    if kind == "control":
        options["control"] = Control({a.name: 1.0 for a in pdg if a.name != "a0"})
    if kind in ("attention", "beta"):
        options["attention"] = Attention({"a0": 0.0 if kind == "attention" else 1e4})
    run = lir(pdg, "sweep", sweeps=3, **options)
    still = torch.allclose(run.pdg["a0"].cpd.table(), pdg["a0"].cpd.table(), atol=1e-15 if kind != "beta" else 2e-3)
    assert still
    assert run.trace.rows[-1].tv_theta > 0.01


def test_zeros_stay_and_what_contradicts_outright_is_left():
    x = [Variable(n, 2) for n in "AB"]
    pdg = PDG(
        Arc("p", (), x[0], SoftmaxTable([1.0, 0.0])),
        Arc("q", (), x[0], SoftmaxTable([0.4, 0.6])),
        Arc("r", (), x[1], SoftmaxTable([1.0, 0.0])),
        Arc("s", (), x[1], SoftmaxTable([0.0, 1.0])),
    )
    run = lir(pdg, "sweep", sweeps=5)
    assert run.pdg["p"].cpd.table().tolist() == [1.0, 0.0] and run.pdg["q"].cpd.table()[0] > 0.9
    assert run.pdg["r"].cpd.table().tolist() == [1.0, 0.0] and run.pdg["s"].cpd.table().tolist() == [0.0, 1.0]
    assert run.trace.rows[0].local_upper == math.inf


def test_any_pdg_of_tables_is_swept_and_keeps_its_cpds():
    x = [Variable(n, ["no", "yes"]) for n in "AB"]
    pdg = PDG(
        Arc("p", (), x[0], SimplexTable([0.9, 0.1])),
        Arc("q", x[0], x[1], SoftmaxTable([[0.7, 0.3], [0.2, 0.8]])),
        Arc("r", (), x[1], Table([0.1, 0.9])),
    )
    run = lir(pdg, "sweep", sweeps=40)
    assert [type(a.cpd) for a in run.pdg] == [SimplexTable, SoftmaxTable, Table]
    assert inconsistency(run.pdg).upper < 1e-6 < inconsistency(pdg).upper
    assert set(run.theta) == {"p.p", "q.logits"} and run.pdg.variables == pdg.variables


def test_a_run_goes_on_from_its_checkpoint_bit_for_bit(tmp_path: Path):
    pdg, path = graph(n=60), tmp_path / "run"
    straight = lir(pdg, "sweep", sweeps=5)
    lir(pdg, "sweep", sweeps=5, checkpoint=path, callbacks=[lambda done, _: done == 2])
    resumed = lir(pdg, "sweep", sweeps=5, checkpoint=path)
    assert all(torch.equal(resumed.theta[k], x) for k, x in straight.theta.items())
    assert resumed.trace.column("local_upper")[:-1] == straight.trace.column("local_upper")[:-1]
    others: tuple[dict[str, Any], ...] = (
        {"neighbourhood": "star"},
        {"control": Control({"a1": 0.5})},
        {"attention": Attention({"a1": 2.0})},
    )
    for other in others:
        with pytest.raises(FormatError, match="another run"):
            lir(pdg, "sweep", sweeps=5, checkpoint=path, **other)
    with pytest.raises(FormatError, match="has done 5 sweeps, and 3"):
        lir(pdg, "sweep", sweeps=3, checkpoint=path)
    lir(graph("chain", 12), "hub", steps=1, checkpoint=tmp_path / "other")
    with pytest.raises(FormatError, match="not a checkpoint of dissonance"):
        lir(pdg, "sweep", sweeps=3, checkpoint=tmp_path / "other")


def test_an_interrupt_leaves_what_the_last_finished_sweep_left(monkeypatch: pytest.MonkeyPatch):
    from dissonance.lir.sweep.sweeping import Piece

    pdg, calls, visit = graph(n=60), list[int](), Piece.visit
    total = sum(len(c) for c in batches(pdg, np.ones(len(pdg), dtype=bool), "edge"))  # pyright: ignore[reportArgumentType]

    def stopped(self: Piece, *args: Any) -> Any:
        calls.append(1)
        if len(calls) == total + 3:
            raise KeyboardInterrupt
        return visit(self, *args)

    monkeypatch.setattr(Piece, "visit", stopped)
    run = lir(pdg, "sweep", sweeps=5)
    monkeypatch.undo()
    once = lir(pdg, "sweep", sweeps=1)
    assert run.interrupted and run.steps == 1 and len(run.trace.rows) == 2
    assert all(torch.equal(run.theta[k], x) for k, x in once.theta.items())


def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    pdg, found = graph(n=200), list[ColumnarPDG]()
    monkeypatch.setattr(sweeping, "CHUNK", 5)  # so that there are pieces to share out
    for count in (1, 3, 8):
        with ThreadPoolExecutor(count) as pool:
            monkeypatch.setattr(threads, "allowed", lambda n=count: n)
            monkeypatch.setattr(threads, "_pool", lambda pool=pool: pool)
            found.append(lir(pdg, "sweep", sweeps=2).pdg)  # pyright: ignore[reportArgumentType]
    for other in found[1:]:
        assert all(torch.equal(a.tables, b.tables) for a, b in zip(found[0].columns, other.columns, strict=True))


def test_asynchronous_sweeps_resolve_as_much_and_prove_what_they_say(monkeypatch: pytest.MonkeyPatch):
    pdg = graph(n=200)
    monkeypatch.setattr(sweeping, "CHUNK", 5)
    once = lir(pdg, "sweep", sweeps=8)
    for count in (1, 3):
        with ThreadPoolExecutor(count) as pool:
            monkeypatch.setattr(threads, "allowed", lambda n=count: n)
            monkeypatch.setattr(threads, "_pool", lambda pool=pool: pool)
            run = lir(pdg, "sweep", sweeps=8, order="asynchronous")
        assert run.refocus == "sweep(edge, asynchronous)"
        if count == 1:  # one thread takes foci in the order of the colours
            assert all(torch.equal(run.theta[k], x) for k, x in once.theta.items())
        assert run.before.lower == once.before.lower  # proved of the tables before anything moves
        assert run.trace.rows[-2].local_upper < 0.01 * run.trace.rows[0].local_upper
        for x in run.theta.values():
            assert torch.isfinite(x).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 3}, "takes `sweeps`"),
        ({"order": "asynchron"}, "no order of sweeps named 'asynchron'.*asynchronous"),
        ({"order": "asynchronous", "cluster": "local:1"}, "not for a cluster"),
        ({"neighbourhood": "edges"}, "no neighbourhood named 'edges'.*edge"),
        ({"sweeps": -1}, "whole number >= 0"),
        ({"flow": "adam"}, 'by the flow "natural"'),
        ({"solver": "joint"}, "not by 'joint'"),
        ({"trace": Record(snapshots=2)}, "no snapshots"),
        ({"attention": Attention(gamma=1.0)}, "gamma = 0"),
        ({"attention": Attention({"a1": math.inf})}, "0 <= beta < inf"),
        ({"control": Control({"a1": math.inf})}, "one finite number"),
        ({"control": Control({"zz": 1.0})}, "no arc named 'zz'"),
    ],
)
def test_what_is_not_for_sweeps_is_refused_in_one_line(options: dict[str, Any], message: str):
    with pytest.raises(DissonanceError, match=message) as error:
        lir(graph(n=12), "sweep", **options)
    assert "\n" not in str(error.value)


def test_options_of_sweeps_are_for_sweeps_and_a_sweep_is_a_run_by_itself():
    pdg, Z = graph(n=12), Variable("Z", 2)
    with pytest.raises(DissonanceError, match='are for refocus "sweep"'):
        lir(pdg, "hub", sweeps=2)
    with pytest.raises(DissonanceError, match="works for one run"):
        lirs([pdg, pdg], "sweep")
    shared = SoftmaxTable([0.4, 0.6])
    with pytest.raises(DissonanceError, match="share a table"):
        lir(PDG(Arc("p", (), Z, shared), Arc("q", (), Z, shared)), "sweep")
    with pytest.raises(DissonanceError, match="no arc has parameters"):
        lir(PDG(Arc("p", (), Z, [0.4, 0.6])), "sweep")


WHERE = "cuda" if torch.cuda.is_available() else "cpu"


def on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps as on a GPU: there if there is one, else by the same code on the CPU."""
    monkeypatch.setattr(Sweeping, "tables_for", lambda self, foci: DeviceTables.of_host(self.tables, WHERE))


@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
def test_a_sweep_on_a_device_finds_what_the_compiled_code_finds(neighbourhood: str, monkeypatch: pytest.MonkeyPatch):
    pdg = graph(n=40)
    here = lir(pdg, "sweep", neighbourhood=neighbourhood, sweeps=1).trace.rows[0]
    on_a_device(monkeypatch)
    there = lir(pdg, "sweep", neighbourhood=neighbourhood, sweeps=1).trace.rows[0]
    for name in ("local_lower", "local_upper", "global_lower"):
        assert getattr(there, name) == pytest.approx(getattr(here, name), abs=1e-5)


@pytest.mark.parametrize("neighbourhood", ["edge", "closed"])
def test_a_sweep_on_a_device_ends_where_the_compiled_code_does(neighbourhood: str, monkeypatch: pytest.MonkeyPatch):
    """Where mu* is unique: beliefs about every variable, and about pairs."""
    rng = np.random.default_rng(7)
    ends = pairs("random", 40, rng)
    columns = (
        Column([], np.arange(40), tables(rng, 40, 2)),
        Column(ends[:, 0], ends[:, 1], tables(rng, len(ends), 2, 2)),
    )
    here = lir(PDG.from_columns(*columns), "sweep", neighbourhood=neighbourhood, sweeps=3)
    on_a_device(monkeypatch)
    there = lir(PDG.from_columns(*columns), "sweep", neighbourhood=neighbourhood, sweeps=3)
    for mine, theirs in zip(here.trace.rows, there.trace.rows, strict=True):
        assert theirs.tv_theta == pytest.approx(mine.tv_theta, abs=1e-6)
    for key, theta in here.theta.items():
        torch.testing.assert_close(there.theta[key].softmax(-1), theta.softmax(-1), atol=1e-4, rtol=0)


def test_what_a_device_cannot_solve_is_solved_by_the_compiled_code(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(5)
    p = tables(rng, 9, 3)
    p[::2] = [0.3, 0.7, 0.0]
    chain = np.arange(9)
    pdg = PDG.from_columns(Column([], chain, p), Column(chain[:-1], chain[1:], tables(rng, 8, 3, 3)))
    here = lir(pdg, "sweep", sweeps=2)
    on_a_device(monkeypatch)
    solved: list[int] = []
    by_host = sweeping.FociShape.solve

    def counted(self: sweeping.FociShape, log_p: Any, beta: Any, near: Any) -> Any:
        solved.append(len(beta))
        return by_host(self, log_p, beta, near)

    monkeypatch.setattr(sweeping.FociShape, "solve", counted)
    there = lir(pdg, "sweep", sweeps=2)
    assert sum(solved) > 0
    for key, theta in here.theta.items():
        torch.testing.assert_close(there.theta[key].softmax(-1), theta.softmax(-1), atol=1e-6, rtol=0)
    monkeypatch.setattr(on_device, "small_enough", lambda s: False)
    large = lir(pdg, "sweep", sweeps=2)
    for key, theta in here.theta.items():
        torch.testing.assert_close(large.theta[key], theta, atol=1e-6, rtol=0)


def test_a_sweep_on_a_device_goes_on_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    on_a_device(monkeypatch)
    pdg, kept = graph(n=20), tmp_path / "kept"
    lir(pdg, "sweep", sweeps=2, checkpoint=str(kept))
    resumed = lir(pdg, "sweep", sweeps=4, checkpoint=str(kept))
    whole = lir(pdg, "sweep", sweeps=4)
    for key, theta in whole.theta.items():
        assert torch.equal(resumed.theta[key], theta)
