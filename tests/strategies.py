"""Random attended PDGs: seeded generators, and hypothesis strategies that draw their structure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st

from dissonance.answer import Solver
from dissonance.arc import Arc
from dissonance.cpds import SoftmaxTable, Table
from dissonance.focus import Attention
from dissonance.pdg import PDG
from dissonance.problem import Batch
from dissonance.solvers import SOLVERS, Newton
from dissonance.variables import Variable

NAMES = "ABCDEFGH"

OTHERS = {"concave-convex", "gaussian", "gaussian-pool", "paper", "sampled", "at-points", "bounds", "reduced"}
ON_GPU = Newton(device="cuda" if torch.cuda.is_available() else "cpu:0")
"""What is written for GPUs; asked for by number, the CPU takes the part of one."""
EXACT: list[str | Solver] = [*(name for name in SOLVERS if name not in OTHERS), ON_GPU]
"""Solvers of finite PDGs whose bounds meet; "pinned" and "sum-product" take special cases only. A new one joins."""


@dataclass(frozen=True)
class Case:
    """A PDG and the attention it is scored with."""

    pdg: PDG
    attention: Attention

    def __repr__(self) -> str:
        phi = self.attention
        return f"Case({self.pdg!r}\n  beta={dict(phi.beta)} alpha={dict(phi.alpha)} gamma={phi.gamma})"


def case_of(part: Batch) -> Case:
    """A single problem as a PDG of its arcs alone, and their weights."""
    beta, alpha = ({a.name: getattr(a, name) for a in part.arcs} for name in ("beta", "alpha"))
    return Case(PDG(*part.beliefs, variables=part.variables), Attention.only(beta, alpha, part.gamma.item()))


@dataclass(frozen=True)
class Style:
    """What the tables and weights of a random case look like."""

    zeros: float = 0.0
    sharp: float = 0.0
    hard: float = 0.0
    contradict: float = 0.0
    unattended: float = 0.0
    ratio: float = 1.0
    gammas: tuple[float, ...] = (0.0,)
    learnable: bool = False


SOFT = Style(unattended=0.1)
STRUCTURED = Style(gammas=(0.05, 0.3, 1.0))
MIXED = Style(zeros=0.1, hard=0.2, unattended=0.1, gammas=(0.0, 0.0, 0.1, 0.7))
NASTY = Style(zeros=0.2, sharp=0.4, hard=0.5, contradict=0.03, ratio=1e4, gammas=(0.0, 0.0, 0.2, 1.0))


def scope_shape(variables: Sequence[Variable]) -> tuple[int, ...]:
    """The sizes of some variables."""
    return tuple(v.size for v in variables)


def random_joint(rng: np.random.Generator, variables: Sequence[Variable], zeros: float = 0.0) -> np.ndarray:
    """A joint distribution, with about this share of its cells at 0."""
    table = rng.gamma(0.7, size=scope_shape(variables)) + 1e-3
    table[rng.random(table.shape) < zeros] = 0.0
    if table.sum() == 0:
        table[(0,) * table.ndim] = 1.0
    return table / table.sum()


def conditional_of(
    joint: np.ndarray, variables: Sequence[Variable], sources: Sequence[Variable], targets: Sequence[Variable]
) -> np.ndarray:
    """p(T|S) read off a joint, uniform where the sources have no mass."""
    axis = [list(variables).index(v) for v in (*sources, *targets)]
    rest = tuple(i for i in range(joint.ndim) if i not in axis)
    kept = sorted(axis)
    table = joint.sum(rest).transpose([kept.index(i) for i in axis])
    rows = table.reshape(math.prod(scope_shape(sources)), -1)
    total = rows.sum(1, keepdims=True)
    rows = np.where(total > 0, rows / np.where(total > 0, total, 1.0), 1 / rows.shape[1])
    return rows.reshape(table.shape)


def random_rows(rng: np.random.Generator, rows: int, width: int, style: Style) -> np.ndarray:
    """Rows of probabilities: plain, or nearly deterministic (1e-9 off the favourite)."""
    if rng.random() >= style.sharp:
        p = rng.gamma(0.8, size=(rows, width)) + 1e-2
    else:
        p = np.full((rows, width), 1e-9)
        p[np.arange(rows), rng.integers(width, size=rows)] = 1.0
    return p / p.sum(1, keepdims=True)


def random_scope(rng: np.random.Generator, variables: Sequence[Variable]) -> tuple[list[Variable], list[Variable]]:
    """Any sources (often none) and one or two targets, mostly neighbours in the list, so that trees have branches."""
    size = min(len(variables), int(rng.choice([1, 2, 2, 2, 2, 3, 3, 4])))
    start = int(rng.integers(len(variables)))
    window = [variables[(start + i) % len(variables)] for i in range(size)]
    near = rng.random() < 0.8
    order = (
        [window[i] for i in rng.permutation(size)] if near else [variables[i] for i in rng.permutation(len(variables))]
    )
    targets = int(rng.integers(1, min(2, size) + 1))
    return order[targets:size], order[:targets]


def random_variables(rng: np.random.Generator, most: int = 6) -> list[Variable]:
    """One to `most` variables of size 2 to 4, at most about a hundred joint states."""
    count = min(most, int(rng.choice([1, 2, 3, 4, 5, 5, 6, 6])))
    sizes = rng.choice([2, 2, 3, 4], size=count)
    while sizes.prod() > 108:
        sizes[sizes.argmax()] -= 1
    return [Variable(NAMES[i], int(k)) for i, k in enumerate(sizes)]


def _zeros(rng: np.random.Generator, spread: np.ndarray, p: np.ndarray, safe: np.ndarray, share: float) -> np.ndarray:
    """Set a share of the cells of p to 0, none that a safe joint state uses; every row keeps some mass."""
    flat = p.reshape(-1).copy()
    gone = rng.random(flat.size) < share
    gone[spread[safe]] = False
    rows = gone.reshape(p.shape)
    rows[rows.all(1), 0] = False
    flat[gone] = 0.0
    kept = flat.reshape(p.shape)
    return kept / kept.sum(1, keepdims=True)


def _cells(variables: Sequence[Variable], scope: Sequence[Variable]) -> np.ndarray:
    """For every joint state, the flat index of its setting of a scope."""
    grid = np.indices(scope_shape(variables)).reshape(len(variables), -1)
    where = tuple(grid[list(variables).index(v)] for v in scope)
    return np.ravel_multi_index(where, scope_shape(scope))


def fill(rng: np.random.Generator, variables: Sequence[Variable], scopes: Sequence, style: Style) -> Case:
    """Tables and weights for arcs of given scopes.

    Soft zeros leave some joint states possible, and hard arcs are read off one hidden joint on those states: the case
    has a finite inconsistency, unless the style asks for contradictions.
    """
    gamma = float(rng.choice(style.gammas))
    states = math.prod(scope_shape(variables))
    safe = rng.integers(states, size=int(rng.integers(1, 6)))
    possible = np.ones(states, dtype=bool)
    tables: list[np.ndarray] = []
    hard = rng.random(len(scopes)) < style.hard
    for (sources, targets), is_hard in zip(scopes, hard, strict=True):
        spread = _cells(variables, [*sources, *targets])
        p = random_rows(rng, math.prod(scope_shape(sources)), math.prod(scope_shape(targets)), style)
        if style.zeros and not is_hard:
            p = _zeros(rng, spread, p, safe[:0] if rng.random() < style.contradict else safe, style.zeros)
            possible &= p.reshape(-1)[spread] > 0
        tables.append(p)
    hidden = rng.gamma(0.7, size=states) + 1e-3
    if rng.random() < style.sharp:
        hidden = hidden * rng.choice([1.0, 1e-9], size=states)
    if possible.any():
        hidden = hidden * possible
    hidden = (hidden / hidden.sum()).reshape(scope_shape(variables))
    arcs: list[Arc] = []
    beta: dict[str, float] = {}
    alpha: dict[str, float] = {}
    for i, ((sources, targets), p, is_hard) in enumerate(zip(scopes, tables, hard, strict=True), 1):
        name = f"p{i}"
        alpha[name] = float(rng.choice([0.0, 0.5, 1.0]))
        beta[name] = gamma * alpha[name] + float(rng.choice([1.0, style.ratio])) * float(rng.uniform(0.1, 2.0))
        if rng.random() < style.unattended:
            beta[name] = alpha[name] = 0.0
        elif is_hard:
            beta[name] = math.inf
            if rng.random() >= style.contradict:
                p = conditional_of(hidden, variables, sources, targets)
        p = p.reshape(scope_shape([*sources, *targets]))
        arcs.append(Arc(name, sources, targets, SoftmaxTable(p) if style.learnable else Table(p)))
    return Case(PDG(*arcs, variables=variables), Attention.only(beta, alpha, gamma))


def random_case(seed: int, style: Style = SOFT, most: int = 6) -> Case:
    """A random attended PDG; the same for the same seed."""
    rng = np.random.default_rng(seed)
    variables = random_variables(rng, most)
    scopes = [random_scope(rng, variables) for _ in range(int(rng.integers(1, len(variables) + 4)))]
    return fill(rng, variables, scopes, style)


@st.composite
def cases(draw: st.DrawFn, style: Style = SOFT, most: int = 6, arcs: int = 6) -> Case:
    """A random attended PDG whose structure is drawn (and shrunk) by hypothesis and whose numbers come from a seed."""
    sizes = draw(st.lists(st.integers(2, 4), min_size=1, max_size=most).filter(lambda k: math.prod(k) <= 108))
    variables = [Variable(NAMES[i], k) for i, k in enumerate(sizes)]
    scopes = []
    for _ in range(draw(st.integers(1, arcs))):
        size = min(len(variables), draw(st.sampled_from([1, 2, 2, 2, 3, 4])))
        start = draw(st.integers(0, len(variables) - 1))
        order = draw(st.permutations([variables[(start + i) % len(variables)] for i in range(size)]))
        targets = draw(st.integers(1, min(2, size)))
        scopes.append((order[targets:], order[:targets]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return fill(rng, variables, scopes, style)


def read_off(joint: np.ndarray, variables: Sequence[Variable], scopes: Sequence) -> PDG:
    """The PDG of the conditionals of one joint: consistent by construction."""
    return PDG(
        *(Arc(f"p{i}", s, t, conditional_of(joint, variables, s, t)) for i, (s, t) in enumerate(scopes, 1)),
        variables=variables,
    )
