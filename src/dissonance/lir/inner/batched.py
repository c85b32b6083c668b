"""The inner problem for all runs together, each under its own attention, warm-started: see `solvers/stack.py`."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dissonance.arc import Arc
from dissonance.focus import Attention
from dissonance.lir.inner.base import Attentions, Inner, SolvedTables
from dissonance.lir.inner.compromise import Compromise, of_cells
from dissonance.lir.inner.one_by_one import OneByOne
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.numerics import DTYPE
from dissonance.problem import prepare
from dissonance.solvers import Auto, Newton
from dissonance.solvers.convex.program import Arcs, Structure
from dissonance.solvers.convex.selection import GAMMA, extrapolate
from dissonance.solvers.peeled import LARGE, cells_left
from dissonance.solvers.stack import Answers, Group, Stack

WIDE, WIDE_ALONE = 1024, 128
"""Cells of the widest cluster that is solved in a batch, and in a batch of one."""

LOOSE_SHARE = 0.25
"""If fewer than this share of the cells are left without loose ends, solving without these is faster."""


@dataclass
class Memory:
    """The last problems of a group, where their solution stopped, and what was found; `known` (P,): of which runs."""

    known: Tensor
    log_p: Tensor
    attention: Attentions
    at: Tensor
    answers: Answers

    @classmethod
    def blank(cls, runs: int, arcs: int, entries: int, point: int) -> Memory:
        """A memory of so many runs in which nothing is known yet."""

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=DTYPE)

        attention = Attentions(zeros(runs, arcs), zeros(runs, arcs), zeros(runs))
        known, answers = torch.zeros(runs, dtype=torch.bool), Answers.blank(runs, entries)
        return cls(known, zeros(runs, entries), attention, zeros(runs, point), answers)

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors of the memory."""
        return [self.known, self.log_p, *self.attention.tensors, self.at, *self.answers.tensors]

    def recall(self, runs: Tensor, log_p: Tensor, attention: Attentions) -> Tensor:
        """Which of these runs are asked for exactly what they were asked for last, (runs,)."""
        same = self.known[runs] & attention.same(self.attention.take(runs))
        return same & (self.log_p[runs] == log_p).all(1)

    def keep(self, runs: Tensor, log_p: Tensor, attention: Attentions, at: Tensor, answers: Answers) -> None:
        """Store what was asked and what was found."""
        now = [torch.ones_like(runs, dtype=torch.bool), log_p, *attention.tensors, at, *answers.tensors]
        for mine, theirs in zip(self.tensors, now, strict=True):
            mine[runs] = theirs


