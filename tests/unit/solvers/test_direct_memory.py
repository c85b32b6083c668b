"""Where mu is known without optimising, a few tables must fit, and no more than that is asked for."""

from __future__ import annotations

import sys
from math import inf

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, SizeError, Variable, inconsistency
from dissonance.distributions.tree import Tree, single
from dissonance.solvers import Pinned, SumProductSolver
from dissonance.solvers.direct import message_bytes
from fresh import python


def rows(rng: np.random.Generator, *shape: int) -> np.ndarray:
    p = rng.random(shape) + 0.05
    return p / p.sum(-1, keepdims=True)


def wide(n: int) -> tuple[PDG, Attention]:
    """A hard joint over n binary variables and two hard functions of all of them: neighbours share 2^n states."""
    rng = np.random.default_rng(0)
    x = [Variable(f"X{i}", 2) for i in range(n)]
    y, z = Variable("Y", 2), Variable("Z", 2)
    joint = Arc("x", (), x, rows(rng, 2**n).reshape([2] * n))
    made = [Arc(v.name, x, v, rows(rng, *[2] * (n + 1))) for v in (y, z)]
    pdg = PDG(joint, *made, Arc("prior", (), y, [0.5, 0.5]))
    return pdg, Attention.only({"x": inf, "Y": inf, "Z": inf, "prior": 1.0})


def test_a_hard_joint_of_fourteen_variables_is_scored():
    pdg, phi = wide(14)
    result = inconsistency(pdg, phi)  # pairs of the separator's states would be 12 GiB
    p, y = (pdg[n].cpd.table().numpy() for n in ("x", "Y"))
    marginal = (p[..., None] * y).reshape(-1, 2).sum(0)
    assert result.solver == "pinned"
    assert result.upper == pytest.approx((marginal * np.log(2 * marginal)).sum(), abs=1e-12)


def test_the_budget_is_that_of_the_messages_to_the_byte():
    tree = Tree({"A": 2, "B": 3, "C": 4}, (("A", "B"), ("B", "C")), (-1, 0))
    need = 96 * (6 + 12) + 28 * 6
    assert message_bytes(tree) == need and message_bytes(single({"A": 2, "B": 3})) == 96 * 6
    rng = np.random.default_rng(0)
    a, b, c = Variable("A", 2), Variable("B", 3), Variable("C", 4)
    pdg = PDG(Arc("a", (), a, rows(rng, 2)), Arc("b", a, b, rows(rng, 2, 3)), Arc("c", b, c, rows(rng, 3, 4)))
    soft, hard = Attention.uniform(pdg, gamma=1.0), Attention.only(dict.fromkeys("abc", inf))
    for phi, solver in ((soft, SumProductSolver), (hard, Pinned)):
        found = inconsistency(pdg, phi, solver=solver(budget=2 * need))
        assert found.solver == solver().name
        need_here = message_bytes(found.answers[0].on.tree)
        inconsistency(pdg, phi, solver=solver(budget=need_here))
        with pytest.raises(SizeError, match="treewidth 1"):
            inconsistency(pdg, phi, solver=solver(budget=need_here - 1))


MEASURE = """
import numpy as np
from dissonance import PDG, Arc, Attention, Variable, inconsistency
from dissonance.solvers.direct import message_bytes

def resident(what):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(what))

rng = np.random.default_rng(0)
x = [Variable(f"X{i}", 8) for i in range(60)]
def link(i, *s):
    p = rng.random([8] * (len(s) + 1))
    return Arc(f"p{i}", [x[j] for j in s], x[i], p / p.sum(-1, keepdims=True))
def solved(n):
    pdg = PDG(link(0), *(link(i, *range(max(0, i - 4), i)) for i in range(1, n)))
    return inconsistency(pdg, Attention.uniform(pdg, gamma=1.0))
solved(4)  # libraries load at the first use
before = resident("VmRSS")
result = solved(60)
print(resident("VmHWM") - before, message_bytes(result.answers[0].on.tree), result.solver)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_peak_is_about_what_was_announced():
    done = python("-c", MEASURE)
    used, announced, solver = done.stdout.split()
    assert solver == "sum-product"
    assert 0.2 * int(announced) < int(used) < 1.2 * int(announced) + 100 * 2**20
