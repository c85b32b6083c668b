"""The PDG of Prop. 6 by the generic engine, against loops over trajectories."""

from __future__ import annotations

import pytest
import torch
from flow_cases import Case, each_balance, each_dag, real, uneven
from torch import nn

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    Deterministic,
    DissonanceError,
    Record,
    SoftmaxTable,
    Table,
    Variable,
    inconsistency,
    lir,
)
from dissonance.errors import SizeError
from dissonance.focus import Varying
from dissonance.gflownets import (
    Backward,
    Forward,
    flow_network,
    flow_pdg,
    hyper_grid,
    surprisal_attention,
)
from dissonance.gflownets.balance import Parts
from dissonance.gflownets.losses import LOSSES
from dissonance.gflownets.paths import all_trajectories, count_trajectories, draw_trajectories, path_lengths
from reference import gflownets as reference

inf = float("inf")


@each_dag
def test_all_trajectories_are_those_of_a_recursion(dag):
    found = [[s for s in row if s < dag.states] for row in all_trajectories(dag).tolist()]
    assert sorted(found) == sorted(reference.walks(dag))
    assert count_trajectories(dag) == len(found)
    assert path_lengths(dag, all_trajectories(dag)).tolist() == [len(w) for w in found]


@each_balance
@each_dag
def test_the_inconsistency_is_the_loss_and_its_gradient_half_of_it_with_attention_held(dag, name):
    case = Case(dag, name)
    loss = case.by_hand()
    wanted = case.slopes(loss)
    for held, share in ((True, 0.5), (False, 1.0)):
        found = inconsistency(case.pdg, surprisal_attention(name, held=held))
        assert found.upper == pytest.approx(float(loss.detach()), abs=1e-11)
        assert found.converged and found.standard_error == 0
        for slope, other in zip(case.slopes(found.value), wanted, strict=True):
            torch.testing.assert_close(slope, share * other, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", list(LOSSES))
def test_the_inconsistency_is_the_loss_that_is_trained_with(name):
    case = Case(hyper_grid(2, 3, "original"), name, seed=3, uniform=True)
    gap = torch.stack([torch.stack(reference.steps(case.dag, case.forward.logits, case.backward.logits, w)).sum()
                       for w in ([s for s in r if s < case.dag.states] for r in case.rows.tolist())])  # fmt: skip
    log_z = 0.0 if case.backward.log_z is None else case.backward.log_z
    wanted = LOSSES[name](gap, path_lengths(case.dag, case.rows), log_z)
    found = inconsistency(case.pdg, surprisal_attention(name))
    assert found.upper == pytest.approx(float(wanted.detach()), abs=1e-11)
    for slope, other in zip(case.slopes(found.value), case.slopes(wanted), strict=True):
        torch.testing.assert_close(slope, 0.5 * other, rtol=0, atol=1e-11)


@pytest.mark.parametrize("decay", [0.3, 1.0, 2.5])
def test_sub_trajectories_may_be_weighed_in_other_ways(decay):
    case = Case(uneven(), "SubTB", seed=1)
    found = inconsistency(case.pdg, surprisal_attention(Parts(decay)))
    assert found.upper == pytest.approx(float(case.by_hand(decay=decay).detach()), abs=1e-11)


def test_sub_trajectory_balance_lies_between_detailed_and_trajectory_balance():
    case = Case(uneven(), "SubTB", seed=1)
    low, high = (inconsistency(case.pdg, surprisal_attention(Parts(d))).upper for d in (1e-9, 1e9))
    assert low == pytest.approx(inconsistency(case.pdg, surprisal_attention("DB")).upper, rel=1e-6)
    walks = {tuple(s for s in r if s < case.dag.states): p for r, p in zip(
        case.rows.tolist(), case.q.tolist(), strict=True)}  # fmt: skip
    log_z = case.flow.log_flow[case.dag.start]
    whole = reference.loss("TB", case.dag, walks, case.forward.logits, case.backward.logits, log_z=log_z)
    assert high == pytest.approx(float(whole.detach()), rel=1e-6)


def stock(case: Case) -> PDG:
    """The same beliefs as tables that know nothing of GFlowNets."""
    dag, n = case.dag, case.dag.states
    rows, length = case.rows.tolist(), path_lengths(case.dag, case.rows).tolist()
    tau, i = Variable("tau", len(rows)), Variable("i", case.rows.shape[1] - 1)
    s, t = Variable("S", n), Variable("S'", n + 1)
    index = [[1 / length[k] if j < length[k] else 0.0 for j in range(i.size)] for k in range(tau.size)]

    def pair(k: int, j: int) -> tuple[int, int]:
        return (rows[k][j], rows[k][j + 1]) if rows[k][j] < n else (0, n)

    f, b = torch.zeros(n, n + 1), torch.zeros(n + 1, n)
    for x in range(n):
        for y in range(n + 1):
            options = (dag.after[x] == y).any() if y < n else dag.exits[x]
            f[x, y] = float(options)
            b[y, x] = float((dag.before[y] == x).any()) if y < n else float(dag.target[x])
    b[dag.start] = 1.0
    f, b = (p * torch.where(torch.rand(p.shape) < 0.5, 1.0, 2.0) for p in (f, b))
    f, b = f / f.sum(1, keepdim=True), b / b.sum(1, keepdim=True)
    b[n] = dag.target
    return PDG(
        Arc("Q", (), tau, Table(case.q)),
        Arc("i", tau, i, Table(index)),
        Arc("at", (tau, i), (s, t), Deterministic(pair)),
        Arc("F", s, t, SoftmaxTable(f)),
        Arc("B", t, s, SoftmaxTable(b)),
    )


@pytest.mark.parametrize("name", list(LOSSES))
def test_ordinary_tables_make_the_same_pdg_for_every_solver_that_enumerates(name):
    case = Case(uneven(), name, seed=2)
    pdg = stock(case)
    tables = {n: pdg[n].log_table().detach() for n in "FB"}
    total, gaps = 0.0, []
    for row in case.rows.tolist():
        path = [x for x in row if x < case.dag.states]
        moves = list(zip(path, [*path[1:], case.dag.states], strict=True))
        gaps.append((len(moves), sum(float(tables["F"][x, y] - tables["B"][y, x]) for x, y in moves)))
    mean = sum(p * g for p, (_, g) in zip(case.q.tolist(), gaps, strict=True)) if "LPV" in name else 0.0
    for p, (size, g) in zip(case.q.tolist(), gaps, strict=True):
        total += p * (g - mean) ** 2 / (size if "Mod" in name else 1)
    for solver in ("auto", "pinned", "sampled"):
        found = inconsistency(pdg, surprisal_attention(name), solver=solver)
        assert found.upper == pytest.approx(total, abs=1e-11)
    run = lir(pdg, attention=surprisal_attention(name), flow="step", steps=1, trace=Record(globally=False))
    slope = torch.autograd.grad(found.value, pdg["F"].cpd.logits)[0]
    inside = torch.isfinite(pdg["F"].cpd.logits)
    moved = pdg["F"].cpd.logits.detach() - run.theta["F.logits"]
    torch.testing.assert_close(moved[inside], slope[inside], rtol=0, atol=1e-12)


def test_entropies_cancel_because_the_index_is_uniform():
    """Without that, mu(S) at s_i is not mu(S') at s_i, and their logarithms do not telescope."""
    case = Case(uneven(), seed=2)
    pdg = stock(case)
    uniform = inconsistency(pdg, surprisal_attention("ModTB")).mu
    torch.testing.assert_close(uniform.marginal("S")[1:], uniform.marginal("S'")[1:-1], rtol=0, atol=1e-12)
    tilted = pdg["i"].log_table().exp() * torch.arange(1, pdg["i"].log_table().shape[1] + 1)
    tilted = tilted / tilted.sum(1, keepdim=True)
    pdg = pdg.replace(Arc("i", pdg["i"].sources, pdg["i"].targets, Table(tilted)))
    found = inconsistency(pdg, surprisal_attention("ModTB"))
    without = 0.0
    tables = {n: pdg[n].log_table().detach() for n in "FB"}
    for k, row in enumerate(case.rows.tolist()):
        path = [x for x in row if x < case.dag.states]
        gaps = [float(tables["F"][x, y] - tables["B"][y, x]) for x, y in zip(path, [*path[1:], 5], strict=True)]
        without += float(case.q[k]) * sum(gaps) * sum(float(w) * g for w, g in zip(tilted[k], gaps, strict=False))
    assert abs(found.upper - without) > 1e-3


def test_centring_attention_once_is_not_the_loss_weighed_by_length():
    """The mean of ModLPV is not weighed: its derivative does not vanish, and centring once leaves it out."""
    case = Case(uneven(), "ModLPV", seed=2)

    def once(sign):
        def weight(seen):
            tau, gap = seen.values["tau"], seen.log_prob("F") - seen.log_prob("B")
            total = torch.zeros(len(case.rows), dtype=gap.dtype).index_add(0, tau, gap)
            return sign * (total - (case.q * total).sum())[tau]

        return Varying(weight)

    attention = surprisal_attention("ModLPV")
    naive = Attention.only(attention.beta, varying={"F": once(-1.0), "B": once(1.0)})
    found = inconsistency(case.pdg, naive)
    loss = case.by_hand()
    s = [torch.stack(reference.steps(case.dag, case.forward.logits, case.backward.logits, w)).sum()
         for w in ([x for x in r if x < case.dag.states] for r in case.rows.tolist())]  # fmt: skip
    length = path_lengths(case.dag, case.rows).tolist()
    q = case.q.tolist()
    mean = sum(p * x for p, x in zip(q, s, strict=True))
    left = sum(p * (x - mean) / n for p, x, n in zip(q, s, length, strict=True)).detach()
    assert found.upper == pytest.approx(float((loss + left * mean).detach()), abs=1e-11)
    wanted = case.slopes(0.5 * loss + left * mean)
    for slope, other in zip(case.slopes(found.value), wanted, strict=True):
        torch.testing.assert_close(slope, other, rtol=0, atol=1e-11)
    assert abs(float(left)) > 1e-2


@each_dag
def test_on_policy_a_step_of_tb_is_a_step_down_the_reverse_divergence(dag):
    """E_{P_F}[gap grad log P_F] = grad KL(P_F || P_B): one half of the loss's, with Q = P_F held."""
    case = Case(dag, "TB", seed=4)
    paths = [[x for x in r if x < dag.states] for r in case.rows.tolist()]
    logs = [sum(reference.log_forward(dag, case.forward.logits, x, y) for x, y in zip(
        p, [*p[1:], None], strict=True)) for p in paths]  # fmt: skip
    own = torch.stack(logs)
    gap = torch.stack(
        [torch.stack(reference.steps(dag, case.forward.logits, case.backward.logits, p)).sum() for p in paths]
    )
    divergence = (own.exp() * (gap + case.backward.log_z)).sum()
    wanted = torch.autograd.grad(divergence, case.forward.logits)[0]
    context = {"Q.p": own.detach().exp()}
    found = inconsistency(case.pdg, surprisal_attention("TB"), theta={**case.pdg.theta, **context})
    torch.testing.assert_close(torch.autograd.grad(found.value, case.forward.logits)[0], wanted, rtol=0, atol=1e-11)


def test_walks_are_drawn_as_likely_as_the_policy_has_them():
    dag = uneven()
    torch.manual_seed(0)
    policy = Forward(dag, real(dag.states, dag.actions + 1))
    rows = draw_trajectories(dag, policy.choose, 20_000, torch.Generator().manual_seed(0))
    for path in reference.walks(dag):
        p = sum(reference.log_forward(dag, policy.logits, x, y) for x, y in zip(path, [*path[1:], None], strict=True))
        whole = torch.tensor([*path, *[dag.states] * (rows.shape[1] - len(path))])
        share, p = float((rows == whole).all(1).double().mean()), float(p.detach().exp())
        assert abs(share - p) < 5 * (p * (1 - p) / 20_000) ** 0.5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"balance": "ModTBs"}, "Did you mean 'ModTB'"),
        ({"explore": 1.5}, "between 0 and 1"),
        ({"batch": 0}, "at least one trajectory"),
        ({"control": {"G": 1.0}}, "no arc named 'G'"),
    ],
)
def test_what_makes_no_flow_network_is_said_in_one_line(options, words):
    with pytest.raises(DissonanceError, match=words):
        flow_network(hyper_grid(2, 3), **options).run(1)


