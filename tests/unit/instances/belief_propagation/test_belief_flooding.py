"""The compiled fast path: the messages of the generic engine, sweep by sweep, at sizes it could never run."""

from __future__ import annotations

import gzip
import importlib.util
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, DissonanceError, Variable
from dissonance.bp import FactorGraph, SumProduct, belief_propagation, tree_marginals
from fresh import python
from reference.belief_propagation import Textbook, brute_force, same
from reference.belief_runs import named, random_tables
from shared_files import shared_json

VECTORS = shared_json("vectors", "bp.json")
ROOT = Path(__file__).parents[4]


def in_arrays(cards, scopes, tables):
    groups = {}
    for s, t in zip(scopes, tables, strict=True):
        groups.setdefault(t.shape, []).append((s, t))
    return cards, [
        (torch.tensor([list(s) for s, _ in g]), torch.from_numpy(np.stack([t for _, t in g]))) for g in groups.values()
    ]


MIXED = ([2, 3, 2], [(0, 1), (0,), (2, 1, 0), (0,)])
BINARY = ([2, 2, 2], [(0, 1), (2, 1), (0, 2), (0,), (0,)])


@pytest.mark.parametrize(("cards", "scopes"), [MIXED, BINARY])
def test_every_sweep_is_that_of_the_generic_engine(cards, scopes):
    factors = named(cards, scopes, random_tables(cards, scopes))
    bp, plan = belief_propagation(factors), SumProduct(factors)
    run = bp.run(2 * bp.sweep, trace=type(bp.trace)(globally=False, snapshots=bp.sweep))
    for sweeps in (1, 2):
        slow, fast = bp.beliefs(run.trace.snapshots[sweeps * bp.sweep]), plan.run(sweeps).beliefs
        assert same(fast.messages, {n: m.numpy() for n, m in slow.messages.items()}) < 1e-14
        assert same(fast.beliefs, {n: m.numpy() for n, m in slow.beliefs.items()}) < 1e-14
        assert fast.free_energy == pytest.approx(slow.free_energy, abs=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"damping": 0.3},
        {"damping": 0.3, "confidence": math.inf},
        {"power": {"f0": 0.5, "f1": 2.0, "f3": 0.7}},
    ],
)
def test_damping_and_powers_are_those_of_the_generic_engine(options):
    cards, scopes = [2, 3, 2], [(0, 1), (1, 2), (0, 2), (0,)]
    factors = named(cards, scopes, random_tables(cards, scopes, 1))
    bp = belief_propagation(factors, **options)
    run = bp.run(2 * bp.sweep, trace=type(bp.trace)(globally=False, snapshots=bp.sweep))
    for sweeps in (1, 2):
        slow = bp.beliefs(run.trace.snapshots[sweeps * bp.sweep])
        fast = SumProduct(factors, **options).run(sweeps).beliefs
        assert same(fast.messages, {n: m.numpy() for n, m in slow.messages.items()}) < 1e-10
        assert same(fast.beliefs, {n: m.numpy() for n, m in slow.beliefs.items()}) < 1e-10


def test_damping_without_confidence_is_that_of_the_textbook():
    cards, scopes = MIXED
    tables = random_tables(cards, scopes, 2)
    book = Textbook(cards, scopes, tables)
    for _ in range(4):
        for phase in (book.out(), book.back()):
            book.m |= {n: 0.6 * book.m[n] + 0.4 * book.new(n) for n in phase}
    found = SumProduct(named(cards, scopes, tables), damping=0.6, confidence=0.0).run(4).beliefs
    assert same(found.messages, book.m) < 1e-14


@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_many_sweeps_and_many_neighbours_are_those_of_the_textbook(zeros):
    """A hub with 20 neighbours takes logarithms, the rest numbers; zeros are exact in both."""
    rng = np.random.default_rng(5)
    cards = [3, *rng.integers(2, 4, size=22).tolist()]
    scopes = [(0, v) for v in range(1, 21)] + [(20, 21), (21, 22), (22, 19), (3, 4, 5), *[(v,) for v in range(10)]]
    tables = random_tables(cards, scopes, 6, zeros)
    for t in tables:
        t[(0,) * t.ndim] = 1.0  # some state is possible
    book = Textbook(cards, scopes, tables)
    for _ in range(6):
        book.flood()
    found = SumProduct(named(cards, scopes, tables)).run(6)
    assert same(found.beliefs.messages, book.m) < 1e-12
    assert same(found.beliefs.beliefs, {f"X{v}": book.belief(v) for v in range(len(cards))}) < 1e-12


def test_log_odds_are_messages():
    rng = np.random.default_rng(7)
    cards, scopes = [2] * 12, [(v, (v * 5 + 1) % 12) for v in range(12)] + [(v,) for v in range(12)]
    tables = [np.exp(3 * rng.normal(size=(2,) * len(s))) for s in scopes]
    sizes, factors = in_arrays(cards, scopes, tables)
    quick, plain = (SumProduct.arrays(sizes, factors, log_odds=x).run(40) for x in (True, False))
    for key in plain.told:
        assert (quick.told[key] - plain.told[key]).abs().max() < 1e-13
    single = SumProduct.arrays(sizes, factors, dtype=torch.float32).run(40)
    assert (single.by_size[2][1] - plain.by_size[2][1]).abs().max() < 1e-4
    assert single.by_size[2][1].dtype == torch.float32


