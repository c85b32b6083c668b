"""What is done with a block of foci: pure functions, so that they can be done anywhere, and again if they were lost.

visit       the foci of one colour are solved and their tables moved
tell        the tables that another block looks at next
close       the end of a sweep: what the others have told last is taken in
keep_block  the tables, and where the solver stopped, written to a file; `reopen` reads it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch

from dissonance.errors import FormatError
from dissonance.io import sealed
from dissonance.lir.sweep.partition import BlockPlan
from dissonance.lir.sweep.sweeping import (
    Floats,
    FociShape,
    Near,
    Piece,
    ShapeSpec,
    SweepTables,
    Visit,
    pieces,
    visited,
)
from dissonance.solvers import Newton

WHAT = "a file of a run on a cluster"
REMEMBERED = 64
"""Plans of blocks, and shapes of foci, that a process remembers."""


@dataclass(frozen=True)
class BlockPlace:
    """Where a block is kept: the folder of the run, what it is a run of, and the number of the block."""

    folder: str
    of: str
    block: int

    def file(self, name: str) -> Path:
        """A file of this block."""
        return Path(self.folder) / f"{name}-{self.block}"

    def marks(self, *step: int) -> list[str | int]:
        """What a file of this block says that it is of: files that changed places are told apart."""
        return [self.of, self.block, *step]


@dataclass(frozen=True, eq=False)
class BlockState:
    """The tables that a block holds; by colour, where the solver stopped at each piece, and what the visits of this
    sweep found; and, once the sweep is closed, how far the block's own tables are from the start."""

    log_p: list[Floats]
    near: dict[int, list[Near]]
    visits: dict[int, list[Visit]]
    apart: list[float] | None


class Told(NamedTuple):
    """The tables that a block tells others, by block."""

    source: int
    log_p: dict[int, list[Floats]]


@lru_cache(REMEMBERED)
def plan(place: BlockPlace) -> BlockPlan:
    """The plan of a block."""
    state = sealed.read_state(place.file("plan"), WHAT)
    if state.get("of") != place.marks():
        raise FormatError(f"{place.file('plan')}: is of another run or block. Delete the folder, or name another.")
    return BlockPlan.of(state["plan"])


@lru_cache(1024)
def _shape(spec: ShapeSpec, solver: Newton) -> FociShape:
    return FociShape(spec, solver)


def _pieces(p: BlockPlan, colour: int, state: BlockState) -> list[Piece]:
    """The foci of a colour, with where the solver stopped."""
    found = pieces([(_shape(p.specs[k], p.solver), arcs) for k, arcs in p.foci[colour]])
    for piece, near in zip(found, state.near.get(colour, ()), strict=colour in state.near):
        piece.near = near
    return found


def visit(place: BlockPlace, colour: int, state: BlockState, told: Sequence[Told]) -> BlockState:
    """The block after its foci of a colour; `told`: what others have told after the colour before."""
    p = plan(place)
    tables = _after(place, colour - 1, state, told)
    todo = _pieces(p, colour, state)
    found = visited(todo, tables, p.tol, True)
    before = state.visits if state.apart is None else {}
    near = [piece.near for piece in todo if piece.near is not None]
    return BlockState(tables.log_p, state.near | {colour: near}, before | {colour: found}, None)


def tell(place: BlockPlace, colour: int, state: BlockState) -> Told:
    """The tables that other blocks look at next, after this colour: few, so that all of them are told together."""
    p = plan(place)
    tables = SweepTables(state.log_p, p.beta, p.chi)
    return Told(place.block, {b: tables.take(arcs).log_p for b, arcs in p.gives[colour].items()})


def close(place: BlockPlace, state: BlockState, told: Sequence[Told]) -> BlockState:
    """The block after a sweep; `told`: what others have told after the last colour."""
    p = plan(place)
    tables = _after(place, len(p.foci) - 1, state, told)
    return BlockState(tables.log_p, state.near, state.visits, tables.take(p.own).apart(p.begin))


def found(state: BlockState) -> tuple[dict[int, list[Visit]], list[float]]:
    """What the visits of the sweep found, by colour, and how far the block's own tables are from the start."""
    return state.visits, state.apart or []


def look(place: BlockPlace, state: BlockState) -> list[Visit]:
    """The foci of the first colour as they are; nothing is moved."""
    p = plan(place)
    return visited(_pieces(p, 0, state), SweepTables(state.log_p, p.beta, p.chi), p.tol, False)


def own_tables(place: BlockPlace, state: BlockState) -> list[Floats]:
    """The tables that this block is the last to visit in a sweep."""
    p = plan(place)
    return SweepTables(state.log_p, p.beta, p.chi).take(p.own).log_p


def seen(place: BlockPlace) -> bool:
    """Whether the files of a run are to be seen from here."""
    return place.file("plan").exists()


def keep_block(place: BlockPlace, step: int, state: BlockState) -> None:
    """Write the state after so many sweeps."""
    near = {k: [tuple(map(torch.from_numpy, x)) for x in colour] for k, colour in state.near.items()}
    held = {"of": place.marks(step), "log_p": [*map(torch.from_numpy, state.log_p)], "near": near}
    sealed.write_state(place.file(f"state-{step}"), held)


def reopen(place: BlockPlace, step: int) -> BlockState:
    """Read the state after so many sweeps."""
    state = sealed.read_state(place.file(f"state-{step}"), WHAT)
    if state["of"] != place.marks(step):
        raise FormatError(
            f"{place.file(f'state-{step}')}: is of another run, block or sweep. Delete the folder, or name another."
        )
    near = {k: [(at.numpy(), known.numpy()) for at, known in colour] for k, colour in state["near"].items()}
    return BlockState([x.numpy() for x in state["log_p"]], near, {}, [])


def _after(place: BlockPlace, colour: int, state: BlockState, told: Sequence[Told]) -> SweepTables:
    """A copy of the tables, with what others have told after a colour."""
    p = plan(place)
    tables = SweepTables(state.log_p, p.beta, p.chi).copied()
    for source, log_p in told:
        tables.put(p.takes[colour][source], log_p[place.block])
    return tables
