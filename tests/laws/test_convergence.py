"""The theorems and counterexamples of docs/convergence.md, in its order, against plain numpy or a conic reference."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    Focus,
    Record,
    SoftmaxTable,
    Table,
    Variable,
    full_control,
    inconsistency,
    lir,
)
from dissonance.flows import ODE, Natural, Step
from dissonance.refocus import Cycle
from reference.convex import solve
from reference.dense import divergences, rows_of, table_of

inf = math.inf
SNAPSHOTS = Record(snapshots=1)
SIZES = {"A": 2, "B": 3, "C": 2, "D": 2}
V = {n: Variable(n, k) for n, k in SIZES.items()}
X = Variable("X", 2)
HERE, THERE = np.array([0.9, 0.1]), np.array([0.1, 0.9])


def drawn(seed: int, arcs: str = "A AB BC CB AC DC D C") -> PDG:
    """A random PDG whose tables can all move; one letter is an arc without sources."""
    rng = np.random.default_rng(seed)
    made: list[Arc] = []
    for name in arcs.split():
        sources, target = [V[n] for n in name[:-1]], V[name[-1]]
        p = rng.random([*(v.size for v in sources), target.size]) + 0.05
        made.append(Arc(name, sources, target, SoftmaxTable(p / p.sum(-1, keepdims=True))))
    return PDG(*made)


def at(pdg: PDG, theta: dict[str, torch.Tensor]) -> PDG:
    """The PDG with the tables that these parameters stand for."""
    arcs = [Arc(a.name, a.sources, a.targets, Table(torch.softmax(theta[f"{a.name}.logits"], -1))) for a in pdg]
    return PDG(*arcs, variables=pdg.variables)


def states(run, pdg: PDG) -> list[PDG]:
    """The PDG at every step of a run that kept snapshots."""
    return [at(pdg, run.trace.snapshots[t]) for t in sorted(run.trace.snapshots)]


def cost(pdg: PDG, attention: Attention | None = None) -> float:
    """The inconsistency by the conic reference."""
    return solve(pdg, Attention.uniform(pdg) if attention is None else attention).value


def kl(p: np.ndarray, q: np.ndarray) -> float:
    return float((p * np.log(p / q)).sum())


def pool(*beliefs: tuple[float, np.ndarray]) -> float:
    """-W log sum prod p^(beta/W), W the sum of beta: what beliefs about one variable cost at gamma = 0."""
    total = sum(beta for beta, _ in beliefs)
    return -total * math.log(np.exp(sum(beta / total * np.log(p) for beta, p in beliefs)).sum())


# -- 1. what is in view never gets worse -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_natural_step_gains_a_share_of_the_blame_under_its_control(seed: int):
    """J(after) <= J(before) - sum over controlled arcs of (1 - e^(-chi beta)) beta KL_a; at gamma > 0 mu* is one."""
    pdg = drawn(seed)
    beta = {a.name: 0.4 + 0.3 * i for i, a in enumerate(pdg)}
    attention = Attention.only(beta, {}, 0.1)
    chi = {"A": 0.3, "BC": 1.0, "DC": 2.5}
    run = lir(pdg, steps=3, attention=attention, control=Control(chi), trace=SNAPSHOTS)
    for before, after in itertools.pairwise(states(run, pdg)):
        found = solve(before, attention)
        assert found.mu is not None
        blame = dict(zip(beta, divergences(before, found.mu), strict=True))
        gain = sum((1 - math.exp(-x * beta[n])) * beta[n] * blame[n] for n, x in chi.items())
        assert gain > 1e-4
        assert cost(after, attention) <= found.value - gain + 1e-6


@pytest.mark.parametrize("flow", [Natural(), Natural(steps=4), ODE("rk4", steps=4)], ids=lambda f: f.name)
def test_no_flow_of_positive_attention_raises_what_is_in_view(flow):
    pdg = drawn(5, "A AB B")
    for chi in (0.2, 2.0):
        run = lir(pdg, steps=2, control=Control({"AB": chi, "B": chi}), flow=flow, trace=SNAPSHOTS)
        values = [cost(p) for p in states(run, pdg)]
        assert all(b <= a + 1e-6 for a, b in itertools.pairwise(values)) and values[-1] < values[0] - 1e-3


def test_a_long_plain_gradient_step_can_raise_what_is_in_view():
    """`Step` is a discretised flow, not the flow: at chi = 500 it jumps over the valley."""
    p, q = np.array([0.3, 0.7]), np.array([0.4, 0.6])
    pdg = PDG(Arc("p", (), X, SoftmaxTable(p)), Arc("q", (), X, q))
    run = lir(pdg, steps=1, flow=Step(), control=Control({"p": 500.0}))
    assert run.before.upper == pytest.approx(pool((1.0, p), (1.0, q)), abs=1e-7)
    assert run.after.upper == pytest.approx(-math.log(0.4), abs=1e-6)  # p is a point now, and so is mu*
    assert run.after.upper > 80 * run.before.upper
    best = np.sqrt(p * q) / np.sqrt(p * q).sum()  # where the natural flow goes, mu* standing still
    natural = lir(pdg, steps=1, flow="natural", control=Control({"p": 500.0}))
    assert natural.after.upper == pytest.approx(pool((1.0, best), (1.0, q)), abs=1e-7)
    assert natural.after.upper < 0.3 * natural.before.upper


def test_disbelief_has_no_fixed_point():
    """beta = -1 against a hard q: -KL(q || p) falls without end, by about as much at the last step as in the middle."""
    pdg = PDG(Arc("p", (), X, SoftmaxTable([0.6, 0.4])), Arc("q", (), X, [0.5, 0.5]))
    attention = Attention.only({"p": -1.0, "q": inf})
    run = lir(pdg, steps=60, flow=Step(), attention=attention, control=Control({"p": 1.0}), trace=SNAPSHOTS)
    values = run.trace.column("global_upper")
    for t in (0, 30, 60):
        p = torch.softmax(run.trace.snapshots[t]["p.logits"], -1).numpy()
        assert values[t] == pytest.approx(-kl(np.array([0.5, 0.5]), p), abs=1e-9)
    assert values[60] < -10 and values[40] - values[60] > 0.9 * (values[20] - values[40])


# -- 2. the whole ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chi", [0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_with_everything_under_control_it_falls_by_e_to_the_minus_chi(seed: int, chi: float):
    pdg = drawn(10 + seed)
    run = lir(pdg, steps=4, control=Control({a.name: chi for a in pdg}), trace=SNAPSHOTS)
    values = [cost(p) for p in states(run, pdg)]
    assert values[0] > 0.05
    assert all(v <= math.exp(-chi * t) * values[0] + 1e-6 for t, v in enumerate(values))


def test_hard_arcs_beside_them_do_not_change_that():
    pdg = drawn(20)
    attention = Attention({"AB": inf})
    control = Control({a.name: 1.0 for a in pdg if a.name != "AB"})
    run = lir(pdg, steps=4, attention=attention, control=control, trace=SNAPSHOTS)
    values = [cost(p, attention.on(p)) for p in states(run, pdg)]
    assert values[0] > 0.05 and all(v <= math.exp(-t) * values[0] + 1e-6 for t, v in enumerate(values))


@pytest.mark.parametrize("chi", [0.3, 2.0])
def test_beliefs_move_no_further_than_the_conflict_there_was(chi: float):
    """Unconditional tables travel at most sqrt(2 J) (1 + e^(-chi/2)) in L1, all steps added up."""
    rng = np.random.default_rng(4)
    tables = rng.dirichlet(np.ones(3), size=3)
    W = Variable("W", 3)
    pdg = PDG(*(Arc(f"p{i}", (), W, SoftmaxTable(p)) for i, p in enumerate(tables)))
    run = lir(pdg, steps=25, control=Control({a.name: chi for a in pdg}), trace=SNAPSHOTS)
    bound = math.sqrt(2 * pool(*((1.0, p) for p in tables))) * (1 + math.exp(-chi / 2))
    for i in range(3):
        path = [torch.softmax(run.trace.snapshots[t][f"p{i}.logits"], -1).numpy() for t in range(26)]
        travelled = sum(np.abs(b - a).sum() for a, b in itertools.pairwise(path))
        assert 0 < travelled <= bound


def test_under_one_attention_any_controls_in_any_order_descend():
    """Foci that differ in control only: blocks of one function, whatever the blocks and however far each goes."""
    pdg = drawn(30)
    attention = Attention.uniform(pdg)
    blocks = [full_control("AB"), Control({"A": 0.5, "C": 3.0}), full_control("BC", "D"), Control({"DC": 0.1})]
    order = Cycle(*(Focus(attention, c) for c in blocks))
    run = lir(pdg, order, steps=8, attention=attention, trace=SNAPSHOTS)
    values = [cost(p) for p in states(run, pdg)]
    assert all(b <= a + 1e-6 for a, b in itertools.pairwise(values))


def test_parts_that_share_no_variable_add_up():
    pdg = drawn(31, "A AB B D DC C")
    left, right = Attention.uniform(pdg, only=["A", "AB", "B"]), Attention.uniform(pdg, only=["D", "DC", "C"])
    assert cost(pdg) == pytest.approx(cost(pdg, left) + cost(pdg, right), abs=1e-6)
    run = lir(pdg, Cycle(Focus(left, Control({"AB": 1.0})), Focus(right, full_control("C"))), steps=4, trace=SNAPSHOTS)
    values = [cost(p) for p in states(run, pdg)]
    assert all(b <= a + 1e-6 for a, b in itertools.pairwise(values)) and values[-1] < values[0] - 1e-3


def test_a_conflict_whose_rest_are_loose_ends_can_be_looked_at_alone():
    """AB, A and B conflict; BC and CD lead away from it: attention to the first three never raises the whole."""
    pdg = drawn(32, "A AB B BC CD")
    core = Attention.uniform(pdg, only=["A", "AB", "B"])
    assert cost(pdg) == pytest.approx(cost(pdg, core), abs=1e-6) and cost(pdg) > 1e-3
    run = lir(pdg, Cycle(Focus(core, Control({"A": 1.0, "AB": 0.5}))), steps=3, trace=SNAPSHOTS)
    values = [cost(p) for p in states(run, pdg)]
    assert all(b <= a + 1e-6 for a, b in itertools.pairwise(values)) and values[-1] < values[0] - 1e-3


def test_the_whole_rises_by_no_more_than_what_moved_surprises_the_compromise():
    """J(after) - J(before) <= sum_a beta_a E_mu*[log p_a - log p_a'], mu* of the whole before."""
    rises = []
    for seed in range(8):
        pdg = drawn(40 + seed)
        near = Focus(Attention.uniform(pdg, only=["AB", "BC", "AC", "A"]), Control({"AC": 2.0, "AB": 2.0}))
        run = lir(pdg, Cycle(near), steps=1, trace=SNAPSHOTS)
        before, after = states(run, pdg)
        found = solve(before, Attention.uniform(before))
        assert found.mu is not None
        most = sum(
            float((rows_of(before, found.mu, before[n]) * np.log(table_of(before[n]) / table_of(after[n]))).sum())
            for n in ("AC", "AB")
        )
        rises.append(cost(after) - found.value)
        assert rises[-1] <= most + 1e-6
    assert min(rises) < -1e-3 and max(rises) > 1e-3  # either happens


# -- 3. when it rises, and cycles --------------------------------------------------------------------------------------


def two_views() -> tuple[PDG, Attention, Focus, Focus]:
    """p moves; q counts once and r three times; one focus sees p and q, the other p and r."""
    pdg = PDG(Arc("p", (), X, SoftmaxTable(HERE)), Arc("q", (), X, THERE), Arc("r", (), X, HERE))
    whole = Attention.only({"p": 1.0, "q": 1.0, "r": 3.0})
    with_q = Focus(Attention.only({"p": 1.0, "q": 1.0}), full_control("p"))
    with_r = Focus(Attention.only({"p": 1.0, "r": 3.0}), full_control("p"))
    return pdg, whole, with_q, with_r


def test_a_narrow_focus_raises_the_whole_from_1_538_to_2_434():
    pdg, whole, with_q, _ = two_views()
    run = lir(pdg, Cycle(with_q), steps=1, attention=whole)
    assert run.before.upper == pytest.approx(pool((4.0, HERE), (1.0, THERE)), abs=1e-7)
    assert run.after.upper == pytest.approx(pool((3.0, HERE), (2.0, THERE)), abs=1e-6)
    assert (round(run.before.upper, 3), round(run.after.upper, 3)) == (1.538, 2.434)
    assert inconsistency(run.pdg, with_q.attention).upper < 1e-7


def test_two_foci_in_turn_are_a_cycle_that_never_ends():
    pdg, whole, with_q, with_r = two_views()
    run = lir(pdg, Cycle(with_q, with_r), steps=12, attention=whole)
    values = run.trace.column("global_upper")
    assert values[0::2] == pytest.approx([pool((4.0, HERE), (1.0, THERE))] * 7, abs=1e-6)
    assert values[1::2] == pytest.approx([pool((3.0, HERE), (2.0, THERE))] * 6, abs=1e-6)
    least = lir(pdg, Cycle(Focus(whole, full_control("p"))), steps=1, attention=whole).after.upper
    assert least == pytest.approx(pool((1.0, THERE), (3.0, HERE)), abs=1e-6)
    assert least < min(values) - 0.05


@pytest.mark.parametrize("chi", [0.3, 1.0, 4.0])
def test_less_control_makes_a_smaller_cycle(chi: float):
    """Against hard q and r the cycle is (q + w r)/(1 + w), (r + w q)/(1 + w), w = e^-chi: tanh(chi/2) |q - r| wide."""
    pdg, whole, _, _ = two_views()
    foci = [Focus(Attention.only({"p": 1.0, n: inf}), Control({"p": chi})) for n in ("q", "r")]
    steps = 2 * math.ceil(20 / chi)
    run = lir(pdg, Cycle(*foci), steps=steps, attention=whole, trace=SNAPSHOTS)
    ends = [torch.softmax(run.trace.snapshots[t]["p.logits"], -1).numpy() for t in (steps - 1, steps)]
    w = math.exp(-chi)
    assert ends[0] == pytest.approx((THERE + w * HERE) / (1 + w), abs=1e-8)
    assert ends[1] == pytest.approx((HERE + w * THERE) / (1 + w), abs=1e-8)
    assert ends[1][0] - ends[0][0] == pytest.approx(math.tanh(chi / 2) * 0.8, abs=1e-8)


# -- 4. local consistency is not global --------------------------------------------------------------------------------


def ring(n: int, noise: float) -> PDG:
    """Each variable copies the one before it but for some noise; the last arc says that the first is the opposite."""
    xs = [Variable(f"X{i}", 2) for i in range(n)]
    same = np.array([[1 - noise, noise], [noise, 1 - noise]])
    tables = [same] * (n - 1) + [same[::-1]]
    return PDG(*(Arc(f"p{i}", xs[i], xs[(i + 1) % n], SoftmaxTable(t)) for i, t in enumerate(tables)))


@pytest.mark.parametrize(("n", "noise"), [(3, 0.1), (4, 0.05), (5, 0.15)])
def test_every_part_of_a_ring_is_consistent_and_the_ring_is_not(n: int, noise: float):
    """n kl(1/n, noise): some arc must be wrong, and the errors are shared out."""
    pdg = ring(n, noise)
    exact = math.log(1 / (n * noise)) + (n - 1) * math.log((1 - 1 / n) / (1 - noise))
    assert cost(pdg) == pytest.approx(exact, abs=1e-5)
    foci = []
    for left_out in range(n):
        part = [f"p{i}" for i in range(n) if i != left_out]
        assert inconsistency(pdg, Attention.uniform(pdg, only=part)).upper < 1e-7
        foci.append(Focus(Attention.uniform(pdg, only=part), full_control(*part)))
    run = lir(pdg, Cycle(*foci), steps=2 * n)
    assert run.before.upper == pytest.approx(exact, abs=1e-6) and run.after.upper == pytest.approx(exact, abs=1e-5)
    assert lir(pdg, steps=1, control=full_control("p0")).after.upper < 1e-6


# -- 5. fixed points ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_fixed_point_at_which_mu_has_full_support_is_the_least(seed: int):
    """Stationary in p(B|A): its value is that of the PDG without its beta, below which nothing can go."""
    pdg = drawn(50 + seed)
    attention = Attention.only({a.name: 1.0 for a in pdg}, {a.name: 0.5 for a in pdg if a.name != "AB"}, 0.3)
    run = lir(pdg, steps=60, attention=attention, control=Control({"AB": 1.0}), trace=SNAPSHOTS)
    last = states(run, pdg)[-1]
    moved = (run.trace.snapshots[60]["AB.logits"] - run.trace.snapshots[59]["AB.logits"]).abs().max()
    assert float(moved) < 1e-5
    assert solve(last, attention).mu.min() > 1e-4
    assert cost(last, attention) == pytest.approx(cost(pdg, attention.replace(beta={"AB": 0.0})), abs=1e-5)


def test_blame_under_control_goes_to_nothing():
    """Gains add up to no more than J(0) - inf J: of t steps one has blame of at most that over t (1 - e^-chi)."""
    pdg = drawn(60)
    attention = Attention.only({a.name: 1.0 for a in pdg}, {}, 0.2)
    run = lir(pdg, steps=30, attention=attention, control=Control({"AB": 0.5, "C": 0.5}))
    blame = [r.blame["AB"] + r.blame["C"] for r in run.trace.rows]
    least = cost(pdg, attention.replace(beta={"AB": 0.0, "C": 0.0}))
    for t in (1, 5, 30):
        assert min(blame[:t]) <= (cost(pdg, attention) - least) / (t * (1 - math.exp(-0.5))) + 1e-6
    assert blame[-1] < 1e-3 * blame[0]


def test_where_all_agree_no_weights_move_anything():
    """Beliefs read off one joint are a fixed point of every focus whose weights are not negative."""
    rng = np.random.default_rng(1)
    joint = rng.dirichlet(np.ones(12)).reshape(2, 3, 2)
    a, b, c = (Variable(n, k) for n, k in (("A", 2), ("B", 3), ("C", 2)))
    ab = joint.sum(2) / joint.sum((1, 2))[:, None]
    bc = joint.sum(0) / joint.sum((0, 2))[:, None]
    pdg = PDG(Arc("ab", a, b, SoftmaxTable(ab)), Arc("bc", b, c, SoftmaxTable(bc)), Arc("c", (), c, joint.sum((0, 1))))
    for seed in range(3):
        run = lir(pdg, ("smooth", "partial", "hub")[seed], steps=3, seed=seed)
        assert all(torch.allclose(run.theta[k], pdg.theta[k], atol=1e-6) for k in pdg.theta)


# -- 6. rates ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_full_control_of_a_table_gains_what_leaving_it_out_would_save(seed: int):
    pdg = drawn(70 + seed)
    whole = Attention.uniform(pdg)
    found = solve(pdg, whole)
    assert found.mu is not None
    for arc, blame in zip(pdg, divergences(pdg, found.mu), strict=True):
        gained = lir(pdg, steps=1, control=full_control(arc.name)).after.upper
        without = cost(pdg, whole.without(arc.name))
        assert gained == pytest.approx(without, abs=1e-5)
        assert found.value - without >= blame - 1e-5


def most_blamed(pdg: PDG, step: int, generator: np.random.Generator, trace) -> Focus:
    """Everything in view, full control of the arc that is most to blame."""
    blame = trace.now.blame
    return Focus(trace.attention, full_control(max(blame, key=lambda n: blame[n])))


def test_the_most_blamed_of_m_tables_takes_one_part_in_m_of_what_is_left():
    for seed in range(3):
        pdg = drawn(80 + seed)
        m = len(pdg.arcs)
        run = lir(pdg, most_blamed, steps=5, trace=SNAPSHOTS)
        values = [cost(p) for p in states(run, pdg)]
        assert values[0] > 0.05
        assert all(v <= (1 - 1 / m) ** t * values[0] + 1e-6 for t, v in enumerate(values))


def test_a_random_table_does_so_on_average():
    pdg = drawn(90)
    whole, m = Attention.uniform(pdg), len(pdg.arcs)
    after = [cost(pdg, whole.without(a.name)) for a in pdg]  # what full control of each leaves
    assert np.mean(after) <= (1 - 1 / m) * cost(pdg) + 1e-6


@pytest.mark.parametrize(("bp", "bq", "br"), [(1.0, 1.0, 1.0), (2.0, 3.0, 0.5)])
def test_blocks_in_turn_converge_at_the_rate_of_gauss_and_seidel(bp: float, bq: float, br: float):
    """Distances from r in log-odds shrink by exactly bp bq / ((bp + br) (bq + br)) a round; in one block, at once."""
    p, q, r = np.array([0.9, 0.1]), np.array([0.2, 0.8]), np.array([0.4, 0.6])
    pdg = PDG(Arc("p", (), X, SoftmaxTable(p)), Arc("q", (), X, SoftmaxTable(q)), Arc("r", (), X, r))
    attention = Attention.only({"p": bp, "q": bq, "r": br})
    rounds = Cycle(Focus(attention, full_control("p")), Focus(attention, full_control("q")))
    run = lir(pdg, rounds, steps=8, attention=attention, trace=SNAPSHOTS, tol=0.0)

    def off(t: int) -> float:
        logits = run.trace.snapshots[t]["q.logits"]
        return float(logits[0] - logits[1]) - math.log(r[0] / r[1])

    rate = bp * bq / ((bp + br) * (bq + br))
    for t in (2, 4, 6):
        assert off(t + 2) / off(t) == pytest.approx(rate, abs=5e-4)
    assert off(2) == pytest.approx(rate * (math.log(q[0] / q[1]) - math.log(r[0] / r[1])), abs=1e-3)
    both = Cycle(Focus(attention, full_control("p", "q")))
    assert lir(pdg, both, steps=1, attention=attention).after.upper < 1e-5


def test_em_converges_at_the_rate_of_the_missing_information():
    """The share of a mixture of known components: errors shrink by 1 - I_observed / I_complete an iteration."""
    f, d = np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]]), np.array([0.5, 0.2, 0.3])
    seen, Z = Variable("seen", 3), Variable("Z", 2)
    pdg = PDG(
        Arc("data", (), seen, d),
        Arc("prior", (), Z, SoftmaxTable([0.9, 0.1])),
        Arc("likelihood", Z, seen, f),
        Arc("posterior", seen, Z, SoftmaxTable(np.full((3, 2), 0.5))),
    )
    attention = Attention.only({"data": inf, "posterior": inf, "prior": 1.0, "likelihood": 1.0})
    steps = Cycle(*(Focus(attention, full_control(n)) for n in ("posterior", "prior")))
    run = lir(pdg, steps, steps=80, attention=attention, trace=SNAPSHOTS)
    shares = [float(torch.softmax(run.trace.snapshots[t]["prior.logits"], -1)[0]) for t in range(0, 81, 2)]
    pi = 0.9
    for found in shares[1:]:  # the textbook, iteration by iteration
        pi = float((d * pi * f[0] / (pi * f[0] + (1 - pi) * f[1])).sum())
        assert found == pytest.approx(pi, abs=1e-7)
    for _ in range(1000):
        pi = float((d * pi * f[0] / (pi * f[0] + (1 - pi) * f[1])).sum())
    observed = float((d * (f[0] - f[1]) ** 2 / (pi * f[0] + (1 - pi) * f[1]) ** 2).sum())
    rate = 1 - pi * (1 - pi) * observed
    assert 0.3 < rate < 0.9
    assert (shares[21] - pi) / (shares[20] - pi) == pytest.approx(rate, abs=1e-3)


