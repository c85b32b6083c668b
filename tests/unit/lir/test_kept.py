"""Optimisers that a run keeps: textbook training, step by step, also after a stop."""

from __future__ import annotations

import copy
import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    DissonanceError,
    Euclidean,
    Focus,
    Record,
    SoftmaxTable,
    Variable,
    lir,
    lirs,
)
from dissonance.cpds import Data, NeuralCategorical
from dissonance.flows import Descent
from dissonance.io import sealed
from dissonance.refocus import Partial

inf = math.inf
X, Y = Variable("X", Euclidean(3)), Variable("Y", 4)
QUIET = Record(globally=False)
OPTIMISERS = [("Adam", {}), ("AdamW", {"weight_decay": 0.1}), ("SGD", {"momentum": 0.9}), ("RMSprop", {})]


def net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4))


def rows(step: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(step)
    x = torch.randn(8, 3, generator=g)
    return x, (x.argmax(1) + torch.randint(2, (8,), generator=g)) % 4


def two_classifiers() -> PDG:
    """Two networks that see the same data, each an arc of its own."""
    return PDG(
        Arc("d", (), (X, Y), Data(*rows(0))),
        Arc("p", X, Y, NeuralCategorical(net(1))),
        Arc("q", X, Y, NeuralCategorical(net(2))),
    )


def in_turn(chi: float) -> Callable[..., Focus]:
    """Two steps of p for one of q."""

    def refocus(_pdg: PDG, step: int, *_: object) -> Focus:
        x, y = rows(step)
        moved = "q" if step % 3 == 2 else "p"
        return Focus(Attention.only({"d": inf, moved: 1.0}), Control({moved: chi}), {"d.rows0": x, "d.rows1": y})

    return refocus


@pytest.mark.parametrize(("name", "options"), OPTIMISERS)
@pytest.mark.parametrize("chi", [1.0, 0.5])
def test_fifty_steps_of_players_in_turn_are_those_of_their_own_optimisers(
    name: str, options: dict[str, Any], chi: float
):
    pdg = two_classifiers()
    plain = {"p": net(1), "q": net(2)}
    made = {n: getattr(torch.optim, name)(x.parameters(), lr=0.02 * chi, **options) for n, x in plain.items()}
    trace = Record(globally=False, snapshots=1)
    flow = Descent(name, rate=0.02, steps=1, options=options, keep=True)
    run = lir(pdg, in_turn(chi), steps=50, flow=flow, trace=trace)
    for step in range(50):
        moved = "q" if step % 3 == 2 else "p"
        x, y = rows(step)
        loss = nn.functional.cross_entropy(plain[moved](x), y)
        assert run.trace.rows[step].local_upper == pytest.approx(loss.item(), abs=1e-6)
        made[moved].zero_grad()
        loss.backward()
        made[moved].step()
        now = run.trace.snapshots[step + 1]
        for n, network in plain.items():
            for key, value in network.named_parameters():
                assert torch.allclose(now[f"{n}.logits.{key}"], value, atol=1e-6)
    assert run.flow == f"{name.lower()}(0.02 x 1, kept)"


@pytest.mark.filterwarnings("ignore:.*cannot be checked")
@pytest.mark.parametrize(("name", "options"), OPTIMISERS)
def test_a_run_that_was_stopped_goes_on_byte_for_byte(name: str, options: dict[str, Any], tmp_path: Path):
    flow = Descent(name, rate=0.02, steps=1, options=options, keep=True)
    whole = lir(two_classifiers(), in_turn(1.0), steps=9, flow=flow, trace=QUIET)
    path = tmp_path / "run.ckpt"
    for steps in (1, 4, 9):
        resumed = lir(two_classifiers(), in_turn(1.0), steps=steps, flow=flow, trace=QUIET, checkpoint=path)
    assert all(torch.equal(resumed.theta[key], value) for key, value in whole.theta.items())
    assert resumed.trace.column("local_upper")[:-1] == whole.trace.column("local_upper")[:-1]
    state = sealed.read_state(path, "a checkpoint")["flow"]
    assert {name.split("/", 2)[2] for name in state} == (set(whole.theta) if name != "SGD" or options else set())
    renewed = lir(two_classifiers(), in_turn(1.0), steps=9, flow=Descent(name, 0.02, 1, options), trace=QUIET)
    assert any(not torch.equal(renewed.theta[key], value) for key, value in whole.theta.items())


def test_neither_the_pdg_nor_its_parameters_are_touched():
    pdg = two_classifiers()
    before = copy.deepcopy(pdg.theta)
    lir(pdg, in_turn(1.0), steps=3, flow=Descent(rate=0.1, steps=1, keep=True), trace=QUIET)
    assert all(torch.equal(before[key], value) and value.grad is None for key, value in pdg.theta.items())


def test_runs_side_by_side_keep_each_their_own():
    V = Variable("V", 3)
    pdgs = [
        PDG(
            Arc("p", (), V, SoftmaxTable(p)),
            Arc("q", (), V, SoftmaxTable([0.2, 0.3, 0.5])),
            Arc("r", (), V, SoftmaxTable([0.4, 0.4, 0.2])),
        )
        for p in ([0.6, 0.3, 0.1], [0.1, 0.8, 0.1])
    ]
    flow = Descent("Adam", rate=0.1, steps=2, keep=True)
    options: dict[str, Any] = {"steps": 6, "flow": flow, "trace": Record(snapshots=1)}
    two = Partial(share=0.7)
    together = lirs(pdgs, [two] * 2, seeds=[3, 4], **options)
    alone = [lir(pdg, two, seed=seed, **options) for pdg, seed in zip(pdgs, (3, 4), strict=True)]
    for a, b in zip(together, alone, strict=True):
        assert all(torch.allclose(a.theta[key], b.theta[key], atol=1e-6) for key in a.theta)
        assert all(not torch.allclose(a.theta[key], a.trace.snapshots[0][key]) for key in a.theta)


def test_control_by_component_holds_the_others_still():
    V = Variable("V", 3)
    pdg = PDG(Arc("p", (), V, SoftmaxTable([0.6, 0.3, 0.1])), Arc("q", (), V, [0.2, 0.3, 0.5]))
    chi = torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64)
    flow = Descent("Adam", rate=0.1, steps=1, keep=True)
    run = lir(pdg, steps=3, flow=flow, control=Control({"p.logits": chi}), trace=QUIET)
    moved = (run.theta["p.logits"] - pdg.theta["p.logits"]).abs()
    assert moved[1] == 0 and moved[0] > moved[2] > 0


def test_ctrl_c_in_the_middle_of_a_step_waits_for_its_end(tmp_path: Path):
    flow, good = Descent(rate=0.02, steps=1, keep=True), in_turn(1.0)

    def refocus(pdg: PDG, step: int, *rest: Any) -> Focus:
        if step == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return good(pdg, step, *rest)

    run = lir(two_classifiers(), refocus, steps=9, flow=flow, trace=QUIET)
    assert run.interrupted and run.steps == 5
    same = lir(two_classifiers(), good, steps=5, flow=flow, trace=QUIET)
    assert all(torch.equal(run.theta[key], value) for key, value in same.theta.items())


def test_what_has_no_state_cannot_be_kept():
    class Still:
        def step(self) -> None: ...

    flow = Descent(lambda _: Still(), keep=True)
    with pytest.raises(DissonanceError, match=r"only optimisers of torch.optim can be kept, found Still"):
        lir(two_classifiers(), in_turn(1.0), steps=1, flow=flow, trace=QUIET)
