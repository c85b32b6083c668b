"""What the tests of the convex solver share: PDGs, programs, and one problem's matrices made from names alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from dissonance import PDG, Arc, Attention, Variable
from dissonance.compiled import engage
from dissonance.distributions import Tree
from dissonance.problem import Batch, prepare
from dissonance.solvers.convex import interior, starts
from dissonance.solvers.convex.conic import conic
from dissonance.solvers.convex.layout import BY_CELLS, GIVEN, HARD, STRUCTURAL
from dissonance.solvers.convex.program import Program, Structure
from dissonance.solvers.convex.solve import Outcome, Work, prove
from dissonance.solvers.convex.support import structure_of
from reference.feasible import least_violation
from strategies import case_of

inf = math.inf

engage()  # some tests compare bit for bit: interpreted functions round differently


def rows(rng: np.random.Generator, *shape: int, zeros: float = 0.0) -> np.ndarray:
    """Rows of probabilities, with about this share of them at 0."""
    p = rng.random(shape)
    p[rng.random(shape) < zeros] = 0.0
    p[..., 0] += 0.05
    return p / p.sum(-1, keepdims=True)


def loop(rng: np.random.Generator, zeros: float = 0.0) -> PDG:
    """Four variables in a loop with a chord, and a marginal: two clusters of three variables."""
    a, b, c, d = (Variable(n, k) for n, k in zip("ABCD", (2, 3, 2, 3), strict=True))
    return PDG(
        Arc("ab", a, b, rows(rng, 2, 3, zeros=zeros)),
        Arc("bc", b, c, rows(rng, 3, 2, zeros=zeros)),
        Arc("cd", c, d, rows(rng, 2, 3, zeros=zeros)),
        Arc("da", d, a, rows(rng, 3, 2, zeros=zeros)),
        Arc("bd", (), (b, d), rows(rng, 9, zeros=zeros).reshape(3, 3)),
    )


def chain(rng: np.random.Generator, n: int) -> PDG:
    """Neighbours that disagree about each other."""
    xs = [Variable(f"X{i}", 2) for i in range(n)]
    there = [Arc(f"f{i}", xs[i], xs[i + 1], rows(rng, 2, 2)) for i in range(n - 1)]
    back = [Arc(f"b{i}", xs[i + 1], xs[i], rows(rng, 2, 2)) for i in range(n - 1)]
    return PDG(*there, *back)


def hub(rng: np.random.Generator, leaves: int, size: int = 3) -> PDG:
    """One variable and many that disagree with it."""
    centre, others = Variable("Hub", size), [Variable(f"L{i}", 2) for i in range(leaves)]
    arcs = [Arc(f"out{i}", centre, x, rows(rng, size, 2)) for i, x in enumerate(others)]
    return PDG(*arcs, *(Arc(f"in{i}", x, centre, rows(rng, 2, size)) for i, x in enumerate(others)))


def branching(rng: np.random.Generator, wide: int = 5) -> PDG:
    """A cluster of wide^3 cells, which has several children, one of them with a child of its own."""
    a, b, c = (Variable(n, wide) for n in "ABC")
    d, e, f, g = (Variable(n, 2) for n in "DEFG")
    return PDG(
        Arc("abc", (a, b), c, rows(rng, wide, wide, wide)),
        Arc("ca", c, a, rows(rng, wide, wide)),
        Arc("bc", (), (b, c), rows(rng, wide * wide).reshape(wide, wide)),
        Arc("ad", a, d, rows(rng, wide, 2)),
        Arc("da", d, a, rows(rng, 2, wide)),
        Arc("be", b, e, rows(rng, wide, 2)),
        Arc("eb", e, b, rows(rng, 2, wide)),
        Arc("bcf", (b, c), f, rows(rng, wide, wide, 2)),
        Arc("fc", f, c, rows(rng, 2, wide)),
        Arc("dg", d, g, rows(rng, 2, 2)),
        Arc("gd", g, d, rows(rng, 2, 2)),
    )


def network(rng: np.random.Generator, wide: int = 5, zeros: float = 0.0) -> PDG:
    """A Bayesian network with clusters of wide^3 cells, each the scope of an arc, and two experts who doubt it."""
    a, b, c, d = (Variable(n, wide) for n in "ABCD")
    return PDG(
        Arc("a", (), a, rows(rng, wide)),
        Arc("ab", a, b, rows(rng, wide, wide, zeros=zeros)),
        Arc("abc", (a, b), c, rows(rng, wide, wide, wide, zeros=zeros)),
        Arc("bcd", (b, c), d, rows(rng, wide, wide, wide, zeros=zeros)),
        Arc("c", (), c, rows(rng, wide)),
        Arc("d", (), d, rows(rng, wide)),
    )


def nudged(pdg: PDG, rng: np.random.Generator, by: float = 0.002) -> PDG:
    """The same PDG with slightly other numbers."""

    def nudge(arc: Arc) -> np.ndarray:
        p = arc.log_table().exp().numpy() * np.exp(by * rng.standard_normal(arc.log_table().shape))
        return p / p.sum(tuple(range(len(arc.sources), p.ndim)), keepdims=True)

    return pdg.replace(*(Arc(a.name, a.sources, a.targets, nudge(a)) for a in pdg.arcs))


def component(pdg: PDG, attention: Attention | None = None) -> Batch:
    """The one component of a PDG."""
    (found,) = prepare(pdg, attention or Attention.uniform(pdg)).parts
    return found


def supported(c: Batch, tree: Tree | None = None) -> Structure | None:
    """The structure of a component on a tree, without the cells that can carry no mass; None if none can."""
    return structure_of(c, tree or c.tree)


def program(components: Sequence[Batch] | Batch, tree: Tree | None = None) -> Program:
    """Components that share their support, as one program."""
    whole = components if isinstance(components, Batch) else Batch.together(components)
    assert len(whole.groups()) == 1
    found = structure_of(whole, tree or whole.tree)
    assert found is not None
    return Program(found, found.numbers(whole))


def violation_of(c: Batch) -> float:
    """The least that any mu is off the hard arcs."""
    case = case_of(c)
    return least_violation(case.pdg, case.attention)


def at_gamma(c: Batch, gamma: float) -> Batch:
    """The same problem at another gamma."""
    return c.with_numbers(c.log_p, c.beta, c.alpha, np.array([gamma]))


def spread(program: Program, value: float = 1e-10) -> np.ndarray:
    """The same number for every problem."""
    return np.full(len(program), value)


def by_clarabel(c: Batch, tol: float = 1e-9) -> Outcome:
    """Bounds from where Clarabel stops."""
    one = program(c)
    return prove(one, conic(one, tol)[0])


def started(program: Program, at: np.ndarray | None = None) -> Work:
    """Room for a program, at a cold start or at given points (P, point)."""
    work = Work(program.structure, program.numbers, at)
    if at is None:
        for row in work.rows():
            starts.cold(*row)
    return work


Iterated = tuple[Work, np.ndarray]


def iterated(
    program: Program, tol: float, most: int = 60, at: np.ndarray | None = None, start: int = interior.HERE
) -> Iterated:
    """Newton steps from a cold start or from given points: the room, and how many steps each problem took."""
    work = started(program, at)
    taken = np.zeros(len(work.X), dtype=np.int64)
    work.newton(np.full(len(work.X), tol), start, most, taken=taken)
    return work, taken


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled function as it stands: it calls what its module names, patched or not."""
    plain = getattr(function, "py_func", None) or getattr(function, "__wrapped__", function)

    def run(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return plain(*args)

    return run


def forced(s: Structure, way: np.ndarray) -> Structure:
    """The same structure with its clusters eliminated these ways."""
    lay, size, absorbed = s.layout, np.diff(s.layout.cell_at).copy(), np.full(len(way), -1)
    entries = np.diff(lay.entry_at[lay.row_at])
    for k in np.flatnonzero(way != BY_CELLS):
        terms = np.arange(lay.term_at[k], lay.term_at[k + 1])
        if way[k] == GIVEN:
            assert lay.kind[terms[-1]] == STRUCTURAL
            terms = terms[:-1]
        whole = [t for t in terms if entries[t] == size[k] and lay.kind[t] != HARD]
        absorbed[k] = whole[-1] if whole else -1
        size[k] = (2 if way[k] == GIVEN else 1) * (lay.unknown_at[k + 1] - lay.unknown_at[k])
        size[k] += sum(entries[t] for t in terms if t != absorbed[k])
        size[k] += sum(np.diff(lay.unknown_at)[c] for c in np.flatnonzero(lay.parent == k))
    starts = [np.concatenate([[0], np.cumsum(x)]) for x in (size**2, size)]
    found = s.fronts._replace(way=way, size=size, absorbed=absorbed, front_at=starts[0], vector_at=starts[1])
    return replace(s, fronts=found)


class Dense:
    """One problem on a tree written out from its definition, the names of variables and the tables of arcs.

    B mu = e: neighbours that agree, roots of mass 1. T mu: an entry for every (s, t) of every term. Of the structure
    only which cells are there is used; the order is that of `layout.py`: clusters, then ascending settings.
    """

    def __init__(self, c: Batch, s: Structure) -> None:
        tree, lay, gamma = s.tree, s.layout, c.gamma.item()
        self.component = c
        place = [
            np.stack(np.unravel_index(lay.full[lay.cell_at[k] : lay.cell_at[k + 1]], shape), 1)
            for k, shape in enumerate(tree.shapes)
        ]
        at, n = np.concatenate([[0], np.cumsum([len(x) for x in place])]), sum(len(x) for x in place)

        def settings(k: int, scope: Sequence[str]) -> np.ndarray:
            """Which setting of a scope every cell of cluster k has."""
            found = np.zeros(len(place[k]), dtype=np.int64)
            for v in scope:
                found = found * c.sizes[v] + place[k][:, tree.clusters[k].index(v)]
            return found

        blocks, ends = list[np.ndarray](), list[float]()
        for k, p in enumerate(lay.parent.tolist()):
            shared = [v for v in tree.clusters[k] if p >= 0 and v in tree.clusters[p]]
            mine = settings(k, shared)
            for state in np.unique(mine):
                row = np.zeros(n)
                row[at[k] : at[k + 1]] += mine == state
                if p >= 0:
                    row[at[p] : at[p + 1]] -= settings(p, shared) == state
                blocks.append(row)
                ends.append(1.0 if p < 0 else 0.0)
        self.B, self.e = np.array(blocks), np.array(ends)

        self.c = np.zeros(n)
        entries, row, weight, hard, p_hard = list[np.ndarray](), list[int](), list[float](), list[bool](), list[float]()

        def term(k: int, scope: Sequence[str], sources: int, w: float, table: np.ndarray | None) -> None:
            mine, by_source = settings(k, scope), settings(k, scope[:sources])
            before = max(row, default=-1) + 1
            for x in np.unique(mine):
                e = np.zeros(n)
                e[at[k] : at[k + 1]] = mine == x
                entries.append(e)
                row.append(before + int(by_source[mine == x][0]))
                weight.append(w)
                hard.append(table is not None)
                p_hard.append(0.0 if table is None else float(table.reshape(-1)[x]))

        fixed = {a.mechanism: a for a in reversed(c.arcs) if a.hard}
        for k, cluster in enumerate(tree.clusters):
            done = set[object]()
            for a in (a for a in c.arcs if tree.home(a.scope) == k):
                log_p = a.log_p.reshape(-1)[settings(k, a.scope)]
                lead = fixed.get(a.mechanism)
                if a.hard:
                    self.c[at[k] : at[k + 1]] -= gamma * a.alpha * log_p
                    term(k, a.scope, len(a.sources), 0.0, np.exp(a.log_p))
                    continue
                if a.beta:
                    self.c[at[k] : at[k + 1]] -= a.beta * log_p
                if lead is not None:
                    self.c[at[k] : at[k + 1]] += (a.beta - gamma * a.alpha) * lead.log_p.reshape(-1)[
                        settings(k, lead.scope)
                    ]
                elif a.mechanism not in done:
                    done.add(a.mechanism)
                    same = [b for b in c.arcs if b.mechanism == a.mechanism]
                    term(k, a.scope, len(a.sources), sum(b.beta - gamma * b.alpha for b in same), None)
            if gamma > 0:
                p = int(lay.parent[k])
                shared = [v for v in cluster if p >= 0 and v in tree.clusters[p]]
                rest = [v for v in cluster if v not in shared]
                term(k, [*shared, *rest], len(shared), gamma, None)
        self.T = np.array(entries).reshape(len(entries), n)
        self.row = np.array(row, dtype=np.int64)
        self.W, self.hard, self.p = np.array(weight), np.array(hard, dtype=bool), np.array(p_hard)

    @cached_property
    def same(self) -> np.ndarray:
        """Which entries are of one row."""
        return (self.row[:, None] == self.row[None, :]).astype(float)

    def q(self, y: np.ndarray) -> np.ndarray:
        """The conditionals of soft entries, p of hard ones."""
        q = np.exp(y)
        return np.where(self.hard, self.p, q / (self.same @ np.where(self.hard, 1.0, q)))

    def V(self, q: np.ndarray) -> np.ndarray:
        """1[x in (s,t)] - q(t|s) 1[x in s]."""
        return self.T - q[:, None] * (self.same @ self.T)

    def slack(self, y: np.ndarray, d: np.ndarray) -> np.ndarray:
        """c + W log q + sum_children d_c - d - (lam - sum_t p lam), at every cell."""
        q = self.q(y)
        log_q = np.where(self.hard, 0.0, np.log(np.where(self.hard, 1.0, q)))
        return self.c + self.T.T @ (self.W * log_q) - self.B.T @ d - self.V(q).T @ np.where(self.hard, y, 0.0)

    def cost(self, mu: np.ndarray) -> float:
        """c . mu + sum of W m log(m/s)."""
        m = self.T @ mu
        ratio = np.where(m > 0, m, 1.0) / np.where(m > 0, self.same @ m, 1.0)
        return float(self.c @ mu + (self.W * m * np.log(ratio)).sum())
