"""Many problems over the same arcs, in arrays: solved together, without an object for any of them.

Runs of LIR are such problems. All of them live on the junction tree of all the arcs: an arc out of attention has
beta = 0 there, so that problems that attend to different arcs stay in one batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance.arc import Arc
from dissonance.compiled import expect
from dissonance.distributions import Tree
from dissonance.distributions.tree import single
from dissonance.numerics import DTYPE
from dissonance.problem import EVEN, Bools, Shape
from dissonance.proof import Accuracy, ProvedBounds, TableRows, meeting
from dissonance.solvers.convex.layout import Ints
from dissonance.solvers.convex.program import EVERY, SECONDS_PER_CELL, Arcs, Floats, Program, Structure, structure
from dissonance.solvers.convex.solve import Outcome, Work
from dissonance.solvers.convex.support import support
from dissonance.solvers.exact import Newton
from dissonance.tolerances import FEASIBLE
from dissonance.variables import Variable, cells

Group = tuple[tuple[bool, ...], bool, str]
"""Which arcs are hard, whether gamma > 0, and which table entries are impossible (bits, in hexadecimal; none: ""): what
the structure of a problem depends on beside its arcs."""


@dataclass(frozen=True)
class Answers:
    """Of P problems: the inconsistency between bounds, Newton steps, (P,) each; mu(s,t) of every arc, (P, entries); and
    the derivative of the inconsistency in log p, (P, entries).

    The last is -beta mu(s,t) of a soft arc (envelope theorem) and mu(s) p(t|s) lambda(s,t) of a hard one with
    multipliers lambda. `blur` (P,): the rounding of the problems' numbers that is in both bounds.
    """

    lower: Tensor
    upper: Tensor
    blur: Tensor
    steps: Tensor
    joint: Tensor
    slope: Tensor

    @classmethod
    def blank(cls, count: int, entries: int, *, device: torch.device | None = None) -> Answers:
        """Answers to so many problems, to be filled in."""
        low, high = (torch.full((count,), x, dtype=DTYPE, device=device) for x in (-math.inf, math.inf))
        zeros = torch.zeros(count, entries, dtype=DTYPE, device=device)
        steps = torch.zeros(count, dtype=torch.long, device=device)
        return cls(low, high, torch.zeros_like(low), steps, zeros, zeros.clone())

    @classmethod
    def of(cls, bounds: ProvedBounds, steps: Tensor, joint: Tensor, slope: Tensor) -> Answers:
        """Answers with bounds that were proved, on the device of the others."""
        proved = [torch.from_numpy(x).to(joint.device) for x in (bounds.lower, bounds.upper, bounds.blur)]
        return cls(proved[0], proved[1], proved[2], steps, joint, slope)

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors of the answers."""
        return [getattr(self, f.name) for f in fields(self)]

    def take(self, some: Tensor) -> Answers:
        """Those of some of the problems."""
        return Answers(*(x[some] for x in self.tensors))

    def put(self, where: Tensor, other: Answers) -> None:
        """Overwrite some of them, in place."""
        for mine, theirs in zip(self.tensors, other.tensors, strict=True):
            mine[where] = theirs

    def open(self, tol: float) -> Tensor:
        """Which are neither proved to `tol` nor proved infinite, (P,)."""
        lower, upper, blur = (x.numpy(force=True) for x in (self.lower, self.upper, self.blur))
        met = meeting(lower, upper, tol, blur)
        return ~torch.from_numpy(met).to(self.lower.device)


def as_bits(dead: Bools) -> list[str]:
    """Return the impossible table entries of problems (P, entries) as bits, in hexadecimal; none: ""."""
    some = np.atleast_1d(dead.any(axis=1))
    return [bits.tobytes().hex() if any_ else "" for bits, any_ in zip(np.packbits(dead, axis=1), some, strict=True)]


MOST_TOGETHER = 1 << 14
"""Joint states of variables up to which all of them may be one cluster."""