def test_a_run_stops_when_nothing_changes():
    cards, scopes = [2, 2, 2], [(0, 1), (1, 2), (0,)]
    tables = random_tables(cards, scopes, 8)
    found = SumProduct(named(cards, scopes, tables), device="cpu").run(100, tol=1e-14)
    assert found.sweeps < 10
    assert found.change <= 1e-14
    log_z, exact = brute_force(cards, scopes, tables)
    for v, p in enumerate(exact):
        assert np.abs(found.belief(v).numpy() - p).max() < 1e-14
    assert found.beliefs.free_energy == pytest.approx(-log_z, abs=1e-12)


def test_tree_reweighted_beliefs_bound_the_partition_function():
    """A cycle of n pairs, each in a spanning tree with probability (n-1)/n: power n/(n-1). And power 1 does not."""
    n = 5
    cards, scopes = [2] * n, [(v, (v + 1) % n) for v in range(n)] + [(v,) for v in range(n)]
    for seed in range(3):
        tables = random_tables(cards, scopes, seed)
        log_z, _ = brute_force(cards, scopes, tables)
        power = {f"f{a}": n / (n - 1) if len(s) == 2 else 1.0 for a, s in enumerate(scopes)}
        found = SumProduct(named(cards, scopes, tables), power=power, damping=0.3).run(500, tol=1e-13)
        assert -found.beliefs.free_energy >= log_z - 1e-9
        book = Textbook(cards, scopes, tables, list(power.values()))
        book.m = {n: np.asarray(m) for n, m in found.beliefs.messages.items()}
        assert found.beliefs.free_energy == pytest.approx(book.free_energy(), abs=1e-9)


def test_a_small_power_is_mean_field():
    """alpha -> 0: b_X ~ exp sum_a <log phi_a>."""
    cards, scopes = [2, 3, 2], [(0, 1), (1, 2), (0, 2), (0,)]
    tables = random_tables(cards, scopes, 9)
    q = [np.full(k, 1 / k) for k in cards]
    for _ in range(500):
        for v in range(3):
            logs = np.zeros(cards[v])
            for s, t in zip(scopes, tables, strict=True):
                if v in s:
                    part = np.log(t)
                    for i in reversed(range(len(s))):
                        if s[i] != v:
                            part = np.tensordot(part, q[s[i]], axes=(i, 0))
                    logs += part
            q[v] = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    off = []
    for alpha in (0.08, 0.04):
        found = SumProduct(named(cards, scopes, tables), power=alpha, damping=0.9, confidence=0.0).run(5000, tol=1e-9)
        off.append(max(np.abs(found.beliefs.marginals[f"X{v}"].numpy() - p).max() for v, p in enumerate(q)))
    assert off[0] < 0.05
    assert off[1] / off[0] == pytest.approx(0.5, abs=0.1)


# -- trees ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_two_passes_are_exact_on_a_forest(seed):
    """Factors of any number of variables, several trees, zeros."""
    rng = np.random.default_rng(seed)
    cards = rng.integers(2, 4, size=9).tolist()
    scopes = [(0, 1), (1, 2, 3), (3, 4), (5, 4), (0,), (4,), (6, 7), (8,)]
    tables = random_tables(cards, scopes, seed, zeros=0.2)
    for t in tables:
        t[(0,) * t.ndim] = 1.0
    _, exact = brute_force(cards, scopes, tables)
    for _, (variables, p) in tree_marginals(*in_arrays(cards, scopes, tables)).items():
        for column, v in enumerate(variables.tolist()):
            assert np.abs(p[:, column].numpy() - exact[v]).max() < 1e-13


def test_the_two_passes_agree_with_flooding_on_a_large_tree():
    rng = np.random.default_rng(1)
    n = 3000
    pairs = np.stack([(rng.random(n - 1) * np.arange(1, n)).astype(int), np.arange(1, n)], 1)
    factors = [
        (torch.from_numpy(pairs), torch.from_numpy(np.exp(rng.normal(size=(n - 1, 2, 2))))),
        (torch.arange(n)[:, None], torch.from_numpy(np.exp(rng.normal(size=(n, 2))))),
    ]
    flooded = SumProduct.arrays([2] * n, factors).run(60)
    _, p = tree_marginals([2] * n, factors)[2]
    assert (flooded.by_size[2][1] - p).abs().max() < 1e-10


def test_a_single_cluster_has_its_marginals_without_messages():
    cards, scopes = [2, 3, 2], [(0, 1), (1, 2), (0, 2)]
    tables = random_tables(cards, scopes, 3)
    graph = FactorGraph.clique_tree(named(cards, scopes, tables))
    found = SumProduct(graph).run(3, tol=1e-12).beliefs
    _, exact = brute_force(cards, scopes, tables)
    assert max(np.abs(found.marginals[f"X{v}"].numpy() - p).max() for v, p in enumerate(exact)) < 1e-14
    with pytest.raises(DissonanceError, match="no two clusters are linked"):
        belief_propagation(graph)


