"""Posteriors against the dense joint, against the inconsistency, and against pyAgrum."""

from __future__ import annotations

import importlib.util
import math
import sys
import tracemalloc
from collections.abc import Hashable
from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    DissonanceError,
    Euclidean,
    PointMass,
    Queries,
    SizeError,
    SoftmaxTable,
    Variable,
    inconsistency,
    query,
)
from dissonance.compiled import engage
from strategies import Case, Style, cases

ZEROS = Style(zeros=0.3)


def dense(pdg: PDG, evidence: dict) -> np.ndarray:
    """prod_a p_a over all joint states, 0 where the evidence says otherwise."""
    names = [v.name for v in pdg.variables]
    total = np.ones([v.size for v in pdg.variables])
    for a in pdg.arcs:
        scope = [v.name for v in a.scope]
        table = a.log_table().detach().exp().numpy()
        order = sorted(range(len(scope)), key=lambda k: names.index(scope[k]))
        total = total * table.transpose(order).reshape([v.size if v.name in scope else 1 for v in pdg.variables])
    for n, label in evidence.items():
        keep = np.zeros(pdg.variable(n).size)
        keep[pdg.variable(n).finite.index(label)] = 1
        total = total * keep.reshape([-1 if m == n else 1 for m in names])
    return total


def check(pdg: PDG, evidence: dict, log_partition: torch.Tensor, marginals: dict, best: torch.Tensor, state) -> None:
    """One answer is what the dense joint says."""
    joint = dense(pdg, evidence)
    if joint.sum() == 0:
        assert log_partition == best == -math.inf and state is None
        assert all((m == 0).all() for m in marginals.values())
        return
    assert float(log_partition) == pytest.approx(math.log(joint.sum()), abs=1e-12)
    assert list(marginals) == [v.name for v in pdg.variables]
    for k, v in enumerate(pdg.variables):
        expected = joint.sum(tuple(i for i in range(joint.ndim) if i != k)) / joint.sum()
        np.testing.assert_allclose(marginals[v.name], expected, atol=1e-13)
    assert float(best) == pytest.approx(math.log(joint.max()), abs=1e-12)
    at = tuple(v.finite.index(state[v.name]) for v in pdg.variables)
    assert joint[at] == pytest.approx(joint.max(), rel=1e-12)
    assert evidence.items() <= state.items()


@st.composite
def asked(draw: st.DrawFn) -> tuple[Case, list[dict]]:
    """A random PDG and evidence sets, some of them impossible."""
    case = draw(cases(ZEROS))
    sets = []
    for _ in range(draw(st.integers(1, 4))):
        names = draw(st.lists(st.sampled_from([v.name for v in case.pdg.variables]), unique=True))
        sets.append({n: draw(st.integers(0, case.pdg.variable(n).size - 1)) for n in names})
    return case, sets


@given(asked())
@settings(max_examples=60)
def test_answers_are_those_of_the_dense_joint(drawn):
    case, sets = drawn
    together = query(case.pdg, sets)
    best, states = together.most_probable()
    ask = Queries(case.pdg)
    for k, evidence in enumerate(sets):
        check(
            case.pdg,
            evidence,
            together.log_partition[k],
            {n: m[k] for n, m in together.marginals.items()},
            best[k],
            states[k],
        )
        for alone in (query(case.pdg, evidence), ask(evidence)):
            check(case.pdg, evidence, alone.log_partition, alone.marginals, *alone.most_probable())


@given(cases(Style(), most=5))
@settings(max_examples=15)
def test_without_evidence_the_log_partition_is_the_inconsistency_of_the_factor_graph(case: Case):
    found = inconsistency(case.pdg, Attention.uniform(case.pdg, gamma=1.0))
    answer = query(case.pdg)
    assert found.lower - 1e-12 <= -float(answer.log_partition) <= found.upper + 1e-12
    for v in case.pdg.variables:
        np.testing.assert_allclose(answer.marginals[v.name], found.mu.marginal(v.name).detach(), atol=1e-10)


Rain = Variable("Rain", ["no", "yes"])
Sprinkler = Variable("Sprinkler", ["off", "on"])
Grass = Variable("Grass", ["dry", "wet"])
GARDEN = PDG.from_bayesian_network(
    {
        Rain: ((), [0.8, 0.2]),
        Sprinkler: ([Rain], [[0.6, 0.4], [0.99, 0.01]]),
        Grass: ([Sprinkler, Rain], [[[1.0, 0.0], [0.2, 0.8]], [[0.1, 0.9], [0.01, 0.99]]]),
    }
)


