"""Sweeps on a cluster: blocks of foci as pure tasks, tables told from block to block after each colour.

A task is a function of the state of its block and of what others tell it, never of the worker that runs it, and a focus
is solved by itself, whatever it is solved together with: so the tables are, bit for bit, those of a run without a
cluster. What is lost with a worker is computed again from the last files that were written, every few sweeps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dissonance.columns import ColumnarPDG
from dissonance.errors import DissonanceError, FormatError
from dissonance.io import files, sealed
from dissonance.lir.sweep import block
from dissonance.lir.sweep.block import BlockPlace, BlockState
from dissonance.lir.sweep.neighbourhoods import FociBatch
from dissonance.lir.sweep.partition import Partition
from dissonance.lir.sweep.sweeping import WHAT, Floats, SweepTables, Swept, total
from dissonance.solvers import Newton
from dissonance.workers.cluster import Cluster, LostWorkError

EVERY = 4
"""Sweeps between two checkpoints."""
HEAD = "run"
OURS = (HEAD, "plan-", "state-", ".")
"""How names of files of a run begin."""


def discard(checkpoint: Path) -> None:
    """Remove the checkpoint of a run, a file or the folder of a run on a cluster, if it is there."""
    if not checkpoint.is_dir():
        files.remove(checkpoint)
        return
    for file in _files(checkpoint):
        files.remove(file)
    with contextlib.suppress(OSError):
        checkpoint.rmdir()


def _files(folder: Path) -> list[Path]:
    """The files of a run; an error if the folder has others."""
    found = list(folder.iterdir())
    if odd := [x.name for x in found if not x.name.startswith(OURS)]:
        raise FormatError(f"{folder}: is no checkpoint: it holds {odd[0]}. Name another folder.")
    return found


class SpreadSweeps:
    """The foci of a PDG in columns, in blocks that a cluster visits; see `Sweeps`."""

    def __init__(
        self,
        pdg: ColumnarPDG,
        tables: SweepTables,
        colours: Sequence[Sequence[FociBatch]],
        solver: Newton,
        tol: float,
        cluster: Cluster,
    ) -> None:
        fixed = replace(solver, device=solver.device or "cpu")  # not where a worker happens to have a GPU
        self.partition = Partition(pdg, tables, colours, fixed, tol)
        self.tables, self.cluster = tables, cluster
        self.foci = self.partition.foci
        self.states: list[Any] = []  # futures of the blocks after the last finished sweep
        self.step = self.kept_step = 0
        self._apart, self._end = 0.0, (-1, list[Floats]())
        self._lost_at = -1

    # -- sweeping ------------------------------------------------------------------------------------------------------

    def sweep(self, said: Callable[[int], None] = lambda foci: None) -> Swept:
        """Visit every focus once."""
        found = self._gathered(lambda: self._swept(self.states))
        self.step += 1
        self._apart = total(x for _, apart in found for x in apart)
        said(self.foci)
        colours = range(len(self.partition.colours))
        return Swept.of([[v for visits, _ in found for v in visits.get(k, ())] for k in colours])

    def look(self) -> float:
        """What foci of the first colour prove of the whole, as it is."""
        if not self.partition.colours:
            return 0.0
        found = self._gathered(lambda: (self.states, self._all("look", block.look, self.states)))
        return Swept.of([[v for visits in found for v in visits]]).proved

    def apart(self) -> float:
        """The total variation of all rows from the start, after the last finished sweep."""
        return self._apart

    def log_p(self) -> list[Tensor]:
        """The tables after the last finished sweep, column by column."""
        if self._end[0] != self.step:
            made = self.tables.copied()
            found = self._gathered(lambda: (self.states, self._all("own", block.own_tables, self.states)))
            for held, log_p in zip(self.own, found, strict=True):
                made.put(held, log_p)
            self._end = self.step, made.log_p
        return [torch.from_numpy(x) for x in self._end[1]]

    def _swept(self, states: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Futures of the blocks after one more sweep, and of what it finds."""
        submit, p = self.cluster.submit, self.partition
        now, told = list(states), {b: list[Any]() for b in range(p.blocks)}
        for k in range(len(p.colours)):
            for b in range(p.blocks):
                if b in p.busy[k] or told[b]:
                    now[b] = submit("visit", block.visit, self._place(b), k, now[b], told[b])
            givers = {a for sources in p.sources[k].values() for a in sources}
            given = {a: submit("tell", block.tell, self._place(a), k, now[a]) for a in sorted(givers)}
            told = {b: [given[a] for a in p.sources[k].get(b, [])] for b in range(p.blocks)}
        now = [submit("close", block.close, self._place(b), now[b], told[b]) for b in range(p.blocks)]
        return now, [submit("found", block.found, state) for state in now]

    def _all(self, name: str, function: Callable[[BlockPlace, BlockState], Any], states: Sequence[Any]) -> list[Any]:
        return [self.cluster.submit(name, function, self._place(b), state) for b, state in enumerate(states)]

    def _gathered(self, submit: Callable[[], tuple[list[Any], list[Any]]]) -> list[Any]:
        """What tasks find that `submit` returns behind the states they leave; those are the states from then on.

        If the scheduler has given up a task, all since the last files is done again, once.
        """
        while True:
            states, found = submit()
            try:
                results = self.cluster.gather(found)
            except LostWorkError:
                self.cluster.forget([*states, *found])
                if self._lost_at == self.kept_step:
                    raise
                self._lost_at = self.kept_step
                self._reopen()
                continue
            except BaseException:
                self.cluster.forget(found)
                raise
            self.states = states
            return results

    def _reopen(self) -> None:
        """The blocks from their files, and the sweeps since again."""
        step = self.kept_step
        blocks = range(self.partition.blocks)
        self.states = [self.cluster.submit("reopen", block.reopen, self._place(b), step) for b in blocks]
        for _ in range(step, self.step):
            self.states = self._swept(self.states)[0]

    # -- files that all workers share ----------------------------------------------------------------------------------

    def _place(self, number: int) -> BlockPlace:
        return BlockPlace(self.folder, self.of, number)

    def due(self, step: int, sweeps: int) -> bool:
        """Whether a checkpoint is written after this sweep: every few, and at the end."""
        return step % EVERY == 0 or step == sweeps

    def begin(self, path: str, of: str) -> None:
        """Write what workers need to know of a run."""
        self.folder, self.of = path, of
        place = Path(path)
        try:
            place.mkdir(parents=True, exist_ok=True)
            _files(place)
        except OSError as error:
            raise FormatError(f"{path}: cannot be made: {(error.strerror or str(error)).lower()}.") from None
        self.own: list[Any] = []
        for b in range(self.partition.blocks):
            plan, at = self.partition.plan(b), self._place(b)
            sealed.write_state(at.file("plan"), {"of": at.marks(), "plan": plan.state})
            block.keep_block(at, 0, BlockState(self.tables.take(plan.held).log_p, {}, {}, []))
            self.own.append(plan.held[plan.own])
        self._share()

    def keep(self, path: str, head: dict[str, Any]) -> None:
        """Write a checkpoint that begins with this."""
        submit = self.cluster.submit
        self._gathered(
            lambda: (
                self.states,
                [
                    submit("keep", block.keep_block, self._place(b), self.step, state)
                    for b, state in enumerate(self.states)
                ],
            )
        )
        sealed.write_state(Path(path) / HEAD, head | {"blocks": self.partition.blocks, "apart": self._apart})
        self.kept_step = self.step
        for old in Path(path).glob("state-*"):
            if not old.name.startswith(f"state-{self.step}-"):
                files.remove(old)
        self._reopen()

    def kept(self, path: str) -> dict[str, Any] | None:
        """What a checkpoint begins with, if it is there."""
        if Path(path).is_file():
            raise FormatError(f"{path}: is the checkpoint of a run without a cluster. Go on without one, or delete it.")
        return sealed.read_state(Path(path) / HEAD, WHAT) if (Path(path) / HEAD).exists() else None

    def resume(self, path: str, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        if state["blocks"] != self.partition.blocks:
            raise FormatError(f"{path}: is cut into {state['blocks']} blocks, not {self.partition.blocks}: delete it.")
        self.folder, self.of = path, state["of"]
        self.step = self.kept_step = state["step"]
        self._apart = state["apart"]
        plans = (self.partition.plan(b) for b in range(self.partition.blocks))
        self.own = [plan.held[plan.own] for plan in plans]
        self._share()

    def _share(self) -> None:
        """Refuse a folder that workers do not see; then begin from it."""
        for worker, there in self.cluster.on_each_worker(block.seen, self._place(0)).items():
            if there is not True:
                raise DissonanceError(
                    f"{worker} does not see {self.folder}: the checkpoint of a run on a cluster is a folder on storage "
                    "that all workers share."
                )
        self._reopen()
