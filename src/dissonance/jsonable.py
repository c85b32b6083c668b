"""Numbers as JSON has them."""

from __future__ import annotations

import math


def json_number(x: float) -> float | str | None:
    """A number as JSON has it: infinity is a string, and what is undefined is null."""
    return x if math.isfinite(x) else None if math.isnan(x) else str(x)
