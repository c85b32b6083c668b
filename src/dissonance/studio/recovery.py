"""Unsaved work: kept in one hidden file of the folder after each edit, and offered when a studio starts there again."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from dissonance.io import files
from dissonance.studio.documents import StudioDocument
from dissonance.studio.place import RECOVERY

FORMAT = "dissonance.studio"


class KeptDocument(msgspec.Struct):
    """A document of one tab of one studio, and when it was kept."""

    studio: int
    tab: str
    seconds: float
    document: StudioDocument


class _File(msgspec.Struct):
    format: str = FORMAT
    kept: list[KeptDocument] = []


@dataclass(frozen=True)
class Recovery:
    """The recovery file of a folder; `studio` is the process whose work is not to be offered to itself."""

    folder: Path
    studio: int = field(default_factory=os.getpid)

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.folder / RECOVERY

    def offered(self) -> StudioDocument | None:
        """The latest work that a studio which no longer runs has left."""
        left = [k for k in self._read() if self._left(k)]
        return max(left, key=lambda k: k.seconds).document if left else None

    def keep(self, tab: str, document: StudioDocument) -> None:
        """Keep the work of a tab, in place of what was kept of it before."""
        others = [k for k in self._read() if (k.studio, k.tab) != (self.studio, tab)]
        self._write([*others, KeptDocument(self.studio, tab, time.time(), document)])

    def discard(self, tab: str) -> None:
        """Forget the work of a tab: it is saved, or not wanted."""
        self._write([k for k in self._read() if (k.studio, k.tab) != (self.studio, tab)])

    def discard_offered(self) -> None:
        """Forget what studios that no longer run have left."""
        self._write([k for k in self._read() if not self._left(k)])

    def _left(self, kept: KeptDocument) -> bool:
        return kept.studio != self.studio and not _runs(kept.studio)

    def _read(self) -> list[KeptDocument]:
        """What is kept; a file that is no recovery file holds nothing of use."""
        if self.path.is_symlink() or not self.path.is_file():
            return []
        try:
            found = msgspec.json.decode(files.read(self.path)[0], type=_File)
        except (msgspec.MsgspecError, ValueError):
            return []
        return found.kept if found.format == FORMAT else []

    def _write(self, kept: list[KeptDocument]) -> None:
        if not kept:
            if not self.path.is_symlink():
                files.remove(self.path)
            return
        if self.path.is_symlink():  # not ours: what it leads to is left alone
            files.remove(self.path)
        files.write(self.path, msgspec.json.encode(_File(kept=kept)))


def _runs(process: int) -> bool:
    """Whether there is such a process, as far as can be asked: on Windows signal 0 would end it."""
    if os.name == "nt":
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
