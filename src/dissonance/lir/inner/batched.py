"""The inner problem for all runs together: interior points, each run under its own attention, warm-started.

Every run lives on the junction tree of the whole PDG. An arc out of attention has beta = 0 there, so that runs with
different foci stay in one batch.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance.attended import Attended
from dissonance.distributions import Tree
from dissonance.focus import Attention
from dissonance.lir.inner.base import TENSORS, Attentions, Inner, Solved
from dissonance.lir.inner.compromise import Compromise, of_cells
from dissonance.lir.inner.one_by_one import OneByOne
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.numerics import DTYPE
from dissonance.pdg import Arc
from dissonance.problem import EVEN, Component, prepare
from dissonance.solvers import Auto, Newton
from dissonance.solvers.base import FEASIBLE
from dissonance.solvers.convex.program import EVERY, Arcs, Program, Structure, structure
from dissonance.solvers.convex.selection import GAMMA, extrapolate
from dissonance.solvers.convex.solve import Outcome, Work
from dissonance.solvers.convex.support import support
from dissonance.solvers.peeled import LARGE, cells_left

WIDE, WIDE_ALONE = 1024, 128
"""Cells of the widest cluster that is solved in a batch, and in a batch of one."""

FEW = 0.25
"""The share of the cells below which the arcs that matter are better off without the others."""

Group = tuple[tuple[bool, ...], bool, str]
"""Which arcs are hard, whether gamma > 0, and which table entries are impossible (bits, in hexadecimal; none: ""): what
the structure of a problem depends on beside the PDG."""


@dataclass
class Memory:
    """The last problems of a group, where their solution stopped, and what was found; `known` (P,): of which runs."""

    known: Tensor
    log_p: Tensor
    attention: Attentions
    at: Tensor
    solved: Solved

    @property
    def tensors(self) -> list[Tensor]:
        """All of it."""
        own = [getattr(self.solved, name) for name in TENSORS]
        return [self.known, self.log_p, *self.attention.tensors, self.at, *own]

    def copy(self) -> Memory:
        """Another one."""
        return Memory(
            self.known.clone(),
            self.log_p.clone(),
            self.attention.clone(),
            self.at.clone(),
            Solved(*(getattr(self.solved, name).clone() for name in TENSORS)),
        )

    def recall(self, runs: Tensor, log_p: Tensor, attention: Attentions) -> Tensor:
        """Which of these runs are asked for exactly what they were asked for last, (runs,)."""
        same = self.known[runs] & attention.same(self.attention.take(runs))
        return same & (self.log_p[runs] == log_p).all(1)


class Batched(Inner):
    """Interior points on the junction tree of the whole PDG, for all runs together; warm-started, certified to `tol`.

    A warm start that does not lead to a tight proof is forgotten and the problem solved afresh; one whose bounds still
    do not meet goes through the front door, alone.
    """

    def __init__(self, parameters: Parameters, solver: Newton) -> None:
        self._parameters, self.solver = parameters, solver
        self.memory: dict[Group, Memory] = {}
        self.names = [a.name for a in parameters.arcs]
        self.other = OneByOne(parameters, Auto(solver.tol, solver.budget, solver.device))
        self._structures: dict[Group, Structure | None] = {}

    @property
    def parameters(self) -> Parameters:
        """What the runs are runs of."""
        return self._parameters

    def alone(self, k: int) -> Batched:
        """The same for run k by itself."""
        return Batched(self.parameters.one(k), self.solver)

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
            hard, structural, dead = json.loads(key)
            group = (tuple(hard), structural, dead)
            blank = self.memory[group] = self._blank(self._possible(group))
            for mine, theirs in zip(blank.tensors, tensors, strict=True):
                mine.copy_(theirs)

    # -- structure -------------------------------------------------------------------------------------------------

    def component(self, group: Group) -> Component:
        """All arcs of the PDG as one component; the weights stand for nothing but the group."""
        hard, structural, _ = group
        log_p = [a.log_table().detach().numpy() for a in self.parameters.arcs]
        arcs = [
            Attended(a, table, math.inf if h else 1.0, 0.0)
            for a, table, h in zip(self.parameters.arcs, log_p, hard, strict=True)
        ]
        seen = {v.name for a in self.parameters.arcs for v in a.scope}
        variables = tuple(v for v in self.parameters.pdgs[0].variables if v.name in seen)
        return Component(variables, tuple(arcs), 1.0 if structural else 0.0)

    def structure(self, group: Group) -> Structure | None:
        """What all problems of a group share; None if nothing is possible."""
        if group not in self._structures:
            component = self.component(group)
            found = structure(component, component.tree)
            if group[2]:
                bits = np.unpackbits(np.frombuffer(bytes.fromhex(group[2]), dtype=np.uint8))
                alive, possible = support(found.layout, bits[: len(self.parameters.arc_at)].astype(np.bool_))
                found = structure(component, component.tree, EVERY if alive.all() else alive) if possible else None
            self._structures[group] = found
        return self._structures[group]

    def _possible(self, group: Group) -> Structure:
        found = self.structure(group)
        assert found is not None
        return found

    def fits(self) -> bool:
        """Whether the junction tree of the whole PDG is one for batches.

        A single run whose clusters are not small is better off with what its foci attend to.
        """
        wide = WIDE if len(self.parameters) > 1 else WIDE_ALONE
        if max(math.prod(s) for s in self.tree.shapes) > wide:
            return False
        return self._possible(((False,) * len(self.names), False, "")).bytes <= self.solver.budget

    def loose(self, base: Attention) -> bool:
        """Whether this is a single run, large, and most of it loose ends under the attention its foci choose from."""
        if len(self.parameters) > 1 or self.tree.cells < LARGE:
            return False
        left = [cells_left(c) for c in prepare(self.parameters.pdgs[0], base).components]
        return sum(left) < FEW * self.tree.cells

    @cached_property
    def tree(self) -> Tree:
        """The junction tree of the whole PDG."""
        return self.component(((False,) * len(self.names), False, "")).tree

    def groups(self, log_p: Tensor, attention: Attentions) -> dict[Group, Tensor]:
        """Runs by group."""
        hard, structural = attention.beta == math.inf, attention.gamma > 0
        zero = log_p == -math.inf
        everyone = torch.arange(len(attention))
        if not hard.any() and not zero.any() and (not structural.any() or structural.all()):
            return {((False,) * hard.shape[1], bool(structural[:1].any()), ""): everyone}
        dead = [""] * len(attention)
        if zero.any():
            bits = np.packbits((zero & (attention.beta > 0)[:, self.parameters.arc_at]).numpy(), axis=1)
            dead = [row.tobytes().hex() if row.any() else "" for row in bits]
        found: dict[Group, list[int]] = {}
        for k, (h, g) in enumerate(zip(hard.tolist(), structural.tolist(), strict=True)):
            found.setdefault((tuple(h), g, dead[k]), []).append(k)
        return {group: torch.tensor(runs) for group, runs in found.items()}

    # -- solving ---------------------------------------------------------------------------------------------------

    def solve(self, theta: Stacked, attention: Attentions) -> Solved:
        """Bounds, mu(s,t), and derivatives."""
        with torch.no_grad():
            log_p = self.parameters.log_tables(theta)
        found = Solved.blank(len(attention), log_p.shape[1])
        for group, runs in self.groups(log_p, attention).items():
            odd = self._needs_other_solver(group, log_p[runs], attention.take(runs))
            if odd.any():
                found.put(runs[odd], self.other.tables(log_p[runs[odd]], attention.take(runs[odd])))
                runs = runs[~odd]
            if len(runs):
                found.put(runs, self._group(group, runs, log_p[runs], attention.take(runs)))
        return found

    def precise_joint(self, log_p: Tensor, attention: Attentions, runs: Tensor, arc: Arc) -> Tensor:
        """mu(s,t) of an arc to the last digits: iterate until mu itself settles."""
        span = self.parameters.spans[arc.name]
        found = torch.zeros_like(log_p[:, span])
        rest = runs.clone()
        for where, s, arcs in self._batches(log_p, attention, runs):
            mu, fine = self._settled(s, arcs)
            where = where[fine]
            found[where] = torch.from_numpy(s.joint(mu[fine.numpy()]))[:, span]
            rest[where] = False
        return found + self.other.precise_joint(log_p, attention, rest, arc) if rest.any() else found

    def compromise(self, theta: Stacked, attention: Attentions) -> Compromise:
        """mu* of all runs at once; of each by itself if some need another solver."""
        with torch.no_grad():
            log_p = self.parameters.log_tables(theta)
        a, found = attention, None
        if bool((a.gamma > 0).all()):
            found = self._unique(log_p, a)
        elif not bool((a.gamma > 0).any()):
            ratio = torch.where((a.alpha > 0) & (a.beta > 0), a.beta / a.alpha.clamp(min=1e-300), math.inf).amin(1)
            attended = torch.where(a.beta == 0, 0.0, a.alpha)
            found = self._near_zero(log_p, replace(a, gamma=GAMMA * ratio.clamp(max=1.0), alpha=attended))
        return self.other.compromise(theta, attention) if found is None else of_cells(*found)

    def _near_zero(self, log_p: Tensor, attention: Attentions) -> tuple[Structure, np.ndarray] | None:
        """mu (P, cells) at gamma -> 0+, extrapolated from the gamma given; None unless all runs are of one group."""
        parts = list(self._batches(log_p, attention, torch.ones(len(attention), dtype=torch.bool)))
        if len(parts) != 1 or len(parts[0][0]) != len(attention):
            return None
        found = extrapolate(parts[0][1], parts[0][2])
        return found.structure, found.mu

    def _unique(self, log_p: Tensor, attention: Attentions) -> tuple[Structure, np.ndarray] | None:
        """mu (P, cells) of the unique minimisers at gamma > 0; None unless all runs are of one group."""
        parts = list(self._batches(log_p, attention, torch.ones(len(attention), dtype=torch.bool)))
        if len(parts) != 1 or len(parts[0][0]) != len(attention):
            return None
        mu, fine = self._settled(*parts[0][1:])
        return (parts[0][1], mu) if fine.all() else None

    def _batches(self, log_p: Tensor, attention: Attentions, runs: Tensor) -> Iterator[tuple[Tensor, Structure, Arcs]]:
        """Some runs, group by group, those that can be batched."""
        for group, some in self.groups(log_p, attention).items():
            some = some[runs[some]]
            if len(some):
                some = some[~self._needs_other_solver(group, log_p[some], attention.take(some))]
            s = self.structure(group)
            if len(some) and s is not None:
                yield some, s, _arcs(log_p[some], attention.take(some))

    def _settled(self, s: Structure, arcs: Arcs) -> tuple[np.ndarray, Tensor]:
        """mu (runs, cells) whose last step moved it by next to nothing, and for which runs it is fine, (runs,)."""
        count = len(arcs.gamma)
        work = Work(s, s.numbers(arcs))
        work.settle(np.full(count, 1e-12), 1e-9, 30)
        work.certify()
        mu, bounds = work.proved, work.bounds
        fine = np.ones(count, dtype=np.bool_)
        if s.hard:  # else mu is some distribution at least; here it may break hard arcs
            near = bounds[:, 1] - bounds[:, 0] <= self.solver.tol * np.maximum(1.0, np.abs(bounds[:, 1]))
            fine = near & (bounds[:, 2] <= FEASIBLE)
        return mu, torch.from_numpy(fine)

    def _needs_other_solver(self, group: Group, log_p: Tensor, a: Attentions) -> Tensor:
        """Which runs need another solver: not convex, or determined by their hard arcs."""
        odd = torch.zeros(len(a), dtype=torch.bool)
        if group[1] or (a.beta < 0).any():
            whole = self._possible((group[0], group[1], ""))
            arcs = _arcs(log_p, a)
            size = whole.weights(Arcs(arcs.log_p, np.abs(arcs.beta), -np.abs(arcs.alpha), arcs.gamma))
            odd |= torch.from_numpy((whole.weights(arcs) < -EVEN * size).any(1))
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
        if s is None:
            found = Solved.blank(len(runs), log_p.shape[1])
            return replace(found, lower=found.upper.clone())
        arcs = _arcs(log_p, now)
        outcome = self._run(Program(s, s.numbers(arcs)), memory, runs_now)
        solved = self.read(s, log_p, now, outcome)
        loose = ~(solved.upper - solved.lower <= self.solver.tol * solved.upper.abs().clamp(min=1.0))
        loose &= solved.lower < math.inf
        if loose.any():
            solved.put(loose, self.other.tables(log_p[loose], now.take(loose)))
        if memory is None:
            memory = self.memory[group] = self._blank(s)
        memory.known[runs_now] = True
        memory.log_p[runs_now] = log_p
        for mine, theirs in zip(memory.attention.tensors, now.tensors, strict=True):
            mine[runs_now] = theirs
        memory.at[runs_now] = torch.from_numpy(outcome.at)
        memory.solved.put(runs_now, solved)
        return memory.solved.take(runs)

    def _blank(self, s: Structure) -> Memory:
        count, entries, arcs = len(self.parameters), len(self.parameters.arc_at), len(self.names)

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=DTYPE)

        attention = Attentions(zeros(count, arcs), zeros(count, arcs), zeros(count))
        known = torch.zeros(count, dtype=torch.bool)
        points = zeros(count, s.flat_layout[1].point)
        return Memory(known, zeros(count, entries), attention, points, Solved.blank(count, entries))

    def _run(self, program: Program, memory: Memory | None, runs: Tensor) -> Outcome:
        """From the last point where there is one; afresh where that does not lead to a tight proof."""
        tol = 1e-2 * self.solver.tol  # mu is only as good as the root of the gap
        near, known = None, None
        if memory is not None:
            near, known = memory.at[runs].numpy(), memory.known[runs].numpy()
        return self.solver.run(program, tol, 0.5 * self.solver.tol, near, known)

    def read(self, s: Structure, log_p: Tensor, a: Attentions, outcome: Outcome) -> Solved:
        """Bounds, mu(s,t) and derivatives of what was solved."""
        joint, arc_of = torch.from_numpy(s.joint(outcome.mu)), torch.from_numpy(s.arc_of)
        low, high, residual = torch.from_numpy(outcome.bounds).T
        hard = torch.from_numpy(s.layout.hard)[arc_of]
        slope = -torch.where(hard, 0.0, a.beta[:, arc_of]) * joint
        upper = torch.where(residual <= FEASIBLE, high, math.inf)
        if hard.any():
            mass, lam = self.parameters.along_rows(joint), torch.from_numpy(s.spread_multipliers(s.y(outcome.at)))
            slope = torch.where(hard, mass * log_p.exp() * lam, slope)
        plain = (a.gamma == 0) & (a.beta >= 0).all(1)  # divergences are not negative
        lower = torch.minimum(torch.where(plain, low.clamp(min=0.0), low), upper)
        impossible = torch.from_numpy(outcome.contradiction > 0)
        lower, upper = (torch.where(impossible, math.inf, x) for x in (lower, upper))
        slope = torch.where(torch.isfinite(upper)[:, None], slope, 0.0)
        return Solved(lower, upper, torch.from_numpy(outcome.steps), joint, slope)


def _arcs(log_p: Tensor, a: Attentions) -> Arcs:
    return Arcs(log_p.numpy(), a.beta.numpy(), a.alpha.numpy(), a.gamma.numpy())
