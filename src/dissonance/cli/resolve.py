"""dissonance resolve: move the beliefs of a model until they fit together."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dissonance.cli.cluster import ClusterAddress, ClusterTls, workers
from dissonance.cli.completion import FLOWS, NEIGHBOURHOODS, ORDERS, REFOCUS, SOLVERS, arc_names, arcs, one_of
from dissonance.cli.output import (
    InterruptedRunError,
    TableColumn,
    UnresolvedError,
    as_text,
    console,
    fitted_table,
    log,
    progress,
    write_json,
)
from dissonance.cli.sources import (
    Attend,
    Gamma,
    Models,
    Pseudocount,
    Trust,
    Without,
    attended,
    matching,
    named_weights,
    read_models,
)
from dissonance.errors import DissonanceError

if TYPE_CHECKING:
    from dissonance.focus import Focus
    from dissonance.io.sources import Sources
    from dissonance.lir import Cycle, Run, Trace
    from dissonance.lir.moved import MovedRow

STEPS, SWEEPS = 20, 10
GOES_ON = "--resume goes on from the last checkpoint."
MAX_SEED = 2**63 - 1
MAX_ROWS = 40
MAX_RECORDS = 100_000
"""Rows of tables that moved which are written as JSON."""


def resolve(
    models: Models,
    out: Annotated[
        str,
        typer.Option(
            help="Where the resolved model goes; one that ends in / is a folder with a file for each MODEL.",
            metavar="RESOLVED",
        ),
    ],
    refocus: Annotated[
        str,
        typer.Option(
            help="How the next focus is chosen: uniform, partial, hub, ..., or sweep: all local foci.",
            metavar="NAME",
            autocompletion=one_of(REFOCUS),
        ),
    ] = "uniform",
    schedule: Annotated[
        str | None,
        typer.Option(help="A schedule of the file: its foci one after another, in place of --refocus.", metavar="NAME"),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help=f"How many steps, {STEPS} by default.", metavar="N", min=0, show_default=False)
    ] = None,
    neighbourhood: Annotated[
        str | None,
        typer.Option(
            help="With --refocus sweep, which foci are visited: edge (the default), star, closed, blocks.",
            metavar="NAME",
            autocompletion=one_of(NEIGHBOURHOODS),
            show_default=False,
        ),
    ] = None,
    sweeps: Annotated[
        int | None,
        typer.Option(
            help=f"With --refocus sweep, how often each focus is visited, {SWEEPS} times by default.",
            metavar="N",
            min=0,
            show_default=False,
        ),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            help="With --refocus sweep: colours (the default), or asynchronous: no focus waits for another, and the "
            "result depends on the number of threads.",
            metavar="NAME",
            autocompletion=one_of(ORDERS),
            show_default=False,
        ),
    ] = None,
    bounds: Annotated[
        float | None,
        typer.Option(
            help="With --refocus sweep, bound the inconsistency of the whole before every sweep and after the last, "
            "for so many seconds each where it cannot be solved.",
            metavar="SECONDS",
            min=0,
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="What the choice of foci draws at random.", metavar="N", min=0, max=MAX_SEED)
    ] = 0,
    solver: Annotated[str, typer.Option(help="The solver.", metavar="NAME", autocompletion=one_of(SOLVERS))] = "auto",
    flow: Annotated[
        str | None,
        typer.Option(
            help="How a step moves the beliefs: natural (the default for tables), full (for Gaussians), ode, adam, ...",
            metavar="NAME",
            autocompletion=one_of(FLOWS),
        ),
    ] = None,
    control: Annotated[
        list[str] | None,
        typer.Option(
            help="How freely an arc may move: 0 fixed, inf all the way. May be given often.",
            metavar="ARC=CHI",
            autocompletion=arcs,
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Arcs, or sources, that stay as they are: a name or a pattern, as 'census*'. May be given often.",
            metavar="PATTERN",
            autocompletion=arc_names,
        ),
    ] = None,
    move: Annotated[
        list[str] | None,
        typer.Option(
            help="The only arcs, or sources, that may move: a name or a pattern. May be given often.",
            metavar="PATTERN",
            autocompletion=arc_names,
        ),
    ] = None,
    gamma: Gamma = None,
    pseudocount: Pseudocount = None,
    trust: Trust = None,
    attend: Attend = None,
    without: Without = None,
    trace: Annotated[
        Path | None, typer.Option(help="Where a line of JSON for every step goes.", metavar="FILE")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Where a picture of the steps goes: svg, png or pdf.", metavar="FILE")
    ] = None,
    cluster: ClusterAddress = None,
    cluster_tls: ClusterTls = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Resolve the inconsistency of MODEL, one file or several: write it with the beliefs moved, and say what moved.

    The control values of the file say which arcs may move; if it has none and no option says so, all may.
    """
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    from dissonance.cli.resolved import Destination
    from dissonance.inconsistency import inconsistency
    from dissonance.io.locked import locked
    from dissonance.lir import resolving
    from dissonance.lir.sweep.spread import discard
    from dissonance.verdict import contradicting_zeros

    began = time.perf_counter()
    if (cluster or cluster_tls) and refocus != "sweep":
        raise DissonanceError("--cluster is for --refocus sweep.")
    place = Destination.of(out, models)
    if plot is not None:
        _check_plot(plot)
    given = read_models(models, gamma, pseudocount)
    chosen = attended(given, trust, attend, without)
    if schedule is None:
        chooses, focus = refocus, _focus(chosen, control or (), keep or (), move or ())
    else:
        said = {"--refocus": refocus != "uniform", "--control": control, "--keep": keep, "--move": move}
        chooses = _scheduled(schedule, chosen, models, [option for option, there in said.items() if there])
        focus = _of_schedule(chosen, chooses)
    place.encode(given, given.pdg.learnable())  # what the format cannot hold is refused before the work is done
    how = resolving.Resolving(chooses, flow, steps, seed, solver, neighbourhood, sweeps, bounds, order)
    checkpoint, lock = place.beside("{}.checkpoint"), place.beside(".{}.lock")
    with locked(lock, out):
        if not resume:
            discard(checkpoint)
        with workers(cluster, cluster_tls, GOES_ON) as there, progress("resolving") as bar:
            watched = [lambda done, _: bar(done, how.total), _log_step]
            kept = str(checkpoint)
            found = resolving.resolve(given.pdg, focus, how, checkpoint=kept, callbacks=watched, cluster=there)
        run = found.run
        if trace is not None:
            run.trace.save(trace)
        if run.interrupted:
            raise InterruptedRunError(
                f"interrupted after {run.steps} of {how.total} {how.unit}; --resume goes on from there."
            )
        if run.after.upper == math.inf:
            discard(checkpoint)
            still = inconsistency(run.pdg, focus.attention, solver=solver)
            raise UnresolvedError(f"nothing was written: {contradicting_zeros(still)}")
        place.save(given, found.pdg)
        discard(checkpoint)
    if plot is not None:
        run.trace.plot(plot)
    _warn(run, focus)
    seconds = time.perf_counter() - began
    moves = found.moves(MAX_RECORDS if as_json else MAX_ROWS)
    if as_json:
        moved = {"moved": [m.record for m in moves], "moved_count": found.moved}
        write_json(found.record | {"out": out, "seconds": seconds} | moved)
    else:
        _show(run, moves, found.moved, out, seconds)


