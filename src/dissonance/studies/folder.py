"""What both studies share: a folder that belongs to one study, and what a finished study leaves in it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dissonance.errors import DissonanceError
from dissonance.io import files
from dissonance.io.locked import locked
from dissonance.studies import sums
from dissonance.studies.figures import drawable


class StudyFolder:
    """Where a study lives: its settings, its results, and what is made of them."""

    def __init__(self, path: Path | str, identity: Mapping[str, object]) -> None:
        """Claim the folder for a study with this identity; a folder that holds another study is refused."""
        self.path = Path(path)
        theirs = claimed(self.path)
        if theirs is None:
            self.subfolder("")
            sums.write_summed(self.path / "study.json", (json.dumps(identity, indent=2) + "\n").encode())
            return
        for key in dict.fromkeys([*identity, *theirs]):
            if identity.get(key) != theirs.get(key):
                raise DissonanceError(
                    f"{path}: holds a study with {key} {_words(theirs.get(key))}, not {_words(identity.get(key))}: "
                    "give another --out, or delete the folder."
                )

    def subfolder(self, name: str) -> Path:
        """A folder inside this one, made if need be; "" is this one."""
        try:
            (self.path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise DissonanceError(f"{self.path}: cannot be made: {reason}.") from None
        return self.path / name

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the study, all or nothing."""
        self.subfolder(str(Path(name).parent))
        files.write(self.path / name, content)

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """While this lasts, no other command works on the study."""
        return locked(self.path / ".lock", str(self.path))

    def tidy(self) -> None:
        """Remove what processes that were killed have left half-written."""
        for part in (*self.path.glob(".*.part"), *self.path.glob("*/.*.part")):
            part.unlink(missing_ok=True)

    def publish(
        self,
        tables: Mapping[str, bytes],
        figures: Callable[[], Mapping[str, bytes]] | None,
        report: Callable[[Sequence[str]], str],
    ) -> bool:
        """Write tables, figures where they are wanted and can be drawn, and last the report, which is told their names.

        Returns whether there are figures.
        """
        drawn = figures() if figures is not None and drawable() else {}
        for name, content in (*tables.items(), *((f"figures/{name}", content) for name, content in drawn.items())):
            self.write(name, content)
        self.write("report.md", report(list(drawn)).encode())
        return bool(drawn)


def claimed(path: Path | str) -> dict[str, Any] | None:
    """The settings of the study that a folder holds, if it holds one."""
    kept = Path(path) / "study.json"
    content = sums.read_verified(kept)
    if not content and not kept.exists():
        return None
    try:
        found: object = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DissonanceError(f"{kept}: is not the settings of a study: give another --out.")
    return found


def _words(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