def test_a_textbook_posterior():
    answer = query(GARDEN, {"Grass": "wet"})
    wet_rain = 0.2 * (0.99 * 0.8 + 0.01 * 0.99)
    wet = wet_rain + 0.8 * 0.4 * 0.9
    assert float(answer.log_partition) == pytest.approx(math.log(wet), abs=1e-14)
    assert float(answer.marginals["Rain"][1]) == pytest.approx(wet_rain / wet, abs=1e-14)
    value, state = answer.most_probable()
    assert state == {"Rain": "no", "Sprinkler": "on", "Grass": "wet"}
    assert float(value) == pytest.approx(math.log(0.8 * 0.4 * 0.9), abs=1e-14)
    assert "Rain: no 0.6423, yes 0.3577" in repr(answer)


def test_impossible_evidence_says_so_and_leaves_the_others_alone():
    impossible = {"Grass": "wet", "Rain": "no", "Sprinkler": "off"}
    answer = query(GARDEN, [{"Grass": "wet"}, impossible, {}])
    assert answer.log_partition.tolist()[1] == -math.inf
    assert answer.log_partition.tolist()[2] == pytest.approx(0, abs=1e-15)
    assert all(not m.isnan().any() and (m[1] == 0).all() for m in answer.marginals.values())
    np.testing.assert_allclose(answer.marginals["Rain"][0], query(GARDEN, {"Grass": "wet"}).marginals["Rain"])
    assert answer.most_probable()[1][1] is None
    alone = query(GARDEN, impossible)
    assert alone.log_partition == -math.inf and alone.most_probable()[1] is None
    assert alone.marginals["Rain"].tolist() == [0, 0]
    assert repr(answer) == "Posterior(3 variables, 3 evidence sets)"


def test_everything_observed_and_nothing_known():
    everything = {"Grass": "wet", "Rain": "yes", "Sprinkler": "off"}
    answer = query(GARDEN, everything)
    assert float(answer.log_partition) == pytest.approx(math.log(0.2 * 0.99 * 0.8), abs=1e-14)
    assert answer.marginals["Rain"].tolist() == [0, 1] and answer.most_probable()[1] == everything
    free = query(PDG(variables=[Rain, Variable("Height", Euclidean(1))]))
    assert list(free.marginals) == ["Rain"] and free.marginals["Rain"].tolist() == [0.5, 0.5]
    assert float(free.log_partition) == pytest.approx(math.log(2))
    assert query(GARDEN, []).marginals["Rain"].shape == (0, 2)


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ({"Rian": "yes"}, r"evidence set 0: no finite variable 'Rian'. Did you mean 'Rain'\?"),
        ({"Rain": "maybe"}, r"evidence set 0: 'Rain' has no value 'maybe'. Known: no, yes."),
        ([{}, {"Rain": 7}], r"evidence set 1: 'Rain' has no value 7. Known: no, yes."),
        ({"Rain": ["yes"]}, r"evidence set 0: 'Rain' has no value \['yes'\]"),
    ],
)
def test_bad_evidence_is_one_clear_line(evidence, said: str):
    with pytest.raises(DissonanceError, match=said) as caught:
        Queries(GARDEN)(evidence)
    assert "\n" not in str(caught.value)


def test_what_is_to_be_observed_must_be():
    with pytest.raises(DissonanceError, match="evidence set 1 has no value of 'Rain', which is to be observed"):
        Queries(GARDEN, ["Rain"])([{"Rain": "yes"}, {"Grass": "wet"}])
    with pytest.raises(DissonanceError, match="no variable named 'Rian'"):
        query(GARDEN, {"Rian": "yes"})


def test_a_continuous_variable_cannot_be_evidence():
    pdg = PDG(Arc("r", (), Rain, [0.8, 0.2]), variables=[Variable("Height", Euclidean(1))])
    with pytest.raises(CapabilityError, match=r"'Height' is Euclidean\(1\), not finite"):
        query(pdg, {"Height": 1.0})
    with pytest.raises(DissonanceError, match="no finite variable 'Height'"):
        Queries(pdg)({"Height": 1.0})


def test_an_arc_without_a_table_is_refused():
    continuous = Arc("c", (), Variable("Height", Euclidean(1)), PointMass([1.0]))
    with pytest.raises(CapabilityError):
        query(PDG(continuous))


