"""dissonance doctor: what is installed, what it runs on, and whether it works."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dissonance import __version__
from dissonance.cli.output import console, log, write_json

if TYPE_CHECKING:
    from rich.table import Table

    from dissonance.cli.checkup import Check, Library


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say which versions are installed, what they run on, and whether every solver finds what is known.

    The exit status is 1 if something essential is missing or wrong.
    """
    from dissonance.cli import checkup

    with suppress(ImportError):
        import_module("numpy")  # before torch, which would swallow an interrupt of this import
    began = time.perf_counter()
    libraries, device = checkup.libraries(), checkup.device()
    solvers = checkup.every("solvers", checkup.solvers)
    formats = checkup.every("formats", checkup.formats)
    checks = [*solvers, *formats]
    problems = [f"{x.name} {x.trouble}" for x in libraries if x.essential and x.trouble]
    problems += [device["trouble"]] if "trouble" in device else []
    problems += [f"{c.name}: {c.found}" for c in checks if not c.ok]
    for c in checks:
        log.debug("%s: %s, %.3g s", c.name, c.found, c.seconds)
    record = {
        "dissonance": __version__,
        "python": platform.python_version(),
        "where": str(Path(__file__).parents[1]),
        "libraries": {x.name: x.version for x in libraries},
        "device": device,
        "solvers": {c.name: {"ok": c.ok, "found": c.found} for c in solvers},
        "formats": {c.name: {"ok": c.ok, "found": c.found} for c in formats},
        **({} if problems else checkup.ways()),
        "problems": problems,
        "seconds": time.perf_counter() - began,
    }
    if as_json:
        write_json(record)
    else:
        _show(record, libraries, solvers, formats)
    if problems:
        raise typer.Exit(1)


def _show(
    record: dict[str, Any], libraries: Sequence[Library], solvers: Sequence[Check], formats: Sequence[Check]
) -> None:
    """Print it for people."""
    from rich.text import Text

    out = console()
    out.print(
        Text(f"dissonance {record['dissonance']}", style="bold").append(f", Python {record['python']}", "not bold")
    )
    out.print(Text(record["where"]))
    out.print(Text("\nLibraries", style="bold"), _libraries(libraries))
    out.print(Text("\nDevice", style="bold"), *(Text(line) for line in _device(record["device"])), sep="\n")
    out.print(Text("\nSolvers", style="bold"), _checks(solvers))
    out.print(Text("\nFormats", style="bold"), _checks(formats))
    for what in ("flows", "refocus"):
        if what in record:
            out.print(Text(f"\n{what.capitalize()} ", style="bold").append(", ".join(record[what]), "not bold"))
    out.print()
    if record["problems"]:
        out.print(Text("Something essential is wrong:", style="bold red"))
        out.print(*(Text(f" {p}") for p in record["problems"]), sep="\n")
    else:
        out.print(Text(f"All is well ({record['seconds']:.2g} s).", style="bold"))


def _libraries(libraries: Sequence[Library]) -> Table:
    from rich.text import Text

    from dissonance.cli.checkup import OPTIONAL

    table = _grid()
    for x in libraries:
        what = "" if x.essential else f"{OPTIONAL[x.name][1]}{': ' if x.trouble else ''}"
        table.add_row(*map(Text, (x.name, x.version or "-", what + x.trouble)))
    return table


def _device(device: dict[str, Any]) -> list[str]:
    if "trouble" in device:
        return [f" {device['trouble']}"]
    memory = "" if device["memory_gib"] is None else f", {device['memory_gib']:g} GiB"
    gpus = [f" {g['name']}, {g['memory_gib']:g} GiB" for g in device["gpus"]]
    return [
        f" {device['system']}: {device['cores']} cores, torch uses {device['threads']} threads{memory}",
        *(gpus or [" no CUDA device: everything runs on the CPU"]),
        f" Triton kernels: {device['kernels']}",
    ]


def _checks(checks: Sequence[Check]) -> Table:
    from rich.text import Text

    table = _grid()
    for c in checks:
        table.add_row(*map(Text, (c.name, "ok" if c.ok else "WRONG", c.found)))
    return table


def _grid() -> Table:
    """Three columns without lines."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(overflow="fold")
    return table
