"""Bytes in and out of files: every failure is one line, and nothing is ever half-written."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import sys
import zlib
from pathlib import Path
from typing import IO

from dissonance.errors import FormatError, one_line

MAX_BYTES = 1 << 30
"""How much a compressed file may hold: a few bytes can promise any number of them."""

Source = str | os.PathLike[str] | IO[bytes] | IO[str]


def read(source: Source) -> tuple[bytes, str]:
    """What the source holds, decompressed, and its name for messages; "-" is standard input."""
    if source == "-":
        if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise FormatError("standard input is closed; give a file.")
        source, where = sys.stdin.buffer, "standard input"
    elif isinstance(source, str | os.PathLike):
        where = str(source)
    else:
        where = str(getattr(source, "name", "the input"))
    try:
        held = Path(source).read_bytes() if isinstance(source, str | os.PathLike) else source.read()
    except (OSError, ValueError) as error:
        raise FormatError(one_line(f"{where}: cannot be read: {_reason(error)}.")) from None
    content = held.encode() if isinstance(held, str) else held
    return _unpacked(content, where) if content.startswith(b"\x1f\x8b") else content, where


def _unpacked(content: bytes, where: str) -> bytes:
    """What gzip compressed."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            held = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(one_line(f"{where}: is not a whole gzip file: {_reason(error)}.")) from None
    if len(held) > MAX_BYTES:
        raise FormatError(f"{where}: holds more than {MAX_BYTES} bytes: decompress it first.")
    return held


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