def _check_plot(path: Path) -> None:
    """Before the work is done: whether there is anything to draw with, and in which format."""
    from importlib.util import find_spec

    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise DissonanceError(f"--plot {path}: expected a name that ends in .svg, .png or .pdf.")
    if find_spec("matplotlib") is None:
        raise DissonanceError("--plot needs matplotlib: pip install 'dissonance[plot]'.")


def _scheduled(name: str, given: Sources, models: Sequence[str], said: Sequence[str]) -> Cycle:
    """The foci of the file in the order of its schedule of that name."""
    from dissonance.lir import Cycle

    if len(models) != 1:
        raise DissonanceError(f"--schedule {name}: is of one file; {len(models)} were given.")
    if said:
        raise DissonanceError(f"--schedule {name}: says where to look and what may move; leave {said[0]} out.")
    return Cycle(*given.focus.schedules[name], name=name)


def _of_schedule(given: Sources, order: Cycle) -> Focus:
    """The focus on the whole of a run by schedule: what any of its foci may move may move."""
    from dissonance.focus import Control, Focus

    moved = {n: 1.0 for f in order.foci for n, chi in f.control.chi.items() if chi}
    return Focus(given.focus.attention, Control(moved))


def _focus(given: Sources, control: Sequence[str], keep: Sequence[str], move: Sequence[str]) -> Focus:
    """The base focus of the run: the files' with what the command line says."""
    from dissonance.lir.resolving import movable

    said = named_weights("control", control, given.pdg)
    kept, moved = matching("keep", keep, given), matching("move", move, given)
    if both := kept & (moved | {n for n, x in said.items() if x > 0}):
        raise DissonanceError(f"--keep: {min(both)!r} is to move as well.")
    if moved and (odd := {n for n, x in said.items() if x > 0} - moved):
        raise DissonanceError(f"--control {min(odd)}: only {', '.join(move)} may move.")
    return movable(given.pdg, given.focus, said, kept, moved)


