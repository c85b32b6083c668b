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
from functools import cached_property, partial
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

    def _put(self, *words: str | bytes) -> None:
        for word in words:
            raw = word if isinstance(word, bytes) else word.encode("utf-8", "surrogatepass")
            self._digest.update(len(raw).to_bytes(8, "little"))
            self._digest.update(raw)

    def _add(self, x: Any) -> None:
        if isinstance(x, PLAIN):
            self._put(type(x).__name__, repr(x))
            return
        number, _ = self._known.setdefault(id(x), (len(self._known), x))
        if number < len(self._known) - 1:  # shared, or part of itself
            self._put("again", str(number))
            return
        self._add_parts(x)

    def _add_parts(self, x: Any) -> None:
        if isinstance(x, Tensor):
            self._put("tensor", str(x.dtype), str(tuple(x.shape)), _bytes(x.detach().cpu()))
        elif isinstance(x, np.ndarray):
            self._put("array", str(x.dtype), str(x.shape), x.tobytes() if x.dtype != object else repr(x.tolist()))
        elif isinstance(x, torch.Generator):
            self._put("generator", _bytes(x.get_state()))
        elif isinstance(x, type | BuiltinFunctionType):
            self._put("name", f"{x.__module__}.{x.__qualname__}")
        elif isinstance(x, FunctionType):
            self._add_function(x)
        elif isinstance(x, MethodType):
            self._add_all("method", x.__func__, x.__self__)
        elif isinstance(x, partial):
            self._add_all("partial", x.func, x.args, x.keywords)
        elif isinstance(x, Mapping):
            self._put("mapping", str(len(x)))
            for key in sorted(x, key=repr):
                self._add_all("", key, x[key])
        elif isinstance(x, Set):
            self._put("set", *sorted(map(repr, x)))
        elif isinstance(x, Sequence):
            self._put("sequence", str(len(x)))
            self._add_all("", *x)
        else:
            self._add_object(x)

    def _add_all(self, kind: str, *values: object) -> None:
        self._put(kind)
        for value in values:
            self._add(value)

    def _add_function(self, f: FunctionType) -> None:
        name = f"{f.__module__}.{f.__qualname__}"
        self._put("function", name, _source(f) or f.__code__.co_code)
        self._add_all("given", f.__defaults__, f.__kwdefaults__)
        for cell in f.__closure__ or ():
            try:
                self._add(cell.cell_contents)
            except ValueError:  # not filled yet
                self._put("empty")
        if not name.startswith(f"{OURS}."):
            self.unseen.append(name)

    def _add_object(self, x: Any) -> None:
        kind = type(x)
        name = f"{kind.__module__}.{kind.__qualname__}"
        self._put("object", name, "" if kind.__module__.startswith((OURS, "torch.")) else _source(kind))
        if getattr(kind, "forgettable", False):
            parts = {}
        elif is_dataclass(x):
            parts = {f.name: getattr(x, f.name) for f in fields(x)}
        else:
            parts = getattr(x, "__dict__", {})
            if not hasattr(x, "__dict__"):
                self.unseen.append(name)
        if isinstance(x, nn.Module):
            parts = {k: v for k, v in vars(x).items() if k not in BOOKKEEPING}
        self._add({k: v for k, v in parts.items() if not isinstance(getattr(kind, k, None), cached_property)})


def _bytes(x: Tensor) -> bytes:
    return x.contiguous().flatten().view(torch.uint8).numpy().tobytes() if x.numel() else b""


def _source(x: Any) -> str:
    try:
        return inspect.getsource(x)
    except (OSError, TypeError):
        return ""
