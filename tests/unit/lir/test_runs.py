"""Runs: batches, traces, checkpoints, interruptions."""

from __future__ import annotations

import json
import math
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
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
    DissonanceError,
    FormatError,
    Record,
    SoftmaxTable,
    Table,
    Variable,
    inconsistency,
    lir,
    lirs,
)
from dissonance.flows import Descent
from dissonance.lir.trace import rows_of_lines
from dissonance.refocus import Hub
from dissonance.runs import TensorBoard, Trace

SIZES = {"A": 2, "B": 3, "C": 3, "D": 2}
V = {n: Variable(n, k) for n, k in SIZES.items()}


def draw(seed: int, arcs: str = "AB BC CD DB CA") -> PDG:
    """A random PDG of one structure."""
    g = torch.Generator().manual_seed(seed)
    made: list[Arc] = []
    for s, t in arcs.split():
        p = torch.rand(V[s].size, V[t].size, generator=g, dtype=torch.float64) + 0.02
        made.append(Arc(s + t, V[s], V[t], SoftmaxTable(p / p.sum(-1, keepdim=True))))
    return PDG(*made, variables=V.values())


PDGS = [draw(i) for i in range(4)]
STRATEGIES = ["uniform", "partial", Hub(0.1), "smooth"]


def test_no_run_depends_on_its_company():
    together = lirs(PDGS, STRATEGIES, seeds=[5, 6, 7, 8], steps=2, flow=Descent(steps=3))
    for k, run in enumerate(together):
        alone = lir(PDGS[k], STRATEGIES[k], seed=5 + k, steps=2, flow=Descent(steps=3))
        assert [r.beta for r in alone.trace.rows] == [r.beta for r in run.trace.rows]
        assert alone.after.upper == pytest.approx(run.after.upper, abs=1e-6)
        for key, theta in alone.theta.items():
            assert torch.allclose(run.theta[key], theta, atol=1e-4)


def peaked(seed: int) -> PDG:
    """Random conditionals of six pairs of four variables, the same pairs for every seed."""
    pairs, rng = np.random.default_rng(5), np.random.default_rng(seed)
    variables = [Variable(f"X{i}", 3) for i in range(4)]
    arcs: list[Arc] = []
    for i in range(6):
        s, t = pairs.choice(4, 2, replace=False)
        given = bool(pairs.integers(0, 2))
        rows = rng.dirichlet(np.full(3, 0.7), size=3 if given else None)
        arcs.append(Arc(f"a{i}", [variables[s]] if given else [], variables[t], rows))
    return PDG(*arcs, variables=variables).learnable()


FIRST_ROW = torch.tensor([[math.inf] * 3, [0.0] * 3], dtype=torch.float64)


@pytest.mark.parametrize(
    ("pdgs", "steps", "asked"),
    [
        ([peaked(i) for i in range(5)], 6, {"flow": "full"}),
        (PDGS, 1, {"control": Control({"AB.logits": FIRST_ROW, "BC": math.inf})}),
    ],
    ids=["tables", "a row of a table"],
)
def test_no_run_under_full_control_depends_on_its_company(pdgs: list[PDG], steps: int, asked: dict[str, Any]):
    """Each stops where it would alone: one that others outlast is not moved any further."""
    for pdg, run in zip(pdgs, lirs(pdgs, steps=steps, **asked), strict=True):
        alone = lir(pdg, steps=steps, **asked)
        for key, theta in alone.theta.items():
            assert torch.allclose(run.theta[key], theta, atol=1e-7, rtol=0.0)


def test_runs_of_several_structures_come_back_in_order():
    other = draw(9, "AB BA")
    runs = lirs([PDGS[0], other, PDGS[1]], steps=2)
    assert [len(r.pdg) for r in runs] == [5, 2, 5]
    assert runs[2].before.upper == pytest.approx(inconsistency(PDGS[1]).upper, abs=1e-7)


def test_a_run_knows_where_it_was_and_where_it_is():
    pdg = PDGS[0]
    run = lir(pdg, steps=5)
    start, end = inconsistency(pdg), inconsistency(run.pdg)
    for mine, theirs in ((run.before, start), (run.after, end)):
        assert mine.lower <= theirs.upper + 1e-12 and theirs.lower <= mine.upper + 1e-12 and mine.converged
    assert run.resolution_percent == pytest.approx(100 * (1 - end.upper / start.upper), abs=1e-3)
    names = ["A", "B", "C", "D"]
    moved = 0.5 * float((start.mu.marginal(*names) - end.mu.marginal(*names)).abs().sum())
    assert run.distortion_tv == pytest.approx(moved, abs=1e-4)
    assert type(run.pdg["AB"].cpd) is SoftmaxTable
    assert torch.equal(pdg["AB"].cpd.table(), draw(0)["AB"].cpd.table())


