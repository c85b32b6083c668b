"""Errata 10 and 11: the GAN. One hard conditional arc C -> X pins mu; hard marginals, as drawn, do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, Deterministic, SoftmaxTable, Table, Variable, inconsistency
from shared_files import SHARED, shared_json

VECTORS = shared_json("vectors", "gan.json")
CASES = VECTORS["cases"] if VECTORS else []
pytestmark = pytest.mark.skipif(not CASES, reason=f"no vectors under {SHARED}")
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: f"{len(c['G'])} values")

inf = math.inf
C = Variable("C", ["real", "fake"])


def conditional(p_data, generator_logits, discriminator_logits, x: Variable) -> PDG:
    """C ~ (1/2, 1/2), X|C = [p_data; G], D(C|X) and e(C|X) = 1/2; p_data is fixed by logits of its own."""
    logits = torch.from_numpy(np.array([np.log(p_data), generator_logits]))
    d = torch.tensor(discriminator_logits, dtype=torch.float64)
    return PDG(
        Arc("c", (), C, [0.5, 0.5]),
        Arc("x", C, x, SoftmaxTable(logits=logits)),
        Arc("D", x, C, SoftmaxTable(logits=torch.stack([d, torch.zeros_like(d)], -1))),
        Arc("e", x, C, np.full((x.size, 2), 0.5)),
    )


def pdg_of(case) -> PDG:
    return conditional(case["p_data"], case["G_logits"], case["D_logits"], Variable("X", len(case["G"])))


def focus(beta_d: float, beta_e: float) -> Attention:
    return Attention.only({"c": inf, "x": inf, "D": beta_d, "e": beta_e})


@each_case
def test_the_conditional_arc_pins_mu_and_gives_the_closed_form(case):
    for row in case["inconsistency"]:
        beta_d, beta_e = row["beta_D"], row["beta_e"]
        result = inconsistency(pdg_of(case), focus(beta_d, beta_e))
        closed = -beta_d / 2 * case["L_GAN"] + (beta_d + beta_e) * case["JS"] - beta_d * math.log(2)
        assert result.solver == "pinned" and result.converged
        assert result.lower - 1e-12 <= row["inconsistency"] <= result.upper + 1e-12
        assert row["inconsistency"] == pytest.approx(closed, abs=1e-12)


@each_case
def test_the_two_players_have_opposite_values(case):
    discriminator = inconsistency(pdg_of(case), focus(1, -1)).upper
    generator = inconsistency(pdg_of(case), focus(-1, 1)).upper
    assert discriminator == pytest.approx(-case["L_GAN"] / 2 - math.log(2), abs=1e-12)
    assert generator == pytest.approx(case["L_GAN"] / 2 + math.log(2), abs=1e-12)


@each_case
def test_gradients_of_both_players(case):
    for beta, arc, pick, expected in (
        ((1, -1), "D", lambda g: g[:, 0], "grad_D_logits_Dfocus"),
        ((-1, 1), "x", lambda g: g[1], "grad_G_logits_Gfocus"),
        ((0, 1), "x", lambda g: g[1], "grad_G_logits_e_only"),
    ):
        pdg = pdg_of(case)
        inconsistency(pdg, focus(*beta)).value.backward()
        np.testing.assert_allclose(pick(pdg[arc].cpd.logits.grad), case[expected], rtol=0, atol=1e-10)


@each_case
def test_as_drawn_the_coupling_is_free_and_the_value_lower(case):
    n = len(case["G"])
    real, fake, x = Variable("X_real", n), Variable("X_fake", n), Variable("X", n)
    d = 1 / (1 + np.exp(-np.array(case["D_logits"])))
    pdg = PDG(
        Arc("real", (), real, case["p_data"]),
        Arc("fake", (), fake, case["G"]),
        Arc("c", (), C, [0.5, 0.5]),
        Arc("x", (C, real, fake), x, Deterministic(lambda c, r, f: r if c == "real" else f)),
        Arc("D", x, C, Table(np.stack([d, 1 - d], -1))),
        Arc("e", x, C, np.full((n, 2), 0.5)),
    )
    hard = {"real": inf, "fake": inf, "c": inf, "x": inf}
    literal = case["literal_marginal_arcs"]
    for name, expected in (("e", literal["e_only"]), ("D", literal["D_only"])):
        for solver in ("auto", "newton", "clique-tree", "joint"):
            result = inconsistency(pdg, Attention.only({**hard, name: 1.0}), solver=solver)
            assert result.lower - 1e-8 <= expected <= result.upper + 1e-8, solver
            assert result.upper < inconsistency(pdg_of(case), focus(float(name == "D"), float(name == "e"))).lower
    assert case["TV"] <= 0.5 and abs(literal["e_only"]) < 1e-8


def test_the_jensen_shannon_focus_as_drawn_is_zero_up_to_total_variation_one_half():
    x = Variable("X", 2)
    for gap, zero in ((0.45, True), (0.5, True), (0.6, False)):
        p, q = np.array([0.5 + gap / 2, 0.5 - gap / 2]), np.array([0.5 - gap / 2, 0.5 + gap / 2])
        real, fake = Variable("X_real", 2), Variable("X_fake", 2)
        pdg = PDG(
            Arc("real", (), real, p),
            Arc("fake", (), fake, q),
            Arc("c", (), C, [0.5, 0.5]),
            Arc("x", (C, real, fake), x, Deterministic(lambda c, r, f: r if c == "real" else f)),
            Arc("e", x, C, np.full((2, 2), 0.5)),
        )
        result = inconsistency(pdg, Attention.only({"real": inf, "fake": inf, "c": inf, "x": inf, "e": 1.0}))
        assert (result.upper < 1e-6) is zero
        assert zero or result.lower > 1e-3
