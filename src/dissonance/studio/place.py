"""Where a studio was started, and with what; and what whoever carries its requests needs to know of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).parent / "page"
"""Where the files of the page are."""
STREAMS = ("run",)
"""Actions that show what they have so far."""
REPLACED = ("score", "layout", "query")
"""Actions of which only the latest of a page counts."""
STALE = "a later request has taken the place of this one."
"""The answer to the others."""
RECOVERY = ".dissonance-studio.json"
"""The file of the folder in which work that is not saved is kept."""


@dataclass(frozen=True)
class StudioPlace:
    """The folder, the process, and the model the studio opens with: the path of a file, or what was piped in.

    That file may be anywhere, for a person has named it on the command line; pages cannot.
    """

    folder: Path
    model: str | None = None
    piped: bytes | None = None
    process: int = field(default_factory=os.getpid)
