"""What a picture is made of: strokes, filled shapes, boxes and labels, gathered by the arc or variable they show."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dissonance.drawing.curves import Curve
from dissonance.drawing.curves import moved_curve as moved_curve
from dissonance.drawing.text import Label


@dataclass(frozen=True)
class Stroke:
    """A line along a curve; `dash` gives the lengths drawn and left out in turn."""

    curve: Curve
    width: float
    colour: str
    dash: tuple[float, ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class FilledShape:
    """A filled polygon."""

    points: tuple[complex, ...]
    colour: str
    kind: str = ""


@dataclass(frozen=True)
class Dot:
    """A filled circle."""

    centre: complex
    radius: float
    colour: str
    kind: str = ""


@dataclass(frozen=True)
class Box:
    """A rectangle with round corners; `corner` is its upper left."""

    corner: complex
    width: float
    height: float
    radius: float
    fill: str
    line: str = ""


@dataclass(frozen=True)
class Writing:
    """A label; `at` is the middle of its base line. `halo` keeps what is behind at a distance."""

    at: complex
    label: Label
    size: float
    colour: str
    italic: bool = False
    bold: bool = False
    halo: bool = False

    @property
    def width(self) -> float:
        """How wide it is."""
        return self.label.width * self.size


Mark = Stroke | FilledShape | Dot | Box | Writing


@dataclass(frozen=True)
class MarkGroup:
    """The marks that show one thing; `title` is what a browser says when the mouse rests on it."""

    kind: str
    name: str
    title: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Scene:
    """A whole picture, from (0, 0) to (width, height), y downwards; later groups lie above earlier ones."""

    width: float
    height: float
    groups: tuple[MarkGroup, ...]
    title: str


def moved_mark(mark: Mark, by: complex) -> Mark:
    """The same mark elsewhere."""
    if isinstance(mark, Stroke):
        return replace(mark, curve=moved_curve(mark.curve, by))
    if isinstance(mark, FilledShape):
        return replace(mark, points=tuple(p + by for p in mark.points))
    if isinstance(mark, Dot):
        return replace(mark, centre=mark.centre + by)
    if isinstance(mark, Box):
        return replace(mark, corner=mark.corner + by)
    return replace(mark, at=mark.at + by)


def moved_group(group: MarkGroup, by: complex) -> MarkGroup:
    """All marks of a group elsewhere."""
    return replace(group, marks=tuple(moved_mark(m, by) for m in group.marks))
