"""dissonance studio: a page on which the beliefs of a model can be seen, moved and resolved."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dissonance.cli.output import as_text, console, log, write_json
from dissonance.errors import DissonanceError

if TYPE_CHECKING:
    from dissonance.studio.guard import Guard


def studio(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="The file of beliefs to open; - is standard input.")
    ] = None,
    port: Annotated[int, typer.Option(help="The port of this machine (0: any free one).", min=0, max=65535)] = 0,
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as one JSON object.")] = False,
) -> None:
    """Open a page on which the beliefs of MODEL are a picture one can touch; Ctrl-C ends it.

    The page is served to this machine only, to whoever has the address. Files are read and written in this folder.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise DissonanceError("the studio needs a web server: pip install 'dissonance[studio]'.")
    from dissonance.studio.launch import launch
    from dissonance.studio.place import RECOVERY, StudioPlace

    if model is not None and model != "-" and not Path(model).is_file():
        raise DissonanceError(f"{model}: no such file.")
    piped = sys.stdin.buffer.read() if model == "-" else None

    def started(guard: Guard) -> None:
        if as_json:
            write_json({"address": guard.address, "port": guard.port, "folder": str(Path.cwd())})
        else:
            console().print(as_text(f"The studio is at {guard.address}"), soft_wrap=True)
            log.info("Ctrl-C ends it.")
        sys.stdout.flush()

    folder = Path.cwd().resolve()
    launch(StudioPlace(folder, model, piped), port, opens=opens, started=started)
    kept = f"; what is not saved is in {RECOVERY}" if (folder / RECOVERY).is_file() else ""
    log.info("the studio is closed%s.", kept)
