"""The inner problem for all runs together: interior points, each run under its own attention, warm-started.

Every run lives on the junction tree of the whole PDG. An arc out of attention has beta = 0 there, so that runs with
different foci stay in one batch.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dissonance.distributions import Tree
from dissonance.focus import Attention
from dissonance.lir.each import Each
from dissonance.lir.inner import TENSORS, Attentions, Solved
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.numerics import DTYPE
from dissonance.pdg import Arc
from dissonance.problem import Attended, Component, front_bytes, prepare
from dissonance.solvers import Auto
from dissonance.solvers.base import FEASIBLE, State
from dissonance.solvers.batch import Arcs, Batch, structure
from dissonance.solvers.bounds import Bounds, certify
from dissonance.solvers.interior import cold, interior
from dissonance.solvers.nearby import solve_nearby
from dissonance.solvers.peeled import LARGE, cells_left
from dissonance.solvers.structure import Structure

WIDE, WIDE_ALONE = 1024, 128
"""Cells of the widest cluster that is solved in a batch, and in a batch of one."""

FEW = 0.25
"""The share of the cells below which the arcs that matter are better off without the others."""

Group = tuple[tuple[bool, ...], bool]
"""Which arcs are hard, and whether gamma > 0: what the structure of a problem depends on beside the PDG."""


@dataclass
class Memory:
    """The last problems of a group, their states and solutions; `known` (P,) says of which runs."""

    known: Tensor
    log_p: Tensor
    attention: Attentions
    state: State
    solved: Solved

    @property
    def tensors(self) -> list[Tensor]:
        """All of it."""
        parts = (*self.attention.tensors, *vars(self.state).values())
        own = [getattr(self.solved, name) for name in TENSORS]
        return [self.known, self.log_p, *parts, *own]

    def copy(self) -> Memory:
        """Another one."""
        return Memory(
            self.known.clone(),
            self.log_p.clone(),
            self.attention.clone(),
            State(*(x.clone() for x in vars(self.state).values())),
            Solved(*(getattr(self.solved, name).clone() for name in TENSORS)),
        )

    def recall(self, runs: Tensor, log_p: Tensor, attention: Attentions) -> Tensor:
        """Which of these runs are asked for exactly what they were asked for last, (runs,)."""
        same = self.known[runs] & attention.same(self.attention.take(runs))
        return same & (self.log_p[runs] == log_p).all(1)


class Batched:
    """Interior points on the junction tree of the whole PDG, for all runs together; warm-started, certified to `tol`.

    A warm start that does not lead to a tight proof is forgotten and the problem solved afresh; one whose bounds still
    do not meet goes through the front door, alone.
    """

    def __init__(self, parameters: Parameters, tol: float = 1e-7) -> None:
        self._parameters, self.tol = parameters, tol
        self.memory: dict[Group, Memory] = {}
        self.names = [a.name for a in parameters.arcs]
        self.other = Each(parameters, Auto(tol))

    @property
    def parameters(self) -> Parameters:
        """What the runs are runs of."""
        return self._parameters

    def alone(self, k: int) -> Batched:
        """The same for run k by itself."""
        return Batched(self.parameters.one(k), self.tol)

    def fork(self) -> Batched:
        """The same, knowing the same, with a memory of its own from here on."""
        made = copy.copy(self)
        made.memory = {group: m.copy() for group, m in self.memory.items()}
        return made

    def dump(self) -> dict[str, Any]:
        """What it knows, as plain tensors."""
        return {json.dumps(group): [x.clone() for x in m.tensors] for group, m in self.memory.items()}

    def restore(self, known: dict[str, Any]) -> None:
        """The inverse of `dump`."""
        self.memory = {}
        for key, tensors in known.items():
            hard, structural = json.loads(key)
            group = (tuple(hard), structural)
            blank = self.memory[group] = self._blank(self.structure(group))
            for mine, theirs in zip(blank.tensors, tensors, strict=True):
                mine.copy_(theirs)

    # -- structure -------------------------------------------------------------------------------------------------

    def component(self, group: Group) -> Component:
        """All arcs of the PDG as one component; the weights stand for nothing but the group."""
        hard, structural = group
        log_p = [a.log_table().detach().numpy() for a in self.parameters.arcs]
        arcs = [
            Attended(a, table, math.inf if h else 1.0, 0.0)
            for a, table, h in zip(self.parameters.arcs, log_p, hard, strict=True)
        ]
        seen = {v.name for a in self.parameters.arcs for v in a.scope}
        variables = tuple(v for v in self.parameters.pdgs[0].variables if v.name in seen)
        return Component(variables, tuple(arcs), 1.0 if structural else 0.0)

    def structure(self, group: Group) -> Structure:
        """What all problems of a group share."""
        found = self.component(group)
        return structure(found, found.tree, len(self.parameters))

    def fits(self) -> bool:
        """Whether the junction tree of the whole PDG is one for batches.

        A single run whose clusters are not small is better off with what its foci attend to.
        """
        wide = WIDE if len(self.parameters) > 1 else WIDE_ALONE
        return max(math.prod(s) for s in self.tree.shapes) <= wide and front_bytes(self.tree) <= Auto().budget

    def loose(self, base: Attention) -> bool:
        """Whether this is a single run, large, and most of it loose ends under the attention its foci choose from."""
        if len(self.parameters) > 1 or self.tree.cells < LARGE:
            return False
        left = [cells_left(c) for c in prepare(self.parameters.pdgs[0], base).components]
        return sum(left) < FEW * self.tree.cells

    @cached_property
    def tree(self) -> Tree:
        """The junction tree of the whole PDG."""
        return self.component(((False,) * len(self.names), False)).tree

    def groups(self, attention: Attentions) -> dict[Group, Tensor]:
        """Runs by group."""
        hard, structural = attention.beta == math.inf, attention.gamma > 0
        everyone = torch.arange(len(attention))
        if not hard.any() and (not structural.any() or structural.all()):
            return {((False,) * hard.shape[1], bool(structural[:1].any())): everyone}
        found: dict[Group, list[int]] = {}
        for k, (h, g) in enumerate(zip(hard.tolist(), structural.tolist(), strict=True)):
            found.setdefault((tuple(h), g), []).append(k)
        return {group: torch.tensor(runs) for group, runs in found.items()}

    # -- solving ---------------------------------------------------------------------------------------------------

    def solve(self, theta: Stacked, attention: Attentions) -> Solved:
        """Bounds, mu(s,t), and derivatives."""
        with torch.no_grad():
            log_p = self.parameters.log_tables(theta)
        found = Solved.blank(len(attention), log_p.shape[1])
        for group, runs in self.groups(attention).items():
            odd = self._odd(group, log_p[runs], attention.take(runs))
            if odd.any():
                found.put(runs[odd], self.other.tables(log_p[runs[odd]], attention.take(runs[odd])))
                runs = runs[~odd]
            if len(runs):
                found.put(runs, self._group(group, runs, log_p[runs], attention.take(runs)))
        return found

    def sharp(self, log_p: Tensor, attention: Attentions, runs: Tensor, arc: Arc) -> Tensor:
        """mu(s,t) of an arc to the last digits: iterate until mu itself settles."""
        span = self.parameters.spans[arc.name]
        found = torch.zeros_like(log_p[:, span])
        rest = runs.clone()
        for where, s, mu in self.clusters(log_p, attention, runs):
            found[where] = s.arcs.sums(mu)[:, span]
            rest[where] = False
        return found + self.other.sharp(log_p, attention, rest, arc) if rest.any() else found

    def clusters(
        self, log_p: Tensor, attention: Attentions, runs: Tensor, tol: float = 1e-12, settle: float = 1e-9
    ) -> Iterator[tuple[Tensor, Structure, Tensor]]:
        """mu (runs, cells), group by group, of those runs that can be batched; found from a cold start."""
        for group, some in self.groups(attention).items():
            some = some[runs[some]]
            if len(some):
                some = some[~self._odd(group, log_p[some], attention.take(some))]
            if not len(some):
                continue
            s, a = self.structure(group), attention.take(some)
            with torch.inference_mode():
                batch, possible = Arcs(log_p[some], a.beta, a.alpha, a.gamma).batch(s)
                tight = torch.where(possible, tol, math.inf).to(DTYPE)
                found = certify(batch, interior(batch, cold(batch), tight, settle=settle, steps=30))
                if any(group[0]):  # else mu is some distribution at least; here it may break hard arcs
                    near = found.gap <= self.tol * found.upper.abs().clamp(min=1.0)
                    possible = possible & near & (found.residual <= FEASIBLE)
            yield some[possible.clone()], s, found.mu.clone()[possible.clone()]

    def _odd(self, group: Group, log_p: Tensor, a: Attentions) -> Tensor:
        """Which runs need another solver: not convex, or determined by their hard arcs."""
        odd = torch.zeros(len(a), dtype=torch.bool)
        if group[1] or (a.beta < 0).any():
            s = self.structure(group)
            none = torch.where(s.is_hard, 0.0, a.beta - a.gamma[:, None] * a.alpha)
            weight = none.new_zeros(len(none), int(s.term_of.max()) + 1).index_add_(1, s.term_of, none)
            scale = torch.where(s.is_hard, 0.0, a.beta).abs().amax(1, keepdim=True)
            odd |= (weight < -1e-12 * scale).any(1)
            odd |= ((log_p == -math.inf) & (a.beta < 0)[:, self.parameters.arc_at]).any(1)
        if any(group[0]):
            for k, theta in enumerate(self.other.thetas(log_p)):
                problem = prepare(self.other.bare, a.one(k, self.names), theta)
                odd[k] |= any(c.pinned is not None for c in problem.components)
        return odd

    def _group(self, group: Group, runs: Tensor, log_p: Tensor, a: Attentions) -> Solved:
        memory = self.memory.get(group)
        if memory is not None:
            fresh = ~memory.recall(runs, log_p, a)
            memory.solved.steps[runs[~fresh]] = 0
            if not fresh.any():
                return memory.solved.take(runs)
            runs_now, log_p, now = runs[fresh], log_p[fresh], a.take(fresh)
        else:
            runs_now, now = runs, a
        s = self.structure(group)
        with torch.inference_mode():
            batch, possible = Arcs(log_p, now.beta, now.alpha, now.gamma).batch(s)
            state, bounds = self._run(batch, possible, memory, runs_now)
            solved = self.read(s, log_p, now, possible, state, bounds)
        state, solved = _own(state), _ordinary(solved)
        gap = solved.upper - solved.lower
        loose = possible.clone() & ~(gap <= self.tol * solved.upper.abs().clamp(min=1.0).nan_to_num(posinf=1.0))
        if loose.any():
            solved.put(loose, self.other.tables(log_p[loose], now.take(loose)))
        if memory is None:
            memory = self.memory[group] = self._blank(s)
        memory.known[runs_now] = True
        memory.log_p[runs_now] = log_p
        for mine, theirs in zip(memory.attention.tensors, now.tensors, strict=True):
            mine[runs_now] = theirs
        memory.state.put(runs_now, state)
        memory.solved.put(runs_now, solved)
        return memory.solved.take(runs)

    def _blank(self, s: Structure) -> Memory:
        count, entries = len(self.parameters), len(self.parameters.arc_at)

        def zeros(n: int) -> Tensor:
            return torch.zeros(count, n, dtype=DTYPE)

        steps = torch.zeros(count, dtype=torch.long)
        free = (zeros(len(s.first)), zeros(len(s.roots)), zeros(len(s.hard_entry)))
        state = State(zeros(s.cells), zeros(s.cells), *free, steps)
        arcs = len(self.names)
        attention = Attentions(zeros(arcs), zeros(arcs), torch.zeros(count, dtype=DTYPE))
        known = torch.zeros(count, dtype=torch.bool)
        return Memory(known, zeros(entries), attention, state, Solved.blank(count, entries))

    def _run(self, batch: Batch, possible: Tensor, memory: Memory | None, runs: Tensor) -> tuple[State, Bounds]:
        """From the last state where there is one; afresh where that does not lead to a tight proof."""
        tol = torch.where(possible, 1e-2 * self.tol, math.inf).to(DTYPE)  # mu is only as good as the root of the gap
        if memory is None or not bool(memory.known[runs].all()):
            state = interior(batch, cold(batch), tol)
            return state, certify(batch, state)
        enough = torch.where(possible, 0.5 * self.tol, math.inf)
        return solve_nearby(batch, memory.state.take(runs), tol, enough)

    def read(self, s: Structure, log_p: Tensor, a: Attentions, possible: Tensor, state: State, b: Bounds) -> Solved:
        """Bounds, mu(s,t) and derivatives of what was solved."""
        joint = s.arcs.sums(b.mu)
        hard = s.is_hard[s.arc_of]
        slope = -torch.where(hard, 0.0, a.beta[:, s.arc_of]) * joint
        upper = torch.where(b.residual <= FEASIBLE, b.upper, math.inf)
        if hard.any():
            mass = self.parameters.along_rows(joint)
            slope[:, s.hard_entry] = (mass * log_p.exp())[:, s.hard_entry] * state.lam
        plain = (a.gamma == 0) & (a.beta >= 0).all(1)  # divergences are not negative
        lower = torch.where(plain, b.lower.clamp(min=0.0), b.lower)
        lower = torch.where(possible, torch.minimum(lower, upper), math.inf)
        upper = torch.where(possible, upper, math.inf)
        slope = torch.where(torch.isfinite(upper)[:, None], slope, 0.0)
        return Solved(lower, upper, state.steps, joint, slope)


def _own(state: State) -> State:
    """The same outside inference mode."""
    return State(*(x.clone() for x in vars(state).values()))


def _ordinary(solved: Solved) -> Solved:
    """The same outside inference mode."""
    return Solved(*(getattr(solved, name).clone() for name in TENSORS))
