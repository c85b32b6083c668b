"""lir(pdg, "sweep"): Algorithm 1 over all foci of a neighbourhood, sweep after sweep, with trace and checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from torch import Tensor

from dissonance.arc import Arc
from dissonance.bounds.columnar import bracket, tangled
from dissonance.columns import ColumnarPDG
from dissonance.errors import CapabilityError, DissonanceError, suggest
from dissonance.focus import Attention, Control, Focus
from dissonance.inconsistency import inconsistency
from dissonance.io.fingerprint import Fingerprint
from dissonance.io.locked import alone
from dissonance.lir.checkpoints import refuse_longer, refuse_other
from dissonance.lir.flows import Natural, flow_named
from dissonance.lir.run import solver_for
from dissonance.lir.sweep.neighbourhoods import batches
from dissonance.lir.sweep.spread import SpreadSweeps
from dissonance.lir.sweep.sweeping import AsynchronousSweeps, Floats, Sweeps, SweepTables
from dissonance.lir.trace import Record, Row, Trace, rows_of_lines
from dissonance.pdg import PDG
from dissonance.problem import Batch
from dissonance.solvers import Auto, Newton
from dissonance.variables import Variable
from dissonance.workers.cluster import Cluster, to_cluster

FORMAT = "dissonance.sweep 2"

ORDERS: dict[str, type[Sweeps]] = {"colours": Sweeps, "asynchronous": AsynchronousSweeps}
"""In which order foci are visited: colour after colour, or as threads are free."""


X = Variable("X", 2)
TABLE = Batch.over([X], [Arc("a", (), X, [0.5, 0.5])])
"""The smallest problem of tables: solvers that choose say what they choose for it."""


@dataclass(frozen=True)
class Sweeping:
    """The PDG and the options of a run of sweeps: all that does not change from sweep to sweep."""

    pdg: PDG
    neighbourhood: str
    attention: Attention | None
    control: Control | None
    solver: Newton
    tol: float
    record: Record
    seconds: float
    order: str = "colours"

    @classmethod
    def of(cls, pdg: PDG, neighbourhood: str, given: dict[str, Any], order: str = "colours") -> Sweeping:
        """With the options of `lir`; an error if one of them is not for sweeps."""
        if flow_named(given["flow"]) != Natural():
            raise CapabilityError('a sweep moves tables by the flow "natural", and no other.')
        tol, record = given["tol"], given["trace"] or Record(globally=False)
        if record.snapshots or record.distortion:
            raise CapabilityError("the trace of a sweep has no snapshots and no distortion of mu*.")
        chosen = solver_for(given["solver"], tol)
        ((solver, _),) = chosen.choose(TABLE)
        if type(solver) is not Newton:
            raise CapabilityError(f'a sweep is solved by "newton", not by {solver.name!r}.')
        seconds = getattr(chosen, "seconds", Auto.seconds)
        attention = given["attention"]
        spelled = None if attention is None else Attention.of(attention, pdg)
        tol = solver.tol if tol is None else tol
        if order not in ORDERS:
            raise DissonanceError(f"no order of sweeps named {order!r}.{suggest(order, ORDERS)}")
        return cls(pdg, neighbourhood, spelled, given["control"], solver, tol, record, seconds, order)

    @cached_property
    def columns(self) -> ColumnarPDG:
        """The PDG in columns."""
        return ColumnarPDG.of(self.pdg)

    @cached_property
    def tables(self) -> SweepTables:
        """Its tables, with confidence and control of every arc."""
        return SweepTables.of(self.columns, self._beta(), self._chi())

    @contextmanager
    def placed(self, cluster: Any, checkpoint: str | None) -> Generator[tuple[SweepRun, str | None], None, None]:
        """A run of it, here or on a cluster, and where its checkpoint is; on a cluster there is always one.

        A checkpoint belongs to one run at a time, which holds its lock.
        """
        with nullcontext() if checkpoint is None else alone(checkpoint):
            if cluster is None:
                yield SweepRun(self), checkpoint
                return
            if self.order == "asynchronous":
                raise CapabilityError('the order "asynchronous" is for the threads of one machine, not for a cluster.')
            if self.record.globally:
                raise CapabilityError("on a cluster no process has the whole: leave out Record(globally=True).")
            then = "Nothing of the run is kept: it had no checkpoint."
            if checkpoint is not None:
                then = f"The run goes on from its last checkpoint in {checkpoint}."
            with to_cluster(cluster, then=then) as workers, TemporaryDirectory(prefix="dissonance-") as own:
                yield SweepRun(self, workers), checkpoint or own

    def tables_for(self, foci: int) -> SweepTables:
        """The tables to be moved: on a GPU, if the solver is to be there for so many foci."""
        if not self.solver.on_gpu(foci):
            return self.tables.copied()
        if self.order == "asynchronous":
            raise CapabilityError('the order "asynchronous" is for the threads of CPUs: solver=Newton(device="cpu").')
        from dissonance.lir.sweep.on_device import DeviceTables

        return DeviceTables.of_host(self.tables, self.solver.device or "cuda")

    def _beta(self) -> Floats:
        """beta of every arc; an error if a sweep does not support the attention."""
        columns, given = self.columns.columns, self.attention
        if given is None:
            beta = np.concatenate([c.beta for c in columns])
        else:
            if given.gamma or given.varying:
                raise CapabilityError("a sweep is for gamma = 0 and the same attention to every sample.")
            given.check(self.pdg)
            beta = np.array([given.beta.get(n, 0.0) for n in self.columns.arc_names])
        odd = np.flatnonzero(~((beta >= 0) & np.isfinite(beta)))
        if len(odd):
            arc = self.columns.arc(int(odd[0]))
            raise CapabilityError(f"{arc} has beta = {beta[odd[0]]}; a sweep is for 0 <= beta < inf.")
        return beta

    def _chi(self) -> Floats:
        """How freely every arc may move."""
        columns, given = self.columns.columns, self.control
        moves = np.repeat([c.learnable for c in columns], [len(c) for c in columns])
        if not moves.any():
            raise DissonanceError(
                "no arc has parameters to move: fixed tables have none. Use pdg.learnable(), or learnable=True where "
                "the beliefs are read."
            )
        self._refuse_shared()
        if given is None:
            return moves.astype(np.float64)
        given.check(self.pdg)
        chi = np.zeros(len(moves))
        for key, value in given.chi.items():
            if isinstance(value, Tensor) or value == math.inf:
                raise CapabilityError(f"control[{key!r}]: a sweep needs one finite number for every arc.")
            holder = self.pdg.holder(key)
            chi[self.columns.number(key if holder is None else holder.name)] = float(value)
        return np.where(moves, chi, 0.0)

    def _refuse_shared(self) -> None:
        """Raise if an arc shares its table with another, or has a table that is not a parameter."""
        if isinstance(self.pdg, ColumnarPDG):
            return
        users: dict[int, str] = {}
        for a in self.pdg.arcs:
            for p in a.cpd.parameters():
                if not a.cpd.saturated:
                    raise CapabilityError(f"{a}: a sweep moves tables, not a {type(a.cpd).__name__}.")
                if users.setdefault(id(p), a.name) != a.name:
                    raise CapabilityError(f"{a} and {users[id(p)]!r} share a table, which no sweep can move.")

    def end(self, log_p: Sequence[Tensor]) -> SweptPDG:
        """The beliefs where a sweep has taken them."""
        moved = [c.moved(x) for c, x in zip(self.columns.columns, log_p, strict=True)]
        return SweptPDG(self.pdg, self.columns.with_columns(moved))


@dataclass(frozen=True)
class SweptPDG:
    """The beliefs at the end of a run of sweeps."""

    given: PDG
    columns: ColumnarPDG

    @property
    def pdg(self) -> PDG:
        """The resolved PDG: in columns, if the one that was given is."""
        if isinstance(self.given, ColumnarPDG):
            return self.columns
        arcs = [a for a in self.given.arcs if any(True for _ in a.cpd.parameters())]
        made = []
        for a in arcs:
            cpd = type(a.cpd)(self.columns[a.name].cpd.table().detach())  # those that are saturated are made of a table
            made.append(a.with_cpd(cpd))
        return self.given.replace(*made)

    @property
    def theta(self) -> dict[str, Tensor]:
        """The parameters at the end, keyed as the PDG has them."""
        return {key: p.detach().clone() for key, p in self.pdg.theta.items()}


class SweepRun:
    """A run of sweeps: the foci and tables, here or on a cluster, and the trace so far."""

    def __init__(self, of: Sweeping, cluster: Cluster | None = None) -> None:
        self.of, self.step, self.interrupted = of, 0, False
        foci = batches(of.columns, of.tables.beta > 0, of.neighbourhood)
        given = foci, of.solver, of.tol
        if cluster is None:
            count = sum(len(b) for colour in foci for b in colour)
            self.sweeps = ORDERS[of.order](of.columns, of.tables_for(count), *given)
        else:
            self.sweeps = SpreadSweeps(of.columns, of.tables, *given, cluster)
        self.trace = Trace(Focus(of.attention or Attention(), of.control or Control()))

    def run(
        self,
        sweeps: int,
        checkpoint: str | None,
        callbacks: Sequence[Callable[[int, Sequence[Trace]], bool | None]],
        said: Callable[[int], None],
    ) -> None:
        """So many sweeps in all, from the checkpoint if there is one; Ctrl-C ends it after the last finished one."""
        kept = None if checkpoint is None else KeptSweeps(self, checkpoint, sweeps)
        self.trace.where = lambda: self.end.theta
        try:
            while self.step < sweeps:
                began = time.perf_counter()
                row = self._look()
                swept = self.sweeps.sweep(said)
                self.step += 1
                found: dict[str, Any] = {"local_lower": swept.lower, "local_upper": swept.upper}
                found |= {"solves": self.sweeps.foci, "newton_steps": swept.steps}
                if math.isnan(row.global_lower):
                    found["global_lower"] = swept.proved
                self.trace.rows.append(row.updated({**found, "seconds": time.perf_counter() - began}))
                if kept is not None and self.sweeps.due(self.step, sweeps):
                    kept.write()
                if True in [callback(self.step, [self.trace]) for callback in callbacks]:
                    break
        except KeyboardInterrupt:  # what is half done is left out
            self.interrupted = True
        if kept is not None:
            kept.write()
        row = self._look()
        if math.isnan(row.global_lower) and not self.interrupted:
            row = row.updated({"global_lower": self.sweeps.look()})
        self.trace.rows.append(row)

    @property
    def end(self) -> SweptPDG:
        """The beliefs after the last finished sweep."""
        return self.of.end(self.sweeps.log_p())

    def _look(self) -> Row:
        """The trace row of the tables: how far they have moved, and the global inconsistency if it is asked for."""
        rows = sum(x.shape[0] * x.shape[1] for x in self.of.tables.log_p)
        found: dict[str, Any] = {"tv_theta": self.sweeps.apart() / rows if rows else 0.0}
        if self.of.record.globally:
            lower, upper = self._whole(self.sweeps.log_p())
            found |= {"global_lower": lower, "global_upper": upper}
        return Row(self.step, **found)

    def _whole(self, log_p: Sequence[Tensor]) -> tuple[float, float]:
        """Bounds of the global inconsistency at these tables; of very many arcs in a tangle, without looking for a
        junction tree, which would not fit."""
        of, seconds = self.of, self.of.seconds
        if tangled(of.columns):
            found = bracket(of.columns, of.tables.beta, seconds=seconds, log_p=[x.numpy() for x in log_p])
            return found.lower, found.upper
        result = inconsistency(of.end(log_p).columns, of.attention, solver=Auto(seconds=seconds))
        return result.lower, result.upper


class KeptSweeps:
    """The checkpoint of a run of sweeps."""

    def __init__(self, run: SweepRun, path: str, sweeps: int) -> None:
        """Go on from the checkpoint, if it is there, to do so many sweeps in all."""
        self.run, self.path, of = run, path, run.of
        columns = [(c.sources, c.targets, c.tables, c.learnable) for c in of.columns.columns]
        weights = of.tables.beta, of.tables.chi
        how = of.neighbourhood, of.order, of.solver, of.tol, of.record
        self.of = Fingerprint(columns, of.columns.sizes, *weights, *how).hex()
        self.step = 0
        state = run.sweeps.kept(path)
        if state is None:
            run.sweeps.begin(path, self.of)
        else:
            self._resume(state, sweeps)

    def write(self) -> None:
        """Write the state after the last finished sweep, unless that is done."""
        if self.step < self.run.step:
            head = {"format": FORMAT, "of": self.of, "step": self.run.step, "rows": self.run.trace.lines()}
            self.run.sweeps.keep(self.path, head)
            self.step = self.run.step

    def _resume(self, state: dict[str, Any], sweeps: int) -> None:
        refuse_other(self.path, state, FORMAT, self.of)
        refuse_longer(self.path, state["step"], sweeps, "sweeps")
        self.run.sweeps.resume(self.path, state)
        self.step = self.run.step = state["step"]
        self.run.trace.rows[:] = rows_of_lines(state["rows"])
