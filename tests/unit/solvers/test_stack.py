"""Problems in arrays against Clarabel, one by one, and derivatives against differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from dissonance.solvers.stack import Answers, Stack

from dissonance import PDG, Arc, Attention, Variable, inconsistency
from dissonance.solvers import CliqueTreeSolver, Newton
from dissonance.solvers.convex.program import Arcs

A, B, C = Variable("A", 2), Variable("B", 3), Variable("C", 2)
SCOPES = [((), A), ((A,), B), ((B,), C), ((C,), A), ((), B)]


def tables(rng: np.random.Generator) -> list[np.ndarray]:
    shapes = [(*(v.size for v in s), t.size) for s, t in SCOPES]
    drawn = [rng.uniform(0.05, 1.0, shape) for shape in shapes]
    return [x / x.sum(-1, keepdims=True) for x in drawn]


def pdg(cpds: list[np.ndarray]) -> PDG:
    return PDG(*(Arc(f"a{i}", s, t, p) for i, ((s, t), p) in enumerate(zip(SCOPES, cpds, strict=True))))


def problems() -> tuple[list[PDG], list[Attention]]:
    """Soft, hard, with a zero, out of attention, with structure; two of each."""
    rng = np.random.default_rng(5)
    pdgs: list[PDG] = []
    attentions: list[Attention] = []
    for k in range(10):
        cpds, beta, gamma = tables(rng), rng.uniform(0.5, 2.0, 5), 0.0
        if k % 5 == 1:
            beta[4] = math.inf
        if k % 5 == 2:
            cpds[1][0] = [0.5, 0.5, 0.0]
        if k % 5 == 3:
            beta[2] = 0.0
        if k % 5 == 4:
            gamma = 0.3
        pdgs.append(pdg(cpds))
        names = [a.name for a in pdgs[-1]]
        attentions.append(
            Attention.only(dict(zip(names, beta.tolist(), strict=True)), dict.fromkeys(names, 1.0), gamma)
        )
    return pdgs, attentions


def arrays(pdgs: list[PDG], attentions: list[Attention]) -> Arcs:
    return Arcs(
        np.stack([torch.cat([a.log_table().reshape(-1) for a in p]).numpy() for p in pdgs]),
        np.array([list(a.beta.values()) for a in attentions]),
        np.array([list(a.alpha.values()) for a in attentions]),
        np.array([a.gamma for a in attentions]),
    )


def solved(stack: Stack, arcs: Arcs, tol: float = 1e-7) -> Answers:
    found = Answers.blank(*arcs.log_p.shape)
    for group, some in stack.groups(arcs).items():
        answers, _ = stack.solve(group, arcs.take(some), Newton(tol, device="cpu"))
        found.put(torch.from_numpy(some), answers)
    return found


def test_every_problem_is_solved_as_clarabel_solves_it_alone():
    pdgs, attentions = problems()
    stack, arcs = Stack(pdgs[0].variables, pdgs[0].arcs), arrays(pdgs, attentions)
    assert len(stack.groups(arcs)) == 4  # what is out of attention stays with what is plain
    found = solved(stack, arcs)
    for k, (p, a) in enumerate(zip(pdgs, attentions, strict=True)):
        expected = inconsistency(p, a, solver=CliqueTreeSolver())
        assert float(found.lower[k]) <= expected.upper + 1e-9
        assert float(found.upper[k]) == pytest.approx(expected.upper, abs=2e-7)
    assert not found.open(1e-7).any()


def test_slopes_are_differences_of_values():
    pdgs, attentions = problems()
    stack, arcs = Stack(pdgs[0].variables, pdgs[0].arcs), arrays(pdgs, attentions)
    soft = np.array([4, 9])  # gamma > 0: mu* is unique, and the value smooth
    base = solved(stack, arcs.take(soft), 1e-11)
    step = 1e-5
    for entry in range(arcs.log_p.shape[1]):
        values = []
        for way in (step, -step):
            moved = arcs.take(soft)
            moved.log_p[:, entry] += way
            values.append(solved(stack, moved, 1e-11).upper)
        assert torch.allclose((values[0] - values[1]) / (2 * step), base.slope[:, entry], atol=1e-5)


def test_a_contradiction_is_infinite():
    cpds = tables(np.random.default_rng(0))
    cpds[0], cpds[3] = np.array([1.0, 0.0]), np.array([[0.0, 1.0], [0.0, 1.0]])
    made = pdg(cpds)
    arcs = arrays([made], [Attention.uniform(made)])
    found = solved(Stack(made.variables, made.arcs), arcs)
    assert float(found.lower[0]) == float(found.upper[0]) == math.inf


def test_what_is_not_convex_is_said_to_be():
    pdgs, attentions = problems()
    stack, arcs = Stack(pdgs[0].variables, pdgs[0].arcs), arrays(pdgs, attentions)
    some = np.array([4, 9])
    arcs = arcs.take(some)
    (group,) = stack.groups(arcs)
    assert stack.convex(group, arcs).all()
    arcs.beta[1, 0] = -1.0
    assert stack.convex(group, arcs).tolist() == [True, False]


def test_what_is_neither_found_nor_proved_infinite_is_open():
    assert Answers.blank(2, 1).open(1e-7).all()
    x = Variable("X", 2)
    p, q = 0.3, 0.3 + 3e-4 * 0.3 * 0.7
    two = PDG(Arc("p", (), x, [p, 1 - p]), Arc("q", (), x, [q, 1 - q]))
    found = solved(Stack(two.variables, two.arcs), arrays([two], [Attention.uniform(two, beta=math.inf)]))
    assert float(found.upper[0]) == math.inf
    assert bool(found.open(1e-7)[0]) == (float(found.lower[0]) < math.inf)
