"""Is it more than chance? The p-value against closed forms and simulation; intervals; what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, DissonanceError, Variable, inconsistency
from dissonance.chance import chance
from dissonance.chance.tail import tail

A, B = Variable("A", ["no", "yes"]), Variable("B", [0, 1, 2])
POPULATION = np.array([[0.2, 0.1, 0.15], [0.1, 0.25, 0.2]])


def sample(name: str, counts: object, *scope: Variable, given: Variable | None = None) -> Arc:
    """The arc of counts over the scope, given its first variable if that is given."""
    table = np.asarray(counts, dtype=float)
    sources = () if given is None else (given,)
    of = [*sources, *scope]
    cells = {
        tuple(v.finite.labels[i] for v, i in zip(of, at, strict=True)): float(x) for at, x in np.ndenumerate(table)
    }
    flat = {k[0] if len(k) == 1 else k: x for k, x in cells.items()}
    return Arc.from_table(name, flat, given=sources, of=scope, counts=True, pseudocount=0.5)


def test_the_tail_of_equal_weights_is_that_of_a_chi_square():
    for degrees, value in ((1, 3.84), (4, 9.0), (7, 2.0)):
        half = value / 2
        if degrees % 2 == 0:  # P(chi2 with 2k degrees > x) is that of fewer than k Poisson events
            exact = sum(math.exp(-half) * half**i / math.factorial(i) for i in range(degrees // 2))
            assert tail(np.ones(degrees), value) == pytest.approx(exact, rel=1e-12)
            assert tail(np.full(degrees, 3.0), 3 * value) == pytest.approx(exact, rel=1e-9)
    assert tail([1.0], 3.841458820694124) == pytest.approx(0.05, rel=1e-9)


def test_the_tail_of_different_weights_is_what_a_simulation_has():
    rng = np.random.default_rng(0)
    weights = np.array([3.0, 1.0, 0.4, 0.05])
    drawn = rng.standard_normal((400_000, 4)) ** 2 @ weights
    for value in (1.0, 5.0, 12.0):
        assert tail(weights, value) == pytest.approx(float((drawn >= value).mean()), abs=3e-3)
    pairs = tail([2.0, 2.0, 0.5, 0.5], 4.0)  # two exponentials of means 4 and 1
    assert pairs == pytest.approx((4 * math.exp(-1.0) - math.exp(-4.0)) / 3, rel=1e-9)
    assert tail([], 0.1) == 0.0 and tail([1.0], 0.0) == 1.0


def test_two_samples_of_one_variable_have_a_closed_form():
    n, m = np.array([160.0, 240.0]), np.array([500.0, 500.0])
    found = chance(inconsistency(PDG(sample("a", n, A), sample("b", m, A))), replicates=0)
    p, q = (n + 0.5) / (n.sum() + 1), (m + 0.5) / (m.sum() + 1)
    w = n.sum() / (n.sum() + m.sum())
    statistic = -2 * (n.sum() + m.sum()) * math.log(float((p**w * q ** (1 - w)).sum()))
    assert found.statistic == pytest.approx(statistic, abs=1e-6)
    assert found.degrees == 1 and found.method == "asymptotic" and not found.blame
    assert found.p_value == pytest.approx(math.erfc(math.sqrt(statistic / 2)), rel=1e-6)


def test_degrees_of_freedom_are_the_parameters_of_the_tables_less_those_of_the_population():
    rng = np.random.default_rng(3)
    joint = sample("joint", rng.multinomial(3000, POPULATION.ravel()).reshape(2, 3), A, B)
    margin = sample("margin", rng.multinomial(3000, POPULATION.sum(0)), B)
    rows = np.stack([rng.multinomial(n, r / r.sum()) for n, r in zip((2000, 900), POPULATION, strict=True)])
    study = sample("study", rows, B, given=A)
    expected = {("joint", "margin"): 2, ("joint", "study"): 4, ("joint", "margin", "study"): 6, ("margin", "study"): 1}
    arcs = {a.name: a for a in (joint, margin, study)}
    for names, degrees in expected.items():
        found = chance(inconsistency(PDG(*(arcs[n] for n in names))), replicates=0)
        assert found.degrees == degrees
    fact = Arc("fact", (), A, POPULATION.sum(1), beta=math.inf)
    assert chance(inconsistency(PDG(joint, fact)), replicates=0).degrees == 1


def test_consistent_samples_are_rejected_as_often_as_promised():
    """The short form of benchmarks/chance.py, of a shape whose weights differ: rows are not seen in proportion."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(250):
        rows = np.stack([rng.multinomial(300, r / r.sum()) for r in POPULATION])
        arcs = (
            sample("study", rows, B, given=A),
            sample("a", rng.multinomial(400, POPULATION.sum(1)), A),
            sample("b", rng.multinomial(600, POPULATION.sum(0)), B),
        )
        found.append(chance(inconsistency(PDG(*arcs)), replicates=0).p_value)
    p = np.array(found)
    assert 0.015 < (p < 0.05).mean() < 0.09  # 0.05 with a standard deviation of 0.014
    assert np.abs(np.sort(p) - np.linspace(0, 1, len(p))).max() < 0.11  # Kolmogorov and Smirnov, 0.5 %


