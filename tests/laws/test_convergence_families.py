"""docs/convergence.md, "Families other than tables": its theorems and counterexamples in its order, against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dissonance import (
    PDG,
    Arc,
    Attention,
    Control,
    Euclidean,
    Focus,
    LinearGaussian,
    SoftmaxTable,
    Variable,
    full_control,
    inconsistency,
    lir,
)
from dissonance.cpds import Independent
from dissonance.refocus import Cycle

inf = math.inf
U, V = Variable("U", Euclidean(1)), Variable("V", Euclidean(1))
X, Y = Variable("X", 2), Variable("Y", 2)
HALF = math.log(2)  # the control under which half of the way is left


def normal(mean: float, variance: float, slope: float | None = None) -> LinearGaussian:
    return LinearGaussian(None if slope is None else [[slope]], [mean], [[variance]])


def beliefs() -> PDG:
    """Four linear-Gaussian beliefs about two numbers, which disagree."""
    return PDG(
        Arc("a", (), U, normal(0.0, 30.0)),
        Arc("b", U, V, normal(1.0, 0.5, 2.0)),
        Arc("c", (), V, normal(-3.0, 2.0)),
        Arc("d", V, U, normal(0.3, 1.0, -0.5)),
    )


def divergence(variance: float, spread: float = 0.0) -> float:
    """Of N(0, 1) from a Gaussian of this variance, whose mean is off by `spread` on the mean square."""
    return 0.5 * ((1 + spread) / variance + math.log(variance) - 1)


def away(pdg: PDG, mu, name: str, w: float) -> float:
    """KL_a of mu from arc a once a share w is left of the way, in mean parameters, to mu(T|S)."""
    arc = pdg[name]
    order = [v.name for v in mu.variables]
    mean, cov = mu.mean.numpy(), mu.covariance.numpy()
    t = order.index(arc.targets[0].name)
    if arc.sources:
        s = order.index(arc.sources[0].name)
        slope = cov[t, s] / cov[s, s]
        noise, here, second = cov[t, t] - slope * cov[s, t], mean[t] - slope * mean[s], cov[s, s] + mean[s] ** 2
        at = mean[s]
    else:
        slope, noise, here, second, at = 0.0, cov[t, t], mean[t], 0.0, 0.0
    off = (arc.cpd.A[0, 0].item() if arc.sources else 0.0) - slope
    shift = arc.cpd.b[0].item() - here
    spread = (off**2 * second + 2 * off * shift * at + shift**2) / noise
    variance = float(arc.cpd.scale[0, 0].detach().exp() ** 2) / noise
    return divergence(w * variance + (1 - w) + w * (1 - w) * spread, w**2 * spread)


# -- 10. a step in mean parameters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("chi", [0.1, HALF, 3.0])
def test_a_natural_step_of_gaussians_gains_what_the_formula_says(chi: float):
    pdg = beliefs()
    found = inconsistency(pdg)
    w, names = math.exp(-chi), [*pdg.arc_names]
    assert sum(away(pdg, found.mu, n, 1.0) for n in names) == pytest.approx(found.upper, abs=1e-8)
    some = names[:2]
    run = lir(pdg, steps=1, control=Control({n: chi for n in some}), progress=False)
    promised = sum(away(pdg, found.mu, n, w if n in some else 1.0) for n in names)
    assert run.after.upper <= promised + 1e-9 < found.upper


@pytest.mark.parametrize("seed", range(3))
def test_a_natural_step_of_products_of_tables_never_raises_what_is_in_view(seed: int):
    rng = np.random.default_rng(seed)
    p, r = rng.dirichlet([1, 1]), rng.dirichlet([1, 1])
    pdg = PDG(
        Arc("p", (), (X, Y), Independent(SoftmaxTable(p), SoftmaxTable(r))),
        Arc("q", (), (X, Y), rng.dirichlet([0.5] * 4).reshape(2, 2)),
    )
    run = lir(pdg, steps=8, control=Control({"p": 2.0}), progress=False)
    values = np.array(run.trace.column("global_upper"))
    assert (np.diff(values) <= 1e-9).all() and values[-1] < values[0]


@pytest.mark.parametrize("chi", [1.0, 1.9, 3.0, 20.0])
def test_a_hard_table_under_control_never_rises(chi: float):
    """One Euler step multiplies what its log-odds are off by 1 - chi: 1.758, .105, 2.303, .105, ... for chi = 3."""
    pdg = PDG(Arc("p", (), X, SoftmaxTable([0.9, 0.1])), Arc("q", (), X, [0.1, 0.9]))
    attention = Attention.only({"p": inf, "q": 1.0})
    run = lir(pdg, steps=4, attention=attention, control=Control({"p": chi}), progress=False)
    values = np.array(run.trace.column("global_upper"))
    assert (np.diff(values) <= 1e-9).all() and values[-1] < 0.1 * values[0]


# -- 11. which share of the blame --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variance", "left"), [(1e2, 0.8137), (1e4, 0.9156), (1e8, 0.9602)])
def test_a_variance_can_keep_almost_all_of_its_blame(variance: float, left: float):
    """Tables keep at most a half."""
    pdg = PDG(Arc("p", (), U, normal(0.0, variance)), Arc("q", (), U, normal(0.0, 1.0)))
    attention = Attention.only({"p": 1.0, "q": inf})
    run = lir(pdg, steps=1, attention=attention, control=Control({"p": HALF}), progress=False)
    assert run.before.upper == pytest.approx(divergence(variance))
    assert run.after.upper == pytest.approx(divergence((variance + 1) / 2))
    assert run.after.upper / run.before.upper == pytest.approx(left, abs=1e-4)


@pytest.mark.parametrize("variance", [0.01, 0.5, 1.5, 2.0])
def test_up_to_twice_the_variance_the_share_is_that_of_tables(variance: float):
    assert all(divergence(w * variance + 1 - w) <= w * divergence(variance) for w in np.linspace(0, 1, 21))


def test_a_mean_alone_keeps_the_square_of_what_a_table_keeps():
    pdg = PDG(Arc("p", (), U, normal(3.0, 1.0)), Arc("q", (), U, normal(0.0, 1.0)))
    attention = Attention.only({"p": 1.0, "q": inf})
    run = lir(pdg, steps=3, attention=attention, control=Control({"p.b": 0.4}), progress=False)
    assert run.trace.column("global_upper") == pytest.approx([4.5 * math.exp(-0.8 * t) for t in range(4)])


# -- 12. Gaussian PDGs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chi", [0.7, 1.5])
def test_gaussian_beliefs_all_in_view_reach_zero_at_the_rate_e_to_the_minus_two_chi(chi: float):
    run = lir(beliefs(), steps=round(9 / chi), control=Control(dict.fromkeys("abcd", chi)), progress=False)
    values = np.array(run.trace.column("global_upper"))
    ratios = values[1:] / values[:-1]
    assert (ratios < 1).all()
    assert ratios[-1] == pytest.approx(math.exp(-2 * chi), rel=0.03)


def test_the_most_blamed_of_four_gaussians_takes_a_quarter_of_what_is_left():
    def most_blamed(pdg, step, generator, trace):
        blame = {row.name: row.contribution for row in inconsistency(pdg).by_arc()}
        return Focus(trace.attention, full_control(max(blame, key=blame.get)))

    values = lir(beliefs(), most_blamed, steps=3, progress=False).trace.column("global_upper")
    assert all(v <= 0.75**t * values[0] + 1e-7 for t, v in enumerate(values))


# -- 13. families that cannot say everything ---------------------------------------------------------------------------


def test_full_control_of_a_product_leaves_the_mutual_information():
    q = np.array([[0.4, 0.1], [0.2, 0.3]])
    pdg = PDG(
        Arc("p", (), (X, Y), Independent(SoftmaxTable([0.5, 0.5]), SoftmaxTable([0.5, 0.5]))), Arc("q", (), (X, Y), q)
    )
    attention = Attention.only({"p": 1.0, "q": inf})
    run = lir(pdg, Cycle(Focus(attention, full_control("p"))), steps=1, attention=attention, progress=False)
    assert run.after.upper == pytest.approx(float((q * np.log(q / np.outer(q.sum(1), q.sum(0)))).sum()))


def test_a_product_can_rest_where_it_is_not_the_least():
    """Between two modes of q, each of which it could have."""
    e = 0.001
    q = np.array([[0.5 - e, e], [e, 0.5 - e]])
    beta = 0.5

    def closed(a: float) -> float:  # p = (a, 1-a) x (a, 1-a)
        p = np.outer([a, 1 - a], [a, 1 - a])
        return -(1 + beta) * math.log((p ** (1 / (1 + beta)) * q ** (beta / (1 + beta))).sum())

    ends = {}
    for start in (0.5, 0.6):
        product = Independent(SoftmaxTable([start, 1 - start]), SoftmaxTable([start, 1 - start]))
        pdg = PDG(Arc("p", (), (X, Y), product), Arc("q", (), (X, Y), q))
        attention = Attention.only({"p": 1.0, "q": beta})
        run = lir(pdg, steps=20, attention=attention, control=Control({"p": 4.0}), progress=False)
        ends[start] = run.after.upper
        assert run.before.upper == pytest.approx(closed(start), abs=1e-7)
    least = min(closed(a) for a in np.linspace(1e-6, 0.5, 2001))
    assert ends[0.5] == pytest.approx(closed(0.5), abs=1e-7) == pytest.approx(0.5160, abs=1e-4)
    assert ends[0.6] == pytest.approx(least, abs=1e-3) == pytest.approx(0.3451, abs=1e-3)
