"""Algorithm 1 of the paper, for P runs of one structure in step: look, refocus, flow, record, checkpoint."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance.answer import checked
from dissonance.arc import Theta
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Focus
from dissonance.inconsistency import inconsistency
from dissonance.lir.checkpoints import Checkpoint
from dissonance.lir.flows import Flow, Moved, State, exp
from dissonance.lir.inner import Attentions, Compromise, inner_for
from dissonance.lir.local import Local
from dissonance.lir.parameters import Parameters, Stacked, stacked
from dissonance.lir.refocus import Refocus, name_of
from dissonance.lir.trace import BLANK, Record, Trace
from dissonance.pdg import PDG
from dissonance.solvers import Solver, solver_named

Callback = Callable[[int, Sequence[Trace]], bool | None]
"""Called after every step with the number of steps done and the traces of the runs; True ends the run."""

MANY = 100
"""Arcs of a PDG from which on a step looks at the arcs in focus alone, if nothing else looks at all of them."""

SHARE = 0.25
"""The largest share of the arcs of which that is so: of more, what is known of the whole is worth more."""

REMEMBERED = 8
"""Foci whose local problems are kept: those of players that take turns, say."""

PARTS = 64
"""Sets of arcs in focus whose parameters and solver are kept."""


def apart(arcs: int, record: Record) -> bool:
    """Whether steps of a run of so many arcs look at their focus alone, so that it is done without other runs."""
    return arcs >= MANY and not record.globally


def solver_for(solver: Solver | str, tol: float | None) -> Solver:
    """Return a solver by its name, with this tolerance if one is given, and without what only tightens bounds; one that
    is passed keeps every option."""
    if not isinstance(solver, str):
        return checked(solver)
    found: Any = solver_named(solver).unproved()
    return found if tol is None or not hasattr(found, "tol") else replace(found, tol=tol)


@dataclass(eq=False)
class Algorithm:
    """P runs of LIR in step: what does not change from step to step, and the state of the runs.

    A step looks at all arcs or, in a single run of many arcs whose trace does without the global inconsistency, at the
    arcs in focus alone: an arc without attention and without control changes nothing. (At gamma = 0 mu* need not be
    unique, and another one may be found than on the whole.)

    Attributes
    ----------
    parameters : Parameters
        The parameters of the PDGs.
    refocus, seeds : Sequence
        How each run chooses its foci, and the seed of its generator.
    base : Focus
        The focus that refocus procedures choose from; the global inconsistency is measured with its attention.
    flow : Flow
        How theta moves under a focus.
    solver : Solver
        The solver of the inconsistency.
    tol : float
        The inconsistency below which nothing counts as left to resolve.
    record : Record
        What the traces record.
    """

    parameters: Parameters
    refocus: Sequence[Refocus]
    seeds: Sequence[int]
    base: Focus
    flow: Flow
    solver: Solver
    tol: float
    record: Record

    def __post_init__(self) -> None:
        self.theta, self.step, self.interrupted = self.parameters.begin(), 0, False
        self.state: State | None = None  # of the flow
        self.moved: Collection[str] = self.theta  # the parameters that the last step may have moved
        self.generators = [np.random.default_rng(seed % 2**64) for seed in self.seeds]
        self.traces = [Trace(self.base) for _ in self.seeds]
        self.start: Compromise | None = None  # mu* at the start, once it is known
        self.tv_theta: Tensor | None = None  # the distance of theta from the start, where it is known
        self.looked: Local | None = None  # all arcs under the base attention, once they were looked at
        self._locals: dict[tuple[object, ...], tuple[Local, Local]] = {}  # the arcs, and their problem under foci
        self._seen: frozenset[object] = frozenset()  # attentions and controls of these, by id
        self._parts: dict[tuple[str, ...], Local] = {}
        large = len(self.parameters) == 1 and apart(len(self.parameters.pdgs[0]), self.record)
        # The paper's solver keeps mu of all variables from step to step.
        plain = not self.flow.whole and self.solver.name != "paper" and not self.base.attention.varying
        self._in_parts = large and plain and self.parameters.tabular

    @property
    def whole(self) -> Local:
        """All arcs under the base attention, with a solver that is made when it is first needed."""
        if self.looked is None:
            inner = inner_for(self.parameters, self.solver, self.base.attention)
            names = [a.name for a in self.parameters.arcs]
            attention = Attentions.of([self.base.attention] * len(self.seeds), names)
            self.looked = Local(self.parameters, inner, attention, {}, self.tol)
        return self.looked

    def run(self, steps: int, checkpoint: str | None = None, callbacks: Sequence[Callback] = ()) -> None:
        """Take up to so many steps, from the checkpoint if there is one; Ctrl-C ends at the last finished step."""
        with Checkpoint.resumed(self, checkpoint, steps) as kept, torch.enable_grad():
            self.refuse_nonfinite()
            self._begin_flow()
            try:
                with _held_back(self.flow.in_place) as let_through:
                    while self.step < steps:
                        self.look()
                        self.advance()
                        let_through()
                        self.refuse_nonfinite(self.moved, written=kept is not None)
                        if kept is not None:
                            kept.write()
                        if True in [callback(self.step, self.traces) for callback in callbacks]:
                            break
            except KeyboardInterrupt:
                self.interrupted, self.looked = True, None  # the solver may hold half a solution
        self.refuse_nonfinite()
        self.look(last=True)
        for trace in self.traces:
            trace.rows.append(trace.now)

    def _begin_flow(self) -> None:
        """Begin with the state of the flow, or go on with what a checkpoint has kept of it."""
        if self.flow.in_place:  # the parameters of the start are needed later
            self.theta = self.parameters.moved({key: x.clone() for key, x in self.theta.items()})
        init: Callable[[Mapping[str, Tensor]], State | None] = getattr(self.flow, "init", lambda theta: None)
        kept, fresh = self.state, init(self.theta)
        if self.step == 0:
            self.state = fresh
        elif kept is not None and fresh is not None:
            fresh.clear()
            fresh.update(kept)
            self.state = fresh

    # -- look ----------------------------------------------------------------------------------------------------------

    def look(self, last: bool = False) -> None:
        """Begin the rows of this theta: how inconsistent the whole is, and how far theta and mu* have moved."""
        found = self._globally(last) if self.record.globally else [{}] * len(self.traces)
        if self.parameters.tabular and self.tv_theta is None:
            self.tv_theta = self.parameters.distance(self.theta, self.parameters.theta0) / self.parameters.rows
        far = None if self.tv_theta is None else self.tv_theta.tolist()
        keep = self.record.snapshots and (last or self.step % self.record.snapshots == 0)
        for k, trace in enumerate(self.traces):
            trace.now = BLANK.updated({"step": self.step, **found[k], **({} if far is None else {"tv_theta": far[k]})})
            trace.where = partial(self.parameters.of, k, self.theta)
            if keep:
                trace.snapshots[self.step] = {key: v.clone() for key, v in trace.theta.items()}

    def _globally(self, last: bool) -> list[dict[str, Any]]:
        """Return the inconsistency under the base attention, run by run, and where it is recorded how far mu* moved."""
        whole, theta, every = self.whole, stacked(self.theta), self.record.distortion
        solved = whole.solve(theta)
        lower, upper = solved.bounds
        found: dict[str, list[Any]] = {"global_lower": lower, "global_upper": upper}
        found["newton_steps"] = _every(solved.steps, len(upper))
        if last or self.step == 0 or (every and self.step % every == 0):
            now = whole.inner.compromise(theta, whole.attention)
            self.start = self.start or now
            found["tv_mu"] = now.distance(self.start).tolist()
        if self.parameters.tabular and not whole.attention.varying:
            names = [a.name for a in self.parameters.arcs]
            for column, x in zip(("blame", "surprisal"), whole.blame(theta, solved), strict=True):
                found[column] = [dict(zip(names, row, strict=True)) for row in x.tolist()]
        return [{name: column[k] for name, column in found.items()} for k in range(len(upper))]

    # -- refocus, flow -------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """phi, chi <- REFOCUS();  theta <- exp_theta{ -chi . grad <<phi . M(theta)>> }."""
        began = time.perf_counter()
        foci = self._refocused()
        local = self._local(foci)
        theta = local.theta(self.theta)
        try:
            moved = exp(local, theta, self.flow, self.state)
        except DissonanceError:
            self.refuse_nonfinite()  # which says more
            raise
        local.solve_once(theta)
        self._refuse_infinite(foci, local)
        self._move(local, theta, moved)
        self._record(local, moved, time.perf_counter() - began)

    def _refocused(self) -> list[Focus]:
        """Return the next focus of every run, which may depend on its trace and draw from its generator."""
        found: list[Focus] = []
        asked = zip(self.refocus, self.parameters.pdgs, self.generators, self.traces, strict=True)
        for refocus, pdg, generator, trace in asked:
            focus = refocus(pdg, self.step, generator, trace)
            try:
                found.append(self._checked(focus, pdg))
            except DissonanceError as error:
                raise type(error)(f"the refocus {name_of(refocus)!r}, step {self.step}: {error}") from None
        return found

    def _checked(self, focus: object, pdg: PDG) -> Focus:
        """Return a focus with every weight spelled out; one that is made of objects seen before is not checked again,
        but for its context."""
        if not isinstance(focus, Focus):
            control = "trace.base.control" if isinstance(focus, Attention) else "control"
            kind = type(focus).__name__
            found = "None" if focus is None else f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}"
            raise DissonanceError(f"it returned {found}, not a focus: return Focus(attention, {control}).")
        spelled = focus.on(pdg)
        if self._seen.issuperset((id(spelled.attention), id(spelled.control))):
            spelled.check_context(pdg)
        else:
            spelled.check(pdg)
        return spelled

    def _local(self, foci: Sequence[Focus]) -> Local:
        """Return the local problem under these foci, with a solver for this step."""
        contexts = [f.context for f in foci]
        key = any(contexts), *[id(x) for f in foci for x in (f.attention, f.control)]
        if key not in self._locals:
            arcs = self._arcs(foci[0])
            self._locals[key] = arcs, arcs.under(foci)  # which keeps the objects of the key alive
            if len(self._locals) > REMEMBERED:
                self._locals.pop(next(iter(self._locals)))
            self._seen = frozenset(x for known in self._locals for x in known[1:])
        arcs, local = self._locals[key]
        # A look at the whole leaves no trace in the solver of the steps, nor does a step on a part in that of the next.
        forked = self.record.globally or arcs is not self.looked
        local.begin(arcs.inner.fork() if forked else arcs.inner, contexts, self.generators)
        return local

    def _arcs(self, focus: Focus) -> Local:
        """Return the arcs that a focus is about, if they are few; else all arcs."""
        if not self._in_parts or focus.context or focus.attention.varying:
            return self.whole
        parameters, attention = self.parameters, focus.attention
        pdg = parameters.pdgs[0]
        weights = [attention.beta] if attention.gamma == 0 else [attention.beta, attention.alpha]
        seen = {n for each in weights for n, w in each.items() if w}
        seen |= {key if key in pdg else parameters.arc_of.get(key, key) for key in focus.control.chi}
        if not 0 < len(seen) <= SHARE * len(pdg):
            return self.whole
        names = tuple(sorted(seen, key=parameters.place))
        if names not in self._parts:
            own = Parameters([PDG(*(pdg[n] for n in names))])
            key_of = {key: parameters.home[key] for key, home in own.home.items() if key == home}
            inner = inner_for(own, self.solver, attention)
            nothing = Attentions.of([], names)
            self._parts[names] = Local(own, inner, nothing, {}, self.tol, key_of)
            if len(self._parts) > PARTS:
                self._parts.pop(next(iter(self._parts)))
        return self._parts[names]

    def _move(self, local: Local, before: Stacked, moved: Moved) -> None:
        """Put theta and the state of the flow where a step has taken them."""
        if local.key_of is None:
            self.tv_theta = None
            self.theta = self.moved = self.parameters.moved(moved.theta)
        else:
            self._follow(local, before, moved.theta)
            self.theta.update({local.key_of[own]: x for own, x in moved.theta.items()})
            self.moved = tuple(local.key_of.values())
        self.state = moved.state
        self.step += 1

    def _follow(self, local: Local, before: Stacked, after: Stacked) -> None:
        """Update the distance of theta from the start after a step that moved only some arcs."""
        names, key_of = [a.name for a in local.parameters.arcs], local.key_of or {}
        if self.tv_theta is None or self.parameters.held_outside(key_of.values(), names):
            self.tv_theta = None
            return
        start = local.theta(self.parameters.theta0)
        now, then = (local.parameters.distance(theta, start) for theta in (after, before))
        self.tv_theta = self.tv_theta + (now - then) / self.parameters.rows

    # -- record --------------------------------------------------------------------------------------------------------

    def _record(self, local: Local, moved: Moved, seconds: float) -> None:
        """Complete the rows that were begun with what the step has done, and add them to the traces."""
        count = len(self.traces)
        lower, upper = self._bounds(local)
        found = {"solves": local.solves, "newton_steps": local.steps}
        found |= {"projected": moved.projected, "residual": moved.residual}
        columns = {name: _every(x, count) for name, x in found.items() if isinstance(x, Tensor)}
        for k, trace in enumerate(self.traces):
            done = {**local.weights[k], **found, "seconds": seconds / count}
            for name, column in columns.items():
                done[name] = column[k]
            done["local_lower"], done["local_upper"] = lower[k], upper[k]
            done["newton_steps"] += trace.now.newton_steps
            trace.rows.append(trace.now.updated(done))

    def _bounds(self, local: Local) -> tuple[list[float], list[float]]:
        """Return the bounds of the step's first solve; variables out of sight add a constant, -gamma log |V|."""
        assert local.first is not None
        lower, upper = local.first
        gamma = 0.0 if local.key_of is None else float(local.attention.gamma)
        if not gamma:
            return lower, upper
        outside = gamma * (self.parameters.pdgs[0].log_settings - local.parameters.pdgs[0].log_settings)
        return [x - outside for x in lower], [x - outside for x in upper]

    # -- what stops a run ----------------------------------------------------------------------------------------------

    def refuse_nonfinite(self, keys: Collection[str] | None = None, written: bool = True) -> None:
        """Raise if a parameter, one of `keys` or any, is NaN or infinite. In a table the logarithm of 0 may be -inf.

        With samples, steps that are not `written` to a checkpoint are not checked: the next draw raises the error.
        """
        random = self.parameters.drawn
        if random and not written:
            return
        found = self.parameters.nonfinite(self.theta if keys is None else {key: self.theta[key] for key in keys})
        for key in found:
            v = self.theta[key]
            wrong = ~torch.isfinite(v)
            wrong &= torch.isfinite(self.parameters.theta0[key]) if random else v != -math.inf
            if bool(wrong.any()):
                arc = self.parameters.pdgs[0][self.parameters.arc_of[key]]
                if self.step == 0:
                    raise DissonanceError(f"{arc}: the parameter {key!r} holds {float(v[wrong][0])}.")
                raise DissonanceError(
                    f"step {self.step - 1}: {arc} would move to a {key!r} that is not finite. Lower its chi, or scale "
                    "what it is given; the last checkpoint is from before this step."
                )

    def _refuse_infinite(self, foci: Sequence[Focus], local: Local) -> None:
        """Raise if an average over samples is infinite or NaN at the theta before a step; the error names the arc."""
        if not self.parameters.drawn or local.first is None:  # tables may be infinite
            return
        for k, upper in enumerate(local.first[1]):
            if not math.isfinite(upper):
                self.refuse_nonfinite()
                theta = {**self.parameters.of(k, self.theta), **foci[k].context}
                why = _impossible(self.parameters.pdgs[k], foci[k].attention, theta)
                raise DissonanceError(f"step {self.step}: the inconsistency is {upper}: {why}")


