"""Refocus procedures: what they attend to, and that they are reproducible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, Control, DissonanceError, Focus, Record, SoftmaxTable, Variable, lir, lirs
from dissonance.lir.refocus import NAMES, weighted
from dissonance.refocus import Choice, Cycle, Greedy, Hub, Partial
from dissonance.runs import Row, Trace

A, B, C = (Variable(n, 2) for n in "ABC")


def chain() -> PDG:
    """A -> B -> C -> B, and a belief about C."""
    generator = torch.Generator().manual_seed(3)

    def rows() -> SoftmaxTable:
        return SoftmaxTable(torch.softmax(torch.randn(2, 2, generator=generator, dtype=torch.float64), -1))

    return PDG(
        Arc("ab", A, B, rows()),
        Arc("bc", B, C, rows()),
        Arc("cb", C, B, rows()),
        Arc("c", (), C, SoftmaxTable([0.9, 0.1])),
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_procedure_runs_by_name_and_is_reproducible(name: str):
    runs = [lir(chain(), name, steps=4, seed=5) for _ in range(2)]
    assert [r.beta for r in runs[0].trace.rows] == [r.beta for r in runs[1].trace.rows]
    assert runs[0].after.upper <= runs[0].before.upper + 1e-7
    assert runs[0].refocus == name


@pytest.mark.parametrize("name", ["partial", "hub", "smooth", "learned"])
def test_randomness_comes_from_the_seed(name: str):
    runs = lirs(chain(), name, seeds=[1, 2, 1], steps=6)
    beta = [[r.beta for r in run.trace.rows] for run in runs]
    assert beta[0] == beta[2] != beta[1]


def test_partial_attends_to_half_of_the_arcs_and_controls_no_others():
    run = lir(chain(), Partial(), steps=5)
    for row in run.trace.rows[:-1]:
        assert len(row.beta) == 2 and set(row.chi) == set(row.beta)


def test_a_hub_is_the_arcs_at_a_variable():
    near = {"A": {"ab"}, "B": {"ab", "bc", "cb"}, "C": {"bc", "cb", "c"}}
    run = lir(chain(), Hub(), steps=8)
    assert all(set(row.beta) in near.values() for row in run.trace.rows[:-1])
    faint = lir(chain(), Hub(other=0.1), steps=8)
    assert all(set(row.beta.values()) <= {1.0, 0.1} and len(row.beta) == 4 for row in faint.trace.rows[:-1])


def test_weights_scale_attention_and_keep_hard_arcs_hard():
    base = Focus(Attention.only({"a": 2.0, "b": float("inf")}, {"a": 1.0}, 0.5), Control({"a": 1.0, "b.logits": 1.0}))
    focus = weighted(base, {"a": 0.5, "b": 0.0})
    assert dict(focus.attention.beta) == {"a": 1.0} and dict(focus.attention.alpha) == {"a": 0.5}
    assert dict(focus.control.chi) == {"a": 1.0} and focus.attention.gamma == 0.5
    assert weighted(base, {"b": 0.1}).attention.beta["b"] == float("inf")


def test_foci_in_turn_or_at_random():
    one, two = (Focus(Attention.uniform(chain(), only=[n]), Control({n: 1.0})) for n in ("ab", "c"))
    rows = lir(chain(), Cycle(one, two), steps=4).trace.rows[:-1]
    assert [set(r.beta) for r in rows] == [{"ab"}, {"c"}] * 2
    rows = lir(chain(), Choice(one, two), steps=12).trace.rows[:-1]
    assert {frozenset(r.beta) for r in rows} == {frozenset({"ab"}), frozenset({"c"})}


def test_greedy_attends_to_the_conflict():
    X, Y = Variable("X", 2), Variable("Y", 2)
    pdg = PDG(
        Arc("p", (), X, SoftmaxTable([0.9, 0.1])),
        Arc("q", (), X, SoftmaxTable([0.2, 0.8])),
        Arc("r", (), Y, SoftmaxTable([0.5, 0.5])),
        Arc("s", (), Y, SoftmaxTable([0.6, 0.4])),
    )
    run = lir(pdg, Greedy(), steps=3)
    assert set(run.trace.rows[0].beta) == {"p", "q"}


def test_greedy_adds_up_blame_in_the_order_of_the_arcs():
    """Sums in the order of a set would depend on the hash seed of the process: studies would not be reproducible."""
    X, Y = Variable("X", 2), Variable("Y", 2)
    names = [f"arc {i}" for i in range(12)]
    pdg = PDG(*(Arc(n, (), X, SoftmaxTable([0.5, 0.5])) for n in names), Arc("y", (), Y, SoftmaxTable([0.5, 0.5])))
    blame = {n: 0.1 + i / 7 for i, n in enumerate(names)}
    trace = Trace(Focus(Attention.uniform(pdg)))
    trace.now = Row(0, blame={**blame, "y": sum(blame.values())})  # a tie, if added up in this order: the first wins
    assert set(Greedy()(pdg, 0, np.random.default_rng(0), trace).attention.beta) == set(names)


def test_anything_callable_is_a_refocus():
    seen: list[int] = []

    def mine(pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        seen.append(len(trace.rows))
        return trace.base

    run = lir(chain(), mine, steps=3)
    assert seen == [0, 1, 2] and run.refocus == "mine"


@pytest.mark.parametrize("seed", [0, 7, -3, 2**64 - 1])
def test_a_refocus_draws_from_a_numpy_generator_that_the_seed_of_its_run_seeds(tmp_path: Path, seed: int):
    """A run that was stopped goes on where its generator was."""

    def mine(pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        return weighted(trace.base, dict.fromkeys(trace.attention.beta, 1.0 + generator.random()))

    lir(chain(), mine, steps=2, seed=seed, checkpoint=tmp_path / "run")
    with pytest.warns(UserWarning, match="mine"):  # what else a function reads cannot be checked
        rows = lir(chain(), mine, steps=5, seed=seed, checkpoint=tmp_path / "run").trace.rows[:5]
    drawn = np.random.default_rng(seed % 2**64).random(5)
    assert [set(r.beta.values()) for r in rows] == [{1.0 + x} for x in drawn.tolist()]


def test_errors_say_what_to_do():
    with pytest.raises(DissonanceError, match="no refocus named 'unifrom'"):
        lir(chain(), "unifrom")
    with pytest.raises(DissonanceError, match="no flow named"):
        lir(chain(), flow="adm")
    with pytest.raises(DissonanceError, match="no arc has parameters"):
        lir(PDG(Arc("p", (), A, [0.5, 0.5])))
    with pytest.raises(DissonanceError, match="globally=True"):
        lir(chain(), "greedy", steps=1, trace=Record(globally=False))
    with pytest.raises(DissonanceError, match="as many of each"):
        lirs([chain(), chain()], ["uniform"] * 3)
