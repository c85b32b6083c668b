"""One writer at a time: a lock on what is being written, which ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

from dissonance.errors import DissonanceError

try:
    import fcntl
except ImportError:  # not on this system: nothing is locked
    fcntl = None


def alone(path: str | os.PathLike[str]) -> contextlib.AbstractContextManager[None]:
    """While this lasts, no other process writes this file or folder; its lock is a hidden file beside it."""
    whole = Path(path).resolve()
    return locked(whole.with_name(f".{whole.name}.lock"), str(path))


@contextlib.contextmanager
def locked(path: Path, what: str) -> Generator[None, None, None]:
    """Hold the lock file at this path; refused while another process holds it. `what` it guards, in words."""
    if fcntl is None:
        yield
        return
    fd = _taken(path, what)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(fd)


def _taken(path: Path, what: str) -> int:
    assert fcntl is not None
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise DissonanceError(f"{what}: cannot be written: {reason}.") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(fd)
            raise DissonanceError(
                f"{what}: another command is at work on it; wait for its end, or name another."
            ) from None
        except OSError:  # a file system without locks
            return fd
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(fd), path.stat()):
                return fd
        os.close(fd)  # whoever held it has removed the file in between
