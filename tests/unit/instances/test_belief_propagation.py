"""Belief propagation as LIR: every step is the textbook's, whatever the schedule, damping or divergence."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch

from conftest import shared_json
from dissonance import (
    PDG,
    Attention,
    BeliefPropagation,
    DissonanceError,
    FactorGraph,
    Focus,
    Natural,
    Record,
    Run,
    Variable,
    belief_propagation,
    full_control,
    inconsistency,
    lir,
)
from dissonance.instances.belief_propagation import message_pdg
from dissonance.instances.tied import Tied
from reference.belief_propagation import Textbook, brute_force, same

VECTORS = shared_json("vectors", "bp.json")
EVERY = Record(globally=False, distortion=0, snapshots=1)
ROUNDING = 1e-12


def random_tables(cards, scopes, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    return [np.exp(spread * rng.normal(size=[cards[v] for v in s])) for s in scopes]


def named(cards, scopes, tables):
    """The factors as the library takes them, with the names of the textbook."""
    variables = [Variable(f"X{v}", k) for v, k in enumerate(cards)]
    return {f"f{a}": ([variables[v] for v in s], t) for a, (s, t) in enumerate(zip(scopes, tables, strict=True))}


LOOPY = ([2, 3, 2], [(0, 1), (1, 2), (0, 2), (0,)])
TREE = ([2, 3, 2, 2], [(0,), (0, 1), (1, 2, 3)])


def check_steps(bp: BeliefPropagation, run: Run, book: Textbook, step: Callable | None = None, tol=ROUNDING) -> None:
    """Every step of the run moves one message or belief, to where the textbook takes it."""
    start = dict(book.m)
    beliefs = {r: np.full(bp.graph.region[r].size, 1 / bp.graph.region[r].size) for r in bp.graph.region}
    assert same(bp.beliefs(run.trace.snapshots[0]).messages, start) == 0
    for t, row in enumerate(run.trace.rows[:-1]):
        (moved,) = row.chi
        if moved in book.m:
            book.m[moved] = (step or (lambda old, new: new))(book.m[moved], book.new(moved))
        else:
            region = moved[2:-1]
            beliefs[region] = book.belief(int(region[1:]))
        now = bp.beliefs(run.trace.snapshots[t + 1])
        assert same(now.messages, book.m) < tol, (t, moved)
        assert same(now.beliefs, beliefs) < tol, (t, moved)


@pytest.mark.parametrize("schedule", ["flooding", "sequential", "random"])
def test_every_step_of_a_schedule_is_the_textbook_step(schedule):
    cards, scopes = LOOPY
    tables = random_tables(cards, scopes)
    bp = belief_propagation(named(cards, scopes, tables), schedule)
    run = bp.run(bp.sweep + 8, trace=EVERY, seed=3)
    check_steps(bp, run, Textbook(cards, scopes, tables))


def test_the_residual_schedule_moves_what_is_furthest_from_where_it_would_go():
    cards, scopes = [2, 2, 3], [(0, 1), (1, 2), (0,)]
    tables = random_tables(cards, scopes, 1)
    bp = belief_propagation(named(cards, scopes, tables), "residual")
    run = bp.run(40, trace=EVERY)
    book = Textbook(cards, scopes, tables)
    beliefs = {v: np.full(k, 1 / k) for v, k in enumerate(cards)}
    for row in run.trace.rows[:-1]:
        gains = {n: -2 * math.log(np.sqrt(book.m[n] * book.new(n)).sum()) for n in book.m}
        gains |= {f"b(X{v})": -2 * math.log(np.sqrt(b * book.belief(v)).sum()) for v, b in beliefs.items()}
        (moved,) = row.chi
        assert gains[moved] > max(gains.values()) - 1e-12
        if moved in book.m:
            book.update(moved)
        else:
            beliefs[int(moved[3:-1])] = book.belief(int(moved[3:-1]))
    check_steps(bp, run, Textbook(cards, scopes, tables))
    _, exact = brute_force(cards, scopes, tables)
    found = bp.read(run).marginals  # it is a tree
    assert max(np.abs(found[f"X{v}"].numpy() - p).max() for v, p in enumerate(exact)) < 1e-10


def test_a_tree_gets_its_exact_marginals_and_its_log_partition():
    cards, scopes = TREE
    tables = random_tables(cards, scopes, 2)
    log_z, exact = brute_force(cards, scopes, tables)
    bp = belief_propagation(named(cards, scopes, tables), "sequential")
    found = bp.answer(2 * bp.sweep)
    assert max(np.abs(found.marginals[f"X{v}"].numpy() - p).max() for v, p in enumerate(exact)) < ROUNDING
    assert found.free_energy == pytest.approx(-log_z, abs=1e-12)


def test_the_free_energy_is_a_signed_sum_of_local_inconsistencies():
    cards, scopes = LOOPY
    tables = random_tables(cards, scopes, 3)
    bp = belief_propagation(named(cards, scopes, tables))
    run = bp.run(bp.sweep)
    ties = {n: math.inf for n, b in bp.attention.beta.items() if b == math.inf}
    inner = [a.name for a in run.pdg if a.name in bp.graph.factor or "->" in a.name]

    def shown(*arcs: str) -> float:
        assert set(arcs) <= set(inner)
        unit = dict.fromkeys(arcs, 1.0)
        pdg = run.pdg.subgraph(*arcs, *ties)
        free = Attention(ties, {}, 1.0)
        value = inconsistency(pdg, free.replace(beta=unit, alpha=unit), solver=Tied()).upper
        seen = {v.name.split("@")[0] for a in arcs for v in run.pdg[a].scope}
        return value + sum(math.log(v.size) for v in bp.graph.variables if v.name not in seen)

    total = sum(shown(*(f"{a}->{r.name}" for a in r.neighbours)) for r in bp.graph.regions)
    for phi in bp.graph.factors:
        around = [r.name for r in bp.graph.around[phi.name]]
        total += shown(phi.name, *(f"{x}->{phi.name}" for x in around)) - math.log(float(phi.table.sum()))
        total -= sum(shown(f"{x}->{phi.name}", f"{phi.name}->{x}") for x in around)
    found = bp.read(run)
    assert found.free_energy == pytest.approx(total, abs=1e-10)


def test_any_solver_comes_to_the_same_message():
    cards, scopes = [2, 2], [(0, 1), (0,)]
    tables = random_tables(cards, scopes, 4)
    bp = belief_propagation(named(cards, scopes, tables))
    ours, other = (bp.answer(5, solver=s).messages for s in (Tied(), "auto"))
    assert max(float((ours[n] - other[n]).abs().max()) for n in ours) < 1e-9


def test_messages_whose_foci_share_no_variable_can_move_in_one_focus():
    cards, scopes = [2, 3, 2, 2], [(0, 1), (2, 3), (1, 2)]
    tables = random_tables(cards, scopes, 5)
    bp = belief_propagation(named(cards, scopes, tables))
    one, two = bp.foci["f0->X1"], bp.foci["f1->X2"]
    both = Focus(
        one.attention.replace(beta=dict(two.attention.beta), alpha=dict(two.attention.alpha)),
        full_control("f0->X1", "f1->X2"),
    )
    run = lir(bp.pdg, lambda *_: both, steps=1, solver=Tied(), attention=bp.attention, trace=EVERY)
    book = Textbook(cards, scopes, tables)
    book.update("f0->X1")
    book.update("f1->X2")
    assert same(bp.beliefs(run.theta).messages, book.m) < ROUNDING


def test_without_the_equalities_every_message_is_uniform():
    """Erratum 12: the paper's foci give X = X^a no weight, and then nothing is said."""
    cards, scopes = [2, 2], [(0, 1), (0,)]
    bp = belief_propagation(named(cards, scopes, random_tables(cards, scopes, 6)))
    focus = bp.foci["f0->X1"]
    deaf = Focus(focus.attention.without(*(n for n, b in focus.attention.beta.items() if b == math.inf)), focus.control)
    start = PDG(*(a for a in bp.pdg))
    run = lir(start, lambda *_: deaf, steps=1, solver=Tied(), attention=bp.attention, trace=EVERY)
    assert torch.allclose(run.pdg["f0->X1"].cpd.table(), torch.full((2,), 0.5, dtype=torch.float64), atol=1e-12)


