"""What must hold of the value for every PDG, whatever its arcs."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dissonance import PDG, Arc, Attention, Table, Variable, incompatibility, inconsistency
from dissonance.distributions import Joint
from dissonance.inconsistency import Inconsistency
from strategies import MIXED, SOFT, STRUCTURED, Case, Style, cases, conditional_of, random_joint, read_off

ANY = Style(zeros=0.1, hard=0.15, gammas=(0.0, 0.0, 0.4))
seeds = st.integers(0, 2**32 - 1)


def meet(one: Inconsistency, other: Inconsistency, shift: float = 0.0) -> bool:
    """Whether the brackets of two results overlap: both can be of the same number (the second plus a shift)."""
    return max(one.lower, other.lower + shift) <= min(one.upper, other.upper + shift)


def scored(case: Case) -> Inconsistency:
    """The inconsistency of a case, which must be certified."""
    result = inconsistency(case.pdg, case.attention)
    assert result.converged and result.lower <= result.upper and not math.isnan(result.upper)
    return result


@given(cases(Style(zeros=0.2, hard=0.3, unattended=0.1)))
@settings(max_examples=60)
def test_without_structure_the_inconsistency_is_never_negative(case: Case):
    result = scored(case)
    assert result.upper >= 0
    assert float(result.value) == result.upper


@given(cases(MIXED), seeds)
@settings(max_examples=60)
def test_no_mu_beats_the_lower_bound(case: Case, seed: int):
    result = scored(case)
    rng = np.random.default_rng(seed)
    for zeros in (0.0, 0.5, 0.9):
        mu = Joint(case.pdg.variables, random_joint(rng, case.pdg.variables, zeros))
        hard = [n for n, b in case.attention.beta.items() if b == math.inf]
        if not hard:
            assert float(incompatibility(mu, case.pdg, case.attention)) >= result.lower


@given(cases(SOFT), seeds)
@settings(max_examples=40)
def test_beliefs_read_off_one_joint_are_consistent(case: Case, seed: int):
    joint = random_joint(np.random.default_rng(seed), case.pdg.variables, zeros=0.2)
    pdg = read_off(joint, case.pdg.variables, [(a.sources, a.targets) for a in case.pdg.arcs])
    soft = inconsistency(pdg, Attention.uniform(pdg))
    assert soft.converged and 0 <= soft.upper <= 1e-7
    hard = inconsistency(pdg, Attention.uniform(pdg, beta=math.inf))
    assert hard.converged and 0 <= hard.upper <= 1e-7


@given(cases(SOFT), seeds)
@settings(max_examples=40)
def test_a_pair_that_disagrees_in_every_row_is_certified_inconsistent(case: Case, seed: int):
    joint = random_joint(np.random.default_rng(seed), case.pdg.variables)
    pdg = read_off(joint, case.pdg.variables, [(a.sources, a.targets) for a in case.pdg.arcs])
    arc = pdg.arcs[0]
    p = conditional_of(joint, pdg.variables, arc.sources, arc.targets)
    rows = p.reshape(-1, math.prod(v.size for v in arc.targets))
    other = 0.5 * rows
    other[np.arange(len(rows)), rows.argmin(1)] += 0.5
    pdg = pdg + Arc("rival", arc.sources, arc.targets, other.reshape(p.shape))
    result = inconsistency(pdg)
    # at least 1/4 of the mass of every row moved: -2 log sum sqrt(p q) >= TV^2
    assert result.converged and result.lower > 0.25**2


@given(cases(ANY), seeds)
@settings(max_examples=40)
def test_pruning_keeps_the_inconsistency(case: Case, seed: int):
    rng = np.random.default_rng(seed)
    new = Variable("New", 3)
    old = case.pdg.variables[0]
    more = case.pdg + Arc("ignored", old, new, Table(rng.dirichlet(np.ones(3), size=old.size)))
    more = more + Arc("rival", (), old, Table(rng.dirichlet(np.ones(old.size))))
    assert meet(inconsistency(more, case.attention), scored(case), shift=-case.attention.gamma * math.log(3))


@given(cases(ANY), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_order_of_arcs_and_variables_does_not_matter(case: Case, random):
    arcs, variables = list(case.pdg.arcs), list(case.pdg.variables)
    random.shuffle(arcs)
    random.shuffle(variables)
    turned = []
    for a in arcs:
        s, t = list(a.sources), list(a.targets)
        random.shuffle(s)
        random.shuffle(t)
        p = a.cpd.table().permute([a.scope.index(v) for v in (*s, *t)])
        turned.append(Arc(a.name, s, t, p))
    assert meet(inconsistency(PDG(*turned, variables=variables), case.attention), scored(case))


@given(cases(ANY), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_relabelling_values_and_names_does_not_matter(case: Case, random):
    order = {v: random.sample(range(v.size), v.size) for v in case.pdg.variables}
    new = {v: Variable(f"new {v.name}", [f"value {i}" for i in order[v]]) for v in case.pdg.variables}
    arcs = []
    for a in case.pdg.arcs:
        p = a.cpd.table()
        for axis, v in enumerate(a.scope):
            p = p.index_select(axis, p.new_tensor(order[v]).long())
        arcs.append(Arc(f"new {a.name}", [new[v] for v in a.sources], [new[v] for v in a.targets], p))
    phi = case.attention
    attention = Attention.only(
        {f"new {n}": b for n, b in phi.beta.items()}, {f"new {n}": x for n, x in phi.alpha.items()}, phi.gamma
    )
    relabelled = inconsistency(PDG(*arcs, variables=new.values()), attention)
    assert meet(relabelled, scored(case))


def renamed(pdg: PDG, prefix: str) -> PDG:
    """The same beliefs about other variables."""
    new = {v: Variable(prefix + v.name, v.size) for v in pdg.variables}
    arcs = (
        Arc(prefix + a.name, [new[v] for v in a.sources], [new[v] for v in a.targets], a.cpd.table()) for a in pdg.arcs
    )
    return PDG(*arcs, variables=new.values())


@given(cases(ANY, most=3), cases(ANY, most=3))
@settings(max_examples=40)
def test_the_inconsistency_adds_over_components(one: Case, two: Case):
    gamma = max(one.attention.gamma, two.attention.gamma)
    beta, alpha, parts = {}, {}, []
    for prefix, case in (("1", one), ("2", two)):
        pdg = renamed(case.pdg, prefix)
        b = {prefix + n: x + gamma for n, x in case.attention.beta.items()}
        a = {prefix + n: x for n, x in case.attention.alpha.items()}
        parts.append((pdg, inconsistency(pdg, Attention.only(b, a, gamma))))
        beta |= b
        alpha |= a
    (pdg1, first), (pdg2, second) = parts
    both = inconsistency(pdg1 + pdg2, Attention.only(beta, alpha, gamma))
    assert max(both.lower, first.lower + second.lower) <= min(both.upper, first.upper + second.upper)


@given(cases(Style(zeros=0.15, hard=0.15)), st.floats(0.01, 10), st.integers(0, 4))
@settings(max_examples=60)
def test_more_attention_never_lowers_it(case: Case, extra: float, which: int):
    name = case.pdg.arcs[which % len(case.pdg)].name
    before = scored(case)
    for beta in (case.attention.beta[name] + extra, math.inf):
        after = inconsistency(case.pdg, case.attention.replace(beta={name: beta}))
        assert after.upper >= before.lower
        before = after


@given(cases(STRUCTURED))
@settings(max_examples=40)
def test_the_value_is_attained_by_mu(case: Case):
    result = scored(case)
    attained = float(incompatibility(result.mu, case.pdg, case.attention))
    assert abs(attained - result.upper) <= 1e-11 * max(1.0, abs(result.upper))
    assert attained >= result.lower


@given(cases(SOFT))
@settings(max_examples=40)
def test_the_selected_mu_at_gamma_zero_is_still_optimal(case: Case):
    result = scored(case)
    attained = float(incompatibility(result.mu, case.pdg, case.attention))
    assert result.lower - 1e-14 <= attained <= result.upper + 1e-6  # a score is a float
