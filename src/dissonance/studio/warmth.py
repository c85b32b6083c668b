"""What is slow the first time, done ahead: imports, small solves, machine code of the solver."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dissonance import compiled
from dissonance.solvers.exact import precompile
from dissonance.studio.actions import act
from dissonance.studio.place import StudioPlace

SMALL = {
    "format": "dissonance.pdg",
    "version": 1,
    "variables": [{"name": "X", "size": 2}, {"name": "Y", "size": 2}],
    "arcs": [
        {"name": "p", "targets": ["X"], "table": [0.9, 0.1]},
        {"name": "q", "sources": ["X"], "targets": ["Y"], "table": [[0.9, 0.1], [0.2, 0.8]]},
        {"name": "r", "targets": ["Y"], "table": [0.1, 0.9]},
    ],
}


def get_ready() -> None:
    """Be ready for small models at once, interpreted; larger ones load the machine code, which takes a second or two.

    As long as there is none, the first quarter of a minute of an installation, larger ones are slow.
    """
    if not compiled.kept():
        compiled.postpone()
    _try()


def compile_solver() -> None:
    """Compile the solver, if that was not done on this machine: it takes a quarter of a minute or so."""
    precompile()
    use_compiled()


def use_compiled() -> None:
    """Use the compiled solver from now on."""
    compiled.engage()
    _try()


def _try() -> None:
    body = msgspec.json.encode({"model": SMALL})
    for name in ("score", "layout"):
        act(StudioPlace(Path()), name, body, lambda event: False)
