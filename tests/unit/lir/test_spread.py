"""Sweeps cut into blocks, every task done here at once: the tables of a run without a cluster, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dissonance import PDG, Attention, Control
from dissonance.columns import Column, ColumnarPDG
from dissonance.compiled import engage
from dissonance.errors import DissonanceError, FormatError
from dissonance.lir.sweep import partition, spread
from dissonance.lir.sweep.block import plan
from dissonance.lir.sweep.neighbourhoods import NEIGHBOURHOODS
from dissonance.lir.sweep.partition import Partition
from dissonance.lir.sweep.run import Sweeping, SweepRun
from dissonance.lir.sweep.sweeping import exactly, total
from dissonance.workers.cluster import LostWorkError

OPTIONS: dict[str, Any] = dict.fromkeys(("attention", "control", "tol", "trace"))
OPTIONS |= {"flow": "natural", "solver": "auto"}


class AtOnce:
    """A cluster of one process: a task is done when it is submitted. `lose`: gathering fails so often."""

    def __init__(self, lose: int = 0, blind: bool = False) -> None:
        self.lose, self.blind, self.tasks = lose, blind, list[str]()

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        self.tasks.append(name)
        return function(*args)

    def gather(self, futures: list[Any]) -> list[Any]:
        if self.lose and "visit" in self.tasks:
            self.lose -= 1
            raise LostWorkError("lost.")
        return futures

    def on_each_worker(self, function: Callable[..., Any], *args: Any) -> dict[str, Any]:
        return {"tcp://here:1": not self.blind and function(*args)}

    def forget(self, futures: list[Any]) -> None:
        pass


def graph(zeros: bool = False, n: int = 30) -> ColumnarPDG:
    """Beliefs about every variable, about pairs and about three; those of some columns cannot move."""
    rng = np.random.default_rng(3)
    ends = rng.integers(0, n, (2 * n, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    three = rng.permutation(n)[: 3 * (n // 6)].reshape(-1, 3)
    unary, pair = rng.dirichlet([1, 1], n), rng.dirichlet([1, 1], (len(ends), 2))
    if zeros:
        pair[::5, 0] = [1.0, 0.0]
    made = PDG.from_columns(
        Column([], np.arange(n), unary),
        Column(ends[:, 0], ends[:, 1], pair, beta=rng.uniform(0.5, 2.0, len(ends))),
        Column([], np.arange(n // 2), rng.dirichlet([1, 1], n // 2), learnable=False),
        Column(three[:, :1], three[:, 1:], rng.dirichlet([1, 1, 1, 1], (len(three), 2)).reshape(-1, 2, 2, 2)),
    )
    assert isinstance(made, ColumnarPDG)
    return made


def run(pdg: PDG, cluster: AtOnce | None, checkpoint: Path | None, sweeps: int = 6, **options: Any) -> SweepRun:
    of = Sweeping.of(pdg, options.pop("neighbourhood", "edge"), OPTIONS | options)
    made = SweepRun(of, cluster)  # pyright: ignore[reportArgumentType]
    made.run(sweeps, None if checkpoint is None else str(checkpoint), [], lambda foci: None)
    return made


def assert_same(one: SweepRun, other: SweepRun) -> None:
    assert all(np.array_equal(a, b) for a, b in zip(one.sweeps.log_p(), other.sweeps.log_p(), strict=True))
    for name in ("local_lower", "local_upper", "global_lower", "tv_theta", "newton_steps", "solves"):
        assert np.array_equal(one.trace.column(name), other.trace.column(name), equal_nan=True), name


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
def test_blocks_sweep_as_the_whole_does(
    neighbourhood: str, zeros: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    engage()
    pdg = graph(zeros)
    whole = run(pdg, None, None, neighbourhood=neighbourhood)
    for blocks in (2, 17):
        monkeypatch.setattr(partition, "FEWEST", blocks)
        assert_same(whole, run(pdg, AtOnce(), tmp_path / str(blocks), neighbourhood=neighbourhood))


def test_weights_and_what_may_not_move_travel_with_the_blocks(tmp_path: Path):
    engage()
    pdg = graph()
    options = {
        "attention": Attention({f"a{i}": 0.0 if i % 7 == 0 else 1.5 for i in range(len(pdg))}),
        "control": Control({f"a{i}": 0.3 for i in range(0, len(pdg), 2)}),
    }
    assert_same(run(pdg, None, None, **options), run(pdg, AtOnce(), tmp_path / "run", **options))


def test_a_table_is_sent_to_the_block_that_looks_at_it_next_and_to_no_other():
    pdg = graph()
    of = Sweeping.of(pdg, "closed", OPTIONS)
    engine = SweepRun(of, AtOnce()).sweeps  # pyright: ignore[reportArgumentType]
    assert isinstance(engine, spread.SpreadSweeps)
    p = engine.partition
    visits: dict[int, list[tuple[int, int]]] = {}
    for k, (batches, blocks) in enumerate(zip(p.colours, p.block_of, strict=True)):
        for batch, block in zip(batches, blocks, strict=True):
            for arcs, b in zip(batch.arcs.tolist(), block.tolist(), strict=True):
                for a in arcs:
                    visits.setdefault(a, []).append((k, b))
    wanted: set[tuple[int, int, int, int]] = set()
    for a, rounds in visits.items():
        if of.tables.chi[a] > 0:
            rounds.sort()
            following = [*rounds[1:], rounds[0]]
            wanted |= {(k, b, c, a) for (k, b), (_, c) in zip(rounds, following, strict=True) if b != c}
            assert p.last[a] == rounds[-1][1]
    assert {tuple(row) for row in p.sent.tolist()} == wanted and len(wanted) == len(p.sent) > 0
    assert p.traffic == sum(8 * of.columns.columns[int(k)].tables[0].numel() for k in of.tables.column_of(p.sent[:, 3]))


def test_blocks_are_as_many_whoever_works_and_have_about_as_many_foci():
    ring = np.arange(4000)
    pdg = PDG.from_columns(
        Column([], ring, np.full((4000, 2), 0.5)), Column(ring, (ring + 1) % 4000, np.full((4000, 2, 2), 0.5))
    )
    of = Sweeping.of(pdg, "edge", OPTIONS)
    engine = SweepRun(of, AtOnce()).sweeps  # pyright: ignore[reportArgumentType]
    assert isinstance(engine, spread.SpreadSweeps) and engine.partition.blocks == partition.FEWEST
    counts = sum(np.bincount(b, minlength=8) for blocks in engine.partition.block_of for b in blocks)
    assert counts.max() <= 1.05 * counts.mean()
    assert len({tuple(row) for row in engine.partition.sent[:, 1:3].tolist()}) <= 2 * 8  # neighbours on a ring
    many = Partition(of.columns, of.tables, engine.partition.colours, of.solver, of.tol, blocks=16)
    assert many.blocks == 16 and many.foci == engine.foci


def test_a_run_goes_on_from_the_files_of_its_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    engage()
    monkeypatch.setattr(spread, "EVERY", 2)
    pdg, path = graph(), tmp_path / "run"
    straight = run(pdg, None, None, 7)
    run(pdg, AtOnce(), path, 3)
    names = sorted(x.name.rpartition("-")[0] or x.name for x in path.iterdir())
    assert names == ["plan"] * 8 + ["run"] + ["state-3"] * 8
    assert_same(straight, run(pdg, AtOnce(), path, 7))
    with pytest.raises(FormatError, match="another run"):
        run(pdg, AtOnce(), path, 7, neighbourhood="star")
    with pytest.raises(FormatError, match="has done 7 sweeps, and 3"):
        run(pdg, AtOnce(), path, 3)
    with pytest.raises(FormatError, match="of a run on a cluster"):
        run(pdg, None, path, 7)
    monkeypatch.setattr(partition, "FEWEST", 9)
    with pytest.raises(FormatError, match="is cut into 8 blocks"):
        run(pdg, AtOnce(), path, 7)
    run(pdg, None, tmp_path / "file", 1)
    with pytest.raises(FormatError, match="without a cluster"):
        run(pdg, AtOnce(), tmp_path / "file", 2)
    spread.discard(path)
    spread.discard(tmp_path / "file")
    spread.discard(path)
    assert not list(tmp_path.iterdir())


def test_what_the_scheduler_gives_up_is_done_again_from_the_files_once(tmp_path: Path):
    engage()
    pdg, lossy = graph(), AtOnce(lose=1)
    assert_same(run(pdg, None, None), run(pdg, lossy, tmp_path / "run"))
    assert lossy.tasks.count("reopen") > 8
    with pytest.raises(LostWorkError):
        run(pdg, AtOnce(lose=2), tmp_path / "other")


def test_a_folder_that_workers_do_not_see_or_that_holds_something_else_is_refused(tmp_path: Path):
    with pytest.raises(DissonanceError, match=r"tcp://here:1 does not see .* that all workers share"):
        run(graph(), AtOnce(blind=True), tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    for wrong in (lambda: run(graph(), AtOnce(), tmp_path / "mine"), lambda: spread.discard(tmp_path / "mine")):
        with pytest.raises(FormatError, match=r"it holds thesis\.tex"):
            wrong()
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_a_damaged_or_foreign_file_of_a_block_is_noticed(tmp_path: Path):
    path = tmp_path / "run"
    run(graph(), AtOnce(), path, 2)
    state = next(path.glob("state-2-*"))
    state.write_bytes(state.read_bytes()[:-9] + b"123456789")
    with pytest.raises(FormatError, match="is damaged"):
        run(graph(), AtOnce(), path, 4)


def test_files_of_blocks_or_sweeps_that_changed_places_are_noticed(tmp_path: Path):
    path = tmp_path / "run"
    run(graph(), AtOnce(), path, 2)
    kept = {x.name: x.read_bytes() for x in path.iterdir()}

    def refused(changed: dict[str, bytes]) -> None:
        for name, content in (kept | changed).items():
            (path / name).write_bytes(content)
        plan.cache_clear()
        with pytest.raises(FormatError, match="of another run"):
            run(graph(), AtOnce(), path, 4)

    for name in ("state-2", "plan"):
        refused({f"{name}-0": kept[f"{name}-1"], f"{name}-1": kept[f"{name}-0"]})
    run(graph(), AtOnce(), tmp_path / "longer", 3)
    refused({"state-2-0": (tmp_path / "longer" / "state-3-0").read_bytes()})


def test_an_interrupt_keeps_the_last_finished_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    engage()
    pdg, stop, path = graph(), AtOnce(), tmp_path / "run"
    gather, calls = stop.gather, list[int]()

    def interrupted(futures: list[Any]) -> list[Any]:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return gather(futures)

    monkeypatch.setattr(stop, "gather", interrupted)
    stopped = run(pdg, stop, path, 6)
    assert stopped.interrupted and stopped.step == 2
    assert_same(run(pdg, None, None), run(pdg, AtOnce(), path))


def test_exact_sums_do_not_depend_on_how_the_values_are_cut():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(1000) * 10.0 ** rng.integers(-12, 12, 1000)
    whole = total(exactly(values))
    for size in (1, 7, 400):
        assert total(x for i in range(0, 1000, size) for x in exactly(values[i : i + size])) == whole
    assert whole == pytest.approx(float(values.sum())) and exactly(np.zeros(3)) == []
    assert total([*exactly(np.array([1.0, np.inf])), 2.0]) == np.inf
    assert torch.get_num_threads() == 1
