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
                if exact is not None and list(apart(exact, b[name], math.inf, 0.0)):
                    yield f"{kind} {name}: {b[name]} does not contain {exact}"
            else:
                tolerance = {"mu": math.sqrt(gap) + 1e-6, "close": 1e-6, "own": 1e-4}[kind]
                yield from (f"{kind} {name}: {x}" for x in far(a[name], b[name], tolerance))


def apart(old: list[float], new: list[float], factor: float, rounding: float) -> Iterator[str]:
    """What is wrong about new bounds: they do not overlap the old ones, or are wider."""
    if math.isnan(old[0]) and math.isnan(new[0]):
        return
    size = max([1.0, *(abs(x) for x in (*old, *new) if math.isfinite(x))])
    if not (max(old[0], new[0]) <= min(old[1], new[1]) + 1e-14 * size):
        yield f"{new} does not overlap {old}"
    elif new[0] != new[1] and not (
        new[1] - new[0] <= factor * (old[1] - old[0] if old[0] != old[1] else 0.0) + rounding * size
    ):
        yield f"{new} is wider than {old}"


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
