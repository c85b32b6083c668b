"""The folder the studio was started in: the only place where it reads and writes files, each by a plain name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from dissonance.errors import DissonanceError

READ = (".json", ".bif", ".xmlbif", ".bifxml", ".xml", ".uai", ".csv")
"""Suffixes of files that can be read, each also with .gz."""
WRITTEN = (".json", ".bif", ".xmlbif", ".uai")
"""Suffixes of files that can be written."""
MOST_LISTED = 500
MAX_NAME = 200

_ODD = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|]")


@dataclass(frozen=True)
class Folder:
    """A folder whose files are named, never reached by a path: names that lead out of it are refused."""

    path: Path

    def listed(self) -> list[str]:
        """The names of the files that could be read, in order."""
        names = (p.name for p in self.path.iterdir() if _suffix(p.name) in READ and self._inside(p))
        return sorted(n for n in names if not n.startswith("."))[:MOST_LISTED]

    def to_read(self, name: str) -> Path:
        """A file of the folder, by its name."""
        path = self._named(name, READ)
        if not path.exists():
            raise DissonanceError(f"no file {name!r} in {self.path}.")
        if not self._inside(path):
            raise DissonanceError(f"{name!r} is no file of {self.path}: the studio reads nothing outside it.")
        return path

    def to_write(self, name: str, overwrite: bool) -> Path:
        """Where a file of that name goes; one that is there is only replaced if that is wanted."""
        path = self._named(name, WRITTEN)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise DissonanceError(f"{name!r} is a link or no plain file: the studio does not write through it.")
        if path.exists() and not overwrite:
            raise DissonanceError(f"there is a file {name!r} already; say that it may be replaced, or choose a name.")
        return path

    def _named(self, name: str, suffixes: tuple[str, ...]) -> Path:
        if not name or name.startswith((".", "-")) or _ODD.search(name) or len(name) > MAX_NAME or name != name.strip():
            raise DissonanceError(
                f"{name!r} is no plain file name: no folders, no control characters, no dot in front."
            )
        if _suffix(name) not in suffixes:
            raise DissonanceError(f"{name!r}: expected a name that ends in {' '.join(suffixes)}.")
        return self.path / name

    def _inside(self, path: Path) -> bool:
        """Whether it is a plain file of the folder, or a link to one."""
        try:
            return path.is_file() and path.resolve().parent == self.path.resolve()
        except OSError:
            return False


def _suffix(name: str) -> str:
    lower = name.lower().removesuffix(".gz")
    return f".{lower.rpartition('.')[2]}" if "." in lower else ""