def test_the_bootstrap_agrees_with_large_samples_and_is_relied_on_for_small_ones():
    rng = np.random.default_rng(1)
    large = PDG(*(sample(f"s{k}", rng.multinomial(800, POPULATION.sum(0)), B) for k in range(3)))
    found = chance(inconsistency(large), replicates=1000)
    assert found.method == "asymptotic" and found.bootstrap is not None
    assert found.bootstrap == pytest.approx(found.p_value, abs=0.05)
    small = PDG(sample("few", [4, 0, 3], B), sample("more", [6, 5, 9], B))
    found = chance(inconsistency(small), replicates=400)
    assert found.method == "bootstrap" and "expected observations" in found.unmet[0]
    assert 0.05 < found.p_value <= 1 and "This may be chance" in str(found)
    again = chance(inconsistency(small), replicates=400)
    assert again.p_value == found.p_value and again.blame == found.blame
    with pytest.raises(DissonanceError, match=r"the asymptotic p-value does not hold.*ask for replicates"):
        chance(inconsistency(small), replicates=0)


def test_a_planted_conflict_is_found_and_blamed_with_an_interval():
    rng = np.random.default_rng(2)
    honest = [sample(f"s{k}", rng.multinomial(1000, POPULATION.sum(0)), B) for k in range(3)]
    odd = sample("odd", rng.multinomial(500, [0.45, 0.2, 0.35]), B)
    expert = Arc("expert", (), B, [0.2, 0.3, 0.5])
    found = inconsistency(PDG(*honest, odd, expert)).chance(replicates=400)
    assert found.p_value < 1e-6 and "more than chance" in found.sentence
    assert found.left_out == ("expert",)
    blame = {b.name: b for b in found.blame}
    assert blame["odd"].most > 0.99 and blame["odd"].low > blame["odd"].by_chance
    for b in found.blame:
        assert 0 <= b.low <= b.high and b.low <= b.contribution + 1e-9
    assert sum(b.most for b in found.blame) == pytest.approx(1.0)
    assert sum(b.contribution for b in found.blame) == pytest.approx(found.statistic / 2, abs=1e-5)


def test_cells_that_facts_make_impossible_need_no_pseudocount():
    fact = Arc("fact", A, B, [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], beta=math.inf)
    joint = sample("joint", [[200, 210, 0], [0, 190, 200]], A, B)
    found = chance(inconsistency(PDG(joint, fact)), replicates=100)
    assert found.degrees == 2 and found.statistic < 10 and found.p_value > 0.05


@pytest.mark.parametrize(
    ("pdg", "options", "said"),
    [
        (PDG(Arc("x", (), A, [0.5, 0.5])), {}, "no belief is a sample: give counts"),
        (PDG(sample("x", [1, 2], A)), {"pseudocount": 0.0}, "the pseudocount is 0"),
        (PDG(sample("x", [1, 2], A)), {"replicates": -1}, "replicates is a number from 0 on"),
        (PDG(sample("x", [1, 2], A)), {"confidence": 1.0}, "confidence lies between 0 and 1"),
        (PDG(sample("x", [[1, 2, 3], [0, 0, 0]], B, given=A)), {}, "a row has no observations"),
    ],
)
def test_what_has_no_answer_is_refused(pdg: PDG, options: dict[str, float], said: str):
    with pytest.raises(DissonanceError, match=said):
        inconsistency(pdg).chance(**options)


def test_structure_has_no_part_in_it():
    with pytest.raises(DissonanceError, match="asked at gamma = 0"):
        inconsistency(PDG(sample("x", [1, 2], A)), Attention(gamma=0.5)).chance()