def test_the_trace_has_a_row_a_step_and_one_for_the_end():
    run = lir(PDGS[0], "hub", steps=3, trace=Record(snapshots=2))
    rows = run.trace.rows
    assert [r.step for r in rows] == [0, 1, 2, 3]
    assert rows[0].tv_theta == rows[0].tv_mu == 0.0 and rows[-1].tv_mu == run.distortion_tv
    assert all(r.local_lower <= r.local_upper for r in rows[:-1]) and math.isnan(rows[-1].local_upper)
    assert all(r.local_upper <= r.global_upper + 1e-7 for r in rows[:-1])  # a part of the whole
    assert list(run.trace.snapshots) == [0, 2, 3]
    assert torch.equal(run.trace.snapshots[3]["AB.logits"], run.theta["AB.logits"])
    moved = torch.cat([(run.pdg[a.name].cpd.table() - a.cpd.table()).detach().abs().sum(-1) / 2 for a in PDGS[0]])
    assert rows[-1].tv_theta == pytest.approx(float(moved.mean()), abs=1e-9)


def test_a_trace_is_a_frame_and_a_file(tmp_path: Path):
    pandas = pytest.importorskip("pandas")
    run = lir(PDGS[0], "partial", steps=2)
    frame = run.trace.frame()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 3
    run.trace.save(tmp_path / "trace.jsonl")
    lines = (tmp_path / "trace.jsonl").read_text()
    assert [json.loads(x)["step"] for x in lines.splitlines()] == [0, 1, 2]
    assert [r.beta for r in rows_of_lines(lines)] == [r.beta for r in run.trace.rows]


def test_a_trace_is_a_picture(tmp_path: Path):
    pytest.importorskip("matplotlib")
    run = lir(PDGS[0], "hub", steps=3)
    figure = run.trace.plot(tmp_path / "a.svg")
    inconsistency, moved, effort = figure.axes
    drawn = {line.get_label(): list(line.get_ydata()) for axes in (inconsistency, moved) for line in axes.lines}
    assert drawn["all arcs"] == run.trace.column("global_upper")
    assert drawn["in focus"][:3] == run.trace.column("local_upper")[:3]
    assert drawn["theta, mean over rows"] == run.trace.column("tv_theta")
    assert drawn["mu*"] == [0.0, run.distortion_tv]  # by default at the start and at the end
    assert [bar.get_height() for bar in effort.patches] == run.trace.column("newton_steps")
    run.trace.plot(tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    for path in (tmp_path / "c.svgg", tmp_path / "nowhere" / "d.svg"):
        with pytest.raises(DissonanceError, match="cannot be drawn"):
            run.trace.plot(path)


def test_a_picture_of_what_was_never_measured_is_empty_and_of_the_infinite_has_gaps():
    pytest.importorskip("matplotlib")
    lonely = lir(PDGS[0], steps=1, trace=Record(globally=False)).trace.plot()
    assert [line.get_label() for line in lonely.axes[0].lines] == ["in focus"]
    X = V["A"]
    never = PDG(Arc("p", (), X, SoftmaxTable([1.0, 0.0])), Arc("q", (), X, Table([0.0, 1.0])))
    assert not lir(never, steps=1).trace.plot().axes[0].lines


def test_a_picture_needs_matplotlib(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DissonanceError, match=r"pip install 'dissonance\[plot\]'"):
        Trace(lir(PDGS[0], steps=0).trace.base).plot()


def test_global_inconsistency_is_left_out_on_request():
    run = lir(PDGS[0], "partial", steps=2, trace=Record(globally=False))
    assert math.isnan(run.before.upper) and math.isnan(run.resolution_percent)
    assert run.trace.rows[0].local_upper >= 0


def without_time(trace: Trace) -> list[Any]:
    return [{k: str(v) for k, v in asdict(r).items() if k != "seconds"} for r in trace.rows]


@pytest.mark.parametrize("record", [Record(), Record(globally=False)])
def test_a_resumed_run_is_bit_for_bit_the_run_that_was_not_stopped(tmp_path: Path, record: Record):
    options: dict[str, Any] = {"seeds": [1, 2, 3], "flow": Descent(steps=3), "trace": record}
    strategies = ["smooth", "learned" if record.globally else "partial", "hub"]
    whole = lirs(PDGS[:3], strategies, steps=4, **options)
    for stop in (1, 3):
        path = tmp_path / f"run{stop}"
        lirs(PDGS[:3], strategies, steps=stop, checkpoint=path, **options)
        resumed = lirs(PDGS[:3], strategies, steps=4, checkpoint=path, **options)
        for a, b in zip(whole, resumed, strict=True):
            assert all(torch.equal(a.theta[k], b.theta[k]) for k in a.theta)
            assert without_time(a.trace) == without_time(b.trace)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path):
    path = tmp_path / "run"
    lir(PDGS[0], steps=1, checkpoint=path)
    with pytest.raises(FormatError, match="another run"):
        lir(PDGS[1], steps=2, checkpoint=path)
    path.write_bytes(b"something else")
    with pytest.raises(FormatError, match="not a checkpoint"):
        lir(PDGS[0], steps=2, checkpoint=path)