def test_a_moving_message_with_alpha_1_becomes_a_point_mass():
    """Erratum 12: J = -log sum m nu is least where m is certain."""
    cards, scopes = [2, 2], [(0, 1), (1,)]
    tables = [np.array([[2.0, 1.0], [1.0, 1.0]]), np.array([1.0, 1.0])]
    bp = belief_propagation(named(cards, scopes, tables))
    focus = bp.foci["f0->X0"]
    rewarded = focus.attention.replace(alpha={"f0->X0": 1.0})
    values = []
    for p in (0.6, 0.9, 0.999):
        theta = {**bp.pdg.theta, "f0->X0.logits": torch.log(torch.tensor([p, 1 - p], dtype=torch.float64))}
        values.append(inconsistency(bp.pdg, rewarded, solver=Tied(), theta=theta).upper)
    assert values[0] > values[1] > values[2]


# -- damping -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [1.0, 0.25, math.inf])
def test_finite_control_is_damping(confidence):
    """d m + (1 - d) mu, mu ~ m^(b/(1+b)) nu^(1/(1+b)); for b = inf m^d nu^(1-d)."""
    cards, scopes = [2, 3], [(0, 1), (0,)]
    tables = random_tables(cards, scopes, 7)
    d = 0.3
    bp = belief_propagation(named(cards, scopes, tables), damping=d, confidence=confidence)
    run = bp.run(bp.sweep + 4, trace=EVERY)

    def damped(old, new):
        if confidence == math.inf:
            found = old**d * new ** (1 - d)
            return found / found.sum()
        aim = old ** (confidence / (1 + confidence)) * new ** (1 / (1 + confidence))
        return d * old + (1 - d) * aim / aim.sum()

    check_steps(bp, run, Textbook(cards, scopes, tables), damped, tol=1e-10)