@contextlib.contextmanager
def _held_back(needed: bool) -> Generator[Callable[[], object]]:
    """Have Ctrl-C wait, where that is needed, until the function that is yielded is called, or for the end."""
    here = needed and threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if here else None
    if not callable(before):
        yield lambda: None
        return
    waiting: list[Any] = []
    signal.signal(signal.SIGINT, lambda *given: waiting.append(given))
    try:
        yield lambda: waiting and before(*waiting.pop())
    finally:
        signal.signal(signal.SIGINT, before)
    if waiting:
        before(*waiting.pop())


def _every(x: Tensor | int, count: int) -> list[Any]:
    """Return a number for each of so many runs, of one for all or (P,)."""
    found: Any = x.tolist() if isinstance(x, Tensor) else x
    return found if isinstance(found, list) and len(found) == count else [found] * count


@torch.no_grad()
def _impossible(pdg: PDG, attention: Attention, theta: Theta) -> str:
    """Name the first arc that gives density 0, or an infinite one, to samples that the hard arcs make; what to do."""
    for s in inconsistency(pdg, attention, theta=theta).answers:
        if s.kind != "samples":
            continue
        mu: Any = s.mu  # samples
        for a in s.part.arcs:
            if a.hard or a.beta == 0:
                continue
            targets, sources = ([mu.values[v.name] for v in side] for side in (a.arc.targets, a.arc.sources))
            infinite = torch.isinf(a.arc.call("log_prob", theta, targets, sources))
            if bool(infinite.any()):
                return (
                    f"{a.arc} has density 0, or an infinite one, at {int(infinite.sum())} of {len(mu)} samples. Have "
                    "the hard arcs make values inside of its support (scale the data, squash the outputs), or widen it."
                )
    return "beliefs contradict each other outright."