def test_a_loop_is_refused_by_the_two_passes():
    pairs = torch.tensor([[0, 1], [1, 2], [2, 0]])
    with pytest.raises(DissonanceError, match="loops"):
        tree_marginals([2, 2, 2], [(pairs, torch.ones(3, 2, 2))])


def test_contradictions_are_named():
    a = Variable("A", 2)
    with pytest.raises(DissonanceError, match=r"factor 'phi\d' has nothing possible left"):
        b = Variable("B", 2)
        SumProduct([(a, [1.0, 0.0]), ((a, b), [[0.0, 0.0], [1.0, 1.0]])]).run(4)
    with pytest.raises(DissonanceError, match="no state of variable 0"):
        tree_marginals([2, 2], [(torch.tensor([[0], [0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]))])


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (torch.ones(2, 2, 3), "factor 0 .*wrong shape"),
        (torch.tensor([[[1.0, 1], [1, 1]], [[1, -1], [1, 1]]]), "factor 1 .*negative"),
        (torch.tensor([[[1.0, 1], [1, 1]], [[0, 0], [0, 0]]]), "factor 1 .*0 everywhere"),
        (torch.ones(2, 2), "do not match"),
    ],
)
def test_bad_arrays_are_named(table, complaint):
    with pytest.raises(DissonanceError, match=complaint):
        SumProduct.arrays([2, 2, 2], [(torch.tensor([[0, 1], [1, 2]]), table)])


# -- other people's numbers ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not VECTORS, reason="no vectors")
def test_the_vectors_of_flooding_come_out():
    case = VECTORS["cases"][0]
    scopes, tables = [f["scope"] for f in case["factors"]], [np.array(f["table"]) for f in case["factors"]]
    plan = SumProduct(named(case["cards"], scopes, tables))
    for s in case["schedules"]:
        if s["schedule"] == "two_phase_flooding":
            found = plan.run(s["sweeps"]).beliefs
            for m in s["messages"]:
                ends = f"X{m['frm']}->f{m['to']}" if m["kind"] == "v2f" else f"f{m['frm']}->X{m['to']}"
                assert np.abs(found.messages[ends].numpy() - m["msg"]).max() < VECTORS["tolerance"]
            for v, b in enumerate(s["beliefs"]):
                assert np.abs(found.marginals[f"X{v}"].numpy() - b).max() < VECTORS["tolerance"]
    for v, p in enumerate(case["exact_marginals"]):
        assert np.abs(plan.run(8).beliefs.marginals[f"X{v}"].numpy() - p).max() < 1e-10


def plain_labels(bif: str) -> str:
    """The same network with values called v0, v1, ...: pyAgrum does not read all that pgmpy's files call them."""
    kinds = r"(type discrete \[ *\d+ *\] *\{)(.*?)(\})"
    known = dict.fromkeys(x.strip() for m in re.finditer(kinds, bif) for x in m[2].split(","))
    number = {label: f"v{i}" for i, label in enumerate(known)}

    def translated(m: re.Match[str]) -> str:
        return m[1] + ", ".join(number[x.strip()] for x in m[2].split(",")) + m[3]

    return re.sub(r"^( *\()(.*?)(\) )", translated, re.sub(kinds, translated, bif), flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["asia", "child", "alarm", "hepar2"])
def test_clique_trees_of_networks_have_the_exact_marginals(name, tmp_path):
    pyagrum = pytest.importorskip("pyagrum")
    spec = importlib.util.find_spec("pgmpy")
    packed = spec and Path(spec.origin).parent / "utils" / "example_models" / f"{name}.bif.gz"
    if not packed or not packed.is_file():
        pytest.skip("the networks come with pgmpy")
    path = tmp_path / f"{name}.bif"
    path.write_text(plain_labels(gzip.decompress(packed.read_bytes()).decode()))
    bn = pyagrum.loadBN(str(path))
    variables = {v: Variable(v, int(bn.variable(v).domainSize())) for v in bn.names()}
    arcs = []
    for v in variables:
        table = bn.cpt(v).toarray()
        table = table / table.sum(-1, keepdims=True)
        bn.cpt(v).fillWith(table.reshape(-1).tolist())
        *parents, _ = reversed(bn.cpt(v).names)
        arcs.append(Arc(v, [variables[p] for p in parents], variables[v], table))
    graph = FactorGraph.clique_tree(PDG(*arcs, variables=variables.values()))
    found = SumProduct(graph).run(200, tol=1e-15).beliefs
    engine = pyagrum.LazyPropagation(bn)
    for v in variables:
        assert np.abs(found.marginals[v].numpy() - engine.posterior(v).toarray()).max() < 1e-10
    assert found.free_energy == pytest.approx(0.0, abs=1e-9)


def test_the_benchmark_runs():
    words = ["--sides", "4", "--sweeps", "3", "--repeats", "1", "--tree", "100", "--pgmpy", "0", "--states", "2"]
    done = python(ROOT / "benchmarks" / "bp.py", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all marginals in") == 3