class Batched(Inner):
    """Interior points on the junction tree of the whole PDG, for all runs together; warm-started, certified to `tol`.

    Problems that are not convex, that hard arcs determine, or whose bounds do not meet are solved run by run: see
    `OneByOne`.
    """

    def __init__(self, parameters: Parameters, solver: Newton | Auto) -> None:
        self._parameters, self.solver = parameters, solver
        self.newton = Newton(solver.tol, solver.budget, solver.device)
        self.stack = Stack(parameters.pdgs[0].variables, parameters.arcs)
        self.memory: dict[Group, Memory] = {}
        self.names = [a.name for a in parameters.arcs]
        self.other = OneByOne(parameters, solver)

    @property
    def parameters(self) -> Parameters:
        """What the runs are runs of."""
        return self._parameters

    def alone(self, k: int) -> Batched:
        """The same for run k by itself."""
        return Batched(self.parameters.one(k), self.solver)

    def fork(self) -> Batched:
        """A copy with the same memory, which is changed independently from here on."""
        made = copy.copy(self)
        made.memory = copy.deepcopy(self.memory)
        return made

    def dump(self) -> dict[str, Any]:
        """What it knows, as plain tensors."""
        return {json.dumps(group): [x.clone() for x in m.tensors] for group, m in self.memory.items()}

    def restore(self, known: dict[str, Any]) -> None:
        """The inverse of `dump`."""
        self.memory = {}
        for key, tensors in known.items():
            hard, structural, dead = json.loads(key)
            group = (tuple(hard), structural, dead)
            blank = self.memory[group] = self._blank(self.stack.possible(group))
            for mine, theirs in zip(blank.tensors, tensors, strict=True):
                mine.copy_(theirs)

    def _blank(self, s: Structure) -> Memory:
        entries, arcs = len(self.parameters.arc_at), len(self.names)
        return Memory.blank(len(self.parameters), arcs, entries, s.flat_layout[1].point)

    # -- whether it is for these runs ------------------------------------------------------------------------------

    def fits(self) -> bool:
        """Whether the junction tree of the whole PDG is one for batches.

        A single run whose clusters are not small is solved faster with only the arcs that its foci attend to.
        """
        wide = WIDE if len(self.parameters) > 1 else WIDE_ALONE
        if max(math.prod(s) for s in self.stack.tree.shapes) > wide:
            return False
        return self.stack.possible(self.stack.plain).bytes <= self.solver.budget

    def loose(self, base: Attention) -> bool:
        """Whether this is a single run, large, and most of it loose ends under the attention its foci choose from."""
        cells = self.stack.tree.cells
        if len(self.parameters) > 1 or cells < LARGE:
            return False
        return sum(cells_left(c) for c in prepare(self.parameters.pdgs[0], base).components) < LOOSE_SHARE * cells

    # -- solving ---------------------------------------------------------------------------------------------------

    def solve(self, theta: Stacked, attention: Attentions) -> SolvedTables:
        """Bounds, mu(s,t), and derivatives."""
        with torch.no_grad():
            log_p = self.parameters.log_tables(theta)
        found = Answers.blank(len(attention), log_p.shape[1])
        for group, runs in self._groups(log_p, attention).items():
            batched = self._batched(group, log_p[runs], attention.take(runs))
            if not batched.all():
                odd, runs = runs[~batched], runs[batched]
                found.put(odd, self.other.tables(log_p[odd], attention.take(odd)))
            if len(runs):
                found.put(runs, self._group(group, runs, log_p[runs], attention.take(runs)))
        return SolvedTables(self.parameters, theta, found)

    def _groups(self, log_p: Tensor, a: Attentions) -> dict[Group, Tensor]:
        """The runs of each group of problems with the same structure."""
        return {group: torch.from_numpy(runs) for group, runs in self.stack.groups(_arcs(log_p, a)).items()}

    def _batched(self, group: Group, log_p: Tensor, a: Attentions) -> Tensor:
        """Which runs of a group are solved here: convex, and not determined by their hard arcs."""
        found = torch.from_numpy(self.stack.convex(group, _arcs(log_p, a)))
        if any(group[0]):
            pinned = [any(c.pinned is not None for c in p.components) for p in self.other.problems(log_p, a)]
            found = found & ~torch.tensor(pinned)
        return found

    def _group(self, group: Group, runs: Tensor, log_p: Tensor, a: Attentions) -> Answers:
        memory, now = self.memory.get(group), runs
        if memory is not None:
            fresh = ~memory.recall(runs, log_p, a)
            memory.answers.steps[runs[~fresh]] = 0
            if not fresh.any():
                return memory.answers.take(runs)
            now, log_p, a = runs[fresh], log_p[fresh], a.take(fresh)
        near, known = (None, None) if memory is None else (memory.at[now].numpy(), memory.known[now].numpy())
        answers, at = self.stack.solve(group, _arcs(log_p, a), self.newton, near, known)
        if at is None:
            return answers
        left = answers.open(self.solver.tol) & ~log_p.isnan().any(1)  # NaN: the step's guard names the parameter
        if left.any():
            answers.put(left, self.other.tables(log_p[left], a.take(left)))
        if memory is None:
            memory = self.memory[group] = self._blank(self.stack.possible(group))
        memory.keep(now, log_p, a, torch.from_numpy(at), answers)
        return memory.answers.take(runs)

    def precise_joint(self, log_p: Tensor, attention: Attentions, runs: Tensor, arc: Arc) -> Tensor:
        """mu(s,t) of an arc to the last digits: iterate until mu itself settles."""
        span = self.parameters.spans[arc.name]
        found, rest = torch.zeros_like(log_p[:, span]), runs.clone()
        for group, some in self._parts(log_p, attention, runs):
            mu, fine = self.stack.settle(group, _arcs(log_p[some], attention.take(some)), self.newton)
            where = some[torch.from_numpy(fine)]
            found[where] = torch.from_numpy(self.stack.possible(group).joint(mu[fine]))[:, span]
            rest[where] = False
        return found + self.other.precise_joint(log_p, attention, rest, arc) if rest.any() else found

    def compromise(self, theta: Stacked, attention: Attentions) -> Compromise:
        """mu* of all runs at once; of each by itself if some need another solver."""
        with torch.no_grad():
            log_p = self.parameters.log_tables(theta)
        a, found = attention, None
        if bool((a.gamma > 0).all()):
            found = self._selected(log_p, a, unique=True)
        elif not bool((a.gamma > 0).any()):
            ratio = torch.where((a.alpha > 0) & (a.beta > 0), a.beta / a.alpha.clamp(min=1e-300), math.inf).amin(1)
            attended = torch.where(a.beta == 0, 0.0, a.alpha)
            near = replace(a, gamma=GAMMA * ratio.clamp(max=1.0), alpha=attended)
            found = self._selected(log_p, near, unique=False)
        return self.other.compromise(theta, attention) if found is None else found

    def _selected(self, log_p: Tensor, attention: Attentions, unique: bool) -> Compromise | None:
        """The `unique` minimisers at gamma > 0, or their limit as gamma -> 0+; None unless all runs are of one
        group."""
        parts = self._parts(log_p, attention, torch.ones(len(attention), dtype=torch.bool))
        if len(parts) != 1 or len(parts[0][1]) != len(attention):
            return None
        group, arcs = parts[0][0], _arcs(log_p, attention)
        s = self.stack.possible(group)
        if not unique:
            return of_cells(s, extrapolate(s, arcs).mu)
        mu, fine = self.stack.settle(group, arcs, self.newton)
        return of_cells(s, mu) if fine.all() else None

    def _parts(self, log_p: Tensor, attention: Attentions, runs: Tensor) -> list[tuple[Group, Tensor]]:
        """Some runs by group, those that are solved here."""
        found: list[tuple[Group, Tensor]] = []
        for group, some in self._groups(log_p, attention).items():
            some = some[runs[some]]
            some = some[self._batched(group, log_p[some], attention.take(some))] if len(some) else some
            if len(some) and self.stack.structure(group) is not None:
                found.append((group, some))
        return found


def _arcs(log_p: Tensor, a: Attentions) -> Arcs:
    return Arcs(log_p.numpy(), a.beta.numpy(), a.alpha.numpy(), a.gamma.numpy())
