"""Where a studio was started, and with what."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

RECOVERY = ".dissonance-studio.json"
"""The file of the folder in which work that is not saved is kept."""


@dataclass(frozen=True)
class Place:
    """The folder, the process, and the model the studio opens with: the path of a file, or what was piped in.

    That file may be anywhere, for a person has named it on the command line; pages cannot.
    """

    folder: Path
    model: str | None = None
    piped: bytes | None = None
    process: int = field(default_factory=os.getpid)