def test_ctrl_c_keeps_the_trace_and_the_run_can_go_on(tmp_path: Path):
    path = tmp_path / "run"

    def stop(step: int, traces: Sequence[Trace]) -> None:
        if step == 2:
            signal.raise_signal(signal.SIGINT)

    run = lir(PDGS[0], "partial", steps=5, checkpoint=path, callbacks=[stop])
    assert run.interrupted and run.steps == 2 and len(run.trace.rows) == 3
    resumed = lir(PDGS[0], "partial", steps=5, checkpoint=path)
    whole = lir(PDGS[0], "partial", steps=5)
    assert not resumed.interrupted and torch.equal(resumed.theta["AB.logits"], whole.theta["AB.logits"])


def test_progress_is_shown_only_when_asked_for_or_on_a_terminal(capsys: pytest.CaptureFixture[str]):
    lir(PDGS[0], steps=1)
    assert capsys.readouterr() == ("", "")


def test_tensorboard_is_optional(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(DissonanceError, match="pip install tensorboard"):
        TensorBoard("nowhere")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # tensorboard's own
def test_tensorboard_gets_the_numbers_of_every_step_of_every_run(tmp_path: Path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    runs = lirs(PDGS[:2], "hub", seeds=[1, 2], steps=3, callbacks=[TensorBoard(str(tmp_path))])
    written = EventAccumulator(str(tmp_path))
    written.Reload()
    for k, run in enumerate(runs):
        for name in ("global_upper", "local_upper", "tv_theta", "tv_mu", "newton_steps"):
            events = written.Scalars(f"{name}/{k}")
            assert [e.step for e in events] == [0, 1, 2]
            assert [e.value for e in events] == pytest.approx(run.trace.column(name)[:3], rel=1e-6)


def test_parameters_that_arcs_share_move_together():
    shared = SoftmaxTable([[0.9, 0.1], [0.3, 0.7]])
    X, Y, Z = (Variable(n, 2) for n in "XYZ")
    pdg = PDG(
        Arc("a", X, Y, shared),
        Arc("b", Y, Z, shared),
        Arc("y", (), Y, Table([0.5, 0.5])),
        Arc("x", (), X, Table([0.9, 0.1])),
    )
    run = lir(pdg, steps=3)
    assert run.pdg["a"].cpd is run.pdg["b"].cpd and run.after.upper < run.before.upper


def test_hard_arcs_and_structure_are_taken_as_they_come():
    pdg = PDGS[0] + Arc("hard", (), V["A"], Table([0.3, 0.7]))
    beta = {a.name: 1.0 for a in PDGS[0]} | {"hard": math.inf}
    for gamma in (0.0, 0.2):
        attention = Attention.only(beta, dict.fromkeys(beta, 0.5), gamma)
        run = lir(pdg, steps=3, attention=attention)
        assert run.after.upper < run.before.upper and run.after.converged
        assert run.before.upper == pytest.approx(inconsistency(pdg, attention).upper, abs=1e-6)


def test_contradictory_hard_arcs_are_proved_infinite():
    pdg = PDG(
        Arc("p", (), V["A"], [0.5, 0.5]),
        Arc("q", V["A"], V["B"], [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]]),
        Arc("r", (), V["B"], [0.9, 0.05, 0.05]),
        Arc("free", V["B"], V["C"], SoftmaxTable([[0.2, 0.3, 0.5]] * 3)),
        Arc("s", (), V["C"], [0.2, 0.2, 0.6]),
    )
    hard = Attention.only({"p": math.inf, "q": math.inf, "r": math.inf, "free": 1.0, "s": 1.0})
    assert inconsistency(pdg, hard).lower == math.inf
    run = lir(pdg, steps=1, attention=hard)
    assert run.before.lower == run.before.upper == math.inf


@pytest.mark.parametrize("solver", ["joint", "clique-tree", "paper"])
def test_other_solvers_run_through_the_same_loop(solver: str):
    exact = lir(PDGS[0], steps=2)
    run = lir(PDGS[0], steps=2, solver=solver)
    assert run.solver == solver
    assert run.after.upper == pytest.approx(exact.after.upper, abs=1e-5 if solver != "paper" else 0.5)


def test_a_run_and_its_trace_print_in_a_line_and_leave_out_what_was_not_measured():
    X = Variable("X", 2)
    pdg = PDG(Arc("p", (), X, SoftmaxTable([0.7, 0.3])), Arc("q", (), X, SoftmaxTable([0.2, 0.8])))
    seen, unseen = (lir(pdg, steps=2, trace=Record(globally=g)) for g in (True, False))
    assert repr(seen.trace).startswith("Trace(3 rows, 0.292218 -> ") and repr(seen).count("nats") == 1
    assert repr(unseen) == "Run(uniform, natural: 2 steps)" and repr(unseen.trace) == f"Trace({len(unseen.trace)} rows)"
