"""dissonance resolve: move the beliefs of a model until they fit together."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dissonance.cli.completion import FLOWS, REFOCUS, SOLVERS, arcs, one_of
from dissonance.cli.output import InterruptedRunError, console, json_number, log, progress, shown, write_json
from dissonance.cli.sources import Attend, Gamma, Models, Trust, Without, attended, read, weights

if TYPE_CHECKING:
    from dissonance.focus import Focus
    from dissonance.io.sources import Sources
    from dissonance.lir import Cycle, Run, Trace
    from dissonance.lir.moved import MovedRow

STEPS = 20
MAX_SEED = 2**63 - 1
MAX_ROWS = 40


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
            help="How the next focus is chosen: uniform, partial, hub, ...",
            metavar="NAME",
            autocompletion=one_of(REFOCUS),
        ),
    ] = "uniform",
    schedule: Annotated[
        str | None,
        typer.Option(help="A schedule of the file: its foci one after another, in place of --refocus.", metavar="NAME"),
    ] = None,
    steps: Annotated[int, typer.Option(help="How many steps.", metavar="N", min=0)] = STEPS,
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
    gamma: Gamma = None,
    trust: Trust = None,
    attend: Attend = None,
    without: Without = None,
    trace: Annotated[
        Path | None, typer.Option(help="Where a line of JSON for every step goes.", metavar="FILE")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Where a picture of the steps goes: svg, png or pdf.", metavar="FILE")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Resolve the inconsistency of MODEL, one file or several: write it with the beliefs moved, and say what moved.

    The control values of the file say which arcs may move; if it has none and --control is not given, all may.
    """
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    from dissonance.cli.resolved import Destination
    from dissonance.io.files import remove
    from dissonance.io.locked import locked
    from dissonance.lir import lir
    from dissonance.lir.moved import moved_rows, restored

    began = time.perf_counter()
    place = Destination.of(out, models)
    if plot is not None:
        _check_plot(plot)
    given = read(models, gamma)
    pdg = given.pdg.learnable()
    chosen = attended(given, trust, attend, without)
    order = None if schedule is None else _scheduled(schedule, chosen, models, refocus, control)
    focus = _focus(chosen, control or ()) if order is None else _of_schedule(chosen, order)
    place.encode(given, pdg)  # what the format cannot hold is refused before the work is done
    checkpoint, lock = place.beside("{}.checkpoint"), place.beside(".{}.lock")
    with locked(lock, out):
        if not resume:
            remove(checkpoint)
        with progress("resolving") as bar:
            run = lir(
                pdg,
                refocus if order is None else order,
                steps=steps,
                flow=flow or ("full" if any(a.is_euclidean for a in pdg.arcs) else "natural"),
                solver=solver,
                attention=focus.attention,
                control=focus.control,
                seed=seed,
                checkpoint=str(checkpoint),
                callbacks=[lambda done, _: bar(done, steps), _log_step],
                progress=False,
            )
        if trace is not None:
            run.trace.save(trace)
        if run.interrupted:
            raise InterruptedRunError(f"interrupted after {run.steps} of {steps} steps; --resume goes on from there.")
        after = restored(given.pdg, run.pdg)
        place.save(given, after)
        remove(checkpoint)
    if plot is not None:
        run.trace.plot(plot)
    _warn(run, focus)
    seconds = time.perf_counter() - began
    moves = moved_rows(given.pdg, after)
    if as_json:
        write_json(_record(run, out, seconds) | {"moved": [m.record for m in moves]})
    else:
        _show(run, moves, out, seconds)


def _check_plot(path: Path) -> None:
    """Before the work is done: whether there is anything to draw with, and in which format."""
    from importlib.util import find_spec

    from dissonance.errors import DissonanceError

    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise DissonanceError(f"--plot {path}: expected a name that ends in .svg, .png or .pdf.")
    if find_spec("matplotlib") is None:
        raise DissonanceError("--plot needs matplotlib: pip install 'dissonance[plot]'.")


