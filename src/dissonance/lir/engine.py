"""P runs of LIR in step: look, refocus, resolve, record."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.errors import CapabilityError, DissonanceError
from dissonance.focus import Attention, Control, Focus
from dissonance.lir import checkpoints
from dissonance.lir.batched import Batched
from dissonance.lir.compromise import Compromise, compromise
from dissonance.lir.descent import Descent, Kept, uninterrupted
from dissonance.lir.draws import Around
from dissonance.lir.each import Each
from dissonance.lir.flows import Flow, exp
from dissonance.lir.foci import Foci, Stack
from dissonance.lir.full_control import Moved
from dissonance.lir.impossible import impossible
from dissonance.lir.inner import Attentions, Inner, Solved
from dissonance.lir.local import Local
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.lir.published import Published, Unconverged
from dissonance.lir.refocus import Refocus
from dissonance.lir.trace import BLANK, Record, Row, Trace
from dissonance.pdg import PDG
from dissonance.solvers import Auto, Newton, Solver
from dissonance.solvers import by_name as solver_by_name
from dissonance.solvers.base import DEFAULT_TOL
from dissonance.solvers.paper import Paper

Callback = Callable[[int, Sequence[Trace]], bool | None]
"""Called after every step with how many steps are done and the traces of the runs; True ends the run."""


def base_focus(pdg: PDG, attention: Attention | None, control: Control | None) -> Focus:
    """The focus that refocus procedures choose from: by default beta = alpha = 1, gamma = 0 and chi = 1."""
    if not pdg.theta:
        raise DissonanceError(
            "no arc has parameters to move: make its cpds SoftmaxTable, or load(..., learnable=True)."
        )
    free = {a.name: 1.0 for a in pdg if any(True for _ in a.cpd.parameters())}
    focus = Focus(
        Attention.uniform(pdg) if attention is None else attention, Control(free) if control is None else control
    )
    focus.check(pdg)
    return focus


def inner_for(parameters: Parameters, solver: Solver, base: Attention) -> Inner:
    """The batched solver where it applies (attention that varies is nothing for it), the one asked for, run by run,
    where it does not."""
    whole = type(solver) is Newton
    if whole or isinstance(solver, Auto):
        if parameters.tabular and not base.varying:
            batched = Batched(parameters, Newton(solver.tol, solver.budget, solver.device))
            if batched.fits() and (whole or not batched.loose(base)):
                return batched
        return Each(parameters, solver)
    if isinstance(solver, Paper) and parameters.tabular:
        own = {f.name: getattr(solver, f.name) for f in fields(Paper) if f.name != "spread"}
        return Unconverged(parameters, solver if isinstance(solver, Published) else Published(**own))
    return Each(parameters, solver)


def solver_for(solver: Solver | str, tol: float | None) -> Solver:
    """A solver by its name, with this tolerance if one is given; one that is passed keeps every option."""
    if not isinstance(solver, str):
        return solver
    found: Any = solver_by_name(solver)
    return found if tol is None or not hasattr(found, "tol") else replace(found, tol=tol)


class Engine:
    """Algorithm 1 for P runs of one structure, each with its own REFOCUS and generator."""

    def __init__(
        self,
        parameters: Parameters,
        refocus: Sequence[Refocus],
        seeds: Sequence[int],
        base: Focus,
        flow: Flow,
        solver: Solver | str,
        *,
        tol: float | None = None,
        record: Record | None = None,
    ) -> None:
        self.parameters, self.refocus, self.seeds = parameters, list(refocus), list(seeds)
        self.flow = flow
        self.moves: Flow = flow.begin() if isinstance(flow, Descent) else flow
        self.solver = solver_for(solver, tol)
        self.tol = getattr(self.solver, "tol", DEFAULT_TOL) if tol is None else tol
        self.record = record or Record()
        self.names = [a.name for a in parameters.arcs]
        self.base = base.attention
        self.inner = inner_for(parameters, self.solver, self.base)
        self.attention = Attentions.of([base.attention] * len(parameters), self.names)
        self.generators = [torch.Generator().manual_seed(s) for s in seeds]
        self.traces = [Trace(base) for _ in seeds]
        self.theta: Stacked = parameters.theta0
        self.step = 0
        self.start: Compromise | None = None
        self.interrupted = False
        self.foci = Foci(parameters)

    def run(self, steps: int, checkpoint: str | None = None, callbacks: Sequence[Callback] = ()) -> None:
        """Up to so many steps, from the checkpoint if there is one; Ctrl-C ends it at the last finished step."""
        if checkpoint is not None:
            checkpoints.resume(self, checkpoint)
        try:
            while self.step < steps:
                self.look()
                with uninterrupted() if isinstance(self.moves, Kept) else nullcontext():
                    self.advance()
                if checkpoint is not None:
                    self._check()
                    checkpoints.save(self, checkpoint)
                if True in [callback(self.step, self.traces) for callback in callbacks]:
                    break
        except KeyboardInterrupt:
            self.interrupted = True
            again = inner_for(self.parameters, self.solver, self.base)
            self.inner = again  # the old one may know half a solution
        self._check()
        self.look(last=True)
        for trace in self.traces:
            trace.rows.append(trace.now)

    def advance(self) -> None:
        """phi, chi <- REFOCUS();  theta <- exp_theta{ -chi . grad <<phi . M(theta)>> }."""
        began = time.perf_counter()
        asked = zip(self.refocus, self.parameters.pdgs, self.generators, self.traces, strict=True)
        foci = [choose(pdg, self.step, generator, trace) for choose, pdg, generator, trace in asked]
        focus = self.foci.stack(foci)
        if focus.attention.varying and not isinstance(self.inner, Each):
            raise CapabilityError(
                "the refocus makes attention vary with the sample, and the run's own attention does not: give lir "
                'an `attention` that does, or solver="sampled".'
            )
        self._surround(foci, focus)
        inner = self.inner.fork() if self.record.globally else self.inner
        local = Local(self.parameters, inner, focus.attention, focus.reach, self.tol)
        moved = self._moved_by(local)
        if local.first is None:  # nothing could move, so nothing was solved
            local.solve(self.theta)
        self._refuse_infinite(foci, local)
        seconds = (time.perf_counter() - began) / len(self.parameters)
        rows = self._rows(focus, local, moved, seconds)
        self.theta, self.step = moved.theta, self.step + 1
        for trace, row in zip(self.traces, rows, strict=True):
            trace.rows.append(row)

    def _moved_by(self, local: Local) -> Moved:
        """exp; if what is drawn is no longer a number, the parameter that has left the numbers is named, if one has."""
        try:
            return exp(local, self.theta, self.moves)
        except DissonanceError:
            self._check()
            raise

    def _check(self) -> None:
        """Raise if the last step took a parameter out of the numbers. What is not drawn is projected instead."""
        if not (isinstance(self.inner, Each) and self.inner.random):
            return
        for key, v in self.theta.items():
            start = self.parameters.theta0[key]
            if not math.isfinite(float(v.sum())) and bool((torch.isfinite(start) & ~torch.isfinite(v)).any()):
                arc = next(a for a in self.parameters.arcs if a.name == self.parameters.arc_of[key])
                raise DissonanceError(
                    f"step {self.step - 1}: {arc} would move to a {key!r} that is not finite. Lower its chi, or scale "
                    "what it is given; the last checkpoint is from before this step."
                )

    def _surround(self, foci: Sequence[Focus], focus: Stack) -> None:
        """Have the inner problem see the contexts of the foci, and samples of its own where it is random."""
        contexts = [f.context for f in foci]
        if isinstance(self.inner, Each) and (self.inner.random or any(contexts)):
            seeds = [int(torch.randint(2**62, (), generator=g)) for g in self.generators]
            self.inner.surround(Around(contexts, seeds, focus.reach.free))
        elif any(contexts):
            raise DissonanceError("a focus with a context needs cpds that hold data; these are tables.")

    def _rows(self, focus: Stack, local: Local, moved: Moved, seconds: float) -> list[Row]:
        count, names = len(self.traces), ("local_lower", "local_upper", "solves", "steps", "projected", "residual")
        columns = (*(local.first or ()), local.solves, local.steps, moved.projected, moved.residual)
        each = [
            x.expand(count).tolist() if isinstance(x, Tensor) else x if isinstance(x, list) else [x] * count
            for x in columns
        ]
        found: list[Row] = []
        for k, trace in enumerate(self.traces):
            mine = {name: column[k] for name, column in zip(names, each, strict=True)}
            steps = trace.now.newton_steps + mine.pop("steps")
            found.append(trace.now.but({**focus.said[k], **mine, "newton_steps": steps, "seconds": seconds}))
        return found

    def look(self, last: bool = False) -> None:
        """Begin the row of this theta: global inconsistency, who is to blame, how far theta and mu* have moved."""
        each: list[dict[str, Any]] = [{"step": self.step} for _ in self.traces]
        if self.record.globally:
            solved = self.inner.solve(self.theta, self.attention)
            columns = {"global_lower": solved.lower, "global_upper": solved.upper, "newton_steps": solved.steps}
            every = self.record.distortion
            if last or self.step == 0 or (every and self.step % every == 0):
                columns["tv_mu"] = self._distortion()
            found: dict[str, list[Any]] = {name: column.tolist() for name, column in columns.items()}
            if self.parameters.tabular and not self.base.varying:
                found["blame"], found["surprisal"] = (self._named(x) for x in self._blame(solved))
            for k, now in enumerate(each):
                now |= {name: column[k] for name, column in found.items()}
        if self.parameters.tabular:
            for now, moved in zip(each, self._moved().tolist(), strict=True):
                now["tv_theta"] = moved
        keep = self.record.snapshots and (last or self.step % self.record.snapshots == 0)
        for k, (trace, now) in enumerate(zip(self.traces, each, strict=True)):
            trace.now = BLANK.but(now)
            trace.where = partial(self.parameters.of, k, self.theta)
            if keep:
                trace.snapshots[self.step] = {key: v.clone() for key, v in trace.theta.items()}

    def _named(self, x: Tensor) -> list[dict[str, float]]:
        return [dict(zip(self.names, row, strict=True)) for row in x.tolist()]

    def _blame(self, solved: Solved) -> tuple[Tensor, Tensor]:
        """beta_a KL_a at mu*, and the excess surprisal E_mu[-log p] - E_mu(S)[H(p)], (P, arcs) each."""
        with torch.no_grad():
            log_p = self.parameters.log_tables(self.theta)
        m = solved.joints(self.parameters)
        mass = self.parameters.along_rows(m)
        ratio = numerics.log(m / torch.where(mass > 0, mass, 1.0)) - log_p
        kl = self.parameters.by_arc(numerics.times(m, ratio)).clamp(min=0.0)
        soft = torch.where(self.attention.beta == math.inf, 0.0, self.attention.beta)
        surprise = numerics.times(mass * log_p.exp() - m, log_p)
        return numerics.times(soft, kl), self.parameters.by_arc(surprise)

    def _moved(self) -> Tensor:
        """The mean over all rows of all tables of the total variation between p and the p of the start, (P,)."""
        with torch.no_grad():
            tables = [self.parameters.log_tables(x).exp() for x in (self.theta, self.parameters.theta0)]
        return 0.5 * (tables[0] - tables[1]).abs().sum(1) / sum(rows for rows, _ in self.parameters.shapes)

    def _distortion(self) -> Tensor:
        """The total variation of mu* from its start, (P,)."""
        now = compromise(self.inner, self.theta, self.attention)
        self.start = self.start or now
        return now.distance(self.start)

    def _refuse_infinite(self, foci: Sequence[Focus], local: Local) -> None:
        """Raise if what is drawn costs infinitely much: nothing says where to go from there. Tables may be infinite."""
        if local.first is None or not (isinstance(self.inner, Each) and self.inner.random):
            return
        highest = local.first[1]
        for k, upper in enumerate(highest.tolist() if isinstance(highest, Tensor) else highest):
            if not math.isfinite(upper):
                self._check()
                theta = {**self.parameters.of(k, self.theta), **foci[k].context}
                why = impossible(self.parameters.pdgs[k], foci[k].attention, theta)
                raise DissonanceError(f"step {self.step}: the inconsistency is {upper}: {why}")
