"""One sweep: the foci of a colour solved together and moved together, colour after colour, in place.

Foci of one colour have no arc in common: each step reads and writes the tables of its own arcs, so that all at once is
the same as one after another in any order, which is Algorithm 1.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc
from dissonance.columns import ColumnarPDG
from dissonance.errors import FormatError
from dissonance.io import sealed
from dissonance.lir.local import MASS
from dissonance.lir.sweep.neighbourhoods import FociBatch
from dissonance.problem import Batch
from dissonance.solvers import Newton
from dissonance.solvers.front import Starts, solve_rows, start_key
from dissonance.threads import side_by_side
from dissonance.variables import Variable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Near = tuple[Floats, npt.NDArray[np.bool_]]
"""Where the solver stopped, (foci, point), and for which foci that is known, (foci,)."""

WHAT = "a checkpoint"

Turn = AbstractContextManager[Any]
ALONE = nullcontext()
"""Nobody else reads or writes these tables."""

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

    @classmethod
    def of(cls, colours: Sequence[Sequence[Visit]]) -> Swept:
        """What the visits of each colour add up to."""
        every = [v for visits in colours for v in visits]
        first = colours[0] if colours else ()
        lower, upper = (total(x for v in every for x in getattr(v, name)) for name in ("lower", "upper"))
        return cls(lower, upper, sum(v.steps for v in every), total(x for v in first for x in v.lower))


class Visit(NamedTuple):
    """What some foci came to: the sums of their bounds, exactly, and Newton steps."""

    lower: list[float]
    upper: list[float]
    steps: int


def exactly(values: Floats) -> list[float]:
    """A few numbers whose sum is that of the values without any rounding, so that sums of sums do not depend on how the
    values were cut into parts; of what is not finite, the plain sum."""
    if not np.isfinite(values).all():
        return [float(values.sum())]
    left, found = values.tolist(), list[float]()
    while rest := math.fsum(left):
        found.append(rest)
        left.append(-rest)
    return found


def total(parts: Iterable[float]) -> float:
    """The sum, rounded once."""
    held = list(parts)
    return math.fsum(held) if all(map(math.isfinite, held)) else sum(held)


class SweepTables:
    """Tables of arcs, log p of (n, source settings, target settings) column by column, and how much each arc counts
    and may move: arrays of `xp`, which is numpy here and torch in `on_device.py`."""

    xp: Any = np
    log_p: list[Any]

    def __init__(self, log_p: Sequence[Floats], beta: Floats, chi: Floats) -> None:
        self.log_p, self.beta, self.chi = list(log_p), beta, chi
        self.first: Ints = np.concatenate([[0], np.cumsum([len(x) for x in log_p])]).astype(np.int64)

    @classmethod
    def of(cls, pdg: ColumnarPDG, beta: Floats, chi: Floats) -> SweepTables:
        """Those of all arcs of a PDG in columns."""
        return cls([np.ascontiguousarray(c.log_p.numpy()) for c in pdg.columns], beta, chi)

    def column_of(self, arcs: Ints) -> Ints:
        """The column of each arc."""
        return np.searchsorted(self.first, arcs, side="right") - 1

    def rows(self, arcs: Ints) -> list[Ints]:
        """The rows of arcs, which are in order, in each of the columns."""
        cuts = np.searchsorted(arcs, self.first)
        return [arcs[a:b] - f for a, b, f in zip(cuts, cuts[1:], self.first, strict=False)]

    def take(self, arcs: Ints) -> SweepTables:
        """A copy of some of them, in order."""
        kept = [x[rows] for x, rows in zip(self.log_p, self.rows(arcs), strict=True)]
        return SweepTables(kept, self.beta[arcs], self.chi[arcs])

    def array(self, x: Ints) -> Any:
        """Return an array of `xp`."""
        return np.asarray(x)

    def on_host(self, x: Any) -> Tensor:
        """One of its arrays as a tensor on the CPU."""
        return torch.from_numpy(x)

    def shape(self, spec: ShapeSpec, solver: Newton) -> FociShape:
        """What foci of this shape have in common, ready to be solved."""
        return FociShape(spec, solver)

    def visited(self, pieces: Sequence[Piece], tol: float, move: bool) -> list[Visit]:
        """The foci of one colour, side by side."""
        return visited(pieces, self, tol, move)

    def sum_of(self, values: Any) -> list[float]:
        """Return numbers that add up to the sum of the values; see `exactly`."""
        return exactly(values)

    def copied(self) -> SweepTables:
        """The same, to be moved."""
        return SweepTables([x.copy() for x in self.log_p], self.beta, self.chi)

    def put(self, arcs: Ints, log_p: Sequence[Floats]) -> None:
        """Overwrite the tables of some arcs, in order, in place."""
        for mine, rows, theirs in zip(self.log_p, self.rows(arcs), log_p, strict=True):
            mine[rows] = theirs

    def apart(self, start: Sequence[Floats]) -> list[float]:
        """The total variation of all rows of all tables from those of the start, added up exactly."""
        far = [
            0.5 * np.abs(np.exp(x) - np.exp(y)).reshape(len(x), math.prod(x.shape[1:])).sum(1)
            for x, y in zip(self.log_p, start, strict=True)
        ]
        return exactly(np.concatenate([np.zeros(0), *far]))


@dataclass(frozen=True)
class ShapeSpec:
    """A shape of foci: the column and the scope of each arc, how many variables of the scope are sources, and the size
    of each variable."""

    columns: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    cuts: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, pdg: ColumnarPDG, tables: SweepTables, batch: FociBatch) -> ShapeSpec:
        """That of the foci of a batch."""
        columns = tuple(tables.column_of(batch.arcs[0]).tolist())
        cuts = tuple(int(pdg.columns[k].sources.shape[1]) for k in columns)
        return cls(columns, batch.scopes, cuts, tuple(pdg.sizes[batch.variables[0]].tolist()))


class SolvedFoci(NamedTuple):
    """What was found of some foci: bounds and Newton steps, (foci,) each, and mu(s,t), (foci, entries)."""

    lower: Any
    upper: Any
    steps: Any
    joint: Any


class FociShape:
    """What foci of one shape have in common: their arcs as problems of one structure."""

    def __init__(self, spec: ShapeSpec, solver: Newton) -> None:
        self.solver, self.columns = solver, spec.columns
        variables = [Variable(f"X{i}", n) for i, n in enumerate(spec.sizes)]
        arcs: list[Arc] = []
        self.parts: list[tuple[slice, tuple[int, int]]] = []
        begin = 0
        for j, (scope, cut) in enumerate(zip(spec.scopes, spec.cuts, strict=True)):
            shape = tuple(spec.sizes[i] for i in scope)
            settings = math.prod(shape[:cut]), math.prod(shape[cut:])
            even = torch.full(shape, 1 / settings[1], dtype=numerics.DTYPE)
            arcs.append(Arc(f"a{j}", [variables[i] for i in scope[:cut]], [variables[i] for i in scope[cut:]], even))
            self.parts.append((slice(begin, begin + math.prod(shape)), settings))
            begin += math.prod(shape)
        self.blank = Batch.over(variables, arcs)
        self.structure = solver.structure(self.blank)  # made before threads ask for it
        assert self.structure is not None
        self.point, self.plain = self.structure.flat_layout[1].point, start_key(solver, self.blank)

    most: int = CHUNK
    """Foci that are solved and moved as one piece of work."""

    def solve(self, log_p: Floats, beta: Floats, near: Near | None) -> tuple[SolvedFoci, Near]:
        """Return what was found, and where the solver stopped. Each focus is solved by itself, whatever it is solved
        together with; one with impossible entries starts afresh every time."""
        none = np.zeros(len(beta))
        batch, plain = self.blank.with_numbers(log_p, beta, np.zeros_like(beta), none), self.plain
        starts = Starts(len(beta), {} if near is None else {plain: (near[0].copy(), near[1].copy())})
        found = solve_rows(batch, self.solver, starts)
        stopped = starts.points.get(plain)
        if stopped is None:
            stopped = np.zeros((len(beta), self.point)), np.zeros(len(beta), dtype=np.bool_)
        return SolvedFoci(found.bounds.lower, found.bounds.upper, found.steps, found.joint), stopped


@dataclass(eq=False)
class Piece:
    """Some foci of one shape and colour, and where the solver stopped last time."""

    shape: FociShape
    arcs: Any
    near: Any = None

    def visit(self, tables: SweepTables, tol: float, move: bool, turn: Turn = ALONE) -> Visit:
        """Solve, and move unless it is only to look. `turn`: within which tables are read, and written."""
        columns, parts, xp = self.shape.columns, self.shape.parts, tables.xp
        places = [self.arcs[:, j] - int(tables.first[k]) for j, k in enumerate(columns)]
        with turn:
            log_p = xp.concatenate(
                [tables.log_p[k][r].reshape(len(r), -1) for k, r in zip(columns, places, strict=True)], 1
            )
        beta = tables.beta[self.arcs]
        answers, near = self.shape.solve(log_p, beta, self.near)
        if move:
            self.near = near
            joint, upper = answers.joint, answers.upper
            open_ = ~(upper < tol) & xp.isfinite(upper)
            for j, (k, rows, (span, shape)) in enumerate(zip(columns, places, parts, strict=True)):
                chi = tables.chi[self.arcs[:, j]]
                if chi.any():
                    before, aim = (x[:, span].reshape(-1, *shape) for x in (log_p, joint))
                    moved = _flowed(xp, before, aim, chi * beta[:, j], open_)
                    with turn:
                        tables.log_p[k][rows] = moved
        return Visit(tables.sum_of(answers.lower), tables.sum_of(answers.upper), int(answers.steps.sum()))


def _flowed(xp: Any, log_p: Any, joint: Any, rate: Any, moves: Any) -> Any:
    """The natural flow of tables for unit time, P <- mu + (P - mu) e^(-chi beta); rows without mass stay."""
    mass = joint.sum(-1)[..., None]
    aim = joint / xp.clip(mass, 1e-300, None)
    p = aim + (xp.exp(log_p) - aim) * xp.exp(-rate)[:, None, None]
    with np.errstate(divide="ignore"):
        moved = xp.log(p / p.sum(-1)[..., None])
    free = (mass > MASS) & (rate > 0)[:, None, None] & moves[:, None, None]
    return xp.where(free, moved, log_p)


def pieces(batches: Sequence[tuple[FociShape, Any]]) -> list[Piece]:
    """Foci of several shapes, (foci, arcs) each, in pieces that are solved at once."""
    return [Piece(shape, arcs[i : i + shape.most]) for shape, arcs in batches for i in range(0, len(arcs), shape.most)]


def visited(pieces: Sequence[Piece], tables: SweepTables, tol: float, move: bool, turn: Turn = ALONE) -> list[Visit]:
    """Foci side by side: those of one colour, or all if they take turns with the tables."""
    results: list[Visit] = [Visit([], [], 0)] * len(pieces)

    def work(i: int) -> None:
        results[i] = pieces[i].visit(tables, tol, move, turn)

    side_by_side([lambda i=i: work(i) for i in range(len(pieces))])
    return results


class Sweeps:
    """The foci of a PDG in columns, ready to be visited again and again, and its tables as they are."""

    def __init__(
        self,
        pdg: ColumnarPDG,
        tables: SweepTables,
        colours: Sequence[Sequence[FociBatch]],
        solver: Newton,
        tol: float,
    ) -> None:
        self.tables, self.tol = tables, tol
        shapes: dict[ShapeSpec, FociShape] = {}
        self.colours: list[list[Piece]] = []
        for batches in colours:
            found: list[tuple[FociShape, Any]] = []
            for whole in batches:
                spec = ShapeSpec.of(pdg, tables, whole)
                if spec not in shapes:
                    shapes[spec] = tables.shape(spec, solver)
                found.append((shapes[spec], tables.array(whole.arcs)))
            self.colours.append(pieces(found))
        self.shapes = len(shapes)
        self.start = self.now = tables.copied()

    @property
    def foci(self) -> int:
        """How many there are."""
        return sum(len(p.arcs) for pieces in self.colours for p in pieces)

    def sweep(self, said: Callable[[int], None] = lambda foci: None) -> Swept:
        """Visit every focus once; `said` is told after each colour how many have been."""
        found: list[list[Visit]] = []
        for pieces in self.colours:
            found.append(self.tables.visited(pieces, self.tol, True))
            said(sum(len(p.arcs) for p in pieces))
        self.now = self.tables.copied()
        return Swept.of(found)

    def look(self) -> float:
        """What foci of the first colour prove of the whole, as it is."""
        return Swept.of([self.tables.visited(pieces, self.tol, False) for pieces in self.colours[:1]]).proved

    def apart(self) -> float:
        """The total variation of all rows from the start, after the last finished sweep."""
        return total(self.now.apart(self.start.log_p))

    def log_p(self) -> list[Tensor]:
        """The tables after the last finished sweep, column by column."""
        return [self.tables.on_host(x) for x in self.now.log_p]

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def due(self, step: int, sweeps: int) -> bool:
        """Whether a checkpoint is written after this sweep: after each."""
        return True

    def keep(self, path: str, head: dict[str, Any]) -> None:
        """Write a checkpoint that begins with this."""
        host = self.tables.on_host
        near = [None if p.near is None else [*map(host, p.near)] for ps in self.colours for p in ps]
        sealed.write_state(path, head | {"log_p": self.log_p(), "near": near})

    def begin(self, path: str, of: str) -> None:
        """A run without a checkpoint yet has nothing to prepare."""

    def kept(self, path: str) -> dict[str, Any] | None:
        """What a checkpoint holds, if it is there."""
        if Path(path).is_dir():
            raise FormatError(f"{path}: is the checkpoint of a run on a cluster. Go on with a cluster, or delete it.")
        return sealed.read_state(path, WHAT) if Path(path).exists() else None

    def resume(self, path: str, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        for mine, theirs in zip(self.tables.log_p, state["log_p"], strict=True):
            mine[...] = self.tables.array(theirs)
        self.now = self.tables.copied()
        for piece, near in zip([p for ps in self.colours for p in ps], state["near"], strict=True):
            piece.near = None if near is None else tuple(map(self.tables.array, near))


class AsynchronousSweeps(Sweeps):
    """The same foci without waiting for a colour to end: a thread that is free takes the next of them.

    A focus may then be solved while another one moves a table that both look at; that table is left where the later one
    puts it. What comes out depends on the number of threads, and on which of them is faster.
    """

    def sweep(self, said: Callable[[int], None] = lambda foci: None) -> Swept:
        """Visit every focus once; what is proved of the whole is so before anything moves."""
        proved = self.look()
        every = [p for pieces in self.colours for p in pieces]
        found = Swept.of([visited(every, self.tables, self.tol, True, threading.Lock())])
        said(self.foci)
        self.now = self.tables.copied()
        return replace(found, proved=proved)