class Stack:
    """Problems over some arcs, whatever their tables and weights; structures that were made are remembered.

    `facts` are deterministic arcs that all of them share: they say which cells are possible, and cost nothing.
    """

    def __init__(self, variables: Sequence[Variable], arcs: Sequence[Arc], facts: Sequence[Arc] = ()) -> None:
        seen = {v.name for a in (*arcs, *facts) for v in a.scope}
        self.variables, self.arcs = tuple(v for v in variables if v.name in seen), tuple(arcs)
        self.unmentioned = tuple(v for v in variables if v.name not in seen)
        self.facts = tuple(facts)
        self._structures: dict[Group, Structure | None] = {}

    @cached_property
    def plain(self) -> Group:
        """The group of problems without hard arcs and zeros at gamma = 0."""
        return (False,) * len(self.arcs), False, ""

    @cached_property
    def tree(self) -> Tree:
        """The junction tree of all the arcs; a single cluster, if facts leave no more cells there."""
        shape = self.shape(self.plain, self.facts)
        if self.facts and cells(self.variables) <= MOST_TOGETHER:
            one = single(shape.sizes)
            if self._possible(self.plain, one)[0].sum() <= self._possible(self.plain, shape.tree)[0].sum():
                return one
        return shape.tree

    @cached_property
    def _arc_of(self) -> Ints:
        """The arc of every table entry."""
        return np.repeat(np.arange(len(self.arcs)), [cells(a.scope) for a in self.arcs])

    @cached_property
    def _row(self) -> Ints:
        """The row (arc and source setting) of every table entry."""
        rows = [(cells(a.sources), cells(a.targets)) for a in self.arcs]
        widths = np.array([t for s, t in rows for _ in range(s)], dtype=np.int64)
        return np.repeat(np.arange(len(widths)), widths)

    @cached_property
    def rows(self) -> TableRows:
        """The rows of the tables of all arcs."""
        return self.shape(self.plain).rows

    def shape(self, group: Group, facts: Sequence[Arc] = ()) -> Shape:
        """What all problems of a group have in common beside their zeros; with facts, if these are to count as arcs."""
        hard = np.array([*group[0], *(False for _ in facts)], dtype=np.bool_)
        return Shape.of(self.variables, (*self.arcs, *facts), hard, group[1])

    @cached_property
    def _ruled_out(self) -> Bools:
        """Which entries of the tables of facts are impossible."""
        return np.concatenate([a.log_table().ravel().numpy() == -math.inf for a in self.facts] or [EVERY])

    def _possible(self, group: Group, tree: Tree) -> tuple[Bools, bool]:
        """Which cells of a tree can carry mass, and whether any can."""
        whole = structure(self.shape(group, self.facts), tree)
        expect(SECONDS_PER_CELL * tree.cells)
        return support(whole.layout, np.concatenate([self.ruled_out(group), self._ruled_out]))

    def ruled_out(self, group: Group) -> Bools:
        """Return the table entries that problems of a group take for impossible, (entries,)."""
        found = np.zeros(len(self._row), dtype=np.bool_)
        bits = np.unpackbits(np.frombuffer(bytes.fromhex(group[2]), dtype=np.uint8))[: len(found)]
        found[: len(bits)] = bits
        return found

    def structure(self, group: Group) -> Structure | None:
        """What all problems of a group share; None if nothing is possible."""
        if group not in self._structures:
            alive, possible = self._possible(group, self.tree) if group[2] or self.facts else (EVERY, True)
            alive = EVERY if alive.all() else alive
            self._structures[group] = structure(self.shape(group), self.tree, alive) if possible else None
        return self._structures[group]

    def possible(self, group: Group) -> Structure:
        """The same of a group in which something is."""
        found = self.structure(group)
        assert found is not None
        return found

    def groups(self, a: Arcs) -> dict[Group, Ints]:
        """The numbers of the problems of each group: those with the same hard arcs and the same zeros."""
        hard, structural, zero = a.beta == math.inf, a.gamma > 0, a.log_p == -math.inf
        if not hard.any() and not zero.any() and (not structural.any() or structural.all()):
            return {(self.plain[0], bool(structural[:1].any()), ""): np.arange(len(structural))}
        dead = [""] * len(structural)
        if zero.any():
            dead = as_bits(zero & (a.beta > 0)[:, self._arc_of])
        found: dict[Group, list[int]] = {}
        for k, (h, g) in enumerate(zip(hard.tolist(), structural.tolist(), strict=True)):
            found.setdefault((tuple(h), g, dead[k]), []).append(k)
        return {group: np.array(some) for group, some in found.items()}

    def convex(self, group: Group, a: Arcs) -> Bools:
        """Which problems of a group are convex and bounded, (P,)."""
        if not group[1] and (a.beta >= 0).all():
            return np.ones(len(a.gamma), dtype=np.bool_)
        whole = self.possible((*group[:2], ""))
        size = whole.weights(Arcs(a.log_p, np.abs(a.beta), -np.abs(a.alpha), a.gamma))
        unbounded = (a.log_p == -math.inf) & (a.beta < 0)[:, whole.arc_of]
        return (whole.weights(a) >= -EVEN * size).all(1) & ~unbounded.any(1)

    def solve(
        self, group: Group, a: Arcs, solver: Newton, near: Floats | None = None, known: Bools | None = None
    ) -> tuple[Answers, Floats | None]:
        """Answers to convex problems of one group, and where they stopped, (P, point).

        `near` (P, point): where nearby problems stopped, if that is `known` (P,). One that does not lead to a tight
        proof is forgotten, and the problem solved afresh.
        """
        s = self.structure(group)
        if s is None:
            none = Answers.blank(*a.log_p.shape)
            none.lower[...] = math.inf
            return none, None
        tol = 1e-2 * solver.tol  # mu is only as good as the root of the gap
        outcome = solver.run(Program(s, s.numbers(a)), tol, 0.5 * solver.tol, near, known)
        return self.read(s, a, outcome), outcome.at

    def proved(self, s: Structure, a: Arcs, low: Floats, high: Floats, **how: Any) -> ProvedBounds:
        """Return what a solver's numbers (P,) prove of problems of a structure: see `ProvedBounds.proved`."""
        logs, possible = a.log_p, s.layout.table[s.layout.table >= 0]
        if len(possible) < logs.shape[1]:
            logs = np.full_like(logs, -math.inf)
            logs[:, possible] = a.log_p[:, possible]
        accuracy = Accuracy(self.rows, logs, a.beta, a.alpha, a.gamma)
        bounds = ProvedBounds.proved(accuracy, low, high, tol=math.inf, **how)
        return bounds.plus(ProvedBounds.entropy(self.unmentioned, a.gamma)) if self.unmentioned else bounds

    def read(self, s: Structure, a: Arcs, outcome: Outcome) -> Answers:
        """Bounds, mu(s,t) and derivatives of what was solved."""
        joint, hard = s.joint(outcome.mu), s.layout.hard[s.arc_of]
        slope = -np.where(hard, 0.0, a.beta[:, s.arc_of]) * joint
        if s.hard:
            mass = np.add.reduceat(joint, np.flatnonzero(np.diff(self._row, prepend=-1)), axis=1)[:, self._row]
            slope = np.where(hard, mass * np.exp(a.log_p) * s.spread_multipliers(s.y(outcome.at)), slope)
        low, high, residual = outcome.bounds.T
        bounds = self.proved(s, a, low, high, broken=residual, contradicted=outcome.contradiction > 0)
        slope = np.where(np.isfinite(bounds.upper)[:, None], slope, 0.0)
        return Answers.of(bounds, *map(torch.from_numpy, (outcome.steps, joint, slope)))

    def settle(self, group: Group, a: Arcs, solver: Newton) -> tuple[Floats, Bools]:
        """mu (P, cells) of problems of one group whose last step moved it by next to nothing; for which it is fine."""
        s = self.possible(group)
        work = Work(s, s.numbers(a))
        work.settle(np.full(len(a.gamma), 1e-12), 1e-9, 30)
        work.certify()
        mu, bounds = work.proved, work.bounds
        if not s.hard:  # mu is some distribution at least
            return mu, np.ones(len(mu), dtype=np.bool_)
        near = bounds[:, 1] - bounds[:, 0] <= solver.tol * np.maximum(1.0, np.abs(bounds[:, 1]))
        return mu, near & (bounds[:, 2] <= FEASIBLE)
