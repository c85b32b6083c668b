"""Options of solvers and flows: what those of a name may be is said once, and anything else is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from numbers import Integral, Real
from typing import Any

from dissonance.errors import DissonanceError

Rule = tuple[Callable[[Any], bool], str]


def _number(x: Any, least: float = 0.0) -> bool:
    return not isinstance(x, bool) and isinstance(x, Real) and float(x) >= least


def _finite(x: Any) -> bool:
    return _number(x) and float(x) < math.inf


def _whole(x: Any, least: float = -math.inf) -> bool:
    return isinstance(x, Integral) and _number(x, least)


def _device(x: Any) -> bool:
    return x is None or (isinstance(x, str) and re.fullmatch(r"(cpu|cuda)(:\d+)?", x) is not None)


FINITE: Rule = _finite, "a finite number >= 0"
COUNT: Rule = partial(_whole, least=1), "a whole number >= 1"
COUNT_OR_NONE: Rule = (lambda x: x is None or _whole(x, 1)), "a whole number >= 1, or None"

OPTIONS: dict[str, Rule] = {
    **dict.fromkeys(("tol", "gap", "rate", "rtol", "atol", "damping", "nearness"), FINITE),
    **dict.fromkeys(("iterations", "most", "rounds", "starts", "steps", "sweeps"), COUNT),
    **dict.fromkeys(("count", "samples"), COUNT_OR_NONE),
    "seconds": (_number, "a number >= 0"),
    "budget": (_number, "a number of bytes >= 0"),
    "seed": (_whole, "a whole number"),
    **dict.fromkeys(("nodes", "spread"), (partial(_whole, least=0), "a whole number >= 0")),
    "device": (_device, '"cpu", "cuda", "cuda:1" and so on, or None'),
}


def check_options(given: Any) -> None:
    """One line for the first option of a solver or flow of the library that makes no sense; others have words of their
    own."""
    if not type(given).__module__.startswith("dissonance."):
        return
    for name in (f.name for f in fields(given) if f.name in OPTIONS):
        fine, what = OPTIONS[name]
        value = getattr(given, name)
        if not fine(value):
            raise DissonanceError(f"{name} of {type(given).__name__} must be {what}, found {value!r}.")