def test_a_tree_too_large_is_refused_before_anything_is_made():
    many = [Variable(f"V{i}", 2) for i in range(40)]
    clique = PDG(*(Arc(f"{a.name}{b.name}", a, b, [[0.6, 0.4], [0.2, 0.8]]) for a, b in combinations(many, 2)))
    engage()
    for first in (True, False):  # what starting Numba takes does not count
        if not first:
            tracemalloc.start()
        with pytest.raises(SizeError, match=r"treewidth 39 and 1\.1e\+12 cells, about 2\.13e\+05 GiB"):
            query(clique)
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()
    seen = {v.name: 0 for v in many[:30]}
    assert float(query(clique, seen).marginals["V39"].sum()) == pytest.approx(1)


def markov_chain(n: int) -> PDG:
    rng = np.random.default_rng(0)
    v = [Variable(f"V{i}", 3) for i in range(n)]
    return PDG(
        Arc("a0", (), v[0], rng.dirichlet(np.ones(3))),
        *(Arc(f"a{i}", v[i - 1], v[i], rng.dirichlet(np.ones(3), 3)) for i in range(1, n)),
    )


def test_a_plan_stores_a_shift_for_every_given_variable_of_every_factor_and_no_more():
    n, observed = 300, [f"V{i}" for i in range(0, 300, 3)]
    pdg = markov_chain(n)
    assert len(Queries(pdg)._factors.shifts.stride) == n
    cut = sum(v.name in observed for a in pdg for v in a.scope)
    assert len(Queries(pdg, observed)._factors.shifts.stride) == cut + n - len(observed)
    assert Queries(pdg, [v.name for v in pdg.variables])({f"V{i}": 0 for i in range(n)}).log_partition < 0


def test_a_long_chain_agrees_with_forward_and_backward_sums():
    n = 3000
    pdg, seen = markov_chain(n), {"V7": 2, "V1500": 0, "V2999": 1}
    tables = [a.cpd.table().numpy() for a in pdg.arcs]
    local = np.ones((n, 3))
    for name, value in seen.items():
        local[int(name[1:])] = np.arange(3) == value
    forward, backward, log_z = np.zeros((n, 3)), np.ones((n, 3)), 0.0
    for i in range(n):
        forward[i] = (forward[i - 1] @ tables[i] if i else tables[0]) * local[i]
        log_z += np.log(forward[i].sum())
        forward[i] /= forward[i].sum()
    for i in reversed(range(n - 1)):
        backward[i] = tables[i + 1] @ (local[i + 1] * backward[i + 1])
        backward[i] /= backward[i].sum()
    expected = forward * backward / (forward * backward).sum(1, keepdims=True)
    one, many = query(pdg, seen), Queries(pdg)([seen, seen])
    for answer, at in ((one, ...), (many, 1)):
        assert float(answer.log_partition[at]) == pytest.approx(log_z, abs=1e-9)
        found = np.array([answer.marginals[f"V{i}"][at].tolist() for i in range(n)])
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_sets_that_do_not_fit_together_take_turns(monkeypatch: pytest.MonkeyPatch):
    sums, sizes = Queries._sums, list[int]()

    def counted(self: Queries, values: torch.Tensor, unseen: frozenset[Hashable]) -> tuple[torch.Tensor, torch.Tensor]:
        if values.dim() > 1:
            sizes.append(values.shape[1])
        return sums(self, values, unseen)

    monkeypatch.setattr(Queries, "_sums", counted)
    sets = [{"Grass": "wet"}, {"Rain": "yes"}, {}, {"Grass": "dry", "Rain": "no"}, {"Sprinkler": "on"}]
    whole = query(GARDEN, sets)
    assert sizes == [5]
    for cells, expected in ((1, [1] * 5), (2 * Queries(GARDEN).tree.cells, [2, 2, 1])):
        sizes.clear()
        parts = Queries(GARDEN, cells_at_once=cells)(sets)
        assert sizes == expected
        np.testing.assert_allclose(parts.log_partition, whole.log_partition, atol=1e-15)
        for n, m in whole.marginals.items():
            np.testing.assert_allclose(parts.marginals[n], m, atol=1e-15)
        assert parts.most_probable()[1] == whole.most_probable()[1]


def test_other_parameters_may_be_asked_about():
    pdg = PDG(Arc("p", (), Rain, SoftmaxTable([0.5, 0.5])))
    theta = {"p.logits": torch.tensor([0.0, math.log(3)], dtype=torch.float64)}
    answer = query(pdg, theta=theta)
    assert answer.marginals["Rain"].tolist() == pytest.approx([0.25, 0.75])
    assert not answer.marginals["Rain"].requires_grad


