"""One sweep: the foci of a colour solved together and moved together, colour after colour, in place.

Foci of one colour have no arc in common: each step reads and writes the tables of its own arcs, so that all at once is
the same as one after another in any order, which is Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc
from dissonance.columns import ColumnarPDG
from dissonance.lir.inner.base import Attentions
from dissonance.lir.inner.one_by_one import OneByOne
from dissonance.lir.local import MASS
from dissonance.lir.parameters import Parameters
from dissonance.lir.sweep.neighbourhoods import FociBatch
from dissonance.pdg import PDG
from dissonance.solvers import Newton
from dissonance.solvers.convex.program import Arcs
from dissonance.solvers.convex.threads import side_by_side
from dissonance.solvers.stack import Answers, Stack
from dissonance.variables import Variable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CHUNK = 4096
"""Foci that are solved and moved as one piece of work."""


@dataclass(frozen=True)
class Swept:
    """What a sweep found: the sums of the local bounds as the foci were met, Newton steps, and what foci of the first
    colour prove of the whole, before anything moved: their lower bounds add up to one of the inconsistency."""

    lower: float
    upper: float
    steps: int
    proved: float


class SweepTables:
    """log p of all arcs of a PDG in columns, (n, source settings, target settings) each, and how much each arc counts
    and may move: arrays of `xp`, which is numpy here and torch in `on_device.py`."""

    xp: Any = np
    log_p: list[Any]

    def __init__(self, pdg: ColumnarPDG, beta: Floats, chi: Floats) -> None:
        self.pdg, self.beta, self.chi = pdg, beta, chi
        self.log_p = [np.ascontiguousarray(c.log_p.numpy()) for c in pdg.columns]
        self.first: Ints = np.concatenate([[0], np.cumsum([len(c) for c in pdg.columns])]).astype(np.int64)

    def column_of(self, arcs: Ints) -> Ints:
        """The column of each arc."""
        return np.searchsorted(self.first, arcs, side="right") - 1

    def array(self, x: Tensor | Ints) -> Any:
        """As an array of `xp`."""
        return x if isinstance(x, np.ndarray) else x.numpy()

    def shape(self, batch: FociBatch, solver: Newton) -> FociShape:
        """What these foci have in common, ready to be solved."""
        return FociShape(self, batch, solver)

    def visited(self, pieces: Sequence[Piece], tol: float, move: bool) -> list[tuple[float, float, int]]:
        """What visits of foci of one colour have found: they are independent of each other."""
        found = [(0.0, 0.0, 0)] * len(pieces)

        def work(i: int) -> None:
            found[i] = pieces[i].visit(self, tol, move)

        side_by_side([lambda i=i: work(i) for i in range(len(pieces))])
        return found

    def copied(self) -> list[Any]:
        """The tables as they are now."""
        return [x.copy() for x in self.log_p]

    def put(self, log_p: Sequence[Tensor]) -> None:
        """Set all tables."""
        self.log_p = [x.numpy().copy() for x in log_p]


class FociShape:
    """What foci of one shape have in common: their arcs as problems of one structure."""

    def __init__(self, tables: SweepTables, batch: FociBatch, solver: Newton) -> None:
        self.solver = solver
        self.columns: list[int] = tables.column_of(batch.arcs[0]).tolist()
        sizes = tables.pdg.sizes[batch.variables[0]].tolist()
        variables = [Variable(f"X{i}", n) for i, n in enumerate(sizes)]
        arcs: list[Arc] = []
        for j, (k, scope) in enumerate(zip(self.columns, batch.scopes, strict=True)):
            column = tables.pdg.columns[k]
            cut, shape = column.sources.shape[1], tuple(sizes[i] for i in scope)
            even = torch.full(shape, 1 / math.prod(shape[cut:]), dtype=numerics.DTYPE)
            arcs.append(Arc(f"a{j}", [variables[i] for i in scope[:cut]], [variables[i] for i in scope[cut:]], even))
        self.stack, self._pdg = Stack(variables, arcs), PDG(*arcs, variables=variables)
        shapes = [tables.log_p[k].shape[1:] for k in self.columns]
        ends = np.cumsum([0] + [s * t for s, t in shapes]).tolist()
        self.parts = [(slice(a, b), shape) for a, b, shape in zip(ends, ends[1:], shapes, strict=False)]
        self.stack.possible(self.stack.plain)  # made before threads ask for it

    @cached_property
    def others(self) -> OneByOne:
        """The problems of foci whose bounds do not meet in the batch, solved one by one."""
        return OneByOne(Parameters([self._pdg]), self.solver)

    most: int = CHUNK
    """Foci that are solved and moved as one piece of work."""

    def solve(self, log_p: Floats, beta: Floats, near: Floats | None) -> tuple[Answers, Floats | None]:
        """Answers, and where the solver stopped, if all foci are of one group."""
        a = Arcs(log_p, beta, np.zeros_like(beta), np.zeros(len(beta)))
        groups = self.stack.groups(a)
        if len(groups) == 1:
            ((group, _),) = groups.items()
            known = None if near is None else np.ones(len(near), dtype=np.bool_)
            found, at = self.stack.solve(group, a, self.solver, near, known)
        else:
            found, at = Answers.blank(*a.log_p.shape), None
            for group, some in groups.items():
                found.put(torch.from_numpy(some), self.stack.solve(group, a.take(some), self.solver)[0])
        left = found.open(self.solver.tol)
        if left.any():
            tables, weights, alpha, gamma = (torch.from_numpy(x)[left] for x in (log_p, beta, a.alpha, a.gamma))
            found.put(left, self.others.tables(tables, Attentions(weights, alpha, gamma)))
        return found, at


@dataclass(eq=False)
class Piece:
    """Some foci of one shape and colour: the rows of their tables, and where the solver stopped last time."""

    shape: FociShape
    arcs: Any
    rows: list[Any]
    near: Any = field(default=None)

    def visit(self, tables: SweepTables, tol: float, move: bool) -> tuple[float, float, int]:
        """Solve, and move unless it is only to look; the sums of the bounds, and Newton steps."""
        columns, parts, xp = self.shape.columns, self.shape.parts, tables.xp
        log_p = xp.concatenate(
            [tables.log_p[k][r].reshape(len(r), -1) for k, r in zip(columns, self.rows, strict=True)], 1
        )
        beta = tables.beta[self.arcs]
        answers, at = self.shape.solve(log_p, beta, self.near)
        if move:
            self.near = at
            joint, upper = tables.array(answers.joint), tables.array(answers.upper)
            open_ = ~(upper < tol) & xp.isfinite(upper)
            for j, (k, rows, (span, shape)) in enumerate(zip(columns, self.rows, parts, strict=True)):
                chi = tables.chi[self.arcs[:, j]]
                if chi.any():
                    before, aim = (x[:, span].reshape(-1, *shape) for x in (log_p, joint))
                    tables.log_p[k][rows] = _flowed(xp, before, aim, chi * beta[:, j], open_)
        return float(answers.lower.sum()), float(answers.upper.sum()), int(answers.steps.sum())


def _flowed(xp: Any, log_p: Any, joint: Any, rate: Any, moves: Any) -> Any:
    """The natural flow of tables for unit time, P <- mu + (P - mu) e^(-chi beta); rows without mass stay."""
    mass = joint.sum(-1)[..., None]
    aim = joint / xp.clip(mass, 1e-300, None)
    p = aim + (xp.exp(log_p) - aim) * xp.exp(-rate)[:, None, None]
    with np.errstate(divide="ignore"):
        moved = xp.log(p / p.sum(-1)[..., None])
    free = (mass > MASS) & (rate > 0)[:, None, None] & moves[:, None, None]
    return xp.where(free, moved, log_p)


class Sweeps:
    """The foci of a PDG in columns, ready to be visited again and again."""

    def __init__(self, tables: SweepTables, colours: Sequence[Sequence[FociBatch]], solver: Newton, tol: float) -> None:
        self.tables, self.tol = tables, tol
        shapes: dict[object, FociShape] = {}
        self.colours: list[list[Piece]] = []
        for batches in colours:
            pieces: list[Piece] = []
            for whole in batches:
                key = tuple(tables.column_of(whole.arcs[0]).tolist()), whole.scopes
                if key not in shapes:
                    shapes[key] = tables.shape(whole, solver)
                shape = shapes[key]
                for begin in range(0, len(whole), shape.most):
                    arcs = whole.arcs[begin : begin + shape.most]
                    rows = [tables.array(arcs[:, j] - tables.first[k]) for j, k in enumerate(shape.columns)]
                    pieces.append(Piece(shape, tables.array(arcs), rows))
            self.colours.append(pieces)
        self.shapes = len(shapes)

    @property
    def foci(self) -> int:
        """How many there are."""
        return sum(len(p.arcs) for pieces in self.colours for p in pieces)

    def sweep(self, said: Callable[[int], None] = lambda foci: None) -> Swept:
        """Visit every focus once; `said` is told after each colour how many have been."""
        found = [self._visit(pieces, True, said) for pieces in self.colours]
        lower, upper, steps = (sum(x) for x in zip(*found, strict=True)) if found else (0.0, 0.0, 0)
        return Swept(lower, upper, int(steps), found[0][0] if found else 0.0)

    def look(self) -> float:
        """What foci of the first colour prove of the whole, as it is."""
        return self._visit(self.colours[0], False, lambda foci: None)[0] if self.colours else 0.0

    def _visit(self, pieces: Sequence[Piece], move: bool, said: Callable[[int], None]) -> tuple[float, float, int]:
        """The foci of one colour, side by side."""
        results = self.tables.visited(pieces, self.tol, move)
        said(sum(len(p.arcs) for p in pieces))
        lower, upper, steps = (math.fsum(x) for x in zip(*results, strict=True))
        return lower, upper, int(steps)
