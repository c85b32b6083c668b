"""What the widths, colours and dashes of a picture mean: only those that it has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dissonance.drawing import style
from dissonance.drawing.arrow_styles import largest, short_number
from dissonance.drawing.arrows import BOLD, DASHES, DOTS, DOUBT, SIDE, ArrowStyle
from dissonance.drawing.curves import straight
from dissonance.drawing.scene import Box, Mark, Stroke, Writing, moved_mark
from dissonance.drawing.text import Label, label, plain

SAMPLE, GAP, ROW = 26.0, 18.0, 20.0
BAR = 60.0


@dataclass(frozen=True)
class LegendEntry:
    """A sample, drawn around (0, 0) on its left end, and what it means."""

    sample: tuple[Mark, ...]
    length: float
    meaning: Label

    @property
    def width(self) -> float:
        """Sample and meaning together."""
        return self.length + 7 + self.meaning.width * style.NOTE


def entries(styles: Sequence[ArrowStyle], foci: Sequence[str], blame: Mapping[str, float] | None) -> list[LegendEntry]:
    """The entries a picture needs: foci, control, weights that differ, blame."""
    found = [
        LegendEntry((_line(SIDE + 0.6, style.focus_colour(i)),), SAMPLE, label(name))
        for i, name in enumerate(foci)
        if len(foci) > 1
        or any(b.colour == style.focus_colour(i) and not b.controlled for k in styles for b in k.beside)
    ]
    if any(b.controlled for k in styles for b in k.beside):
        colour = "muted" if len(foci) > 1 else style.focus_colour(0)
        found.append(LegendEntry((_line(BOLD, colour, DASHES),), SAMPLE, plain("controlled")))
    return found + _weights(styles) + ([] if blame is None else [_ramp(largest(blame))])


def _weights(styles: Sequence[ArrowStyle]) -> list[LegendEntry]:
    """The least and the largest finite beta if they differ; hard, unattended and disbelieved arcs if there are any."""
    width = {k.beta: k.width for k in styles}
    finite = sorted(b for b in width if 0 < b < math.inf)
    hard = math.inf in width
    ends = finite[:1] + finite[-1:] if len(finite) > 1 else finite if hard and finite else []
    found = [LegendEntry((_line(width[b], "ink"),), SAMPLE, plain(f"β = {short_number(b)}")) for b in ends]
    if hard:
        found.append(LegendEntry((_line(width[math.inf], "ink"),), SAMPLE, plain("β = ∞ (!)")))
    if 0 in width:
        found.append(LegendEntry((_line(width[0], "muted", DOTS),), SAMPLE, plain("not attended")))
    doubted = [w for b, w in width.items() if b < 0]
    if doubted:
        found.append(LegendEntry((_line(max(doubted), "ink", DOUBT),), SAMPLE, plain("disbelieved (\N{MINUS SIGN})")))
    return found


def _ramp(most: float) -> LegendEntry:
    step = BAR / style.SHADES
    colours = [style.blame_colour(i / (style.SHADES - 1)) for i in range(style.SHADES)]
    bar = tuple(Box(complex(i * step, -4), step + 0.3, 8, 0, c) for i, c in enumerate(colours))
    return LegendEntry(bar, BAR, plain(f"blame, 0 to {short_number(most)} nats"))


def _line(width: float, colour: str, dash: tuple[float, ...] = ()) -> Stroke:
    return Stroke((straight(0j, complex(SAMPLE, 0)),), width, colour, dash)


def laid_out(found: Sequence[LegendEntry], widest: float) -> tuple[list[Mark], float, float]:
    """The entries in rows not wider than `widest` (if they can); the marks, their width and their height."""
    marks: list[Mark] = []
    x, y, wide = 0.0, ROW / 2, 0.0
    for e in found:
        if x > 0 and x + e.width > widest:
            x, y = 0.0, y + ROW
        marks += [moved_mark(m, complex(x, y)) for m in e.sample]
        at = complex(x + e.length + 7 + e.meaning.width * style.NOTE / 2, y + 0.36 * style.NOTE)
        marks.append(Writing(at, e.meaning, style.NOTE, "ink"))
        x, wide = x + e.width + GAP, max(wide, x + e.width)
    return marks, wide, y + ROW / 2 if found else 0.0