def test_too_many_trajectories_are_counted_before_they_are_listed():
    with pytest.raises(SizeError, match=r"has \S+e\+\d+ trajectories.*give a `batch`"):
        flow_network(hyper_grid(4, 24))


def test_policies_must_fit_the_graph():
    dag = hyper_grid(2, 3)
    with pytest.raises(DissonanceError, match=r"need the shape \(9, 3\)"):
        Forward(dag, torch.zeros(9, 2))
    with pytest.raises(DissonanceError, match="3 are needed"):
        flow_network(dag, batch=4, forward=Forward(dag, nn.Linear(dag.inputs, 2)))
    with pytest.raises(DissonanceError, match="needs log Z"):
        flow_network(dag, balance="TB", backward=Backward(dag, partition=False))
    with pytest.raises(DissonanceError, match="lambda"):
        Parts(-1.0)


def test_on_policy_the_mean_is_no_matter_to_tb_and_is_one_to_its_modification():
    dag = hyper_grid(2, 3, "cosine")
    tb, lpv, mod_tb, mod_lpv = (
        flow_network(dag, balance=name, control=0.2).run(5).theta["F.logits"]
        for name in ("TB", "LPV", "ModTB", "ModLPV")
    )
    torch.testing.assert_close(tb, lpv, rtol=0, atol=1e-12)
    assert float((mod_tb - mod_lpv).abs().max()) > 1e-4


def test_lpv_is_tb_under_full_control_of_log_z():
    case = Case(uneven(), "LPV", seed=6)
    backward = Backward(case.dag, case.backward.logits.detach())
    pdg = flow_pdg(case.dag, case.rows, case.q, case.forward, backward)
    attention = surprisal_attention("TB")
    run = lir(pdg, attention=attention, control=Control({"B.log_z": inf}), steps=1)
    assert inconsistency(run.pdg, attention).upper == pytest.approx(float(case.by_hand().detach()), abs=1e-7)


def test_a_network_and_its_graph_print_in_a_line():
    grid = hyper_grid(2, 3, "cosine")
    assert repr(grid).endswith(": 9 states, 2 moves, 9 exits)")
    assert repr(flow_network(grid).answer(0)) == f"FlowNetwork({grid}, Run(walks, step: 0 steps))"
