"""Flows of one's own: their state lives in the run and is what checkpoints keep; what they need they say."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Control, Focus, Record, SoftmaxTable, Variable, lir, lirs
from dissonance.errors import DissonanceError
from dissonance.flows import Flow, Moved
from dissonance.focus import Attention
from dissonance.lir.local import Local
from dissonance.refocus import Hub, Partial

QUIET = Record(globally=False)


def loop(seed: int = 0, n: int = 3) -> PDG:
    """Tables around a loop of variables, two for each pair, which disagree."""
    rng, x = np.random.default_rng(seed), [Variable(f"X{i}", 2 + i % 2) for i in range(n)]
    arcs: list[Arc] = []
    for i, a in enumerate(x):
        b = x[(i + 1) % n]
        arcs += [Arc(f"{kind}{i}", a, b, SoftmaxTable(rng.dirichlet([1] * b.size, a.size))) for kind in "ef"]
    return PDG(*arcs)


class Momentum(Flow):
    """Steps along a running mean of slopes, which shrink as steps are counted; arrays of torch, of numpy, numbers."""

    name, whole = "momentum", True

    def init(self, theta: Any) -> dict[str, Any]:
        return {f"mean {key}": torch.zeros_like(x) for key, x in theta.items()} | {"norm": np.zeros(3, np.float32)}

    def step(self, local: Local, theta: Any, state: Any) -> Moved:
        slope, now = local.slope(theta), {"steps": state.get("steps", 0) + 1}
        for key in theta:
            now[f"mean {key}"] = 0.9 * state[f"mean {key}"] + slope[key] if key in slope else state[f"mean {key}"]
        now["norm"] = state["norm"] * np.float32(0.5) + np.float32(slope[max(slope)].abs().sum())
        rate = 0.3 / now["steps"] / (1 + float(now["norm"][0]))
        moved = {key: x - rate * local.chi[key] * now[f"mean {key}"] for key, x in theta.items()}
        return Moved(moved, now)


class InPlace(Flow):
    """The same, with a state that is made once and changed in place."""

    name, whole, in_place = "in place", True, True

    def init(self, theta: Any) -> dict[str, Any]:
        return {key: torch.zeros_like(x) for key, x in theta.items()}

    def step(self, local: Local, theta: Any, state: Any) -> Moved:
        for key, slope in local.slope(theta).items():
            state[key].mul_(0.9).add_(slope)
            theta[key].sub_(0.2 * local.chi[key] * state[key])
        return Moved(theta, state)


class WithoutInit:
    """A flow that derives from nothing, and whose state begins with its first step."""

    name, in_place, whole = "without init", False, True

    def step(self, local: Local, theta: Any, state: Any) -> Moved:
        slope, seen = local.slope(theta), 1 if state is None else state["seen"] + 1
        return Moved({key: x - local.chi[key] / seen * slope[key] for key, x in theta.items()}, {"seen": seen})


@pytest.mark.parametrize("flow", [Momentum(), InPlace(), WithoutInit()], ids=lambda flow: flow.name)
@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.filterwarnings("ignore:.*cannot be checked")
def test_a_stopped_run_goes_on_with_the_state_of_a_flow_bit_for_bit(flow: Any, runs: int, tmp_path: Path):
    given: dict[str, Any] = {"refocus": Partial(0.7), "seeds": [*range(runs)], "flow": flow, "trace": QUIET}
    pdgs = [loop(seed) for seed in range(runs)]
    straight = lirs(pdgs, steps=9, **given)
    for steps in (1, 4, 9):
        resumed = lirs(pdgs, steps=steps, checkpoint=tmp_path / "run", **given)
    for one, other in zip(resumed, straight, strict=True):
        assert all(torch.equal(one.theta[key], x) for key, x in other.theta.items())
        assert all(not torch.equal(x, pdgs[0].theta[key]) for key, x in other.theta.items())
        assert one.trace.column("local_upper")[:-1] == other.trace.column("local_upper")[:-1]


def test_the_state_matters(tmp_path: Path):
    straight = lir(loop(), steps=4, flow=Momentum())
    half = lir(loop(), steps=2, flow=Momentum())
    again = lir(half.pdg, steps=2, flow=Momentum())
    assert any(not torch.allclose(again.theta[key], x) for key, x in straight.theta.items())


def test_a_state_that_cannot_be_kept_is_named(tmp_path: Path):
    class Odd(Momentum):
        def step(self, local: Local, theta: Any, state: Any) -> Moved:
            return Moved(theta, {"notes": [1, 2]})

    assert lir(loop(), steps=1, flow=Odd()).steps == 1
    with pytest.raises(DissonanceError, match="'momentum' keeps 'notes', a list"):
        lir(loop(), steps=1, flow=Odd(), checkpoint=tmp_path / "run")


def test_what_a_flow_does_not_say_is_an_error():
    class Mute:
        name = "mute"

        def step(self, local: Local, theta: Any, state: Any) -> Moved:
            return Moved(theta)

    with pytest.raises(DissonanceError, match="'mute' does not say 'in_place'"):
        lir(loop(), steps=1, flow=Mute())  # pyright: ignore[reportArgumentType]
    with pytest.raises(DissonanceError, match="expected a flow"):
        lir(loop(), steps=1, flow=lambda local, theta: theta)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("whole", [True, False])
def test_a_flow_that_needs_all_arcs_is_given_all_of_them(whole: bool):
    seen: list[int] = []

    class Counting(Flow):
        name = "counting"

        def step(self, local: Local, theta: Any, state: Any) -> Moved:
            seen.append(len(theta))
            return Moved(theta)

    flow, pdg = Counting(), loop(n=120)
    flow.whole = whole
    lir(pdg, Hub(), steps=3, flow=flow, trace=QUIET)
    assert seen == [240 if whole else 4] * 3


def test_ctrl_c_waits_for_a_flow_that_moves_theta_in_place():
    class Interrupted(InPlace):
        def step(self, local: Local, theta: Any, state: Any) -> Moved:
            if local.steps == 0 and float(state["e0.logits"].abs().sum()) > 0:
                os.kill(os.getpid(), signal.SIGINT)
            return super().step(local, theta, state)

    run = lir(loop(), steps=9, flow=Interrupted(), trace=QUIET)
    straight = lir(loop(), steps=2, flow=InPlace(), trace=QUIET)
    assert run.interrupted and run.steps == 2
    assert all(torch.equal(run.theta[key], x) for key, x in straight.theta.items())


def test_full_control_beside_a_flow_leaves_its_state_alone():
    control = Control({"e0": 1.0, "e1": float("inf")})
    both = Focus(Attention.only(dict.fromkeys(("e0", "f0", "e1", "f1"), 1.0)), control)
    kept: list[Any] = []

    class Watched(Momentum):
        def step(self, local: Local, theta: Any, state: Any) -> Moved:
            kept.append(state.get("steps", 0))
            return super().step(local, theta, state)

    lir(loop(), lambda *_: both, steps=3, flow=Watched())
    assert kept == [0, 1, 2]
