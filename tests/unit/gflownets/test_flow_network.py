"""The PDG of Prop. 6 by the generic engine, against loops over trajectories; and runs of LIR that train a policy."""

from __future__ import annotations

import copy

import pytest
import torch
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
    Dag,
    Forward,
    StateFlow,
    bit_strings,
    flow_network,
    flow_pdg,
    hyper_grid,
    surprisal_attention,
)
from dissonance.gflownets.balance import BALANCES, Parts
from dissonance.gflownets.losses import LOSSES
from dissonance.gflownets.paths import all_trajectories, count_trajectories, draw_trajectories, path_lengths
from reference import gflownets as reference

inf = float("inf")


def real(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def uneven() -> Dag:
    edges = {"s": {"l": "a", "r": "b"}, "a": {"x": "b", "y": "d"}, "b": {"x": "c", "y": "d"}, "c": {"x": "d"}, "d": {}}
    reward = {"s": None, "a": 1.0, "b": None, "c": 0.5, "d": 3.0}
    return Dag.from_moves("s", edges.__getitem__, reward.__getitem__)


DAGS = {
    "uneven": uneven,
    "grid": lambda: hyper_grid(2, 3, "cosine"),
    "bits": lambda: bit_strings(2, lambda w: 1.0 + w.sum(1)),
}
each_dag = pytest.mark.parametrize("dag", [make() for make in DAGS.values()], ids=list(DAGS))
each_balance = pytest.mark.parametrize("name", list(BALANCES))


class Case:
    """Random policies, flows, log Z and Q on a Dag, and the PDG they make."""

    def __init__(self, dag: Dag, name: str = "ModTB", seed: int = 0, uniform: bool = False) -> None:
        torch.manual_seed(seed)
        self.dag, self.name, balance = dag, name, BALANCES[name]
        self.rows = all_trajectories(dag)
        n = len(self.rows)
        self.q = torch.full((n,), 1 / n, dtype=torch.float64) if uniform else torch.softmax(real(n), 0)
        self.forward = Forward(dag, real(dag.states, dag.actions + 1))
        self.backward = Backward(dag, real(*dag.before.shape), partition=balance.partition)
        self.flow = StateFlow(dag) if balance.states else None
        with torch.no_grad():
            if self.backward.log_z is not None:
                self.backward.log_z.fill_(0.7)
            if self.flow is not None:
                self.flow.log_flow.copy_(real(dag.states))
        self.pdg = flow_pdg(dag, self.rows, self.q, self.forward, self.backward, self.flow)

    def by_hand(self, **changes) -> torch.Tensor:
        walks = {tuple(s for s in row.tolist() if s < self.dag.states): float(p) for row, p in zip(
            self.rows, self.q, strict=True)}  # fmt: skip
        log_flow = None if self.flow is None else self.flow.log_flow
        given = {"log_z": 0.0 if self.backward.log_z is None else self.backward.log_z, "log_flow": log_flow, **changes}
        assert self.forward.logits is not None and self.backward.logits is not None
        return reference.loss(self.name, self.dag, walks, self.forward.logits, self.backward.logits, **given)

    def slopes(self, value: torch.Tensor) -> list[torch.Tensor]:
        return list(torch.autograd.grad(value, list(self.pdg.parameters()), allow_unused=True, materialize_grads=True))


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


@pytest.mark.parametrize("batch", [None, 16])
@pytest.mark.parametrize(("name", "chi"), [("ModTB", 1.0), ("LPV", 0.4), ("DB", 2.0)])
def test_lir_trains_the_policy_until_it_ends_in_proportion_to_the_reward(name, chi, batch):
    dag = hyper_grid(2, 3, "cosine")
    instance = flow_network(dag, balance=name, batch=batch, control=chi)
    before = instance.answer(0)
    after = instance.answer(120)
    assert before.distance > 0.5
    assert after.distance < before.distance / 4
    assert after.evidence <= dag.log_partition + 1e-12
    assert after.evidence == pytest.approx(dag.log_partition, abs=0.02)
    assert (after.log_partition is None) == (name == "LPV")


def test_control_may_include_the_backward_policy_and_differ_for_log_z():
    dag = hyper_grid(2, 3, "cosine")
    backward = Backward(dag, torch.zeros(dag.before.shape, dtype=torch.float64))
    instance = flow_network(dag, backward=backward, explore=0.2, control={"F": 1.0, "B": 0.5, "B.log_z": 3.0})
    done = instance.answer(100)
    assert done.distance < 0.1
    assert done.log_partition == pytest.approx(dag.log_partition, abs=0.02)
    assert not torch.equal(done.pdg["B"].cpd.logits, backward.logits)
    fixed = flow_network(dag, backward=backward, control={"F": 1.0}).answer(3)
    assert fixed.log_partition == 0 and torch.equal(fixed.pdg["B"].cpd.logits, backward.logits)


def test_attention_is_held_unless_it_is_not_to_be():
    """The first step is chi times one half of the gradient of the loss, or all of it."""
    dag = hyper_grid(2, 3, "cosine")
    half, default, whole = (
        flow_network(dag, control=0.1, **held).answer(1).pdg["F"].cpd.logits.detach()
        for held in ({"held": True}, {}, {"held": False})
    )
    assert half.abs().max() > 1e-3
    torch.testing.assert_close(default, half, rtol=0, atol=0)
    torch.testing.assert_close(whole, 2 * half, rtol=1e-12, atol=1e-12)


def test_who_explores_walks_uniformly_so_often():
    """With a policy that exits at once, longer walks are those of uniform choices alone."""
    dag = hyper_grid(2, 3, "cosine")
    logits = torch.zeros(dag.states, dag.actions + 1, dtype=torch.float64)
    logits[:, -1] = 50.0
    allowed = torch.cat([dag.after >= 0, dag.exits[:, None]], 1)
    for explore in (0.0, 0.3, 1.0):
        for batch in (None, 4000):
            instance = flow_network(dag, forward=Forward(dag, logits), explore=explore, batch=batch)
            generator = torch.Generator().manual_seed(0)
            context = instance.refocus.context(instance.pdg, None, generator)
            rows = context["at.rows"] if batch else instance.pdg["at"].cpd.get_buffer("rows")
            q = context["Q.p"] if batch is None else torch.full((batch,), 1 / batch)
            at_once = float(q[path_lengths(dag, rows) == 1].sum())
            uniform = 1 / float(allowed[dag.start].sum())
            expected = 1 - explore + explore * uniform
            assert at_once == pytest.approx(expected, abs=1e-9 if batch is None else 0.03)


@each_balance
def test_policies_in_balance_are_consistent_and_stay(name):
    """P_F(s'|s) = F(s') P_B(s|s') / F(s), with flows added up backwards from the reward."""
    dag, balance = hyper_grid(2, 3, "cosine"), BALANCES[name]
    back = Backward(dag, partition=balance.partition)
    flow, logits = dag.log_reward.exp().tolist(), torch.zeros(dag.states, dag.actions + 1, dtype=torch.float64)
    for layer in reversed(dag.layers):
        for s in layer.tolist():
            logits[s, -1] = dag.log_reward[s]
            for a, t in enumerate(dag.after[s].tolist()):
                if t >= 0:
                    part = flow[t] / int((dag.before[t] >= 0).sum())
                    logits[s, a] = torch.tensor(part).log()
                    flow[s] += part
    instance = flow_network(dag, balance=name, forward=Forward(dag, logits), backward=back)
    with torch.no_grad():
        if back.log_z is not None:
            back.log_z.fill_(dag.log_partition)
        if balance.states:
            instance.pdg["flow"].cpd.log_flow.copy_(torch.tensor(flow, dtype=torch.float64).log())
    done = instance.answer(1)
    assert done.run.trace.rows[0].local_upper == pytest.approx(0, abs=1e-12)
    assert done.distance == pytest.approx(0, abs=1e-6)
    assert done.evidence == pytest.approx(dag.log_partition, abs=1e-6)
    for key, moved in done.run.theta.items():
        torch.testing.assert_close(moved, instance.pdg.theta[key].detach(), rtol=0, atol=1e-6)


class Heads(nn.Module):
    def __init__(self, trunk: nn.Module, outputs: int) -> None:
        super().__init__()
        self.trunk, self.head = trunk, nn.Linear(12, outputs)

    def forward(self, x):
        return self.head(self.trunk(x))


@pytest.mark.parametrize("name", ["ModTB", "ModLPV"])
def test_a_step_of_networks_with_a_common_trunk_is_that_of_gradient_descent_on_the_same_batch(name):
    dag = hyper_grid(2, 4, "original")
    torch.manual_seed(5)
    trunk = nn.Sequential(nn.Linear(dag.inputs, 12), nn.ReLU())
    forward, backward = Forward(dag, Heads(trunk, 3).double()), Backward(dag, Heads(trunk, 2).double())
    chi = 0.05
    run = flow_network(dag, balance=name, batch=8, forward=forward, backward=backward, control=chi).run(2, seed=9)
    f, b = copy.deepcopy((forward, backward))
    own = [*{id(p): p for m in (f, b) for p in m.parameters()}.values()]
    generator = torch.Generator().manual_seed(9)
    for _ in range(2):
        rows = draw_trajectories(dag, f.choose, 8, generator)
        torch.randint(2**62, (), generator=generator)  # the seed of the samples, of which there are none
        score = []
        for row in rows.tolist():
            path = torch.tensor([s for s in row if s < dag.states])
            onward = torch.cat([path[1:], torch.tensor([dag.states])])
            last = b.log_prob([path[-1:]], [onward[-1:]]) + b.log_z
            back = b.log_prob([path[:-1]], [onward[:-1]]).sum() if len(path) > 1 else 0.0
            score.append(f.log_prob([onward], [path]).sum() - back - last[0])
        loss = LOSSES[name](torch.stack(score), path_lengths(dag, rows), b.log_z)
        slopes = torch.autograd.grad(loss, own, allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            for p, g in zip(own, slopes, strict=True):
                p -= chi * 0.5 * g
    for arc, module in (("F", f), ("B", b)):
        for n, p in module.named_parameters():
            torch.testing.assert_close(run.theta[f"{arc}.{n}"], p.detach(), rtol=0, atol=1e-12)


def test_a_run_draws_the_same_walks_from_the_same_seed():
    dag = hyper_grid(2, 3, "cosine")
    one, same, other = (flow_network(dag, batch=8).run(3, seed=s).theta["F.logits"] for s in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)


def test_a_run_that_was_stopped_goes_on_with_the_walks_it_would_have_had(tmp_path):
    instance, kept = flow_network(hyper_grid(2, 3, "cosine"), batch=8), tmp_path / "run"
    whole = instance.run(6, seed=3)
    instance.run(3, seed=3, checkpoint=kept)
    resumed = instance.run(6, seed=3, checkpoint=kept)
    assert all(torch.equal(v, resumed.theta[key]) for key, v in whole.theta.items())


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
