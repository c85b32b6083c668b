"""How wide and in which colours things are drawn.

A colour is the name of a role, which looks different on light and on dark paper, or a code that suits both.
"""

from __future__ import annotations

import itertools
import math

LIGHT = {
    "ink": "#20242b",
    "muted": "#8a919c",
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
FOCI = 6
NAME, TAG, NOTE, TITLE = 14.0, 12.5, 10.5, 15.0
"""Sizes of letters: variables, arcs, numbers beside arcs and the legend, the title."""

_THIN, _MORE = 0.7, 2.2
_RAMP = ((0.0, "#9aa1ab"), (0.25, "#d9a514"), (0.6, "#e8630a"), (1.0, "#cf1124"))
"""From no blame to the most: grey, yellow, orange, red."""


def line_width(beta: float) -> float:
    """The width of an arc's line: grows with |beta| and is bounded, so that a hard arc has the widest."""
    weight = abs(beta)
    return _THIN + _MORE * (1.0 if weight == math.inf else weight / (1 + weight))


def focus_colour(i: int) -> str:
    """The colour of the i-th focus."""
    return f"focus{i % FOCI}"


def blame_colour(share: float) -> str:
    """The colour of an arc with that share (0 to 1) of the largest blame."""
    share = min(1.0, max(0.0, share))
    for (low, a), (high, b) in itertools.pairwise(_RAMP):
        if share <= high:
            return _mixed(a, b, (share - low) / (high - low))
    return _RAMP[-1][1]


def _mixed(a: str, b: str, share: float) -> str:
    parts = (round(int(a[i : i + 2], 16) * (1 - share) + int(b[i : i + 2], 16) * share) for i in range(1, 7, 2))
    return "#" + "".join(f"{p:02x}" for p in parts)
