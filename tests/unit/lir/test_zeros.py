"""Tables with zeros: what is impossible stays impossible under every flow, and the rest moves as it would without."""

from __future__ import annotations

import math

import pytest
import torch

from dissonance import PDG, Arc, Attention, Control, DissonanceError, Focus, SoftmaxTable, Variable, lir, lirs
from dissonance.flows import ODE, Descent, Step
from dissonance.refocus import Cycle

FLOWS = {
    "adam": Descent(),
    "sgd": Descent("SGD", 0.1),
    "adamw": Descent("AdamW", 0.01, options={"weight_decay": 0.0}),
    "kept": Descent("Adam", 0.05, keep=True),
    "dopri5": ODE("dopri5"),
    "rk4": ODE("rk4"),
    "lsoda": ODE("LSODA"),
    "step": Step(),
}


def run(p: list[float], q: list[float], flow: object, chi: float) -> torch.Tensor:
    Z = Variable("Z", len(p))
    pdg = PDG(Arc("p", (), Z, SoftmaxTable(p)), Arc("q", (), Z, q))
    focus = Focus(Attention.only({"p": 1.0, "q": 1.0}), Control({"p": chi}))
    made = lir(pdg, Cycle(focus), steps=3, flow=flow)  # pyright: ignore[reportArgumentType]
    assert 0 < made.after.upper < made.before.upper < math.inf
    return made.pdg["p"].cpd.table().detach()


@pytest.mark.parametrize("chi", [1.0, 0.5])
@pytest.mark.parametrize("name", FLOWS)
def test_a_zero_stays_and_the_others_move_as_they_would_without_it(name, chi):
    found = run([0.5, 0.5, 0.0], [0.2, 0.8, 0.0], FLOWS[name], chi)
    without = run([0.5, 0.5], [0.2, 0.8], FLOWS[name], chi)
    assert found[2] == 0
    assert torch.allclose(found[:2], without, atol=1e-6)


def test_a_flow_to_nan_is_an_error_that_names_arc_and_parameter():
    with pytest.raises(DissonanceError, match=r"step 0: arc 'p' .*'p.logits' that is not finite"):
        run([0.5, 0.5], [0.2, 0.8], Descent("SGD", 1e308), 1e308)


def test_a_run_from_nan_is_refused():
    Z = Variable("Z", 2)
    pdg = PDG(Arc("p", (), Z, SoftmaxTable([0.5, 0.5])), Arc("q", (), Z, [0.2, 0.8]))
    with torch.no_grad():
        pdg["p"].cpd.logits[0] = math.nan
    with pytest.raises(DissonanceError, match=r"arc 'p' .*'p.logits' holds nan"):
        lir(pdg, steps=1)


S, T = Variable("S", 2), Variable("T", 2)


def doubly_stated(logit: float, mass: float) -> PDG:
    """A learnable table whose second row is nearly (1, 0) at a source of this mass, and a table that says (.2, .8)."""
    nearly = SoftmaxTable(logits=[[0.0, 0.0], [0.0, logit]])
    return PDG(Arc("s", (), S, [1 - mass, mass]), Arc("a", S, T, nearly), Arc("b", S, T, [[0.5, 0.5], [0.2, 0.8]]))


HARD = Attention({"s": math.inf, "a": math.inf, "b": 1e4})
TINY = [(-700.0, 0.5), (-730.0, 4e-9), (-744.0, 0.5), (-745.0, 0.5), (-745.0, 4e-9), (-746.0, 0.5)]


@pytest.mark.parametrize(("logit", "mass"), TINY)
def test_a_hard_table_with_probabilities_near_the_smallest_number_moves_to_numbers(logit, mass):
    pdg = doubly_stated(logit, mass)
    after = lir(pdg, steps=2, attention=HARD, control={"a": 1.0}).pdg["a"].cpd.table()
    assert bool(after.isfinite().all())
    assert torch.equal(after[0], torch.tensor([0.5, 0.5], dtype=after.dtype))


def test_a_table_with_a_probability_near_the_smallest_number_stops_no_run_beside_it():
    pdgs = [doubly_stated(logit, mass) for logit, mass in [*TINY, (-1.0, 0.5)]]
    together = lirs(pdgs, steps=2, attention=HARD, control={"a": 1.0})
    for pdg, run in zip(pdgs, together, strict=True):
        alone = lir(pdg, steps=2, attention=HARD, control={"a": 1.0})
        assert torch.allclose(run.pdg["a"].cpd.table(), alone.pdg["a"].cpd.table(), atol=1e-7)


@pytest.mark.parametrize("beta", [1.0, -0.5, 1e6])
@pytest.mark.parametrize("logit", [-740.0, -745.0])
def test_natural_gradients_that_overflow_are_cut_off(beta, logit):
    pdg = PDG(Arc("a", (), T, SoftmaxTable(logits=[0.0, logit])), Arc("b", (), T, [0.2, 0.8]))
    control = {"a.logits": torch.tensor([1.0, 0.5])}  # no closed form: an Euler step
    after = lir(pdg, steps=1, attention={"a": beta, "b": abs(beta) + 1}, control=control).pdg["a"].cpd.table()
    assert bool(after.isfinite().all())
