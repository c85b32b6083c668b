"""dissonance study gflownet: losses of GFlowNets on hyper-grids, searched, confirmed and compared."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dissonance.cli.cluster import SAME, ClusterAddress, ClusterTls, workers
from dissonance.cli.output import console, log, progress, resumable, write_json
from dissonance.errors import DissonanceError, visible
from dissonance.jsonable import json_number

if TYPE_CHECKING:
    from dissonance.studies.gflownet.folder import GflownetFolder
    from dissonance.studies.gflownet.settings import Settings


LONG = 10**8
"""Trajectories that keep a CPU busy for more than an hour."""


class Preset(StrEnum):
    """Where settings come from that are not given."""

    published = "published"
    tiny = "tiny"


class Device(StrEnum):
    """What the policies are trained on."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


def _names(text: str) -> Any:
    return typer.Option(help=f"{text}, between commas.", metavar="NAMES")


def _count(text: str) -> Any:
    return typer.Option(help=text, metavar="N")


def gflownet(
    out: Annotated[
        Path, typer.Option(help="The folder of the study; a study that was stopped there goes on.", metavar="FOLDER")
    ] = Path("gflownet-study"),
    preset: Annotated[
        Preset | None,
        typer.Option(
            help="The settings that are not given: the published ones (a GPU), or a tiny study (two minutes of a CPU); "
            "by default those of the study in the folder, or the published ones."
        ),
    ] = None,
    losses: Annotated[str | None, _names("Which of TB, LPV, ModTB, ModLPV")] = None,
    rewards: Annotated[str | None, _names("Which of original, cosine, xor, coprime")] = None,
    clamps: Annotated[str | None, _names("Which of none, trajectory, batch")] = None,
    searched: Annotated[
        str | None, _names("Clamps with a search of their own; the others take what was found under none")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds of the confirmation, between commas.", metavar="NUMBERS")
    ] = None,
    trials: Annotated[int | None, _count("Trials of each search.")] = None,
    iterations: Annotated[int | None, _count("Iterations of a run of the confirmation.")] = None,
    search_iterations: Annotated[int | None, _count("Iterations of a trial.")] = None,
    dimensions: Annotated[int | None, _count("Dimensions of the grid.")] = None,
    height: Annotated[int | None, _count("Height of the grid.")] = None,
    base: Annotated[
        float | None,
        typer.Option(help="The reward of every state: 0.1 in the published runs; for xor and coprime 0 in the text."),
    ] = None,
    batch: Annotated[int | None, _count("Trajectories of an iteration.")] = None,
    capacity: Annotated[int | None, _count("Trajectories kept for replay; 0 is none.")] = None,
    top: Annotated[int | None, _count("How many of the best hyperparameters are confirmed.")] = None,
    every: Annotated[int | None, _count("Iterations between two exact evaluations.")] = None,
    device: Annotated[
        Device, typer.Option(help="What to train on; auto is a GPU if there is one, on a cluster the CPU.")
    ] = Device.auto,
    together: Annotated[int | None, typer.Option(help="Runs that are trained at once.", metavar="N", min=1)] = None,
    storage: Annotated[
        str | None,
        typer.Option(help="A data base for the search, as postgresql://host/name; by default a file.", metavar="URL"),
    ] = None,
    draw: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw figures (needs matplotlib).")] = True,
    cluster: ClusterAddress = None,
    cluster_tls: ClusterTls = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train GFlowNets with the losses TB, LPV, ModTB and ModLPV; write tables, figures and a report to a folder.

    Hyperparameters are searched for, the best are confirmed with other seeds, and every policy is evaluated exactly.
    Stopped at any point, the same command goes on where it was; when all runs are there it writes the report again.
    """
    import_module("numpy")  # before torch, which would swallow an interrupt of this import
    from dissonance.studies import figures
    from dissonance.studies.folder import claimed
    from dissonance.studies.gflownet.folder import GflownetFolder, Machine
    from dissonance.studies.gflownet.publish import publish_gflownet
    from dissonance.studies.gflownet.search import check_installed

    began = time.perf_counter()
    lists = {"losses": losses, "rewards": rewards, "clamps": clamps, "searched": searched, "seeds": seeds}
    given = {k: _several(k, v) for k, v in lists.items() if v is not None}
    numbers = {
        "trials": trials, "iterations": iterations, "search_iterations": search_iterations, "dimensions": dimensions,
        "height": height, "base": base, "batch": batch, "capacity": capacity, "top": top, "every": every,
    }  # fmt: skip
    given |= {k: v for k, v in numbers.items() if v is not None}
    settings = _settings(out, preset, given)
    if claimed(out) is None:
        check_installed()
    machine = Machine("cpu" if cluster and device is Device.auto else _device(device), together, storage)
    folder = GflownetFolder(out, settings)
    with folder.alone():
        if not folder.finished:
            with resumable(), workers(cluster, cluster_tls, SAME) as there:
                machine = replace(machine, workers=there or machine.workers)
                if machine.device == "cpu" and settings.trajectories > LONG:
                    log.info(
                        "%.1e trajectories take very long without a GPU; --preset tiny does not.", settings.trajectories
                    )
                with progress("search") as show:
                    folder.search(machine, show)
                with progress("confirmation") as show:
                    folder.confirm(machine, show)
        if not publish_gflownet(folder, draw=draw) and draw:
            log.warning(figures.MISSING)
    runs, seconds = len(folder.outcomes()), time.perf_counter() - began
    if as_json:
        l1 = [{k: json_number(v) if isinstance(v, float) else v for k, v in row.items()} for row in _medians(folder)]
        record = {"study": "gflownet", "runs": runs, "l1": l1}
        write_json(record | {"report": str(out / "report.md"), "seconds": seconds})
    else:
        _show(folder)
        sys.stdout.write(f"\n{runs} runs, {seconds:.3g} s; {visible(str(out / 'report.md'))} has it all\n")


def _settings(out: Path, preset: Preset | None, given: dict[str, Any]) -> Settings:
    """The settings of the study in the folder or of the preset, but for what is given."""
    from dissonance.studies.folder import claimed
    from dissonance.studies.gflownet.settings import Settings

    theirs = claimed(out)
    if preset is None and theirs is not None:
        return Settings.of(theirs | given)
    start = Settings.tiny() if preset is Preset.tiny else Settings()
    return Settings.of(start.identity | given)


def _several(name: str, text: str) -> list[Any]:
    """What is listed between commas."""
    words = [w.strip() for w in text.split(",") if w.strip()]
    if name != "seeds":
        return words
    for word in words:
        if not word.isdecimal() or int(word) >= 2**63:
            raise DissonanceError(f"the seed {word!r} is not a number from 0 to 2^63 - 1.")
    return [int(word) for word in words]


def _device(device: Device) -> str:
    import torch

    there = torch.cuda.is_available()
    if device is Device.cuda and not there:
        raise DissonanceError("there is no CUDA device that torch can use; give --device cpu.")
    return ("cuda" if there else "cpu") if device is Device.auto else device.value


def _show(folder: GflownetFolder) -> None:
    """Print how far the policies are from their targets: the exact L1, median over the seeds."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, title="Exact L1, median over the seeds", title_justify="left")
    table.add_column("clamp", style="bold")
    table.add_column("reward")
    for loss in folder.settings.losses:
        table.add_column(loss, justify="right")
    for row in _medians(folder):
        table.add_row(row["clamp"], row["reward"], *(f"{row[loss]:.4f}" for loss in folder.settings.losses))
    console().print(table)


def _medians(folder: GflownetFolder) -> list[dict[str, Any]]:
    """By clamp and reward: the median L1 of each loss, the best hyperparameters only."""
    from statistics import median

    s, best = folder.settings, [o for o in folder.outcomes() if o.rank == 0]
    return [
        {"clamp": c, "reward": r}
        | {loss: median(o.l1 for o in best if (o.clamp, o.reward, o.loss) == (c, r, loss)) for loss in s.losses}
        for c in s.clamps
        for r in s.rewards
    ]
