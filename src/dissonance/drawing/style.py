"""How wide and in which colours things are drawn.

A colour is the name of a role, which looks different on light and on dark paper, or a code that suits both.
"""

from __future__ import annotations

import itertools
import math

LIGHT = {
    "ink": "#20242b",
    "muted": "#6b7280",
    "paper": "#ffffff",
    "box": "#edeff2",
    "rim": "#cdd2d9",
    "focus0": "#0a9a34",
    "focus1": "#2353e0",
    "focus2": "#d9660a",
    "focus3": "#8b3fce",
    "focus4": "#c2185b",
    "focus5": "#00838f",
}
DARK = {
    "ink": "#e4e7eb",
    "muted": "#8a919c",
    "paper": "#15181e",
    "box": "#2b313a",
    "rim": "#4a525e",
    "focus0": "#3ecf66",
    "focus1": "#7fa2ff",
    "focus2": "#ff9d4d",
    "focus3": "#c08cf0",
    "focus4": "#ff6f9f",
    "focus5": "#4cc9d6",
}
FOCI, SHADES = 6, 13
Ramp = tuple[tuple[float, str], ...]
NAME, TAG, NOTE, TITLE = 14.0, 12.5, 10.5, 15.0
"""Sizes of letters: variables, arcs, numbers beside arcs and the legend, the title."""

_THIN, _MORE, _HARD = 0.7, 2.2, 3.4
_USUAL = 3.0
"""The least beta that may have the widest line of a picture, hard arcs aside."""


def line_width(beta: float, largest: float) -> float:
    """The width of an arc's line: 0.7 + 2.2 log(1 + |beta|) / log(1 + largest), where largest is at least 3.

    `largest` is the largest finite |beta| of the picture, so that the lines of 10 and 1,000 differ; hard arcs have a
    wider line than any other.
    """
    weight = abs(beta)
    if weight == math.inf:
        return _HARD
    return _THIN + _MORE * math.log1p(weight) / math.log1p(max(_USUAL, largest))


def focus_colour(i: int) -> str:
    """The colour of the i-th focus."""
    return f"focus{i % FOCI}"


def blame_colour(share: float) -> str:
    """The colour of an arc with that share (0 to 1) of the largest blame: from grey by yellow and orange to red."""
    return f"blame{round(min(1.0, max(0.0, share)) * (SHADES - 1))}"


def _shade(ramp: Ramp, share: float) -> str:
    for (low, a), (high, b) in itertools.pairwise(ramp):
        if share <= high:
            return _mixed(a, b, (share - low) / (high - low))
    return ramp[-1][1]


def _mixed(a: str, b: str, share: float) -> str:
    parts = (round(int(a[i : i + 2], 16) * (1 - share) + int(b[i : i + 2], 16) * share) for i in range(1, 7, 2))
    return "#" + "".join(f"{p:02x}" for p in parts)


def _shades(ramp: Ramp) -> dict[str, str]:
    return {f"blame{i}": _shade(ramp, i / (SHADES - 1)) for i in range(SHADES)}


LIGHT.update(_shades(((0.0, "#6b7280"), (0.25, "#9a6700"), (0.6, "#b84a00"), (1.0, "#cf1124"))))
DARK.update(_shades(((0.0, "#8a919c"), (0.25, "#e0b23c"), (0.6, "#ff9a45"), (1.0, "#ff6b70"))))
