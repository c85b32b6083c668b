"""From a component and a junction tree to the arrays of its program."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dissonance.distributions.tree import Scope, Tree
from dissonance.problem import Array, Attended, Component
from dissonance.solvers.program import HardRows, Program
from dissonance.solvers.support import Ints, settings, supports


def assemble(component: Component, tree: Tree) -> Program | None:
    """The program of a component on a tree, or None if its zeros leave no joint state.

    Mechanisms of negative weight are left out: the concave-convex procedure adds their tangents to c.
    """
    states = supports(component, tree)
    if states is None:
        return None
    made = _Assembly(tree, states)
    fixed = {a.mechanism: a for a in reversed(component.arcs) if a.hard}
    for a in component.arcs:
        made.cost(a, linear_cost(a, fixed.get(a.mechanism), component.gamma))
    first = {a.mechanism: a for a in reversed(component.arcs) if not a.hard}
    for mechanism, weight in component.weights.items():
        if weight > 0:
            a = first[mechanism]
            made.terms(made.home(a.scope), a.sources, a.targets, weight, np.exp(a.log_p))
    structural = made.term_count
    if component.gamma > 0:
        for i, (cluster, separator) in enumerate(zip(tree.clusters, tree.separators, strict=True)):
            made.terms(i, separator, tuple(v for v in cluster if v not in separator), component.gamma, None)
    for i, p in enumerate(tree.parent):
        if p < 0:
            made.root(i)
        else:
            made.separator(i)
    hard = tuple(made.hard(a) for a in component.arcs if a.hard)
    return made.program(hard, structural, component.gamma)


def linear_cost(arc: Attended, fixed: Attended | None, gamma: float) -> Array:
    """What an arc adds to c on its (s, t) cells, beside its entropy term.

    Soft: -beta log p. Hard: gamma alpha H(T|S) = -gamma alpha sum mu log p. Where a hard arc fixes the conditional, the
    entropy term of a soft arc with the same (S, T) is linear too: (beta - gamma alpha) log p_hard.
    """
    cost = _times(-gamma * arc.alpha if arc.hard else -arc.beta, arc.log_p)
    if fixed is not None and not arc.hard:
        order = [fixed.scope.index(v) for v in arc.scope]
        log_p = fixed.log_p.transpose(order)
        possible = np.where(log_p > -np.inf, log_p, 0.0)  # a cell the hard arc forbids is dropped, whatever it costs
        cost = cost + _times(arc.beta - gamma * arc.alpha, possible)
    return cost


def _times(weight: float, log_p: Array) -> Array:
    return weight * log_p if weight else np.zeros_like(log_p)


class _Assembly:
    """Collects costs, terms and equations cluster by cluster."""

    def __init__(self, tree: Tree, states: list[Ints]) -> None:
        self.tree, self.states = tree, states
        self.full = [len(s) == math.prod(shape) for s, shape in zip(states, tree.shapes, strict=True)]
        self.offset = np.concatenate([[0], np.cumsum([len(s) for s in states])]).astype(np.int64)
        self.c = np.zeros(int(self.offset[-1]))
        self.term_count = self.row_count = self.equation_count = 0
        self.T: list[tuple[Ints, Ints]] = []
        self.A: list[tuple[Ints, Ints, Array]] = []
        self.row: list[Ints] = []
        self.W: list[Array] = []
        self.start: list[Array] = []
        self.roots: list[int] = []
        self.up: list[Ints] = []
        self.down: list[Ints] = []

    def home(self, scope: Scope) -> int:
        """The cluster an arc lives in."""
        found = self.tree.home(scope)
        assert found is not None
        return found

    def index(self, cluster: int, scope: Scope) -> Ints:
        """For every supported cell of a cluster, the flat index of its setting of a scope."""
        every = settings(self.tree, cluster, scope)
        return every if self.full[cluster] else every[self.states[cluster]]

    def span(self, cluster: int) -> Ints:
        """Where the cells of a cluster stand in mu."""
        return np.arange(self.offset[cluster], self.offset[cluster + 1])

    def cost(self, arc: Attended, cost: Array) -> None:
        """Add a linear cost over an arc's cells."""
        i = self.home(arc.scope)
        self.c[self.offset[i] : self.offset[i + 1]] += cost.reshape(-1)[self.index(i, arc.scope)]

    def terms(self, cluster: int, sources: Scope, targets: Scope, weight: float, guess: Array | None) -> None:
        """The terms weight * m log(m/s) of one mechanism; `guess` is a first idea of p(T|S)."""
        width = math.prod(self.tree.sizes[t] for t in targets)
        used, inverse = np.unique(self.index(cluster, (*sources, *targets)), return_inverse=True)
        rows, row = np.unique(used // width, return_inverse=True)
        self.T.append((inverse + self.term_count, self.span(cluster)))
        self.row.append(row + self.row_count)
        self.W.append(np.full(len(used), weight))
        self.start.append(np.zeros(len(used)) if guess is None else np.log(0.9 * guess.reshape(-1)[used] + 0.05))
        self.term_count += len(used)
        self.row_count += len(rows)

    def equations(self, row: Ints, cell: Ints, value: Array, count: int) -> int:
        """`count` rows of A; returns the number of the first."""
        first = self.equation_count
        self.A.append((row + first, cell, value))
        self.equation_count += count
        return first

    def root(self, cluster: int) -> None:
        """The mass of a root is 1."""
        span = self.span(cluster)
        self.roots.append(self.equations(np.zeros_like(span), span, np.ones(len(span)), 1))
        self.up.append(np.zeros(0, dtype=np.int64))
        self.down.append(np.zeros(0, dtype=np.int64))

    def separator(self, child: int) -> None:
        """A child and its parent give every separator state the same mass."""
        parent, scope = self.tree.parent[child], self.tree.separators[child]
        below, above = self.index(child, scope), self.index(parent, scope)
        count = math.prod(self.tree.sizes[v] for v in scope)
        if not (self.full[child] and self.full[parent]):
            seen, both = np.unique(np.concatenate([below, above]), return_inverse=True)
            below, above, count = both[: len(below)], both[len(below) :], len(seen)
        cell = np.concatenate([self.span(child), self.span(parent)])
        value = np.concatenate([np.ones(len(below)), -np.ones(len(above))])
        self.equations(np.concatenate([below, above]), cell, value, count)
        self.up.append(below)
        self.down.append(above)

    def hard(self, arc: Attended) -> HardRows:
        """mu(s,t) - p(t|s) mu(s) = 0, for every t but the likeliest of each s: that one is implied."""
        i = self.home(arc.scope)
        width = math.prod(self.tree.sizes[t] for t in arc.targets)
        p = np.exp(arc.log_p).reshape(-1, width)
        s, t = np.divmod(self.index(i, arc.scope), width)
        needed = p > 0
        needed[np.arange(len(p)), p.argmax(1)] = False
        unused = np.ones(len(p), dtype=np.bool_)
        unused[s] = False
        needed[unused] = False
        number = (np.cumsum(needed) - 1).reshape(needed.shape)
        cell, value_of = np.nonzero(needed[s])
        value = (t[cell] == value_of) - p[s[cell], value_of]
        first = self.equations(number[s[cell], value_of], self.span(i)[cell], value, int(needed.sum()))
        return HardRows(arc, first, np.flatnonzero(needed))

    def program(self, hard: tuple[HardRows, ...], structural: int, gamma: float) -> Program:
        """Everything collected, as arrays."""
        n = len(self.c)
        term, cell = (_join([x[i] for x in self.T], np.int64) for i in range(2))
        row, column = (_join([x[i] for x in self.A], np.int64) for i in range(2))
        b = np.zeros(self.equation_count)
        b[self.roots] = 1.0
        return Program(
            tree=self.tree,
            states=tuple(self.states),
            c=self.c,
            T=sp.csr_matrix((np.ones(len(term)), (term, cell)), shape=(self.term_count, n)),
            row=_join(self.row, np.int64),
            W=_join(self.W, np.float64),
            A=sp.csr_matrix((_join([x[2] for x in self.A], np.float64), (row, column)), shape=(self.equation_count, n)),
            b=b,
            hard=hard,
            up=tuple(self.up),
            down=tuple(self.down),
            start=_join(self.start, np.float64),
            structural=structural,
            gamma=gamma,
        )


def _join(parts: list[Any], dtype: type) -> npt.NDArray[Any]:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.zeros(0, dtype=dtype)
