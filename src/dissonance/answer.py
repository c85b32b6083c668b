"""One answer: bounds of P problems, a mu that attains the upper one, and the slope in log p; and what a solver is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc, Theta
from dissonance.attended import Array, is_fixed
from dissonance.costs import LOG_SCORE, FlatRows
from dissonance.distributions import CliqueTree, Distribution, Tree
from dissonance.errors import DissonanceError
from dissonance.options import check_options
from dissonance.problem import Batch, Bools
from dissonance.proof import ProvedBounds
from dissonance.variables import cells, shape

Ints = npt.NDArray[np.int64]

DEFAULT_TOL = 1e-7
"""The gap between the bounds that is aimed at, relative to max(1, |inconsistency|)."""


@dataclass(frozen=True, eq=False)
class Marginals:
    """The mu of a single problem as cluster marginals on a tree.

    `multipliers` (1, entries): Lagrange multipliers of the entries of hard arcs, 0 of others; None if there are none.
    """

    tree: Tree
    tables: Sequence[Tensor]
    multipliers: Array | None = None

    @property
    def points(self) -> Array | None:
        """Where an iteration stopped, (P, point), for its solver to start from."""
        return None

    @property
    def stopped(self) -> tuple[Any, Array] | None:
        """The structure that an iteration was of, and where the gap of a single problem was still broad, (point,)."""
        return None

    def take(self, some: Ints) -> Marginals:
        """Return the mu of some of the problems: there is only one."""
        return self

    def joint(self, part: Batch) -> Array:
        """Return mu(s,t) of every entry of every table, (P, entries)."""
        found = CliqueTree(part.variables, self.tree, self.tables).marginals([a.names for a in part.beliefs])
        return np.concatenate([np.zeros(0), *(x.detach().reshape(-1).numpy() for x in found)])[None]


@dataclass(frozen=True, eq=False)
class Answer:
    """The inconsistencies of the P problems of a batch between bounds, and for each a mu that attains the upper one.

    `on`: mu on a tree, if it is there. `residual` (P,): how far hard arcs are from holding, as `numerics.broken` has
    it; `within` (P,): how closely they are asked to, 0 up to rounding. `memory`: bytes the solve was allowed for.
    `method` (P,): which of its methods the solver took, if it has several. `bracket`: why no more than a bracket is
    known, in words. `unique`: whether mu is known to be the only minimiser. `evidence`: log Z(R) of a factor graph
    given R. `ends`: loose ends, as mu follows them, with their log p; `budget`: bytes that putting mu together may use.
    """

    part: Batch
    bounds: ProvedBounds
    solver: str
    on: Marginals | None = None
    steps: Ints | int = 0
    residual: Array | float = 0.0
    within: Array | float = 0.0
    memory: int = 0
    method: tuple[str, ...] = ()
    bracket: str = ""
    unique: bool = False
    evidence: Tensor | None = None
    ends: Sequence[tuple[Arc, Tensor]] = ()
    budget: int = 0

    exact: ClassVar[bool] = False
    """Whether `surrogate` is the inconsistency itself up to a constant, so that it can be differentiated twice."""

    kind: ClassVar[str] = "tables"
    """What mu is: "tables", "gaussian" or "samples"."""

    @property
    def error(self) -> float:
        """The standard error of an average over samples."""
        return 0.0

    @property
    def up_to_constant(self) -> bool:
        """Whether the entropy of points, a constant or infinite, was left out."""
        return False

    @property
    def solved(self) -> Sequence[Answer]:
        """The answers that a solver found: itself, or those that it was put together from."""
        return (self,)

    @property
    def trees(self) -> Sequence[Tree]:
        """The junction trees that mu is on, or else those of the answers that it was put together from."""
        if self.on is not None:
            return (self.on.tree,)
        return [t for p in self.solved if p is not self for t in p.trees]

    @property
    def lower(self) -> float:
        """The lower bound of a single problem."""
        return self.bounds.lower.item()

    @property
    def upper(self) -> float:
        """The upper bound of a single problem."""
        return self.bounds.upper.item()

    @property
    def converged(self) -> bool:
        """Whether the bounds of all problems meet."""
        return bool(self.bounds.met.all())

    @classmethod
    def given(cls, part: Batch, bounds: ProvedBounds, solver: str, joint: Array, slope: Array) -> Self:
        """Return an answer whose joint and slope are known."""
        found = cls(part, bounds, solver)
        found.__dict__.update(joint=joint, slope=slope)
        return found

    @cached_property
    def known(self) -> frozenset[str]:
        """The arcs whose tables `joint` is about, in all problems."""
        return frozenset(a.name for a in self.part.beliefs)

    @cached_property
    def loose(self) -> frozenset[str]:
        """The arcs that are loose ends, in all problems."""
        return frozenset(arc.name for arc, _ in self.ends)

    @property
    def points(self) -> Array | None:
        """Where the solve stopped, (P, point), for its solver to start from."""
        return None if self.on is None else self.on.points

    def one(self, k: int, part: Batch) -> Answer:
        """Return the answer to problem k, which is this part."""
        if self.bounds.lower[k] == math.inf:
            return infinite(part, self.solver, steps=int(np.broadcast_to(self.steps, len(self.part))[k]))
        found = self.take(np.array([k]))
        return found if part is found.part else found._with({}, part=part)

    def take(self, some: Ints) -> Answer:
        """Return the answer to some of the problems."""
        if len(some) == len(self.part):
            return self
        columns: dict[str, Any] = {name: getattr(self, name) for name in ("steps", "residual", "within")}
        columns = {name: x[some] if np.ndim(x) else x for name, x in columns.items()}
        if self.method:
            columns["method"] = tuple(self.method[k] for k in some.tolist())
        on = None if self.on is None else self.on.take(some)
        known = {name: self.__dict__[name][some] for name in ("joint", "slope") if name in self.__dict__}
        return self._with(known, part=self.part.take(some), bounds=self.bounds.take(some), on=on, **columns)

    def _with(self, known: Mapping[str, Array], **changes: Any) -> Answer:
        """Return the answer with other fields; its joint and its slope stay known, unless others are."""
        found = replace(self, **changes)
        found.__dict__.update({name: self.__dict__[name] for name in ("joint", "slope") if name in self.__dict__})
        found.__dict__.update(known)
        return found

    def rows(self, arc: Arc) -> Array:
        """Return mu(s,t) of an arc, also of one that `joint` is not about, (P, cells): 0 where there is no mu, NaN
        where mu is not about all variables of the arc."""
        if arc.name in self.known:
            k = next(k for k, a in enumerate(self.part.beliefs) if a.name == arc.name)
            return self.joint[:, self.part.entries([k])]
        found = np.full((len(self.part), cells(arc.scope)), math.nan)
        if {v.name for v in self.part.variables}.issuperset(arc.names):
            for k, one in enumerate(self.part.singles):
                there = math.isfinite(self.bounds.upper[k])
                found[k] = self.one(k, one).mu.rows(arc.sources, arc.targets).reshape(-1).detach() if there else 0.0
        return found

    @property
    def mu(self) -> Distribution:
        """The mu that attains the upper bound of a single problem."""
        assert self.on is not None
        return CliqueTree(self.part.variables, self.on.tree, self.on.tables)

    @cached_property
    def joint(self) -> Array:
        """mu(s,t) of every entry of every table, (P, entries); 0 where there is no mu."""
        return np.zeros_like(self.part.log_p) if self.on is None else self.on.joint(self.part)

    @cached_property
    def slope(self) -> Array:
        """The derivative of the inconsistency in log p, (P, entries); 0 where that is infinite.

        By the envelope theorem it is -beta mu(s,t) of a soft arc, and mu(s) p(t|s) lambda(s,t) of a hard one with
        multipliers lambda. (The entropies that a hard p fixes add nothing: the mean of a score is 0.)
        """
        part, joint = self.part, self.joint
        found = -joint
        if any(a.cpd.cost is not LOG_SCORE for a in part.beliefs):
            for k, a in enumerate(part.beliefs):
                span, width = part.entries([k]), cells(a.targets)
                rows = FlatRows.wide(np.full(len(span) // width, width))
                found[:, span] = a.cpd.cost.slope(joint[:, span], part.log_p[:, span], rows)
        found *= np.where(part.hard, 0.0, part.beta)[:, part.arc_of]
        if self.on is not None and self.on.multipliers is not None:
            priced = part.rows.totals(joint) * np.exp(part.log_p) * self.on.multipliers
            found = np.where(part.hard[:, part.arc_of], priced, found)
        return np.where(np.isfinite(self.bounds.upper)[:, None], found, 0.0)

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """Return a function of theta with the gradient of the inconsistency at the present theta (its value means
        nothing): the sum of log p times its slope."""
        total = torch.zeros((), dtype=numerics.DTYPE)
        at = self.part.entry_at.tolist()
        for k, arc in enumerate(self.part.beliefs):
            if is_fixed(arc, theta):
                continue
            log_p = arc.log_table(theta)
            if log_p.requires_grad:
                slope = torch.from_numpy(self.slope[0, at[k] : at[k + 1]]).reshape(shape(arc.scope))
                total = total + numerics.times(slope, log_p).sum()
        return total

    def divergences(self) -> dict[str, float]:
        """Return KL of arcs at mu, where mu knows better than its tables."""
        return {}


def infinite(part: Batch, solver: str, value: float = math.inf, **more: Any) -> Answer:
    """Return the answer about problems whose beliefs contradict each other outright."""
    return Answer(part, ProvedBounds.infinite(len(part), value), solver, **more)


def added_up(parts: Sequence[Answer]) -> dict[str, Any]:
    """Return what answers about the parts of a single problem come to beside their bounds."""
    return {
        "steps": sum(int(np.sum(s.steps)) for s in parts),
        "residual": max((float(np.max(s.residual)) for s in parts), default=0.0),
        "within": max((float(np.max(s.within)) for s in parts), default=0.0),
        "memory": max((s.memory for s in parts), default=0),
        "method": tuple(sorted({m for s in parts for m in s.method})),
    }


def bounds_of(parts: Sequence[Answer], free: ProvedBounds) -> ProvedBounds:
    """Return bounds of the sum of answers about parts, and of what free variables cost."""
    return free.plus(*(s.bounds for s in parts))


Start = Any
"""Where a solve stopped, for the solver that made it to start from."""


class Solver:
    """A method that bounds inconsistencies: inherit from it, and give it a `name` and `solve`.

    `takes`: the kinds of problems it takes beside tables of finite variables (see `Batch.kinds`); `needs`: if there are
    any, the kinds of which a problem must be one at least. `together`: whether `solve` takes many problems of one
    pattern at once; otherwise it is given a single one. `reduces`: whether it makes smaller problems of one, for the
    solver that chose it, instead of solving it.
    """

    name: ClassVar[str]
    takes: ClassVar[frozenset[str]] = frozenset()
    needs: ClassVar[frozenset[str]] = frozenset()
    together: ClassVar[bool] = False
    reduces: ClassVar[bool] = False

    def fits(self, part: Batch) -> Bools | bool:
        """Return which problems of a pattern it can solve, of the kinds it `takes`: `auto` takes the first solver that
        fits."""
        return True

    def choose(self, part: Batch) -> list[tuple[Solver, Ints]]:
        """Return the solvers of the problems of a pattern: itself, unless it is one that chooses among others."""
        return [(self, np.arange(len(part)))]

    def solve(self, part: Batch, *how: Any, **options: Any) -> Answer:
        """Return bounds, and a mu that attains the upper one.

        If it solves many problems `together`, it is given where they may start, and whether that is to be `quick`.
        """
        raise NotImplementedError

    def reduce(self, part: Batch) -> tuple[list[Batch], Callable[[Sequence[Answer]], Answer]]:
        """Return smaller connected problems, and the function that makes of their answers the answer to this one."""
        raise NotImplementedError

    def most(self, count: int) -> int:
        """Return how many of so many problems are solved together at a time."""
        return count

    def nearby(self, part: Batch, near: Sequence[Answer]) -> Any:
        """Return where problems may start that are near others with these answers."""
        return None

    def unproved(self) -> Solver:
        """Return the solver without what only tightens its bounds: for values that are asked for many times over."""
        return self


def checked(solver: Solver) -> Solver:
    """Return the solver; raise for a class of solvers, for what is no solver, and for options that make no sense."""
    if isinstance(solver, type):
        raise DissonanceError(f"{solver.__name__} is a class of solvers: make one, {solver.__name__}().")
    if not isinstance(solver, Solver):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DissonanceError(f"{type(solver).__name__} is no solver: have it inherit from dissonance.solvers.Solver.")
    check_options(solver)
    return solver
