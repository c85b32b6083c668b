"""An arc as marks: its line with merging tails and splitting heads, and the colours of the foci beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dissonance.drawing import style
from dissonance.drawing.curves import Curve, cut, offset
from dissonance.drawing.layout import Tag
from dissonance.drawing.routes import Route
from dissonance.drawing.scene import Dot, FilledShape, Mark, Stroke
from dissonance.drawing.text import Label, joined, label, plain

TOUCH = 1.5
"""The distance between the tip of an arrow and the box."""
BACK = 0.72
"""How far the second of two heads stands back, in lengths of a head."""
SIDE, BOLD = 1.7, 2.8
"""Widths of the lines of foci: attended, controlled."""
DASHES = (6.0, 3.5)
DOTS = (1.6, 3.0)
DOUBT = (7.0, 2.5, 1.6, 2.5)


@dataclass(frozen=True)
class Beside:
    """What one focus says about an arc: it may be controlled, and otherwise is attended."""

    colour: str
    controlled: bool


@dataclass(frozen=True)
class ArrowStyle:
    """How an arc is drawn: `heads` are 2 if it is deterministic; `note` is a number below its line."""

    name: str
    beta: float
    width: float
    heads: int
    colour: str
    beside: tuple[Beside, ...] = ()
    note: str = ""
    hidden: bool = False

    @cached_property
    def label(self) -> Label | None:
        """The name, with an exclamation mark if the arc is hard; None if there is nothing to say."""
        parts = [] if self.hidden else [label(self.name)]
        parts += [plain("!")] if self.beta == math.inf else [plain(" (\N{MINUS SIGN})")] if self.beta < 0 else []
        return joined(*parts) if parts else None

    def tag(self, down: bool) -> Tag:
        """The room for the label and the note: above and below a line to the right, right and left of one downwards."""
        name = 0.0 if self.label is None else self.label.width * style.TAG
        note = plain(self.note).width * style.NOTE
        beside = max((SIDE + BOLD for b in self.beside if b.controlled), default=0.0) / 2
        if down:
            along = style.TAG + 4 if name or note else 0.0
            return Tag(
                along, note + 6 + beside if note else 0.0, name + 6 + beside if name else 0.0, max(name, note) + 6
            )
        return Tag(max(name, note), style.TAG + 5 + beside if name else 0.0, style.NOTE + 4 if note else 0.0)


def marks(drawn: ArrowStyle, route: Route) -> tuple[Mark, ...]:
    """The lines and heads of an arc, from the back to the front."""
    width = drawn.width
    length = 6.5 + 1.7 * width
    back = length * (0.7 + BACK * (drawn.heads - 1))
    tips = [(curve[-1][3], curve) for _, curve in route.heads]
    lines: list[Curve] = list(route.tails)
    heads: list[FilledShape] = []
    for _, curve in tips:
        reached, _ = cut(curve, TOUCH)
        line, towards = cut(reached, back)
        lines.append(line)
        tip = reached[-1][3]
        for i in range(drawn.heads):
            _, own = cut(reached, length * (0.6 + BACK * i))
            start = tip - towards * BACK * length * i
            heads.append(_head(start, own if i == 0 else towards, length, drawn.colour))
    found: list[Mark] = [*_companions(drawn.beside, lines, width)]
    dash = DOTS if drawn.beta == 0 else DOUBT if drawn.beta < 0 else ()
    found += [
        Stroke(c, width, drawn.colour, dash, "tail" if i < len(route.tails) else "line") for i, c in enumerate(lines)
    ]
    if route.junction is not None:
        found.append(Dot(route.junction, 0.9 + 0.75 * width, drawn.colour, "junction"))
    return (*found, *heads)


def _head(tip: complex, towards: complex, length: float, colour: str) -> FilledShape:
    """An arrow head with a notch."""
    wing = 0.42 * length * 1j
    corners = (0, -length + wing, -0.72 * length, -length - wing)
    return FilledShape(tuple(tip + towards * c for c in corners), colour, "head")


def _companions(beside: Sequence[Beside], lines: Sequence[Curve], width: float) -> list[Stroke]:
    """A line in the colour of each focus, on either side in turn: thick and dashed where it controls the arc."""
    reach = [width / 2, width / 2]
    found: list[Stroke] = []
    for i, b in enumerate(beside):
        own = BOLD if b.controlled else SIDE
        side = i % 2
        distance = (reach[side] + own / 2) * (-1 if side == 0 else 1)
        reach[side] += own
        dash = DASHES if b.controlled else ()
        kind = "control" if b.controlled else "attended"
        found += [Stroke(offset(c, distance), own, b.colour, dash, kind) for c in lines]
    return found
