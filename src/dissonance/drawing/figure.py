"""A scene as PNG or PDF, through matplotlib: an optional extra."""

from __future__ import annotations

import io
import warnings
from typing import Any

from dissonance.drawing.scene import Box, Dot, FilledShape, Mark, Scene, Stroke, Writing
from dissonance.drawing.style import DARK, LIGHT
from dissonance.errors import CapabilityError

FAMILY = ["Helvetica", "Arial", "Liberation Sans", "Nimbus Sans", "DejaVu Sans"]
POINTS = 0.75
"""A pixel of the scene in points, as browsers have it."""


def rendered(scene: Scene, suffix: str, theme: str, dpi: float) -> bytes:
    """The content of a PNG or PDF file; "auto" is light."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.transforms import Affine2D
    except ImportError:
        raise CapabilityError(
            f"a {suffix} picture needs matplotlib: pip install 'dissonance[plot]'. SVG does not."
        ) from None
    colours = DARK if theme == "dark" else LIGHT
    figure = Figure(figsize=(scene.width * POINTS / 72, scene.height * POINTS / 72), facecolor=colours["paper"])
    FigureCanvasAgg(figure)
    page = (
        Affine2D()
        .translate(-scene.corner.real, -scene.corner.imag)
        .scale(1 / scene.width, -1 / scene.height)
        .translate(0, 1)
        + figure.transFigure
    )
    for z, mark in enumerate(m for g in scene.groups for m in g.marks):
        for artist in _artists(mark, colours, page):
            artist.set(zorder=z)
            figure.add_artist(artist)
    content = io.BytesIO()
    metadata = {"CreationDate": None} if suffix == "pdf" else {"Software": None}
    figure.savefig(content, format=suffix, dpi=dpi, metadata=metadata, facecolor=colours["paper"])
    return content.getvalue()


def _artists(mark: Mark, colours: dict[str, str], page: Any) -> list[Any]:
    from matplotlib.patches import Circle, FancyBboxPatch, PathPatch, Polygon
    from matplotlib.path import Path

    def colour(role: str) -> str:
        return colours.get(role, role)

    if isinstance(mark, Stroke):
        vertices = [mark.curve[0][0], *(p for piece in mark.curve for p in piece[1:])]
        codes = [Path.MOVETO, *[Path.CURVE4] * (len(vertices) - 1)]
        width = mark.width * POINTS
        style = (0, tuple(d * POINTS / width for d in mark.dash)) if mark.dash else "solid"
        path = Path([(p.real, p.imag) for p in vertices], codes)
        look = {
            "edgecolor": colour(mark.colour),
            "linewidth": width,
            "linestyle": style,
            "capstyle": "butt",
            "transform": page,
        }
        return [PathPatch(path, fill=False, **look)]
    if isinstance(mark, FilledShape):
        return [
            Polygon([(p.real, p.imag) for p in mark.points], color=colour(mark.colour), linewidth=0, transform=page)
        ]
    if isinstance(mark, Dot):
        return [
            Circle(
                (mark.centre.real, mark.centre.imag),
                mark.radius,
                color=colour(mark.colour),
                linewidth=0,
                transform=page,
            )
        ]
    if isinstance(mark, Box):
        corner = (mark.corner.real, mark.corner.imag)
        rim: dict[str, Any] = {
            "edgecolor": colour(mark.line) if mark.line else "none",
            "linewidth": POINTS if mark.line else 0,
            "transform": page,
        }
        round_ = f"round,pad=0,rounding_size={mark.radius}" if mark.radius else "square,pad=0"
        return [FancyBboxPatch(corner, mark.width, mark.height, round_, facecolor=colour(mark.fill), **rim)]
    return _letters(mark, colours, page)


def _letters(mark: Writing, colours: dict[str, str], page: Any) -> list[Any]:
    """Each span as the outlines of its letters, fitted to the width that was planned for it."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    font = FontProperties(
        family=_installed(), style="italic" if mark.italic else "normal", weight="bold" if mark.bold else "normal"
    )
    left = mark.at.real - mark.width / 2
    found: list[Any] = []
    for s in mark.label.spans:
        if s.width <= 0 or not s.text.strip():
            continue
        size = s.size * mark.size
        with warnings.catch_warnings():  # letters that no font has are boxes
            warnings.filterwarnings("ignore", message="Glyph")
            path = TextPath((0, 0), s.text.replace("$", r"\$"), size=size, prop=font)
        ink = path.get_extents()
        squeeze = min(1.0, s.width * mark.size / max(ink.x1, 1e-9))
        x = left + s.dx * mark.size + (s.width * mark.size - squeeze * ink.x1) / 2
        placed = Affine2D().scale(squeeze, -1).translate(x, mark.at.imag + s.dy * mark.size)
        if mark.halo:
            halo = {"edgecolor": colours["paper"], "linewidth": 3 * POINTS, "joinstyle": "round"}
            found.append(PathPatch(path, facecolor=colours["paper"], transform=placed + page, **halo))
        found.append(
            PathPatch(path, facecolor=colours.get(mark.colour, mark.colour), linewidth=0, transform=placed + page)
        )
    return found


def _installed() -> list[str]:
    """The font families of the list that are installed, so that matplotlib does not warn about the others."""
    from matplotlib import font_manager

    known = {f.name for f in font_manager.fontManager.ttflist}
    return [f for f in FAMILY if f in known] or ["DejaVu Sans"]
