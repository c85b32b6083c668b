"""Variational inference as LIR: the value is -ELBO, every step is the textbook's."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, DissonanceError, Record, Variable, inconsistency, query
from dissonance.instances import variational
from reference import mean_field

LEAN = Record(snapshots=1)
QUICK = Record(globally=False, snapshots=1)


def grid(rows: int, columns: int, seed: int = 0) -> PDG:
    """An Ising model with random couplings and fields."""
    rng = np.random.default_rng(seed)
    spin = {(i, j): Variable(f"s{i}{j}", 2) for i in range(rows) for j in range(columns)}
    factors = [((v,), np.exp(0.5 * rng.normal() * np.array([-1, 1]))) for v in spin.values()]
    for (i, j), v in spin.items():
        for near in ((i, j + 1), (i + 1, j)):
            if near in spin:
                factors.append(((v, spin[near]), np.exp(rng.normal() * np.array([[1, -1], [-1, 1]]))))
    return PDG.from_factor_graph(factors)


def network(seed: int = 1) -> PDG:
    """A Bayesian network: A -> B, (A, B) -> C, C -> D."""
    rng = np.random.default_rng(seed)
    a, b, c, d = (Variable(n, k) for n, k in zip("ABCD", (2, 3, 2, 3), strict=True))
    table = rng.dirichlet
    return PDG.from_bayesian_network(
        {
            a: ((), table(np.ones(2))),
            b: ([a], table(np.ones(3), 2)),
            c: ([a, b], table(np.ones(2), (2, 3))),
            d: ([c], table(np.ones(3), 2)),
        }
    )


def uniform(log_p: np.ndarray) -> list[np.ndarray]:
    return [np.full(k, 1 / k) for k in log_p.shape]


def q_at(run, step: int, names: list[str]) -> list[np.ndarray]:
    return [torch.softmax(run.trace.snapshots[step][f"q({n}).logits"], -1).numpy() for n in names]


def test_every_step_of_full_control_is_coordinate_ascent_on_an_ising_grid():
    model = grid(2, 3)
    names = [v.name for v in model.variables]
    log_p = mean_field.log_joint(model, {}, names)
    run = variational(model).run(8, trace=LEAN)
    q = uniform(log_p)
    assert run.before.upper == pytest.approx(-mean_field.elbo(log_p, q), abs=1e-9)
    for step in range(8):
        q = mean_field.ascend(log_p, q, step % 6)
        for found, expected in zip(q_at(run, step + 1, names), q, strict=True):
            assert found == pytest.approx(expected, abs=1e-6)
        row = run.trace.rows[step + 1]
        assert -row.global_upper == pytest.approx(mean_field.elbo(log_p, q), abs=1e-6)
        assert row.residual == 0  # in closed form
    assert run.after.converged and run.solver == "auto"


def test_every_step_is_coordinate_ascent_on_a_bayesian_network_with_evidence():
    model = network()
    log_p = mean_field.log_joint(model, {"D": 2}, ["A", "B", "C"])
    run = variational(model, {"D": 2}).run(7, trace=LEAN)
    q = uniform(log_p)
    for step in range(7):
        q = mean_field.ascend(log_p, q, step % 3)
        for found, expected in zip(q_at(run, step + 1, ["A", "B", "C"]), q, strict=True):
            assert found == pytest.approx(expected, abs=1e-6)
        assert -run.trace.rows[step + 1].global_upper == pytest.approx(mean_field.elbo(log_p, q), abs=1e-6)


def test_the_bound_rises_to_the_evidence_and_stays_below_it():
    model = network()
    answer = variational(model, {"D": 2}).answer(15)
    exact = mean_field.log_evidence(mean_field.log_joint(model, {"D": 2}, ["A", "B", "C"]))
    assert answer.log_evidence == pytest.approx(exact, abs=1e-12)
    assert all(x <= y + 1e-9 for x, y in itertools.pairwise(answer.elbos))
    assert answer.elbos[0] < answer.elbo < exact
    posterior = torch.tensor(mean_field.softmax(mean_field.log_joint(model, {"D": 2}, ["A", "B", "C"])))
    q = torch.einsum("a,b,c->abc", *answer.marginals.values())
    assert answer.gap == pytest.approx(float((q * (q / posterior).log()).sum()), abs=1e-7)
    assert set(answer.q) == {"A", "B", "C"} and answer.bound.converged


def test_without_q_the_inconsistency_is_minus_the_log_evidence():
    made = variational(network(), {"D": 0})
    model = {a.name: 1.0 for a in network().arcs}
    found = inconsistency(made.pdg, Attention.only({**model, "D=0": math.inf}, model, 1.0))
    assert -found.upper == pytest.approx(float(query(network(), {"D": 0}).log_partition), abs=1e-9)


def test_blocks_make_q_structured_and_the_bound_better():
    model = network()
    run = variational(model, {"D": 1}, blocks=[("A", "C")]).run(4, trace=LEAN)
    log_p = mean_field.log_joint(model, {"D": 1}, ["A", "C", "B"])
    q = [np.full((2, 2), 0.25), np.full(3, 1 / 3)]
    for step in range(4):
        q = mean_field.ascend(log_p, q, step % 2)
        snapshot = run.trace.snapshots[step + 1]
        pair = torch.softmax(snapshot["q(A, C).logits"].flatten(), 0).reshape(2, 2).numpy()
        assert pair == pytest.approx(q[0], abs=1e-6)
        assert q_at(run, step + 1, ["B"])[0] == pytest.approx(q[1], abs=1e-6)
    pairs = variational(model, {"D": 1}, blocks=[("A", "C")]).answer(6)
    field = variational(model, {"D": 1}).answer(9)
    assert field.elbo < pairs.elbo < pairs.log_evidence
    assert pairs.marginals["A"].tolist() == pytest.approx(pairs.q["A, C"].sum(1).tolist())


def test_one_block_of_everything_is_exact_after_one_step():
    model = network()
    answer = variational(model, {"D": 2}, blocks=["ABC"]).answer(1)
    assert answer.gap == pytest.approx(0.0, abs=1e-7)
    for name, marginal in query(model, {"D": 2}).marginals.items():
        if name != "D":
            assert answer.marginals[name].tolist() == pytest.approx(marginal.tolist(), abs=1e-6)


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_every_step_of_finite_control_is_a_natural_gradient_step(rate: float):
    model = network(2)
    log_p = mean_field.log_joint(model, {"D": 2}, ["A", "B", "C"])
    run = variational(model, {"D": 2}, control=rate).run(5, trace=QUICK)
    q = uniform(log_p)
    for step in range(5):
        q = mean_field.ascend(log_p, q, step % 3, rate)
        for found, expected in zip(q_at(run, step + 1, ["A", "B", "C"]), q, strict=True):
            assert found == pytest.approx(expected, abs=1e-9)


def test_simultaneous_steps_all_start_from_the_same_q():
    model = network(2)
    log_p = mean_field.log_joint(model, {"D": 2}, ["A", "B", "C"])
    run = variational(model, {"D": 2}, control=0.4, simultaneous=True).run(4, trace=LEAN)
    q = uniform(log_p)
    for step in range(4):
        q = [mean_field.ascend(log_p, q, i, 0.4)[i] for i in range(3)]
        for found, expected in zip(q_at(run, step + 1, ["A", "B", "C"]), q, strict=True):
            assert found == pytest.approx(expected, abs=1e-9)
        assert -run.trace.rows[step + 1].global_upper == pytest.approx(mean_field.elbo(log_p, q), abs=1e-9)


def test_marginals_alone_would_leave_the_coupling_free_and_beat_the_bound():
    model = grid(1, 3)
    made = variational(model)
    log_p = mean_field.log_joint(model, {}, ["s00", "s01", "s02"])
    loose = {f"q({v.name})": math.inf for v in model.variables} | {a.name: 1.0 for a in model.arcs}
    found = inconsistency(made.pdg, Attention.only(loose, {a.name: 1.0 for a in model.arcs}, 1.0))
    exact = -mean_field.elbo(log_p, uniform(log_p))
    assert found.upper < exact - 0.1
    pinned = inconsistency(made.pdg, made.attention)
    assert pinned.solver == "pinned" and pinned.upper == pytest.approx(exact, abs=1e-9)


def test_q_may_start_anywhere_and_symmetry_is_not_broken_by_itself():
    x, y = Variable("X", 2), Variable("Y", 2)
    agree = PDG.from_factor_graph([((x, y), [[19.0, 1.0], [1.0, 19.0]])])
    even = variational(agree).answer(4)
    assert even.marginals["X"].tolist() == pytest.approx([0.5, 0.5])
    tilted = variational(agree, start={"X": [0.6, 0.4]}).run(1, trace=LEAN)
    assert q_at(tilted, 0, ["X"])[0].tolist() == pytest.approx([0.6, 0.4])
    moved = variational(agree, start={"Y": [0.6, 0.4]}).answer(8)
    assert float(moved.marginals["X"][0]) > 0.85 and moved.elbo > even.elbo


def test_variables_that_meet_nobody_have_their_exact_posterior_at_once():
    x, y = Variable("X", 2), Variable("Y", 2)
    apart = PDG(Arc("x", (), x, [0.3, 0.7]), Arc("y", (), y, [0.9, 0.1]))
    answer = variational(apart).answer(2)
    assert answer.gap == pytest.approx(0.0, abs=1e-9)
    assert answer.marginals["Y"].tolist() == pytest.approx([0.9, 0.1], abs=1e-7)


def test_what_cannot_be_done_is_said():
    model = network()
    with pytest.raises(DissonanceError, match="every variable is observed"):
        variational(model, {"A": 0, "B": 0, "C": 0, "D": 0})
    with pytest.raises(DissonanceError, match="'D' is observed or in two blocks"):
        variational(model, {"D": 0}, blocks=["CD"])
    with pytest.raises(DissonanceError, match="no variable named 'E'"):
        variational(model, blocks=["AE"])
    with pytest.raises(DissonanceError, match="no block 'A' to start with; the blocks are 'A, B'"):
        variational(model, blocks=["AB"], start={"A": [0.5, 0.5]})
    with pytest.raises(DissonanceError, match="finite control"):
        variational(model, simultaneous=True)
