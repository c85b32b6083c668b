"""Numbering: which arc stands for a mechanism."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dissonance import PDG, Arc, Attention, Table, Variable
from dissonance.distributions.tree import single
from dissonance.problem import prepare
from dissonance.solvers.convex.program import new_structure


@pytest.mark.parametrize("seed", range(20))
def test_the_leader_is_the_hard_arc_that_fixes_the_mechanism_or_the_first_soft_one(seed: int):
    rng = np.random.default_rng(seed)
    x = [Variable(n, 2) for n in "ABCD"]
    arcs: list[Arc] = []
    for k in range(30):
        some = [x[i] for i in rng.permutation(4)[: rng.integers(1, 4)]]
        sources = int(rng.integers(len(some)))
        arcs.append(
            Arc(f"a{k}", some[:sources], some[sources:], Table(np.full([2] * len(some), 0.5 ** (len(some) - sources))))
        )
    pdg = PDG(*arcs)
    hard = {a.name: math.inf for a in arcs if rng.random() < 0.2}
    for c in prepare(pdg, Attention.uniform(pdg).replace(beta=hard)).parts:
        for tree in (c.tree, single(c.sizes)):
            for j, leader in enumerate(new_structure(c.shape, tree, c.hard[0], False).layout.leader.tolist()):
                same = [i for i, a in enumerate(c.arcs) if a.mechanism == c.arcs[j].mechanism]
                fixing = [i for i in same if c.arcs[i].hard]
                assert leader == (j if c.arcs[j].hard else [*fixing, *same][0])