def _scheduled(name: str, given: Sources, models: Sequence[str], refocus: str, control: Sequence[str] | None) -> Cycle:
    """The foci of the file in the order of its schedule of that name."""
    from dissonance.errors import DissonanceError
    from dissonance.lir import Cycle

    if len(models) != 1:
        raise DissonanceError(f"--schedule {name}: is of one file; {len(models)} were given.")
    for option, there in (("--refocus", refocus != "uniform"), ("--control", bool(control))):
        if there:
            raise DissonanceError(f"--schedule {name}: says where to look and what may move; leave {option} out.")
    return Cycle(*given.focus.schedules[name], name=name)


def _of_schedule(given: Sources, order: Cycle) -> Focus:
    """The focus on the whole of a run by schedule: what any of its foci may move may move."""
    from dissonance.focus import Control, Focus

    moved = {n for f in order.foci for n, chi in f.control.chi.items() if chi}
    return Focus(given.focus.attention, Control(dict.fromkeys(moved, 1.0)))


def _focus(given: Sources, control: Sequence[str]) -> Focus:
    """The base focus of the run: the files' with what the command line says."""
    from dissonance.focus import Control, Focus

    chi = dict(given.focus.control.chi) | weights("control", control, given.pdg)
    if not chi:
        chi = {a.name: 1.0 for a in given.pdg.arcs}
    return Focus(given.focus.attention, Control(chi))


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


def _record(run: Run, out: str, seconds: float) -> dict[str, object]:
    bounds = {
        key: {"inconsistency": json_number(v.upper), "lower": json_number(v.lower), "upper": json_number(v.upper)}
        for key, v in (("initial", run.before), ("final", run.after))
    }
    return {
        **bounds,
        "resolution_percent": json_number(run.resolution_percent),
        "distortion_tv": json_number(run.distortion_tv),
        "steps": run.steps,
        "refocus": run.refocus,
        "flow": run.flow,
        "solver": run.solver,
        "unit": "nats",
        "out": out,
        "seconds": seconds,
    }


def _show(run: Run, moves: list[MovedRow], out: str, seconds: float) -> None:
    """Print what was resolved, and which beliefs moved for it."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    to = console()
    gone = "" if math.isnan(run.resolution_percent) else f" ({run.resolution_percent:.6g} % resolved)"
    to.print(Text(f"Inconsistency: {run.before.upper:.6g} -> {run.after.upper:.6g} nats{gone}", style="bold"))
    how = f"refocus {run.refocus}, flow {run.flow}, solver {run.solver}, {run.steps} steps, {seconds:.3g} s"
    to.print(Text(f"certified between {run.after.lower:.9g} and {run.after.upper:.9g}; {how}"))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("arc", style="bold", overflow="fold")
    table.add_column("given", overflow="fold")
    table.add_column("was -> is", overflow="fold")
    table.add_column("moved by", justify="right", no_wrap=True)
    for m in moves[:MAX_ROWS]:
        changes = ", ".join(f"{label} {old:.4g} -> {new:.4g}" for label, old, new in m.changes)
        table.add_row(shown(m.arc), shown(m.given_text), shown(changes), f"{m.distance:.4f}")
    if len(moves) > MAX_ROWS:
        table.caption = f"{len(moves) - MAX_ROWS} more rows not shown; --json has them all"
    if moves:
        to.print(Text("\nWhat moved (total variation)", style="bold"), table)
    if not math.isnan(run.distortion_tv):
        to.print(f"\nThe best compromise moved by {run.distortion_tv:.4f} in total variation.")
    to.print(shown(f"The resolved beliefs are in {out}."))


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
    if not run.after.converged:
        bounds = f"between {run.after.lower:.9g} and {run.after.upper:.9g} nats"
        log.warning("the solver stopped early: the final inconsistency is %s.", bounds)
