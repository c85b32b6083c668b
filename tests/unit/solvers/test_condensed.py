"""The condensed Newton system solves all of Newton's equations, those it leaves out included."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dissonance.problem import Array, prepare
from dissonance.solvers.assemble import assemble
from dissonance.solvers.certificate import certify
from dissonance.solvers.condensed import Condensed, Factored
from dissonance.solvers.newton import PATIENCE, cold, newton
from strategies import Style, random_case


@pytest.mark.parametrize("gamma", [0.0, 1e-4, 0.3])
@pytest.mark.parametrize("form", ["dense", "full", "sparse", "long"])
def test_the_direction_solves_newtons_equations(gamma: float, form: str, monkeypatch: pytest.MonkeyPatch):
    """d slack by differences, complementarity, mu's equations and the stationarity of every term, at odd iterates."""
    monkeypatch.setattr(Condensed, "DENSE", 400 if form == "dense" else 0)
    monkeypatch.setattr(Condensed, "FULLER", math.inf)
    monkeypatch.setattr(Condensed, "FULL", 0.0 if form == "full" else math.inf)
    monkeypatch.setattr(Condensed, "LONG", 3 if form == "long" else math.inf)
    seen = 0
    for seed in range(12):
        case = random_case(seed, Style(zeros=0.1, hard=0.1))
        for component in (replace(c, gamma=gamma) for c in prepare(case.pdg, case.attention).components):
            program = assemble(component, component.tree)
            if program is None or any(w < 0 for w in component.weights.values()):
                continue
            at = newton(program, cold(program), 1e-10, steps=3)
            mu = at.mu * np.random.default_rng(seed).uniform(0.5, 2, len(at.mu))
            log_q = program.log_softmax(at.l)
            q, r, target = np.exp(log_q), program.slack(log_q, at.u) - at.z, 0.1 * mu * at.z
            system = Condensed(program)
            assert (system.dense, system.full) == (form == "dense", form in ("dense", "full"))
            dl, du, dz, after = system.at(mu, at.z, q).direction(target, r)

            ahead, behind = (program.slack(program.log_softmax(log_q + t * dl), at.u + t * du) for t in (1e-6, -1e-6))
            np.testing.assert_allclose(dz, (ahead - behind) / 2e-6 + r, atol=1e-5 * (1 + np.abs(dz).max()))
            np.testing.assert_allclose(mu * dz + at.z * after, target, atol=1e-12)
            np.testing.assert_allclose(program.A @ after, program.b, atol=1e-9)

            m, m_after = program.T @ mu, program.T @ after
            s, k = program.along_rows(m), program.structural
            curved = 0.5 * (s * q + m) * dl
            held = np.bincount(program.row)[program.row] >= Condensed.LONG
            share = np.where(held, q, 0.5 * (q + m / s))
            curved[:k] -= (share * program.along_rows(curved))[:k]  # here l is free up to a shift
            np.testing.assert_allclose(m_after - q * program.along_rows(m_after), curved, atol=1e-9)
            seen += 1
    assert seen >= 8


def test_when_rounding_takes_over_the_best_iterate_stands(monkeypatch: pytest.MonkeyPatch):
    case = random_case(3, Style())
    component = prepare(case.pdg, case.attention).components[0]
    program = assemble(component, component.tree)
    assert program is not None
    good_steps = certify(program, newton(program, cold(program), 1e-14, steps=8)).gap
    at, calls = Condensed.at, 0

    def worse(self: Condensed, mu: Array, z: Array, q: Array) -> Factored:
        """From the tenth step on, solutions are off by as much as they are long."""
        nonlocal calls
        calls += 1
        good = at(self, mu, z, q)
        noise = np.random.default_rng(calls)
        return good if calls < 10 else replace(good, solve=lambda x: good.solve(x) * noise.uniform(-1, 3, len(x)))

    monkeypatch.setattr(Condensed, "at", worse)
    found = newton(program, cold(program), 1e-14)
    assert found.steps < calls <= found.steps + PATIENCE + 2 < 60
    assert certify(program, found).gap <= good_steps
