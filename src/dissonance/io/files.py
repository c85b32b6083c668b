"""Bytes in and out of files: every failure is one line, and nothing is ever half-written."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from dissonance.errors import FormatError, one_line

MAX_BYTES = 1 << 28
"""How much a model may hold, decompressed: a few bytes can promise any number of them, and a device never ends."""
PATIENCE = 5.0
"""Seconds until a named pipe that nothing writes to is given up."""
CHUNK = 1 << 20

Source = str | os.PathLike[str] | IO[bytes] | IO[str]


def read(source: Source, limit: int | None = MAX_BYTES) -> tuple[bytes, str]:
    """What the source holds, decompressed, and its name for messages; "-" is standard input.

    More than `limit` bytes are refused while they are read.
    """
    if source == "-":
        if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise FormatError("standard input is closed; give a file.")
        source, where = sys.stdin.buffer, "standard input"
    elif isinstance(source, str | os.PathLike):
        where = str(source)
    elif hasattr(source, "read"):
        where = str(getattr(source, "name", "the input"))
    else:
        raise FormatError(one_line(f"expected a path or an open file, found {source!r}."))
    try:
        content = _some(_chunks(source), limit)
    except (OSError, ValueError) as error:
        raise FormatError(one_line(f"{where}: cannot be read: {_reason(error)}.")) from None
    if content.startswith(b"\x1f\x8b"):
        try:
            content = _some(_unpacked(content), limit)
        except (OSError, EOFError, zlib.error) as error:
            raise FormatError(one_line(f"{where}: is not a whole gzip file: {_reason(error)}.")) from None
    if limit is not None and len(content) > limit:
        raise FormatError(one_line(f"{where}: holds more than {limit} bytes, which no model needs."))
    return content, where


def _some(chunks: Iterable[bytes], limit: int | None) -> bytes:
    """All of them, or a little more than the limit."""
    parts: list[bytes] = []
    total = 0
    for part in chunks:
        parts.append(part)
        total += len(part)
        if limit is not None and total > limit:
            break
    return b"".join(parts)


def _chunks(source: Source) -> Iterator[bytes]:
    if not isinstance(source, str | os.PathLike):
        while held := source.read(CHUNK):
            yield held.encode() if isinstance(held, str) else held
    elif Path(source).is_fifo():
        yield from _piped(source)
    else:
        with Path(source).open("rb") as file:
            yield from _chunks(file)


def _unpacked(content: bytes) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        while part := file.read(CHUNK):
            yield part


def _piped(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """What comes out of a named pipe, once a program writes to it: to wait for one may be to wait for ever."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        until = time.monotonic() + PATIENCE
        with contextlib.suppress(BlockingIOError):  # a program is there, and has written nothing yet
            while not (held := os.read(fd, CHUNK)):
                if time.monotonic() > until:
                    raise OSError(0, "nothing writes to this pipe")
                time.sleep(0.01)
            yield held
        os.set_blocking(fd, True)
        while held := os.read(fd, CHUNK):
            yield held
    finally:
        os.close(fd)


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file all at once: it holds either what it held before or all of the content (compressed, if .gz).

    "-" is standard output.
    """
    if str(path) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    try:
        if Path(path).suffix.lower() == ".gz":
            content = gzip.compress(content, mtime=0)
        if _is_stream(Path(path)):  # there is nothing to replace
            Path(path).write_bytes(content)
        else:
            _replace(Path(path).resolve(), content)
    except (OSError, ValueError, RuntimeError) as error:
        raise FormatError(one_line(f"{path}: cannot be written: {_reason(error)}.")) from None


def append(path: str | os.PathLike[str], content: bytes) -> None:
    """Add to the end of a file that is there."""
    try:
        with Path(path).open("r+b") as file:
            file.seek(0, os.SEEK_END)
            file.write(content)
    except OSError as error:
        raise FormatError(one_line(f"{path}: cannot be written: {_reason(error)}.")) from None


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FormatError(one_line(f"{path}: cannot be removed: {_reason(error)}.")) from None


def _is_stream(path: Path) -> bool:
    """Whether the path is a pipe or a device, perhaps by a link."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name[:100]}.{os.getpid()}.part")
    try:
        beside.write_bytes(content)
        if path.is_file():
            shutil.copymode(path, beside)
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
