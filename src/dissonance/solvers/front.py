"""The front of all solvers: problems are grouped by their pattern, split, handed to solvers, and put together again."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dissonance.answer import Answer, Ints, Solver
from dissonance.arc import Arc
from dissonance.attended import Array
from dissonance.errors import CapabilityError
from dissonance.problem import Batch, Bools
from dissonance.proof import ProvedBounds
from dissonance.variables import cells

WIDE, WIDE_ALONE = 1024, 128
"""Cells of the widest cluster up to which arcs without weight stay, so that problems that attend to different arcs are
solved together; and those of a single problem."""

LARGE = 500
"""Cells from which on a single problem is split before a solver is chosen."""

_log = logging.getLogger(__name__)


def solve(
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
        return [back(solve(smaller, front, near=before))]
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


# -- problems in rows ------------------------------------------------------------------------------------------------


@dataclass
class Starts:
    """Where the problems of a sequence of batches stopped, by pattern: points (P, point), and of which it is known."""

    count: int
    points: dict[object, tuple[Array, Bools]] = field(default_factory=dict)

    def near(self, key: object, rows: Ints) -> tuple[Array, Bools] | None:
        """Return where some of the problems stopped."""
        at, known = self.points.get(key, (None, None))
        return None if at is None or known is None else (at[rows], known[rows])

    def keep(self, key: object, rows: Ints, points: Array) -> None:
        """Store where some of the problems stopped."""
        if key not in self.points:
            self.points[key] = np.zeros((self.count, points.shape[1])), np.zeros(self.count, dtype=np.bool_)
        at, known = self.points[key]
        at[rows], known[rows] = points, True

    def copy(self) -> Starts:
        """Return a copy that changes independently."""
        return Starts(self.count, {key: (at.copy(), known.copy()) for key, (at, known) in self.points.items()})


@dataclass(frozen=True, eq=False)
class Assembled(Answer):
    """An answer put together from answers about some of the problems (rows) and of the table entries."""

    pieces: Sequence[tuple[Ints, Ints, Answer]] = ()

    @property
    def solved(self) -> Sequence[Answer]:
        """The answers that it was put together from."""
        return [p for _, _, answer in self.pieces for p in answer.solved]

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

    def take(self, some: Ints) -> Answer:
        """Return the answer to some of the problems."""
        place = np.full(len(self.part), -1)
        place[some] = np.arange(len(some))
        here = [(place[rows], entries, answer) for rows, entries, answer in self.pieces]
        kept = [(at[at >= 0], entries, answer.take(np.flatnonzero(at >= 0))) for at, entries, answer in here]
        pieces = [piece for piece in kept if len(piece[0])]
        return assembled(
            self.part.take(some), self.bounds.take(some), self.solver, np.asarray(self.steps)[some], pieces
        )

    def _gathered(self, name: str) -> Array:
        found = np.zeros_like(self.part.log_p)
        for rows, entries, answer in self.pieces:
            found[np.ix_(rows, entries)] = getattr(answer, name)
        return found

    @cached_property
    def joint(self) -> Array:
        """mu(s,t) of every entry of every table, (P, entries); 0 where mu is not about it."""
        return self._gathered("joint")

    @cached_property
    def slope(self) -> Array:
        """The derivative of the inconsistency in log p, (P, entries); 0 where that is infinite."""
        found = self._gathered("slope")
        return np.where(np.isfinite(self.bounds.upper)[:, None], found, 0.0)


def assembled(
    batch: Batch, bounds: ProvedBounds, solver: str, steps: Ints, pieces: Sequence[tuple[Ints, Ints, Answer]]
) -> Answer:
    """Return an answer that is put together from pieces."""
    ends = [end for _, _, answer in pieces for end in answer.ends] if len(batch) == 1 else ()
    budget = max((answer.budget for _, _, answer in pieces), default=0)
    return Assembled(batch, bounds, solver, steps=steps, ends=ends, budget=budget, pieces=pieces)


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
    whole = narrow(batch)
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
    return assembled(batch, bounds, solver.name, steps, pieces)


def _kept(last: Answer, rows: Ints) -> list[tuple[Ints, Ints, Answer]]:
    """Return the pieces of an answer that are about some of the problems."""
    found = last.take(rows)
    if isinstance(found, Assembled):
        return [(rows[k], entries, answer) for k, entries, answer in found.pieces]
    return [(rows, np.arange(found.part.log_p.shape[1]), found)]


def narrow(batch: Batch) -> bool:
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
            key = "" if starts is None else part.digest
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
