"""Small charts: bars of blame, and how the inconsistency falls along a run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from dissonance.drawing import style
from dissonance.drawing.arrow_styles import short_number
from dissonance.drawing.curves import Curve, straight
from dissonance.drawing.scene import Box, Dot, Mark, MarkGroup, Scene, Stroke, Writing
from dissonance.drawing.text import label, plain

ROW, BAR = 19.0, 190.0
WIDE, TALL = 320.0, 84.0
LEFT, RIGHT, TOP, BOTTOM = 58.0, 12.0, 14.0, 24.0
GAP = 10.0


def bars(rows: Sequence[tuple[str, float]], title: str) -> Scene:
    """A bar for each named number, as long and as red as the number is large beside the largest."""
    names = [label(name) for name, _ in rows]
    left = max((n.width for n in names), default=0.0) * style.TAG + 2 * GAP
    most = max((x for _, x in rows if math.isfinite(x)), default=0.0)
    groups: list[MarkGroup] = []
    for i, (name, (key, x)) in enumerate(zip(names, rows, strict=True)):
        y = GAP + ROW * (i + 0.5)
        part = 1.0 if x == math.inf else x / most if most > 0 and x > 0 else 0.0
        shown = plain("-" if math.isnan(x) else short_number(x))
        end = left + BAR * part
        marks: list[Mark] = [
            Writing(complex(left - GAP - name.width * style.TAG / 2, y + 4), name, style.TAG, "ink", italic=True),
            Box(complex(left, y - 5), max(1.0, BAR * part), 10, 2, style.blame_colour(part)),
            Writing(complex(end + 7 + shown.width * style.NOTE / 2, y + 3.5), shown, style.NOTE, "ink"),
        ]
        groups.append(MarkGroup("bar", key, f"{key}: {short_number(x)} nats", tuple(marks)))
    return Scene(left + BAR + 64, 2 * GAP + ROW * len(rows), tuple(groups), title)


def falling(steps: Sequence[int], overall: Sequence[float], local: Sequence[float], title: str) -> Scene:
    """The inconsistency of all arcs as a line over the steps, and that in focus as dots."""
    finite = [x for x in (*overall, *local) if math.isfinite(x)]
    low, high = min([0.0, *finite]), max([*finite, 1e-12])
    first, last = (steps[0], max(steps[-1], steps[0] + 1)) if steps else (0, 1)

    def at(step: int, x: float) -> complex:
        across = (step - first) / (last - first)
        return complex(LEFT + WIDE * across, TOP + TALL * (1 - (x - low) / (high - low)))

    bottom = TOP + TALL
    frame: list[Mark] = [
        Stroke((straight(complex(LEFT, y), complex(LEFT + WIDE, y)),), 0.6, "rim") for y in (TOP, bottom)
    ]
    for x, y in ((high, TOP), (low, bottom)):
        shown = plain(short_number(x))
        frame.append(Writing(complex(LEFT - 7 - shown.width * style.NOTE / 2, y + 3.5), shown, style.NOTE, "muted"))
    for step in (first, last):
        shown = plain(f"step {step}")
        frame.append(Writing(complex(at(step, low).real, bottom + 15), shown, style.NOTE, "muted"))
    dots = [Dot(at(s, x), 1.7, "focus2", "local") for s, x in zip(steps, local, strict=True) if math.isfinite(x)]
    lines = [
        Stroke(c, 1.8, "focus1", (), "global") for c in _lines([at(s, x) for s, x in zip(steps, overall, strict=True)])
    ]
    groups = [MarkGroup("frame", "", "", tuple(frame)), MarkGroup("trace", "", "", (*lines, *dots))]
    return Scene(LEFT + WIDE + RIGHT + 22, bottom + BOTTOM, tuple(groups), title)


def _lines(points: Sequence[complex]) -> list[Curve]:
    """The points joined by straight lines, broken where one is not finite."""
    found: list[Curve] = []
    piece: list[tuple[complex, complex, complex, complex]] = []
    for a, b in itertools.pairwise(points):
        if math.isfinite(a.imag) and math.isfinite(b.imag):
            piece.append(straight(a, b))
        elif piece:
            found.append(tuple(piece))
            piece = []
    return [*found, tuple(piece)] if piece else found
