"""Local Inconsistency Resolution: Algorithm 1, for one run or for many of one structure at once."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance.above import ask
from dissonance.answer import DEFAULT_TOL
from dissonance.columns import ColumnarPDG
from dissonance.control import Chi
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Weights
from dissonance.lir.flows import Flow, flow_named
from dissonance.lir.in_columns import ColumnParameters
from dissonance.lir.inner.base import Attentions
from dissonance.lir.parameters import Parameters, alike
from dissonance.lir.progress import Bar
from dissonance.lir.refocus import SWEEP, Refocus, base_focus, name_of, refocus_named
from dissonance.lir.run import Algorithm, Callback, apart, solver_for
from dissonance.lir.sweep.neighbourhoods import neighbourhood_named
from dissonance.lir.sweep.run import Sweeping, SweptPDG
from dissonance.lir.trace import NAN, Record, Row, Trace
from dissonance.options import in_step
from dissonance.pdg import PDG, checked_pdg
from dissonance.problem import Batch
from dissonance.proof import Accuracy
from dissonance.solvers import Solver

STEPS = 20
SWEEPS = 10


@dataclass(frozen=True)
class Value:
    """An inconsistency in nats between its bounds; `converged` if they meet within `tol` max(1, |upper|)."""

    lower: float
    upper: float
    tol: float = 1e-7

    @property
    def value(self) -> float:
        """The upper bound, which is attained."""
        return self.upper

    @property
    def converged(self) -> bool:
        """Whether the bounds meet within the tolerance."""
        return self.upper - self.lower <= self.tol * max(1.0, abs(self.upper)) or self.lower == self.upper

    @property
    def is_bracket(self) -> bool:
        """Whether no more is known than bounds that do not meet."""
        return self.lower > -math.inf and not math.isnan(self.upper) and not self.converged

    def __str__(self) -> str:
        """The value in short, or the bounds if that is all that is known."""
        if self.is_bracket:
            return f"between {self.lower:.6g} and {self.upper:.6g}"
        return f"{self.upper:.6g}"


@dataclass(frozen=True)
class EndOfSteps:
    """Where run k of several has ended."""

    parameters: Parameters
    k: int
    stacked: Mapping[str, Tensor]

    @property
    def theta(self) -> dict[str, Tensor]:
        """The parameters at the end, keyed as the PDG has them."""
        return {key: v.clone() for key, v in self.parameters.of(self.k, self.stacked).items()}

    @property
    def pdg(self) -> PDG:
        """The resolved PDG."""
        return self.parameters.pdg(self.k, self.stacked)


@dataclass(frozen=True)
class Run:
    """A run of LIR: where it started, where it ended, and its trace.

    `before` and `after` are the inconsistency under the base attention. `interrupted`: Ctrl-C stopped it early.
    """

    trace: Trace
    before: Value
    after: Value
    refocus: str
    flow: str
    solver: str
    seed: int
    seconds: float
    interrupted: bool
    _end: EndOfSteps | SweptPDG

    @property
    def steps(self) -> int:
        """The number of steps, or sweeps, that were done."""
        return self.trace.rows[-1].step

    @property
    def distortion_tv(self) -> float:
        """The total variation between mu* at the start and at the end; NaN if it was not found."""
        return self.trace.rows[-1].tv_mu

    @property
    def resolution_percent(self) -> float:
        """100 (1 - after/before): how much of the inconsistency is gone; NaN if there was none."""
        if not self.before.upper > self.before.tol:
            return NAN
        return 100 * (1 - max(0.0, self.after.upper) / self.before.upper)

    @cached_property
    def theta(self) -> dict[str, Tensor]:
        """The parameters at the end, keyed as the PDG has them."""
        return self._end.theta

    @cached_property
    def pdg(self) -> PDG:
        """The resolved PDG: the same cpds, moved."""
        return self._end.pdg

    def _repr_html_(self) -> str:
        return ask("html", self)

    def __repr__(self) -> str:
        known = not math.isnan(self.after.upper)  # a run need not look at everything
        course = f"{self.before.upper:.6g} -> {self.after.upper:.6g} nats in " if known else ""
        return f"Run({self.refocus}, {self.flow}: {course}{self.steps} steps{', interrupted' * self.interrupted})"


def lir(
    pdg: PDG,
    refocus: Refocus | str = "uniform",
    *,
    steps: int | None = None,
    flow: Flow | str = "natural",
    solver: Solver | str = "auto",
    attention: Attention | Weights | None = None,
    control: Control | Chi | None = None,
    seed: int = 0,
    tol: float | None = None,
    trace: Record | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    neighbourhood: str | None = None,
    sweeps: int | None = None,
    order: str | None = None,
    cluster: Any = None,
) -> Run:
    """Algorithm 1: in each of `steps` steps (20 by default) choose a focus and resolve the inconsistency it shows.

        phi, chi  <-  REFOCUS();      theta  <-  exp_theta{ -chi . grad <<phi . M(theta)>> }

    `attention` (by default beta = alpha = 1, gamma = 0) and `control` (by default 1 for every parameter, but 0 for
    facts, beta = inf, which only a control that names them moves) are the base that refocus procedures choose from; the
    global inconsistency is measured with `attention`. The PDG is not changed: `run.pdg` is the resolved one. With a
    `checkpoint` file a run that was stopped goes on where it was.

    For large PDGs of tables, refocus "sweep" visits all foci of a `neighbourhood` ("edge" by default, "star", "closed",
    "blocks") in each of so many `sweeps` (10 by default), those that have no arc in common together; a row of its trace
    is a sweep. `order`: "colours" (the default, the same result with any number of threads) or "asynchronous": no focus
    waits for those it shares arcs with, and the result depends on the number of threads. On a `cluster` (an address as
    "tcp://host:8786", "local", "local:4", or a `distributed.Client`) the result is the same; its `checkpoint` is a
    folder that all workers share.

    >>> X = Variable("X", 2)
    >>> pdg = PDG(Arc("p", (), X, SoftmaxTable([0.9, 0.1])), Arc("q", (), X, SoftmaxTable([0.2, 0.8])))
    >>> run = lir(pdg, "uniform", steps=20)
    >>> print(f"{run.before.upper:.4f} {run.after.upper < 1e-7}")
    0.6931 True
    >>> [[f"{x:.3f}" for x in run.pdg[name].cpd.table()] for name in ("p", "q")]  # they have met
    [['0.586', '0.414'], ['0.586', '0.414']]
    """
    given: dict[str, Any] = {"flow": flow, "solver": solver, "attention": attention, "tol": tol, "trace": trace}
    given |= {"checkpoint": checkpoint, "callbacks": callbacks, "progress": progress}
    if isinstance(refocus, str) and refocus == SWEEP:
        if steps is not None:
            raise DissonanceError('refocus "sweep" takes `sweeps`, each a step for every focus, not `steps`.')
        given |= {"control": None if control is None else Control.of(control), "seed": seed}
        return _swept(pdg, neighbourhood, sweeps, order or "colours", given, cluster)
    if any(x is not None for x in (neighbourhood, sweeps, order, cluster)):
        raise DissonanceError('`neighbourhood`, `sweeps`, `order` and `cluster` are for refocus "sweep".')
    count = STEPS if steps is None else steps
    return lirs([pdg], [refocus], seeds=[seed], steps=count, control=control, **given)[0]


def lirs(
    pdgs: PDG | Sequence[PDG],
    refocus: Refocus | str | Sequence[Refocus | str] = "uniform",
    *,
    seeds: int | Sequence[int] = 0,
    steps: int = 20,
    flow: Flow | str = "natural",
    solver: Solver | str = "auto",
    attention: Attention | Weights | None = None,
    control: Control | Chi | None = None,
    tol: float | None = None,
    trace: Record | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
) -> list[Run]:
    """Many runs: run i is `lir(pdgs[i], refocus[i], seed=seeds[i], ...)`; what is given once serves all.

    Runs whose PDGs differ in their numbers only (replicates, seeds, strategies) are solved together, which is many
    times faster than one after another; no run depends on its company, but for rounding.
    """
    began = time.perf_counter()
    all_pdgs = [pdgs] if isinstance(pdgs, PDG) else [checked_pdg(p) for p in pdgs]
    one = isinstance(refocus, str) or callable(refocus) or not isinstance(refocus, Sequence)  # pyright: ignore
    all_refocus: list[Refocus | str] = [refocus] if one else list(refocus)  # pyright: ignore
    all_seeds = [seeds] if isinstance(seeds, int) else list(seeds)
    if not isinstance(steps, int) or steps < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DissonanceError(f"a number of steps is a whole number >= 0, found {steps!r}.")
    for seed in all_seeds:
        if not isinstance(seed, int) or not -(2**63) <= seed < 2**64:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DissonanceError(f"a seed is a whole number from -2^63 to 2^64 - 1, found {seed!r}.")
    all_pdgs, all_refocus, all_seeds = in_step(pdgs=all_pdgs, refocus=all_refocus, seeds=all_seeds)
    moving, solving, record = flow_named(flow), solver_for(solver, tol), trace or Record()
    called = _callbacks(callbacks)
    groups: dict[object, list[int]] = {}
    told = isinstance(attention, Attention) and not attention.others  # else every PDG has weights of its own
    for i, pdg in enumerate(all_pdgs):
        own = i if apart(len(pdg), record) else (alike(pdg), told or tuple(pdg.confidence.values()))
        groups.setdefault(own, []).append(i)
    bar = Bar(progress, steps * len(groups))
    found: dict[int, Run] = {}
    for number, members in enumerate(groups.values()):
        named = all(isinstance(all_refocus[i], str) for i in members)
        state = Algorithm(
            _parameters([all_pdgs[i] for i in members], record),
            [refocus_named(all_refocus[i]) for i in members],
            [all_seeds[i] for i in members],
            base_focus(all_pdgs[members[0]], attention, control, named=named),
            moving,
            solving,
            getattr(solving, "tol", DEFAULT_TOL) if tol is None else tol,
            record,
        )
        where = None if checkpoint is None else f"{os.fspath(checkpoint)}{f'.{number}' if number else ''}"
        with bar:
            state.run(steps, where, [*called, *bar.callbacks])
        found |= zip(members, _read(state, (time.perf_counter() - began) / len(all_pdgs)), strict=True)
        if state.interrupted:
            break
    return [found[i] for i in sorted(found)]


def _parameters(pdgs: Sequence[PDG], record: Record) -> Parameters:
    """Return the parameters of runs of one structure: of one that is done part by part on columns, nothing for every
    arc."""
    (first, *others) = pdgs
    if not others and isinstance(first, ColumnarPDG) and apart(len(first), record):
        return ColumnParameters(first)
    return Parameters(pdgs)


def _swept(
    pdg: PDG, neighbourhood: str | None, sweeps: int | None, order: str, given: dict[str, Any], cluster: Any
) -> Run:
    """A run of sweeps, with the options of `lir`."""
    began = time.perf_counter()
    count = SWEEPS if sweeps is None else sweeps
    if not isinstance(count, int) or count < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DissonanceError(f"a number of sweeps is a whole number >= 0, found {count!r}.")
    of = Sweeping.of(pdg, neighbourhood_named(neighbourhood or "edge"), given, order)
    called = _callbacks(given["callbacks"])
    where = None if given["checkpoint"] is None else os.fspath(given["checkpoint"])
    with of.placed(cluster, where) as (state, path), Bar(given["progress"], count * state.sweeps.foci) as bar:
        state.run(count, path, called, bar.advance)
        end = state.end
    before, after = (Value(r.global_lower, r.global_upper, of.tol) for r in (state.trace.rows[0], state.trace.rows[-1]))
    return Run(
        state.trace,
        before,
        after,
        f"sweep({of.neighbourhood}{', asynchronous' * (order == 'asynchronous')})",
        "natural",
        of.solver.name,
        given["seed"],
        time.perf_counter() - began,
        state.interrupted,
        end,
    )


def _callbacks(given: object) -> Sequence[Callback]:
    """The callbacks as a list; an error if they are no functions."""
    if callable(given):
        name = getattr(given, "__name__", type(given).__name__)
        raise DissonanceError(f"callbacks is a list of functions; found one by itself: callbacks=[{name}].")
    if not isinstance(given, Iterable):
        raise DissonanceError(f"callbacks is a list of functions, found {given!r}.")
    found = list(given)
    for x in found:
        if not callable(x):
            raise DissonanceError(f"a callback is called as callback(step, traces), found {x!r}.")
    return found


def _value(state: Algorithm, k: int, row: Row, theta: Mapping[str, Tensor]) -> Value:
    """The inconsistency of run k at theta. What tables round, times their weights, is no gap that a solver left."""
    found, of = Value(row.global_lower, row.global_upper, state.tol), state.parameters
    if found.converged or not math.isfinite(found.upper - found.lower) or not of.tabular:
        return found
    with torch.no_grad():
        log_p = of.log_tables(theta)[k : k + 1].numpy()
    a = Attentions.of([state.base.attention], [a.name for a in of.arcs])
    rows, (beta, alpha, gamma) = Batch.over(of.pdgs[k].variables, of.arcs).shape.rows, (x.numpy() for x in a.tensors)
    blur = float(Accuracy(rows, log_p, beta, alpha, gamma).blur(np.array([found.upper]))[0])
    return replace(found, tol=found.tol + 2 * blur / max(1.0, abs(found.upper)))


def _read(state: Algorithm, seconds: float) -> list[Run]:
    """Return the results of the runs; each took so many seconds."""
    return [
        Run(
            trace,
            _value(state, k, trace.rows[0], state.parameters.theta0),
            _value(state, k, trace.rows[-1], state.theta),
            name_of(state.refocus[k]),
            state.flow.name,
            state.solver.name,
            state.seeds[k],
            seconds,
            state.interrupted,
            EndOfSteps(state.parameters, k, state.theta),
        )
        for k, trace in enumerate(state.traces)
    ]
