"""Damping as finite control, and alpha-divergences as attention weights: step by step the known algorithms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dissonance.bp import belief_propagation
from dissonance.flows import Natural
from reference.belief_propagation import Textbook, same
from reference.belief_runs import EVERY, LOOPY, ROUNDING, check_steps, named, random_tables


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
    cards, scopes = [2, 3], [(0, 1), (1, 0), (0,)]
    tables = random_tables(cards, scopes, 10)
    for alpha in (0.5, 1.6):
        bp = belief_propagation(named(cards, scopes, tables), power=alpha)
        expected = power_ep(cards, scopes, tables, alpha, 2)
        found = bp.answer(2 * bp.sweep)
        assert max(np.abs(found.marginals[f"X{v}"].numpy() - p).max() for v, p in enumerate(expected)) < ROUNDING