def test_with_little_confidence_damping_is_that_of_the_textbook():
    cards, scopes = [2, 3], [(0, 1), (0,)]
    tables = random_tables(cards, scopes, 8)
    off = []
    for confidence in (1e-2, 1e-3, 1e-4):
        bp = belief_propagation(named(cards, scopes, tables), damping=0.4, confidence=confidence)
        book = Textbook(cards, scopes, tables)
        for name in bp.refocus.order[:6]:
            if name in book.m:
                book.m[name] = 0.4 * book.m[name] + 0.6 * book.new(name)
        off.append(same(bp.answer(6).messages, book.m))
    assert off[0] < 1e-2
    assert off[1] / off[0] == pytest.approx(0.1, rel=0.1)
    assert off[2] / off[1] == pytest.approx(0.1, rel=0.1)


def test_the_flow_itself_mixes_powers_of_the_messages():
    """In the limit of many parts m(1)^r = e^(-r beta chi) m(0)^r + C nu^r with r = 1/(1 + beta), C to make the sum 1.

    beta -> 0 is damping of numbers (r = 1), beta -> inf of logarithms (r = 0), the paper's beta = 1 of square roots.
    """
    cards, scopes = [3], [(0,), (0,)]
    tables = [np.array([1.0, 2.0, 5.0]), np.array([1.0, 1.0, 1.0])]
    beta, d = 1.0, 0.3
    chi = -math.log(d) / beta
    bp = belief_propagation(named(cards, scopes, tables), ["f0->X0"], damping=d, confidence=beta)
    found = {}
    for parts in (32, 64):
        found[parts] = bp.answer(1, flow=Natural(parts)).messages["f0->X0"].numpy()
    limit = 2 * found[64] - found[32]
    old, nu = np.full(3, 1 / 3), tables[0] / tables[0].sum()
    kept, overlap = math.exp(-beta * chi / (1 + beta)), np.sqrt(old * nu).sum()
    mixed = kept * np.sqrt(old) + (math.sqrt(1 - kept**2 * (1 - overlap**2)) - kept * overlap) * np.sqrt(nu)
    assert np.abs(limit - mixed**2).max() < 1e-5
    assert np.abs(found[64] - mixed**2).max() > 1e-5


