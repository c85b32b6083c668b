"""dissonance study: the paper's experiments, run again."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dissonance.cli.cluster import SAME, ClusterAddress, ClusterTls, workers
from dissonance.cli.output import console, log, progress, resumable, write_json
from dissonance.cli.study_gflownet import gflownet
from dissonance.errors import DissonanceError, visible
from dissonance.jsonable import json_number

if TYPE_CHECKING:
    from dissonance.studies.outcomes import StrategyOutcome

app = typer.Typer(help="Run an experiment of the paper again.", no_args_is_help=True)


class SolverChoice(StrEnum):
    """How the inconsistency is found."""

    exact = "exact"
    paper = "paper"


class RowDistribution(StrEnum):
    """How a row of a random cpd is drawn."""

    normalised = "uniform-normalised"
    simplex = "simplex"


@app.callback()
def experiments() -> None:
    """Run an experiment of the paper again."""


app.command()(gflownet)


@app.command()
def synthetic(
    out: Annotated[
        Path, typer.Option(help="The folder of the study; a study that was stopped there goes on.", metavar="FOLDER")
    ] = Path("synthetic-study"),
    replicates: Annotated[int, typer.Option(help="How many random cpds for each structure.", metavar="N")] = 50,
    strategies: Annotated[
        str | None, typer.Option(help="Which strategies, between commas (by default all).", metavar="NAMES")
    ] = None,
    solver: Annotated[
        SolverChoice, typer.Option(help="Certified solves, or the published loop with its unconverged ones.")
    ] = SolverChoice.exact,
    rows: Annotated[
        RowDistribution,
        typer.Option(help="How a row of a cpd is drawn: as in the published runs, or as in the paper's text."),
    ] = RowDistribution.normalised,
    authors: Annotated[
        Path | None, typer.Option(help="Take the cpds of the authors' replicates in this folder.", metavar="FOLDER")
    ] = None,
    structures: Annotated[
        int, typer.Option(help="How many structures; the first four are the paper's.", metavar="N")
    ] = 4,
    seed: Annotated[int, typer.Option(help="What is drawn at random.", metavar="N")] = 0,
    steps: Annotated[int, typer.Option(help="Timesteps of a run.", metavar="N")] = 20,
    hub_weight: Annotated[
        float,
        typer.Option(
            help="What hub focus leaves the other arcs: 0.1 in the published runs, 0 in the text.", metavar="W"
        ),
    ] = 0.1,
    draw: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw figures (needs matplotlib).")] = True,
    jobs: Annotated[
        int | None, typer.Option(help="How many processes (by default one for each core).", metavar="N", min=1)
    ] = None,
    cluster: ClusterAddress = None,
    cluster_tls: ClusterTls = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Resolve random inconsistent PDGs with every strategy; write tables, figures and a report to a folder.

    Stopped at any point, the same command goes on where it was and ends with the same tables.
    """
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    from dissonance.compiled import begin_compiling

    waiting = not cluster and begin_compiling()  # what takes long the first time, while all the rest is imported
    from dissonance.studies import figures
    from dissonance.studies.publish import publish
    from dissonance.studies.runs import BLIND, STRATEGIES
    from dissonance.studies.synthetic import Synthetic, SyntheticFolder
    from dissonance.studies.work import compute
    from dissonance.workers.processes import Processes

    began = time.perf_counter()
    if cluster and jobs:
        raise DissonanceError(
            "--jobs is for processes of this machine; the workers of a --cluster are as many as it has."
        )
    known = BLIND if solver is SolverChoice.paper else STRATEGIES
    study = Synthetic(
        replicates=replicates,
        strategies=tuple(s.strip() for s in strategies.split(",")) if strategies is not None else known,
        structures=structures,
        solver=solver.value,
        rows=rows.value,
        authors=None if authors is None else str(authors),
        seed=seed,
        steps=steps,
        hub_weight=hub_weight,
    )
    folder = SyntheticFolder(out, study)
    if waiting and draw:
        figures.make_ready()
    with folder.alone():
        with resumable(), workers(cluster, cluster_tls, SAME) as there, progress("runs") as show:
            compute(folder, workers=there or Processes(jobs or _cores()), progress=show)
        outcomes = folder.outcomes()
        if not publish(folder, outcomes, draw=draw) and draw:
            log.warning(figures.MISSING)
    seconds = time.perf_counter() - began
    if as_json:
        write_json(_record(outcomes) | {"report": str(out / "report.md"), "seconds": seconds})
    else:
        _show(outcomes)
        sys.stdout.write(f"\n{len(outcomes)} runs, {seconds:.3g} s; {visible(str(out / 'report.md'))} has it all\n")


def _record(outcomes: Sequence[StrategyOutcome]) -> dict[str, object]:
    from dissonance.studies.outcomes import ALL, groups

    return {
        "study": "synthetic",
        "runs": len(outcomes),
        "strategies": [
            {
                "strategy": g.strategy,
                "resolution_percent": json_number(g.spread("resolution_percent").mean),
                "rate_percent": json_number(g.pooled_rate_percent),
                "tv_mu": json_number(g.spread("tv_mu").mean),
                "tv_theta": json_number(g.spread(lambda o: o.tv_theta[-1]).mean),
                "solver_steps": json_number(g.spread("solver_steps").mean),
            }
            for g in groups(outcomes)
            if g.structure == ALL
        ],
    }


def _show(outcomes: Sequence[StrategyOutcome]) -> None:
    """Print what the strategies came to, over all structures."""
    from rich import box
    from rich.table import Table

    from dissonance.studies.outcomes import ALL, groups

    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("strategy", style="bold")
    for title in ("resolution %", "rate %", "TV of mu*", "TV of theta", "solver steps"):
        table.add_column(title, justify="right")
    for g in (g for g in groups(outcomes) if g.structure == ALL):
        resolution = g.spread("resolution_percent")
        tv, theta, steps = g.spread("tv_mu"), g.spread(lambda o: o.tv_theta[-1]), g.spread("solver_steps")
        table.add_row(
            g.strategy,
            f"{resolution.mean:.2f} ± {resolution.sd:.2f}",
            f"{g.pooled_rate_percent:.1f}",
            f"{tv.mean:.4f} ± {tv.sd:.4f}",
            f"{theta.mean:.3f}",
            f"{steps.mean:.0f}",
        )
    console().print(table)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