# -- 7. wishful thinking -----------------------------------------------------------------------------------------------


def hoped(truth: np.ndarray, hope: np.ndarray, chi: float) -> tuple[float, float]:
    """What a belief that is true gains in view of a hope, and what it costs once the truth is known, hard."""
    W = Variable("W", len(truth))
    pdg = PDG(Arc("p", (), W, SoftmaxTable(truth)), Arc("hope", (), W, hope), Arc("truth", (), W, truth))
    hoping, later = Attention.only({"p": 1.0, "hope": 1.0}), Attention.only({"p": 1.0, "truth": inf})
    run = lir(pdg, Cycle(Focus(hoping, Control({"p": chi}))), steps=1, attention=later)
    assert run.before.upper < 1e-9
    gain = inconsistency(pdg, hoping).upper - inconsistency(run.pdg, hoping).upper
    p = run.pdg["p"].cpd.table().detach().numpy()
    assert run.after.upper == pytest.approx(kl(truth, p), abs=1e-7)
    return gain, run.after.upper


def test_wishful_thinking_costs_at_least_what_it_gains():
    """All the way: -2 log sum sqrt(p h) is gained and KL(p || h) is paid, and Jensen says which is more."""
    rng = np.random.default_rng(0)
    for _ in range(6):
        truth, hope = rng.dirichlet(np.ones(3), size=2)
        gain, price = hoped(truth, hope, inf)
        assert gain == pytest.approx(pool((1.0, truth), (1.0, hope)), abs=1e-6)
        assert price == pytest.approx(kl(truth, hope), abs=1e-6)
        assert price >= gain
    assert hoped(HERE, THERE, inf) == pytest.approx((-2 * math.log(0.6), 0.8 * math.log(9)), abs=1e-6)


def test_a_little_hope_is_cheap():
    """The gain is of the first order in chi and the price of the second: a tenth of chi, a hundredth of the price."""
    (gain, price), (less, cheaper) = (hoped(HERE, THERE, chi) for chi in (0.02, 0.002))
    assert gain > price and less > cheaper
    assert gain / less == pytest.approx(10, rel=0.05) and price / cheaper == pytest.approx(100, rel=0.1)
