"""What is given: options of solvers and flows, said once by their names; as many of each; no transforms of torch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from numbers import Integral, Real
from typing import Any

from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from dissonance.errors import CapabilityError, DissonanceError

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


def in_step(**given: Sequence[Any]) -> list[list[Any]]:
    """As many of each as of the others; what is given once serves all."""
    counts = {len(each) for each in given.values()} - {1}
    if len(counts) > 1:
        found = ", ".join(f"{len(each)} {name}" for name, each in given.items())
        raise DissonanceError(f"as many of each are needed, or one for all; found {found}.")
    count = min(counts, default=1)
    return [list(each) * count if len(each) == 1 else list(each) for each in given.values()]


def refuse_transforms(theta: Mapping[str, Any] | None) -> None:
    """An error if parameters are being transformed by torch.func."""
    values = [x for x in (theta or {}).values() if isinstance(x, Tensor)]
    if any(map(is_functorch_wrapped_tensor, values)):
        raise CapabilityError(
            "torch.func transforms (grad, vmap, jacrev, ...) cannot look into a solver: use result.value.backward(), "
            "and inconsistencies(..., thetas=...) for many at once."
        )
