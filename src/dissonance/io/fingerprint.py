"""Fingerprints: what a state file is a state of, as a digest of every value that decides it.

A value is known by its type and its parts, a tensor by its numbers, a function by its qualified name, its source and
what it closes over. What a function reads from elsewhere cannot be seen, so it is named in `unseen`.
"""

from __future__ import annotations

import enum
import hashlib
import inspect
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from functools import cache, cached_property, partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    slice,
    enum.Enum,
    torch.dtype,
    torch.device,
    np.generic,
)
OURS = "dissonance"
BOOKKEEPING = frozenset(vars(nn.Module())) - {"_parameters", "_buffers", "_modules"}


class Fingerprint:
    """A digest of the values that were added, in order; `unseen` are the functions known by name and source only."""

    def __init__(self, *values: object) -> None:
        self.unseen: list[str] = []
        self._digest = hashlib.sha256()
        self._known: dict[int, tuple[int, object]] = {}  # holds the objects, so that no other takes the place of one
        for value in values:
            self._add(value)

    def hex(self) -> str:
        """The digest."""
        return self._digest.hexdigest()

    def _put(self, *words: str) -> None:
        text = "".join([f"{len(word)}:{word}" for word in words])
        self._digest.update(text.encode("utf-8", "surrogatepass"))

    def _put_bytes(self, content: bytes) -> None:
        self._put("bytes", str(len(content)))
        self._digest.update(content)

    def _add(self, x: Any) -> None:
        kind = type(x)
        way = _way(kind)
        if way == "plain":
            self._put(kind.__name__, repr(x))
            return
        number, _ = self._known.setdefault(id(x), (len(self._known), x))
        if number < len(self._known) - 1:  # shared, or part of itself
            self._put("again", str(number))
            return
        getattr(self, f"_{way}")(x)

    def _tensor(self, x: Tensor) -> None:
        self._put("tensor", str(x.dtype), str(tuple(x.shape)))
        self._put_bytes(_bytes(x.detach().cpu()))

    def _array(self, x: np.ndarray) -> None:
        self._put("array", str(x.dtype), str(x.shape))
        self._put_bytes(x.tobytes() if x.dtype != object else repr(x.tolist()).encode())

    def _generator(self, x: torch.Generator) -> None:
        self._tensor(x.get_state())

    def _name(self, x: Any) -> None:
        self._put("name", f"{x.__module__}.{x.__qualname__}")

    def _method(self, x: MethodType) -> None:
        self._add(x.__func__)
        self._add(x.__self__)

    def _partial(self, x: partial[Any]) -> None:
        for part in (x.func, x.args, x.keywords):
            self._add(part)

    def _mapping(self, x: Mapping[Any, Any]) -> None:
        self._put("mapping", str(len(x)))
        for key in sorted(x, key=_written):
            self._add(key)
            self._add(x[key])

    def _set(self, x: Set[Any]) -> None:
        self._put("set", *sorted(map(_written, x)))

    def _sequence(self, x: Sequence[Any]) -> None:
        self._put("sequence", str(len(x)))
        for part in x:
            self._add(part)

    def _function(self, f: FunctionType) -> None:
        name = f"{f.__module__}.{f.__qualname__}"
        self._put("function", name, _source(f) or f.__code__.co_code.hex())
        self._add(f.__defaults__)
        self._add(f.__kwdefaults__)
        for cell in f.__closure__ or ():
            try:
                self._add(cell.cell_contents)
            except ValueError:  # not filled yet
                self._put("empty")
        if not name.startswith(f"{OURS}."):
            self.unseen.append(name)

    def _fingerprinted(self, x: Any) -> None:
        self._put("fingerprinted", type(x).__qualname__)
        self._add(x.fingerprinted)

    def _object(self, x: Any) -> None:
        kind = type(x)
        name = f"{kind.__module__}.{kind.__qualname__}"
        self._put("object", name, "" if kind.__module__.startswith((OURS, "torch.")) else _source(kind))
        if getattr(kind, "forgettable", False):
            return
        if is_dataclass(x):
            parts = {n: getattr(x, n) for n in _fields(kind)}
        elif hasattr(x, "__dict__"):
            derived = _derived(kind)
            parts = {k: v for k, v in vars(x).items() if k not in derived}
        else:
            parts = {}
            self.unseen.append(name)
        self._put(str(len(parts)))
        for key in sorted(parts):
            self._put(key)
            self._add(parts[key])


WAYS: tuple[tuple[Any, str], ...] = (
    (PLAIN, "plain"),
    (Tensor, "tensor"),
    (np.ndarray, "array"),
    (torch.Generator, "generator"),
    (type | BuiltinFunctionType, "name"),
    (FunctionType, "function"),
    (MethodType, "method"),
    (partial, "partial"),
    (Mapping, "mapping"),
    (Set, "set"),
    (Sequence, "sequence"),
)
"""What a value is, and which method adds it; anything else is an object."""


def _written(x: Any) -> str:
    """repr(x), the same under every hash seed: sets inside it are sorted."""
    if isinstance(x, Set):
        return f"{{{', '.join(sorted(map(_written, x)))}}}"
    if type(x) is tuple:
        return f"({', '.join(map(_written, x))},)"
    return repr(x)


@cache
def _way(kind: type) -> str:
    if hasattr(kind, "fingerprinted"):  # it says what says all of it
        return "fingerprinted"
    return next((way for base, way in WAYS if issubclass(kind, base)), "object")


@cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))


@cache
def _derived(kind: type) -> frozenset[str]:
    """Attributes that say nothing about a value: what is made when it is asked for, and a module's bookkeeping."""
    made = {n for base in kind.__mro__ for n, x in vars(base).items() if isinstance(x, cached_property)}
    return frozenset(made | (BOOKKEEPING if issubclass(kind, nn.Module) else set()))


def _bytes(x: Tensor) -> bytes:
    return x.contiguous().flatten().view(torch.uint8).numpy().tobytes() if x.numel() else b""


def _source(x: Any) -> str:
    try:
        return inspect.getsource(x)
    except (OSError, TypeError):
        return ""