def test_unlikely_evidence_is_exact():
    n = 200
    state = [Variable(f"X{i}", 2) for i in range(n)]
    seen = [Variable(f"Y{i}", 2) for i in range(n)]
    stay, emit = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[1 - 1e-6, 1e-6], [1 - 1e-9, 1e-9]])
    arcs = [Arc("x0", (), state[0], [0.5, 0.5])]
    arcs += [Arc(f"x{i}", state[i - 1], state[i], stay) for i in range(1, n)]
    arcs += [Arc(f"y{i}", state[i], seen[i], emit) for i in range(n)]
    pdg, evidence = PDG(*arcs), {v.name: 1 for v in seen}
    forward, total = np.array([0.5, 0.5]) * emit[:, 1], 0.0
    for _ in range(n - 1):
        total += math.log(forward.sum())
        forward = (forward / forward.sum()) @ stay * emit[:, 1]
    total += math.log(forward.sum())
    for answer in (query(pdg, evidence), Queries(pdg)(evidence), query(pdg, [evidence, {}])):
        first = answer.log_partition.reshape(-1)[0]
        assert float(first) == pytest.approx(total, rel=1e-13) and total < -2700
        last = answer.marginals[f"X{n - 1}"].reshape(-1, 2)[0]
        np.testing.assert_allclose(last, forward / forward.sum(), atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_gives_the_same_answers():
    sets = [{"Grass": "wet"}, {"Rain": "yes"}, {}, {"Grass": "wet", "Rain": "no", "Sprinkler": "off"}]
    here, there = query(GARDEN, sets), query(GARDEN, sets, device="cuda")
    assert there.log_partition.is_cuda
    np.testing.assert_allclose(there.log_partition.cpu(), here.log_partition, atol=1e-13)
    for n, m in here.marginals.items():
        np.testing.assert_allclose(there.marginals[n].cpu(), m, atol=1e-13)
    assert there.most_probable()[1] == here.most_probable()[1]
    assert query(GARDEN, sets[0], device="cuda").most_probable()[1] == query(GARDEN, sets[0]).most_probable()[1]


# -- another implementation ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def posteriors() -> ModuleType:
    """The benchmark's helpers, where pyAgrum is installed."""
    pytest.importorskip("pyagrum", reason="pyAgrum is not installed")
    path = Path(__file__).parents[2] / "benchmarks" / "posteriors.py"
    spec = importlib.util.spec_from_file_location("posteriors", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def same_as_agrum(posteriors: ModuleType, bn, sets: int) -> None:
    """Log-probabilities of evidence and all marginals, one by one and together, are pyAgrum's."""
    import pyagrum

    pdg, evidence = posteriors.as_pdg(bn), posteriors.evidence_sets(bn, sets)
    theirs = pyagrum.LazyPropagation(bn)
    together = Queries(pdg)(evidence)
    cut = query(pdg, evidence)
    for k, e in enumerate(evidence):
        theirs.setEvidence(e)
        theirs.makeInference()
        for answer in (together, cut):
            assert float(answer.log_partition[k]) == pytest.approx(math.log(theirs.evidenceProbability()), abs=1e-10)
            for n in bn.names():
                np.testing.assert_allclose(answer.marginals[n][k], theirs.posterior(n).toarray(), atol=1e-12, rtol=0)
    alone = query(pdg, evidence[0])
    for n in bn.names():
        np.testing.assert_allclose(alone.marginals[n], cut.marginals[n][0], atol=1e-13, rtol=0)


@pytest.mark.parametrize("seed", range(3))
def test_random_networks_have_the_posteriors_of_pyagrum(posteriors: ModuleType, seed: int):
    import pyagrum

    pyagrum.initRandom(seed + 1)
    bn = pyagrum.BNGenerator().generate(n_nodes=15, n_arcs=24, n_modmax=4)
    posteriors.normalise(bn)
    same_as_agrum(posteriors, bn, 3)


@pytest.mark.parametrize("name", ["asia", "alarm", "hepar2", "win95pts", "andes"])
def test_well_known_networks_have_the_posteriors_of_pyagrum(posteriors: ModuleType, name: str):
    if importlib.util.find_spec("pgmpy") is None:
        pytest.skip("the networks come with pgmpy, which is not installed")
    same_as_agrum(posteriors, posteriors.network(name), 2)


def test_the_benchmark_prints_its_table(
    posteriors: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    if importlib.util.find_spec("pgmpy") is None:
        pytest.skip("the networks come with pgmpy, which is not installed")
    monkeypatch.setattr(sys, "argv", ["posteriors.py", "asia", "--sets", "4", "--rounds", "1"])
    posteriors.main()
    assert capsys.readouterr().out.count("asia") == 2
