"""What makes no sense is refused with an error of the library, in one line that says what to do."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable
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
    Euclidean,
    LinearGaussian,
    SoftmaxTable,
    Table,
    Variable,
    inconsistency,
    lir,
    load,
)
from dissonance.flows import ODE, Descent, FullControl, Natural
from dissonance.solvers import Auto, Bounds, ConcaveConvex, JointSolver, Newton, Sampled

X, Y = Variable("X", 2), Variable("Y", 2)
BELIEFS = PDG(Arc("p", (), X, SoftmaxTable([0.9, 0.1])), Arc("q", (), X, [0.2, 0.8]), Arc("r", X, Y, [[0.5, 0.5]] * 2))
LOGITS = BELIEFS.theta["p.logits"].detach()


def mu() -> Any:
    return inconsistency(BELIEFS).mu


def at(logits: torch.Tensor) -> torch.Tensor:
    return inconsistency(BELIEFS, theta={"p.logits": logits}).value


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "beta": (lambda: Attention.only(beta={"p": "x"}), r"beta\['p'\] must be a number, found 'x'"),
    "all of beta": (lambda: Attention.only(beta="x"), "beta is given arc by arc"),
    "alpha": (lambda: Attention.only(alpha={"p": None}), r"alpha\['p'\] must be a number"),
    "gamma": (lambda: Attention.only(gamma="x"), "gamma must be a number"),
    "control": (lambda: Control({"p": "x"}), r"control\['p'\] must be a number"),
    "ragged": (lambda: Table([[0.5, 0.5], [1.0]]), "a table is an array of numbers"),
    "sparse": (lambda: Arc("p", X, Y, torch.eye(2).to_sparse()), "a dense tensor of real numbers"),
    "complex": (lambda: Arc("p", (), X, np.array([0.5 + 1j, 0.5])), "found complex ones"),
    "a complex tensor": (lambda: Arc("p", (), X, torch.tensor([0.5 + 1j, 0.5])), "real numbers"),
    "masked": (lambda: Arc("p", (), X, np.ma.array([0.5, 0.5], mask=[0, 1])), "fill them in first"),
    "a masked mean": (lambda: LinearGaussian(b=np.ma.array([1.0], mask=[1])), "fill them in first"),
    "half a value": (lambda: Variable("V", 2.5), "variable 'V': its values, or how many there are; found 2.5"),
    "lists as values": (lambda: Variable("V", [[1], [2]]), "can be told apart"),
    "half a dimension": (lambda: Euclidean(2.5), "a whole number dim >= 1, found 2.5"),
    "a name for a variable": (lambda: Arc("p", (), "X", [0.5, 0.5]), "expected a variable, found the name 'X'"),
    "no arc": (lambda: PDG("x"), "a PDG is made of arcs, found 'x'"),
    "no PDG": (lambda: inconsistency("x"), "expected a PDG"),
    "no attention": (lambda: inconsistency(BELIEFS, [1.0]), "expected an Attention"),
    "X given X": (lambda: mu().conditional("X", given="X"), "over distinct variables, found 'X' given 'X'"),
    "samples": (lambda: mu().sample(-1), "a whole number >= 0, found -1"),
    "shape of control": (
        lambda: lir(BELIEFS, steps=1, control=Control({"p": torch.ones(3)})),
        r"control\['p'\] has the shape \(3,\); the parameter 'p.logits' has \(2,\)",
    ),
    "a large seed": (lambda: lir(BELIEFS, steps=1, seed=2**70), "a seed is a whole number"),
    "half a step": (lambda: lir(BELIEFS, steps=1.5), "a whole number >= 0, found 1.5"),
    "a device": (lambda: Newton(device="gpu"), 'device of Newton must be "cpu", "cuda", "cuda:1" .* found \'gpu\''),
    "tol": (lambda: Newton(tol=-1e-7), "tol of Newton must be a finite number >= 0, found -1e-07"),
    "tol as text": (lambda: Newton(tol="fine"), "tol of Newton must be a finite number >= 0, found 'fine'"),
    "no tol": (lambda: JointSolver(tol=math.nan), "tol of JointSolver must be a finite number >= 0, found nan"),
    "a budget": (lambda: Newton(budget=-1), "budget of Newton must be a number of bytes >= 0"),
    "draws": (lambda: Sampled(0), "count of Sampled must be a whole number >= 1, or None, found 0"),
    "samples of auto": (lambda: Auto(samples=2.5), "samples of Auto must be a whole number >= 1, or None"),
    "seconds": (lambda: Bounds(seconds=-1), "seconds of Bounds must be a number >= 0"),
    "starts": (lambda: ConcaveConvex(starts=0), "starts of ConcaveConvex must be a whole number >= 1"),
    "nodes": (lambda: ConcaveConvex(nodes=True), "nodes of ConcaveConvex must be a whole number >= 0, found True"),
    "a seed": (lambda: Sampled(seed=0.5), "seed of Sampled must be a whole number"),
    "a rate": (lambda: Descent(rate=math.inf), "rate of Descent must be a finite number >= 0, found inf"),
    "steps of a flow": (lambda: ODE("rk4", steps=0), "steps of ODE must be a whole number >= 1, found 0"),
    "steps of natural": (lambda: Natural(2.5), "steps of Natural must be a whole number >= 1, found 2.5"),
    "sweeps": (lambda: FullControl(sweeps=0), "sweeps of FullControl must be a whole number >= 1"),
    "grad": (lambda: torch.func.grad(at)(LOGITS), "use result.value.backward"),
    "vmap": (lambda: torch.func.vmap(at)(torch.stack([LOGITS, LOGITS])), "use result.value.backward"),
    "jacrev": (lambda: torch.func.jacrev(at)(LOGITS), "use result.value.backward"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused_in_one_line(case: str):
    make, message = REFUSED[case]
    with pytest.raises(DissonanceError, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(DissonanceError, match="there is no CUDA device"):
        inconsistency(BELIEFS, solver=Newton(device="cuda"))


def test_options_are_taken_as_numbers_of_numpy():
    solver = Newton(tol=np.float32(1e-6), budget=np.int64(2**30))
    assert inconsistency(BELIEFS, solver=solver).upper == pytest.approx(inconsistency(BELIEFS).upper, abs=1e-6)


def test_what_is_too_large_for_a_device_is_solved_on_the_cpu_and_says_so():
    pdg = PDG(*(Arc(f"p{i}", Variable(f"X{i}", 2), Variable(f"X{i + 1}", 2), [[0.9, 0.1]] * 2) for i in range(200)))
    pdg = pdg + Arc("last", (), Variable("X200", 2), [0.2, 0.8])
    with pytest.warns(UserWarning, match="'cpu:0' is for problems of at most 512 cells and multipliers"):
        there = inconsistency(pdg, solver=Newton(device="cpu:0"))
    assert there.upper == inconsistency(pdg, solver=Newton(device="cpu")).upper


def test_a_result_can_be_copied():
    result = inconsistency(BELIEFS)
    again = copy.deepcopy(result)
    assert (again.lower, again.upper) == (result.lower, result.upper) and not again.value.requires_grad
    assert torch.equal(again.mu.marginal("X"), result.mu.marginal("X"))
    result.value.backward()


def test_sizes_of_numpy_and_masks_of_nothing_are_taken():
    assert Variable("V", np.int64(3)).size == 3
    assert Table(np.ma.array([0.5, 0.5])).table().tolist() == [0.5, 0.5]
    assert mu().sample(0) == {"X": [], "Y": []}


def test_a_file_with_a_key_twice_is_refused():
    text = b'{"format": "dissonance.pdg", "version": 1, "variables": [], "arcs": [], "gamma": 0, "gamma": 1}'
    with pytest.raises(DissonanceError, match="the key 'gamma' is given twice"):
        load(io.BytesIO(text))