def _log_step(done: int, traces: Sequence[Trace]) -> None:
    row = traces[0].rows[-1]
    log.debug(
        "step %d: inconsistency %.6g, in focus %.6g, %d solver steps, %.3g s",
        done,
        row.global_upper,
        row.local_upper,
        row.newton_steps,
        row.seconds,
    )


def _show(run: Run, moves: list[MovedRow], count: int, out: str, seconds: float) -> None:
    """Print what was resolved, and which beliefs moved for it."""
    from rich.text import Text

    to = console()
    how = f"refocus {run.refocus}, flow {run.flow}, solver {run.solver}, "
    if math.isnan(run.after.upper):  # sweeps look at foci only
        local = [f"{row.local_upper:.6g}" for row in (run.trace.rows[0], run.trace.rows[max(0, run.steps - 1)])]
        to.print(Text(f"Inconsistency of all foci as they were met: {local[0]} -> {local[1]} nats", style="bold"))
        proved = f"that of the whole is at least {run.before.lower:.6g} before, {run.after.lower:.6g} after"
        to.print(Text(f"{proved}; {how}{run.steps} sweeps, {seconds:.3g} s"))
    else:
        gone = "" if math.isnan(run.resolution_percent) else f" ({run.resolution_percent:.6g} % resolved)"
        to.print(Text(f"Inconsistency: {run.before} -> {run.after} nats{gone}", style="bold"))
        certified = f"certified between {run.after.lower:.9g} and {run.after.upper:.9g}"
        to.print(Text(f"{certified}; {how}{run.steps} steps, {seconds:.3g} s"))
    columns = [TableColumn("arc", number=False), TableColumn("given", number=False, needed=any(m.given for m in moves))]
    columns += [TableColumn("was -> is", number=False), TableColumn("moved by", needed=False)]
    rows: list[list[str]] = []
    for m in moves:
        changes = ", ".join(f"{label} {old:.4g} -> {new:.4g}" for label, old, new in m.changes)
        rows.append([m.arc, m.given_text, changes, f"{m.distance:.4f}"])
    table = fitted_table(columns, rows, to)
    if count > MAX_ROWS:
        table.caption = (
            f"{count - MAX_ROWS} more rows not shown; --json has {'them all' if count <= MAX_RECORDS else 'more'}"
        )
    if moves:
        to.print(Text("\nWhat moved (total variation)", style="bold"), table)
    if not math.isnan(run.distortion_tv):
        to.print(f"\nThe best compromise moved by {run.distortion_tv:.4f} in total variation.")
    to.print(as_text(f"The resolved beliefs are in {out}."))


def _warn(run: Run, focus: Focus) -> None:
    if not any(chi > 0 for chi in focus.control.chi.values() if isinstance(chi, float)):
        log.warning("every control is 0, so nothing may move.")
    projected = sum(run.trace.column("projected"))
    if projected:
        log.warning(
            "%s left the parameter space in %s of %s steps and was brought back: lower --control, or use "
            "--flow natural.",
            run.flow,
            projected,
            run.steps,
        )
    if not run.after.converged and not math.isnan(run.after.upper):
        bounds = f"between {run.after.lower:.9g} and {run.after.upper:.9g} nats"
        log.warning("the solver stopped early: the final inconsistency is %s.", bounds)