# -- other divergences ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("powers", [[0.5, 0.5, 0.5, 0.5], [0.7, 1.0, 1.5, 0.4]])
def test_powers_as_attention_are_fractional_belief_propagation_step_by_step(powers):
    cards, scopes = LOOPY
    tables = random_tables(cards, scopes, 9)
    bp = belief_propagation(named(cards, scopes, tables), power={f"f{a}": p for a, p in enumerate(powers)})
    run = bp.run(bp.sweep + 4, trace=EVERY)
    book = Textbook(cards, scopes, tables, powers)
    check_steps(bp, run, book)


def power_ep(cards, scopes, tables, alpha, sweeps):
    """Power EP as Minka writes it: site approximations m, tilted by phi^alpha, moments matched, divided out."""
    site = {(a, v): np.full(cards[v], 1 / cards[v]) for a, s in enumerate(scopes) for v in s}

    def q(v):
        return np.prod([m for (_, u), m in site.items() if u == v], axis=0)

    for _ in range(sweeps):
        new = {}
        for a, s in enumerate(scopes):
            cavity = [q(v) / site[a, v] ** alpha for v in s]
            tilted = tables[a] ** alpha
            for i, c in enumerate(cavity):
                tilted = tilted * c.reshape([-1 if j == i else 1 for j in range(len(s))])
            for i, v in enumerate(s):
                matched = tilted.sum(tuple(j for j in range(len(s)) if j != i))
                m = (matched / cavity[i]) ** (1 / alpha)
                new[a, v] = m / m.sum()
        site = new
    return [q(v) / q(v).sum() for v in range(len(cards))]


def test_a_power_is_the_alpha_of_power_ep():
    cards, scopes = LOOPY
    tables = random_tables(cards, scopes, 10)
    for alpha in (0.5, 1.6):
        bp = belief_propagation(named(cards, scopes, tables), power=alpha)
        expected = power_ep(cards, scopes, tables, alpha, 2)
        found = bp.answer(2 * bp.sweep)
        assert max(np.abs(found.marginals[f"X{v}"].numpy() - p).max() for v, p in enumerate(expected)) < ROUNDING


# -- cluster graphs ------------------------------------------------------------------------------------------------


def asia():
    """Lauritzen and Spiegelhalter's network."""
    names = ("asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp")
    v = {n: Variable(n, ["yes", "no"]) for n in names}

    def p(*rows):
        return np.array([[r, 1 - r] for r in rows])

    tables = {
        "asia": ([], p(0.01)[0]),
        "tub": (["asia"], p(0.05, 0.01)),
        "smoke": ([], p(0.5)[0]),
        "lung": (["smoke"], p(0.1, 0.01)),
        "bronc": (["smoke"], p(0.6, 0.3)),
        "either": (["lung", "tub"], p(1.0, 1.0, 1.0, 0.0).reshape(2, 2, 2)),
        "xray": (["either"], p(0.98, 0.05)),
        "dysp": (["bronc", "either"], p(0.9, 0.8, 0.7, 0.1).reshape(2, 2, 2)),
    }
    return PDG.from_bayesian_network({v[n]: ([v[m] for m in parents], t) for n, (parents, t) in tables.items()})


