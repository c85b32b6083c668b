"""How numbers are compared: see the docstring of `test_golden.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

Numbers = dict[str, dict[str, Any]]


def differences(old: Numbers, new: Numbers, factor: float = 1.5, rounding: float = 1e-9) -> Iterator[str]:
    """What is not equal, in words."""
    gap = max(
        [0.0, *(high - low for x in (old, new) for low, high in x.get("bounds", {}).values() if high - low < math.inf)]
    )
    left_out = old.get("left out", {})
    for kind in sorted((set(old) | set(new)) - {"left out"}):
        a = old.get(kind, {})
        b = {name: x for name, x in new.get(kind, {}).items() if f"{kind} {name}" not in left_out}
        for name in sorted(set(a) | set(b)):
            if name not in a or name not in b:
                yield f"{kind} {name}: only {'before' if name in a else 'now'}"
            elif kind == "same":
                if a[name] != b[name]:
                    yield f"same {name}: {b[name]!r}, was {a[name]!r}"
            elif kind in ("bounds", "bracket"):
                much = rounding if kind == "bounds" else 1e-2
                yield from (f"{kind} {name}: {x}" for x in apart(a[name], b[name], factor, much))
                exact = new.get("bounds", {}).get("exact") if kind == "bracket" else None
                if exact is not None and not overlap(exact, b[name]):
                    yield f"{kind} {name}: {b[name]} does not contain {exact}"
            else:
                tolerance = {"mu": math.sqrt(gap) + 1e-6, "close": 1e-6, "own": 1e-4}[kind]
                yield from (f"{kind} {name}: {x}" for x in far(a[name], b[name], tolerance))


def apart(old: list[float], new: list[float], factor: float, rounding: float) -> Iterator[str]:
    """What is wrong about new bounds: they do not overlap the old ones, or are wider."""
    if math.isnan(old[0]) and math.isnan(new[0]):
        return
    if not overlap(old, new):
        yield f"{new} does not overlap {old}"
    elif not width(new) <= factor * width(old) + rounding * size(old, new):
        yield f"{new} is wider than {old}"


def overlap(a: list[float], b: list[float]) -> bool:
    """Whether bounds have a value in common, but for the last digit."""
    return max(a[0], b[0]) <= min(a[1], b[1]) + 1e-14 * size(a, b)


def width(bounds: list[float]) -> float:
    """How far bounds are apart; 0 if both are infinite."""
    return 0.0 if bounds[0] == bounds[1] else bounds[1] - bounds[0]


def size(*bounds: list[float]) -> float:
    """The largest finite bound, or 1."""
    return max([1.0, *(abs(x) for each in bounds for x in each if math.isfinite(x))])


def far(old: Any, new: Any, tolerance: float) -> Iterator[str]:
    """Where arrays of numbers, or lists of such, are not close."""
    a, b = flat(old), flat(new)
    if len(a) != len(b):
        yield f"{len(b)} numbers, were {len(a)}"
        return
    with np.errstate(invalid="ignore"):
        off = np.abs(a - b) / np.maximum(1.0, np.abs(a))
    alike = (a == b) | (np.isnan(a) & np.isnan(b)) | (off <= tolerance)
    if not alike.all():
        k = int(np.argmax(np.where(alike, -1.0, np.nan_to_num(off, nan=math.inf))))
        yield f"{b[k]}, was {a[k]} (number {k} of {len(a)}, within {tolerance:.1e})"


def flat(x: Any) -> np.ndarray:
    """All numbers, one after another."""
    if isinstance(x, list):
        return np.concatenate([flat(y) for y in x]) if x else np.zeros(0)
    return np.array([math.nan if x is None else x], dtype=float)
