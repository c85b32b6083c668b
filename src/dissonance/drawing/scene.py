"""What a picture is made of: strokes, filled shapes, boxes and labels, gathered by the arc or variable they show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dissonance.drawing.curves import Corners, Curve, bounding_box
from dissonance.drawing.curves import moved_curve as moved_curve
from dissonance.drawing.text import Label

DEEP = frozenset("gjpqy()/,;|μρφχψβ")
"""Letters that reach below the base line."""


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
    kind: str = ""

    @property
    def width(self) -> float:
        """How wide it is."""
        return self.label.width * self.size

    @property
    def corners(self) -> Corners:
        """The rectangle around its letters."""
        deep = 0.22 * self.size if any(s.dy > 0 or DEEP & set(s.text) for s in self.label.spans) else 1.0
        x, y = self.at.real, self.at.imag
        return x - self.width / 2 - 1, y - 0.75 * self.size, x + self.width / 2 + 1, y + deep


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
    """A whole picture, `width` and `height` from its upper left `corner`; later groups lie above earlier ones."""

    width: float
    height: float
    groups: tuple[MarkGroup, ...]
    title: str
    corner: complex = 0j
    scale: float = 1.0
    """How large a unit is drawn, in pixels."""


def frame_of_marks(groups: Iterable[MarkGroup]) -> Corners:
    """The rectangle around all marks; 0, 0, 0, 0 if there are none."""
    frames = [_corners(m) for g in groups for m in g.marks] or [(0.0, 0.0, 0.0, 0.0)]
    left, top, right, bottom = zip(*frames, strict=True)
    return min(left), min(top), max(right), max(bottom)


def _corners(mark: Mark) -> Corners:
    if isinstance(mark, Writing):
        return mark.corners
    if isinstance(mark, Box):
        x, y = mark.corner.real, mark.corner.imag
        return x, y, x + mark.width, y + mark.height
    if isinstance(mark, Stroke):
        left, top, right, bottom = bounding_box(mark.curve)
        w = mark.width / 2
        return left - w, top - w, right + w, bottom + w
    around = mark.points if isinstance(mark, FilledShape) else [mark.centre + mark.radius * s for s in (1, -1, 1j, -1j)]
    x, y = [p.real for p in around], [p.imag for p in around]
    return min(x), min(y), max(x), max(y)


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


def moved_scene(scene: Scene, by: complex) -> Scene:
    """The whole picture elsewhere."""
    return replace(scene, corner=scene.corner + by, groups=tuple(moved_group(g, by) for g in scene.groups))