def test_the_clique_tree_of_asia_is_exact_step_by_step_in_lir():
    pyagrum = pytest.importorskip("pyagrum")
    pdg = asia()
    bn = pyagrum.BayesNet()
    for v in pdg.variables:
        bn.add(pyagrum.LabelizedVariable(v.name, v.name, 2))
    for a in pdg:
        for s in a.sources:
            bn.addArc(s.name, a.targets[0].name)
    for a in pdg:
        names = list(reversed(bn.cpt(a.targets[0].name).names))
        order = [[v.name for v in a.scope].index(n) for n in names]
        bn.cpt(a.targets[0].name).fillWith(a.cpd.table().permute(order).reshape(-1).tolist())
    engine = pyagrum.LazyPropagation(bn)
    graph = FactorGraph.clique_tree(pdg)
    links = [(r.neighbours, r.name) for r in graph.regions]
    inward = [f"{x}->{y}" for (parent, child), r in reversed(links) for x, y in ((child, r), (r, parent))]
    outward = [f"{x}->{y}" for (parent, child), r in links for x, y in ((parent, r), (r, child))]
    bp = belief_propagation(graph, [*inward, *outward, *graph.region])
    found = bp.answer(bp.sweep)
    for v in pdg.variables:
        assert np.abs(found.marginals[v.name].numpy() - engine.posterior(v.name).toarray()).max() < 1e-10
    assert found.free_energy == pytest.approx(0.0, abs=1e-12)  # a Bayesian network sums to 1


# -- the shared vectors --------------------------------------------------------------------------------------------


def _case():
    case = VECTORS["cases"][0]
    scopes, tables = [f["scope"] for f in case["factors"]], [np.array(f["table"]) for f in case["factors"]]
    return case, named(case["cards"], scopes, tables)


def _expected(messages):
    return {
        f"X{m['frm']}->f{m['to']}" if m["kind"] == "v2f" else f"f{m['frm']}->X{m['to']}": np.array(m["msg"])
        for m in messages
    }


@pytest.mark.skipif(not VECTORS, reason="no vectors")
@pytest.mark.parametrize(("theirs", "ours"), [("two_phase_flooding", "flooding"), ("sequential_inplace", "sequential")])
def test_the_vectors_of_a_schedule_come_out(theirs, ours):
    case, factors = _case()
    bp = belief_propagation(factors, ours)
    run = bp.run(4 * bp.sweep, trace=EVERY)
    for s in case["schedules"]:
        if s["schedule"] == theirs and s["sweeps"] <= 4:
            found = bp.beliefs(run.trace.snapshots[s["sweeps"] * bp.sweep])
            assert same(found.messages, _expected(s["messages"])) < VECTORS["tolerance"]
            assert (
                same(found.beliefs, {f"X{v}": np.array(b) for v, b in enumerate(s["beliefs"])}) < VECTORS["tolerance"]
            )
    assert bp.read(run).free_energy == pytest.approx(-math.log(case["partition"]), abs=1e-10)


@pytest.mark.skipif(not VECTORS, reason="no vectors")
def test_a_synchronous_run_is_two_floodings_that_never_meet():
    """Erratum 13: what is told at an even time depends on what was asked at an odd one, and the other way round."""
    case, factors = _case()
    graph = FactorGraph.of(factors)
    out = [f"{r.name}->{a}" for a in graph.factor for r in graph.around[a]]
    back = [f"{a}->{r.name}" for a in graph.factor for r in graph.around[a]]
    one, other = (
        belief_propagation(graph, order).answer(2 * len(order)).messages for order in (out + back, back + out)
    )
    (sync,) = [s for s in case["schedules"] if s["schedule"] == "fully_parallel_sync" and s["sweeps"] == 4]
    expected = _expected(sync["messages"])
    assert same({n: one[n] for n in back}, {n: expected[n] for n in back}) < VECTORS["tolerance"]
    assert same({n: other[n] for n in out}, {n: expected[n] for n in out}) < VECTORS["tolerance"]
    assert same({n: one[n] for n in out}, {n: expected[n] for n in out}) > 1e-3


