"""The front of all solvers: problems are grouped by their pattern, split, handed to solvers, and put together again."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance.answer import Answer, Ints, Solver, added_up
from dissonance.arc import Arc
from dissonance.attended import Array
from dissonance.distributions import CliqueTree, Distribution, Product
from dissonance.distributions.extended import Extended
from dissonance.distributions.gaussian import combined
from dissonance.errors import CapabilityError
from dissonance.problem import Batch, Bools
from dissonance.proof import ProvedBounds
from dissonance.solvers import convex
from dissonance.variables import Euclidean, Variable, cells

WIDE, WIDE_ALONE = 1024, 128
"""Cells of the widest cluster up to which arcs without weight stay, so that problems that attend to different arcs are
solved together; and those of a single problem."""

LARGE = 500
"""Cells from which on a single problem is split before a solver is chosen."""

FIRST = np.zeros(1, dtype=np.int64)
"""The row of a single problem."""

_log = logging.getLogger(__name__)


def solve_parts(
    parts: Sequence[Batch],
    solver: Solver,
    *,
    near: Sequence[Answer] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Answer]:
    """Return the answers to single connected problems; those of one pattern are solved together.

    `near`: answers to almost the same problems, to start from.
    """
    groups: dict[object, list[int]] = {}
    for i, part in enumerate(parts):
        groups.setdefault(i if part.kinds or len(parts) == 1 else part.key, []).append(i)
    found: dict[int, Answer] = {}
    for members in groups.values():
        whole = Batch.together([parts[i] for i in members])
        for s, rows in chosen(solver, whole):
            some = [members[k] for k in rows.tolist()]
            size = s.most(len(some)) if s.together else 1
            for at in range(0, len(some), size):
                now = some[at : at + size]
                began = time.perf_counter()
                before = None if near is None else [near[i] for i in now]
                answers = _solved(s, solver, [parts[i] for i in now], before)
                if _log.isEnabledFor(logging.DEBUG):
                    _log.debug(_account(s, answers, time.perf_counter() - began))
                found |= zip(now, answers, strict=True)
                if progress is not None:
                    progress(len(found), len(parts))
    return [found[i] for i in range(len(parts))]


def _solved(s: Solver, front: Solver, parts: Sequence[Batch], near: Sequence[Answer] | None) -> list[Answer]:
    """Return the answers of one solver; what a reduction leaves goes back to the front."""
    if s.together:
        whole = Batch.together(parts)
        answer = s.solve(whole, None if near is None else s.nearby(whole, near))
        return [answer.one(k, part) for k, part in enumerate(parts)]
    (part,) = parts
    if s.reduces:
        smaller, back = s.reduce(part)
        before = near[0].solved if near is not None and len(near[0].solved) == len(smaller) else None
        return [back(solve_parts(smaller, front, near=before))]
    return [s.solve(part)]


def chosen(solver: Solver, part: Batch) -> list[tuple[Solver, Ints]]:
    """Return the solvers of problems of a pattern, each with the numbers of its problems.

    Raises CapabilityError for problems that a solver is not for.
    """
    found = solver.choose(part)
    for s, _ in found:
        beyond = part.kinds - s.takes
        if "drawn" in beyond:
            odd = next((a.arc for a in part.arcs if a.log_p.size == 0), part.beliefs[0])
            raise CapabilityError(
                f'the {s.name} solver needs tables: {odd} has none. Use solver="auto" or "sampled", with hard arcs '
                f"(beta = inf) that make its variables; or set beta[{odd.name!r}] = 0 to leave it out."
            )
        if "varying" in beyond:
            raise CapabilityError(
                f'the {s.name} solver does not support sample-dependent attention. Use solver="auto" or '
                '"sampled", with hard arcs (beta = inf) that make mu.'
            )
        if "euclidean" in beyond:
            raise CapabilityError(
                f"the {s.name} solver needs finite variables; {part.variables[0]} is not. "
                'Use solver="auto" or "gaussian".'
            )
        if odd := [a for a in part.beliefs if a.cpd.cost.name in beyond]:
            raise CapabilityError(
                f"the {s.name} solver is for the cost KL, and {odd[0]} has the cost {odd[0].cpd.cost.name!r}: give a "
                "solver that takes it, Auto(first=[...]), or set the beta of the arc to 0."
            )
    return found


def _account(solver: Solver, solved: Sequence[Answer], seconds: float) -> str:
    """Return what was solved, in one line."""
    problems = f"{len(solved)} problem{'s' * (len(solved) != 1)}"
    gap = max((s.upper - s.lower for s in solved if s.upper < math.inf), default=0.0)
    steps = sum(int(np.sum(s.steps)) for s in solved)
    return f"{solver.name}: {problems}, {steps} steps, bounds {gap:.2g} apart, {seconds:.3g} s"


@dataclass(frozen=True, eq=False)
class Assembled(Answer):
    """An answer put together from pieces: which problems (rows) and table entries each is about, and its answer.

    Of the parts of a single problem, in their order, the entries may be None.
    """

    pieces: Sequence[tuple[Ints, Ints | None, Answer]] = ()

    @classmethod
    def of(cls, batch: Batch, bounds: ProvedBounds, solver: str, pieces: Sequence[Any], **more: Any) -> Assembled:
        """Return an answer that is put together from pieces."""
        ends = [end for _, _, answer in pieces for end in answer.ends] if len(batch) == 1 else ()
        budget = max((answer.budget for _, _, answer in pieces), default=0)
        return cls(batch, bounds, solver, ends=ends, budget=budget, pieces=pieces, **more)

    @classmethod
    def whole(cls, problem: Batch, answers: Sequence[Answer], solver: str) -> Assembled:
        """Return the answer about a single problem, of answers about its parts."""
        free = [ProvedBounds.entropy(problem.free, problem.gamma)] if problem.free or not answers else []
        first, *others = [*(s.bounds for s in answers), *free]
        named = " + ".join(sorted({s.solver for s in answers})) or solver
        pieces = [(FIRST, None, answer) for answer in answers]
        return cls.of(problem, first.plus(*others), named, pieces, **added_up(answers))

    @property
    def answers(self) -> Sequence[Answer]:
        """The answers of the pieces."""
        return [answer for _, _, answer in self.pieces]

    @property
    def solved(self) -> Sequence[Answer]:
        """The answers that it was put together from."""
        return [p for answer in self.answers for p in answer.solved]

    @cached_property
    def known(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The arcs whose tables `joint` is about, in all problems."""
        return self._throughout("known")

    @cached_property
    def loose(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The arcs that are loose ends, in all problems."""
        return self._throughout("loose")

    def _throughout(self, name: str) -> frozenset[str]:
        count: Counter[str] = Counter()
        for rows, _, answer in self.pieces:
            for arc in getattr(answer, name):
                count[arc] += len(rows)
        return frozenset(arc for arc, found in count.items() if found == len(self.part))

    def rows(self, arc: Arc) -> Array:
        """Return mu(s,t) of an arc, (P, cells): see `Answer.rows`."""
        if arc.name in self.known:
            return super().rows(arc)
        found = np.full((len(self.part), cells(arc.scope)), math.nan)
        for rows, _, answer in self.pieces:
            own = answer.rows(arc)
            found[rows] = np.where(np.isnan(own), found[rows], own)
        found[~np.isfinite(self.bounds.upper)] = 0.0
        return found

    def take(self, some: Ints) -> Assembled:
        """Return the answer to some of the problems."""
        place = np.full(len(self.part), -1)
        place[some] = np.arange(len(some))
        here = [(place[rows], entries, answer) for rows, entries, answer in self.pieces]
        kept = [(at[at >= 0], entries, answer.take(np.flatnonzero(at >= 0))) for at, entries, answer in here]
        pieces, steps = [piece for piece in kept if len(piece[0])], np.broadcast_to(self.steps, len(self.part))[some]
        return Assembled.of(self.part.take(some), self.bounds.take(some), self.solver, pieces, steps=steps)

    @cached_property
    def joint(self) -> Array:
        """mu(s,t) of every entry of every table, (P, entries); 0 where mu is not about it."""
        return self._gathered("joint")

    @cached_property
    def slope(self) -> Array:
        """The derivative of the inconsistency in log p, (P, entries); 0 where that is infinite."""
        return np.where(np.isfinite(self.bounds.upper)[:, None], self._gathered("slope"), 0.0)

    def _gathered(self, name: str) -> Array:
        found = np.zeros_like(self.part.log_p)
        for k, (rows, entries, answer) in enumerate(self.pieces):
            entries = self.part.entries(self.part.connected[k]) if entries is None else entries
            found[np.ix_(rows, entries)] = getattr(answer, name)
        return found

    def marginal(self, arc: Arc) -> Tensor | None:
        """Return mu(s,t) of an arc of a single problem, as `CPD.project` wants it, at the mu of the upper bound.

        None if no part is about all of its variables.
        """
        for s in self.answers:
            if {v.name for v in s.part.variables}.issuperset(arc.names) and math.isfinite(s.upper):
                return s.mu.rows(arc.sources, arc.targets).detach()
        return None

    def across(self, arc: Arc) -> Tensor:
        """Return mu(s,t) of a finite arc of a single problem, also where its variables are in several parts, which are
        independent; 0 if there is no mu."""
        rows = self.marginal(arc)
        if rows is not None:
            return rows
        if not math.isfinite(self.upper):
            return torch.zeros(cells(arc.sources), cells(arc.targets), dtype=torch.float64)
        mu, _ = self.selected((*self.part.variables, *self.part.free))
        return mu.rows(arc.sources, arc.targets).detach()

    def selected(self, variables: Sequence[Variable]) -> tuple[Distribution, float]:
        """Return mu* over all variables of a PDG, and how far off its tables may be; of a single problem.

        At gamma = 0 it is the gamma -> 0+ selection among the minimisers: a product of what is known over the finite
        variables, over the Euclidean ones, and of samples.
        """
        drawn: list[Distribution] = [s.mu for s in self.answers if s.kind == "samples"]
        known = {v.name for x in drawn for v in x.variables}
        euclidean = [v for v in variables if isinstance(v.domain, Euclidean) and v.name not in known]
        finite = [v for v in variables if v.is_finite and v.name not in known]
        tables, error = self._finite(finite)
        parts: list[Distribution] = [tables] if finite or not (euclidean or drawn) else []
        parts += drawn
        if euclidean:
            gaussian: list[Any] = [s.mu for s in self.answers if s.kind == "gaussian"]
            parts.append(combined(euclidean, gaussian))
        return parts[0] if len(parts) == 1 else Product(tuple(variables), parts), error

    def _finite(self, variables: Sequence[Variable]) -> tuple[CliqueTree, float]:
        """Return mu* over finite variables, on one forest or extended along loose ends, and how far off it may be."""
        answers = [s for s in self.answers if s.kind == "tables"]
        chosen = [_chosen(p) for s in answers for p in s.solved]
        parts, error = [mu for mu, _ in chosen], max((off for _, off in chosen), default=0.0)
        if ends := [end for s in answers for end in s.ends]:
            return Extended(variables, parts, ends, max(s.budget for s in answers)), error
        return CliqueTree.combined(variables, parts), error


def _chosen(s: Answer) -> tuple[CliqueTree, float]:
    """Return mu* of what was solved, at gamma = 0 the gamma -> 0+ selection, and how far off it may be."""
    assert s.on is not None
    tables, error = s.on.tables, 0.0
    if not (s.unique or s.part.gamma[0] > 0 or s.part.kinds) and s.part.convex.all():
        known = s.converged and not s.within  # of one that stopped early, or that breaks hard arcs, nothing is
        tables, error = convex.selection.select(s) if known else (tables, 1.0)
    return CliqueTree(s.part.variables, s.on.tree, [t.detach() for t in tables]), error


def solve_each(problems: Sequence[Batch], solver: Solver, *, near: Sequence[Assembled | None] = ()) -> list[Assembled]:
    """Return the answers to single problems, solved part by part; `near`: answers to almost the same problems."""
    before = [s for answer in near if answer is not None for s in answer.answers]
    parts = [part for problem in problems for part in problem.parts]
    solved = iter(solve_parts(parts, solver, near=before if len(before) == len(parts) else None))
    return [Assembled.whole(p, [next(solved) for _ in p.parts], solver.name) for p in problems]


# -- problems in rows ------------------------------------------------------------------------------------------------


def start_key(solver: Solver, part: Batch) -> str:
    """Return the key under which a solver's starts for problems of a pattern are kept; those of others do not fit."""
    return f"{solver.name} {part.digest}"


@dataclass
class Starts:
    """Where the problems of a sequence of batches stopped, by pattern: points (P, point), and of which it is known."""

    count: int
    points: dict[str, tuple[Array, Bools]] = field(default_factory=dict)

    def near(self, key: str, rows: Ints) -> tuple[Array, Bools] | None:
        """Return where some of the problems stopped."""
        at, known = self.points.get(key, (None, None))
        return None if at is None or known is None else (at[rows], known[rows])

    def keep(self, key: str, rows: Ints, points: Array) -> None:
        """Store where some of the problems stopped."""
        if key not in self.points:
            self.points[key] = np.zeros((self.count, points.shape[1])), np.zeros(self.count, dtype=np.bool_)
        at, known = self.points[key]
        at[rows], known[rows] = points, True

    def copy(self) -> Starts:
        """Return a copy that changes independently."""
        return Starts(self.count, {key: (at.copy(), known.copy()) for key, (at, known) in self.points.items()})


def solve_rows(
    batch: Batch,
    solver: Solver,
    starts: Starts | None = None,
    *,
    settle: bool = False,
    keep: Sequence[int] = (),
    last: Answer | None = None,
) -> Answer:
    """Return the answer to many problems over the same tables, each from where it stopped before if that is known.

    `settle`: until mu stands still, where a solver does that; `keep`: arcs whose joint is wanted whatever their weight.
    `last`: an answer to other problems over these tables, which problems keep that are the same, so that no answer
    depends on what else is asked.
    """
    same = np.zeros(len(batch), dtype=np.bool_) if last is None else batch.same(last.part)
    pieces = [] if last is None or not same.any() else _kept(last, np.flatnonzero(same))
    steps, bounds = np.zeros(len(batch), dtype=np.int64), ProvedBounds.infinite(len(batch))
    if last is not None:
        bounds.put(np.flatnonzero(same), last.bounds.take(np.flatnonzero(same)))
    whole = is_narrow(batch)
    for rows, numbers in _attended(batch, np.flatnonzero(~same), whole, keep):
        here = batch.take(rows).among(numbers, keep=True)
        total = ProvedBounds.entropy(here.free, here.gamma)
        for some in _split(here, whole):
            part, entries = here.among(some, keep=True), batch.entries(numbers[i] for i in some)
            answers = _by_row(part, solver, rows, starts, settle)
            pieces += [(rows[k], entries, answer) for k, answer in answers]
            own = ProvedBounds.infinite(len(rows))
            for k, answer in answers:
                own.put(k, answer.bounds)
                steps[rows[k]] += answer.steps
            total = total.plus(own)
        bounds.put(rows, total)
    if len(pieces) == 1 and pieces[0][2].part.log_p.shape == batch.log_p.shape and not batch.free:
        return pieces[0][2]
    return Assembled.of(batch, bounds, solver.name, pieces, steps=steps)


def _kept(last: Answer, rows: Ints) -> list[tuple[Ints, Ints | None, Answer]]:
    """Return the pieces of an answer that are about some of the problems."""
    found = last.take(rows)
    if isinstance(found, Assembled):
        return [(rows[k], entries, answer) for k, entries, answer in found.pieces]
    return [(rows, np.arange(found.part.log_p.shape[1]), found)]


def is_narrow(batch: Batch) -> bool:
    """Return whether arcs without weight stay: clusters are small, or of a single problem the whole tree is."""
    widest = max(map(math.prod, batch.tree.shapes), default=1)
    return widest <= WIDE if len(batch) > 1 else widest <= WIDE_ALONE and batch.tree.cells < LARGE


def _attended(batch: Batch, asked: Ints, whole: bool, keep: Sequence[int]) -> Iterator[tuple[Ints, list[int]]]:
    """Yield the problems of each pattern among those that are asked for, and the arcs that count in them: all if the
    batch is solved `whole`, as narrow ones are."""
    every = list(range(len(batch.beliefs)))
    for some in batch.take(asked).groups() if len(asked) else ():
        rows = asked[some]
        if whole:
            yield rows, every
            continue
        weigh = (batch.beta[rows] != 0) | (batch.gamma[rows, None] * batch.alpha[rows] != 0)
        weigh[:, keep] = True
        found: dict[bytes, list[int]] = {}
        for k, row in enumerate(np.packbits(weigh, axis=1)):
            found.setdefault(row.tobytes(), []).append(k)
        for some in found.values():
            yield rows[some], np.flatnonzero(weigh[some[0]]).tolist()


def _split(batch: Batch, whole: bool) -> list[list[int]]:
    """Return the arcs of each part that is solved by itself: connected ones where hard arcs may determine them, or the
    batch is not solved `whole`; a forest is solved as quickly as a tree."""
    if batch.hard.any() or not whole:
        return batch.connected
    return [list(range(len(batch.beliefs)))] if batch.beliefs else []


def _by_row(part: Batch, solver: Solver, rows: Ints, starts: Starts | None, settle: bool) -> list[tuple[Ints, Answer]]:
    """Return answers to the problems of a pattern, each with the numbers of its problems."""
    found: list[tuple[Ints, Answer]] = []
    for s, some in chosen(solver, part):
        if s.together:
            key = "" if starts is None else start_key(s, part)
            near = None if starts is None else starts.near(key, rows[some])
            answer = s.solve(part if len(some) == len(part) else part.take(some), near, quick=True, settle=settle)
            if starts is not None and answer.points is not None:
                starts.keep(key, rows[some], answer.points)
            found.append((some, answer))
        else:
            for k in some.tolist():
                (answer,) = _solved(s, solver, [part.take(slice(k, k + 1))], None)
                found.append((np.array([k]), answer))
    return found
