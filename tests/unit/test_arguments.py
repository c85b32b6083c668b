"""What makes no sense is refused with an error of the library, in one line that says what to do."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
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
    Focus,
    LinearGaussian,
    SoftmaxTable,
    Table,
    Variable,
    coherence,
    draw,
    inconsistencies,
    inconsistency,
    lir,
    lirs,
    load,
    query,
    save,
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
    "what load gives": (lambda: inconsistency((BELIEFS, None)), r"expected a PDG, found a tuple: .* pdg, focus = load"),
    "what load gives, to lir": (lambda: lir((BELIEFS, None), steps=1), "expected a PDG, found a tuple"),
    "no PDG to add": (lambda: BELIEFS + 3, "expected a PDG, found 3"),
    "a focus": (lambda: inconsistency(BELIEFS, Focus(Attention())), "expected an Attention .* Give focus.attention."),
    "no result": (lambda: inconsistency(BELIEFS, near=3), r"near must be a result of inconsistency\(...\), found 3"),
    "as many": (lambda: inconsistencies([BELIEFS] * 2, [None] * 3), "or one for all; found 2 pdgs, 3 attentions"),
    "runs": (lambda: lirs([BELIEFS] * 2, seeds=[1, 2, 3]), "or one for all; found 2 pdgs, 1 refocus, 3 seeds"),
    "no control": (lambda: lir(BELIEFS, steps=1, control=3), "control is given arc by arc"),
    "an arc that is not there": (lambda: BELIEFS.at({"s.logits": LOGITS}), "'s.logits', which is no parameter of any"),
    "a parameter that is not there": (lambda: BELIEFS.at({"p.logit": LOGITS}), "Did you mean 'p.logits'"),
    "what is fixed": (lambda: BELIEFS.at({"q.p": LOGITS}), "'q.p', which is fixed: it is no parameter"),
    "a shape": (lambda: BELIEFS.at({"p.logits": LOGITS[:1]}), r"has shape \(1,\), the parameter has \(2,\)"),
    "no belief": (lambda: coherence([("Rain", 0.5)]), r"a belief is a Belief, or a line .* found \('Rain', 0.5\)"),
    "no beliefs": (lambda: coherence(3), "a belief is a Belief, or a line"),
    "no probability": (lambda: coherence({"Rain": "x"}), "of 'Rain' must be a number, or a range .* found 'x'"),
    "no range": (lambda: coherence({"Rain": (0.1,)}), "must be a number, or a range"),
    "beyond 1": (lambda: coherence({"Rain": 1.5}), "the probability of 'Rain' is 1.5; it must be between 0 and 1"),
    "no file": (lambda: load(3), "expected a path or an open file, found 3"),
    "a file first": (lambda: save(BELIEFS, "model.json"), "expected a PDG, found 'model.json'"),
    "an attention to save": (lambda: save("model.json", BELIEFS, Attention()), "expected a Focus, as Focus"),
    "nothing to draw": (lambda: draw(3), "expected a PDG, found 3"),
    "a name as evidence": (lambda: query(BELIEFS, "X"), "evidence is {variable: label}, .* found 'X'"),
    "no attention": (lambda: inconsistency(BELIEFS, [1.0]), "expected an Attention"),
    "X given X": (lambda: mu().conditional("X", given="X"), "over distinct variables, found 'X' given 'X'"),
    "samples": (lambda: mu().sample(-1), "a whole number >= 0, found -1"),
    "shape of control": (
        lambda: lir(BELIEFS, steps=1, control=Control({"p": torch.ones(3)})),
        r"control\['p'\] has the shape \(3,\); the parameter 'p.logits' has \(2,\)",
    ),
    "a large seed": (lambda: lir(BELIEFS, steps=1, seed=2**70), "a seed is a whole number"),
    "half a step": (lambda: lir(BELIEFS, steps=1.5), "a whole number >= 0, found 1.5"),
    "grad": (lambda: torch.func.grad(at)(LOGITS), "use result.value.backward"),
    "vmap": (lambda: torch.func.vmap(at)(torch.stack([LOGITS, LOGITS])), "use result.value.backward"),
    "jacrev": (lambda: torch.func.jacrev(at)(LOGITS), "use result.value.backward"),
}


OPTIONS: dict[str, tuple[Any, str]] = {
    "device": (Newton(device="gpu"), r'of Newton must be "cpu", "cuda", "cuda:1" and so on, or None, found \'gpu\''),
    "tol": (Newton(tol=-1e-7), "of Newton must be a finite number >= 0, found -1e-07"),
    "tol as text": (Newton(tol="fine"), "of Newton must be a finite number >= 0, found 'fine'"),  # pyright: ignore
    "tol that is no number": (JointSolver(tol=math.nan), "of JointSolver must be a finite number >= 0, found nan"),
    "budget": (Newton(budget=-1), "of Newton must be a number of bytes >= 0, found -1"),
    "count": (Sampled(0), "of Sampled must be a whole number >= 1, or None, found 0"),
    "samples": (Auto(samples=2.5), "of Auto must be a whole number >= 1, or None, found 2.5"),  # pyright: ignore
    "seconds": (Bounds(seconds=-1), "of Bounds must be a number >= 0, found -1"),
    "starts": (ConcaveConvex(starts=0), "of ConcaveConvex must be a whole number >= 1, found 0"),
    "nodes": (ConcaveConvex(nodes=True), "of ConcaveConvex must be a whole number >= 0, found True"),
    "seed": (Sampled(seed=0.5), "of Sampled must be a whole number, found 0.5"),  # pyright: ignore
}
FLOW_OPTIONS: dict[str, tuple[Any, str]] = {
    "rate": (Descent(rate=math.inf), "of Descent must be a finite number >= 0, found inf"),
    "steps": (ODE("rk4", steps=0), "of ODE must be a whole number >= 1, found 0"),
    "steps in halves": (Natural(2.5), "of Natural must be a whole number >= 1, found 2.5"),  # pyright: ignore
    "sweeps": (FullControl(sweeps=0), "of FullControl must be a whole number >= 1, found 0"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_of_solvers_that_make_no_sense_are_refused(case: str):
    solver, message = OPTIONS[case]
    for ask in (inconsistency, lambda pdg, solver: lir(pdg, steps=1, solver=solver)):
        with pytest.raises(DissonanceError, match=f"^{case.split()[0]} {message}"):
            ask(BELIEFS, solver=solver)


@pytest.mark.parametrize("case", FLOW_OPTIONS)
def test_options_of_flows_that_make_no_sense_are_refused(case: str):
    flow, message = FLOW_OPTIONS[case]
    with pytest.raises(DissonanceError, match=f"^{case.split()[0]} {message}"):
        lir(BELIEFS, steps=1, flow=flow)


def test_options_of_other_peoples_solvers_have_words_of_their_own():
    @dataclass(frozen=True)
    class Mine(Newton):
        seed: str = "a word"

    assert inconsistency(BELIEFS, solver=Mine()).converged


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


def test_what_is_given_once_serves_all():
    weights = [{"p": 1.0, "q": 1.0}, {"p": 1.0, "q": 2.0}]
    each = [inconsistency(BELIEFS, w).upper for w in weights]
    near = inconsistency(BELIEFS, weights[0])
    assert [r.upper for r in inconsistencies(BELIEFS, weights)] == pytest.approx(each, abs=1e-12)
    assert [r.upper for r in inconsistencies([BELIEFS], weights, near=near)] == pytest.approx(each, abs=1e-9)
    assert [r.upper for r in inconsistencies([BELIEFS] * 2, weights[0])] == pytest.approx(each[:1] * 2, abs=1e-12)
    thetas = [{"p.logits": LOGITS}, {"p.logits": -LOGITS}]
    apart = [inconsistency(BELIEFS, theta=t).upper for t in thetas]
    assert [r.upper for r in inconsistencies(BELIEFS, thetas=thetas)] == pytest.approx(apart, abs=1e-12)
    assert inconsistencies([], []) == []


def test_a_control_may_be_a_dictionary_as_an_attention_may():
    one, other = (lir(BELIEFS, steps=2, control=c).after.upper for c in ({"p": 0.5}, Control({"p": 0.5})))
    assert one == other


def test_theta_may_be_of_more_arcs():
    moved = BELIEFS.at({"p.logits": -LOGITS, "elsewhere.logits": LOGITS})
    torch.testing.assert_close(moved["p"].cpd.table(), torch.softmax(-LOGITS, 0))


def test_beliefs_may_be_a_dictionary():
    lines = ["P(Rain) = 0.5", "P(Wind | Rain) = 0.9", "P(Rain and Wind) in [0.1, 0.2]"]
    asked = {"Rain": 0.5, "Wind | Rain": 0.9, "Rain and Wind": (0.1, 0.2)}
    assert coherence(asked).upper == pytest.approx(coherence(lines).upper, abs=1e-12)
    assert coherence(asked).lower > 0.05


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