@pytest.mark.skipif(not VECTORS, reason="no vectors")
def test_the_vectors_of_single_foci_come_out():
    single = VECTORS["single_focus"]
    scopes, tables = [f["scope"] for f in single["factors"]], [np.array(f["table"]) for f in single["factors"]]
    bp = belief_propagation(named(single["cards"], scopes, tables))
    pdg = message_pdg(bp.graph)
    logits = {f"{n}.logits": torch.from_numpy(np.log(m)) for n, m in _expected(single["messages"]).items()}
    tol = single["tolerance"]
    for f in single["foci"]:
        x, a = f"X{f['variable']}", f"f{f['factor']}"
        name = f"{x}->{a}" if f["kind"] == "v2f" else f"{a}->{x}"
        start = torch.log(torch.tensor(f["controlled_message"], dtype=torch.float64))
        theta = {**pdg.theta, **logits, f"{name}.logits": start.clone().requires_grad_()}
        focus = bp.foci[name]
        found = inconsistency(pdg, focus.attention, solver=Tied(), theta=theta)
        assert found.upper == pytest.approx(f["objective_alpha0"] + f["solver_minus_closed_form"], abs=tol)
        (slope,) = torch.autograd.grad(found.value, theta[f"{name}.logits"])
        assert np.abs(slope.numpy() - f["grad_logits"]).max() < tol
        assert np.abs(found.mu.marginal(x).numpy() - f["mu_star"]).max() < tol
        rewarded = focus.attention.replace(alpha={name: 1.0})
        point = inconsistency(pdg, rewarded, solver=Tied(), theta=theta).upper
        assert point == pytest.approx(f["objective_alpha1"] + f["solver_minus_closed_form"], abs=tol)
        best = {**theta, f"{name}.logits": torch.log(torch.tensor(f["argmin"], dtype=torch.float64))}
        least = inconsistency(pdg, focus.attention, solver=Tied(), theta=best).upper
        assert least == pytest.approx(f["min_value"] + f["solver_minus_closed_form"], abs=tol)


# -- what is refused -----------------------------------------------------------------------------------------------

A, B = Variable("A", 2), Variable("B", 3)


@pytest.mark.parametrize(
    ("factors", "complaint"),
    [
        ({"f": ((A, B), np.ones((3, 2)))}, r"factor 'f' \(A, B\) has shape \(3, 2\), but its variables need \(2, 3\)"),
        ({"f": (A, [1.0, -0.5])}, r"factor 'f' \(A\) holds the negative number -0.5"),
        ([(A, [1.0, 1.0]), (B, [0.0, 0.0, 0.0])], r"factor 'phi2' \(B\) is 0 everywhere"),
        ({"f": (A, [1.0, math.nan])}, r"factor 'f' \(A\) holds a number that is not finite"),
        ({"f": (A, "x")}, "factor 'f': a table is an array of numbers"),
        ({"A": (A, [1.0, 1.0])}, "are called 'A'"),
        ({"f": (A, [1.0, 1.0]), "g": (Variable("A", 3), [1.0] * 3)}, "factor 'g' .* another domain"),
        ({}, "at least one factor"),
    ],
)
def test_bad_factors_are_named(factors, complaint):
    with pytest.raises(DissonanceError, match=complaint):
        belief_propagation(factors)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"schedule": "floding"}, "no schedule named 'floding'.*flooding"),
        ({"schedule": ["A->g"]}, "no focus named 'A->g'"),
        ({"damping": 1.0}, "damping"),
        ({"confidence": 0.0}, "confidence"),
        ({"power": 0.0}, "power of factor 'f'"),
        ({"power": {"g": 0.5}}, "no factor named 'g'"),
    ],
)
def test_bad_options_are_named(options, complaint):
    with pytest.raises(DissonanceError, match=complaint):
        belief_propagation({"f": (A, [1.0, 2.0])}, **options)


def test_links_of_clusters_are_checked():
    clusters = {"C": ((A, B), np.ones((2, 3))), "D": (A, np.ones(2))}
    with pytest.raises(DissonanceError, match="no 'E'"):
        FactorGraph.clusters(clusters, [("C", "E")])
    with pytest.raises(DissonanceError, match="'B' is not in both"):
        FactorGraph.clusters(clusters, [("C", "D", [B])])
    with pytest.raises(DissonanceError, match="zeros"):
        belief_propagation({"f": (A, [0.0, 1.0])}, power=2.0)


def test_no_step_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        belief_propagation({"f": ((A, B), np.ones((2, 3)))}).answer(4)
