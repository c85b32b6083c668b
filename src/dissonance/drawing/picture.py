"""draw: a PDG as a picture."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dissonance.arc import Arc
from dissonance.drawing import style
from dissonance.drawing.arrow_styles import (
    Blame,
    Foci,
    arrow_styles,
    blames,
    foci_by_name,
    short_number,
    shown_attention,
)
from dissonance.drawing.arrows import ArrowStyle, marks
from dissonance.drawing.data import data
from dissonance.drawing.figure import rendered
from dissonance.drawing.labels import writings
from dissonance.drawing.legend import LegendEntry, entries, laid_out
from dissonance.drawing.packing import Arrangement, PageFlow, given, packed
from dissonance.drawing.ranks import Ends
from dissonance.drawing.scene import Box, MarkGroup, Scene, Writing, frame_of_marks, moved_group, moved_scene
from dissonance.drawing.svg import THEMES, svg
from dissonance.drawing.text import MAX_TITLE, label, plain
from dissonance.errors import DissonanceError, SizeError, suggest
from dissonance.focus import Attention
from dissonance.io import files
from dissonance.pdg import PDG, checked_pdg
from dissonance.variables import Variable

FORMATS = ("svg", "png", "pdf")
Positions = Mapping[str, Sequence[float]]
DIRECTIONS = ("right", "down")
NARROWEST = 100.0
MARGIN = 14.0
PADDING = 11.0
"""Between a name and the sides of its box."""
MOST = 10_000
"""How many variables and arcs a picture may have."""


@dataclass(frozen=True)
class Drawing:
    """A picture: a notebook shows it, `svg()` is its text, `save` writes it as .svg, .png or .pdf."""

    scene: Scene
    theme: str = "auto"

    def svg(self) -> str:
        """The picture as SVG."""
        return svg(self.scene, self.theme)

    def data(self) -> dict[str, Any]:
        """The picture as numbers and texts that JSON can hold: every mark, in the order in which it is painted."""
        return data(self.scene)

    def save(self, path: str | os.PathLike[str], *, dpi: float = 192, format: str | None = None) -> None:
        """Write the picture in the format of the path's suffix (or in `format`), all of the file or nothing.

        "-" is standard output, in SVG unless `format` says otherwise. `dpi` is for PNG.
        """
        kind = format_of(path, format)
        content = self.svg().encode() if kind == "svg" else rendered(self.scene, kind, self.theme, dpi)
        files.write(path, content)

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"Drawing({self.scene.title}, {self.scene.width:.0f} x {self.scene.height:.0f})"


def format_of(path: str | os.PathLike[str], format: str | None = None) -> str:
    """svg, png or pdf: the one asked for, or whichever the path ends in; svg for standard output."""
    if format is not None:
        if format not in FORMATS:
            raise DissonanceError(f"no format {format!r} of pictures.{suggest(format, FORMATS)}")
        return format
    if str(path) == "-":
        return "svg"
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise DissonanceError(f"{path}: expected a name that ends in .svg, .png or .pdf.")
    return suffix


def draw(
    pdg: PDG,
    *,
    attention: Attention | None = None,
    focus: Foci | None = None,
    blame: Blame | None = None,
    title: str = "",
    labels: bool | Collection[str] = True,
    legend: bool = True,
    theme: str = "auto",
    direction: str | None = None,
    width: float | None = None,
    positions: Positions | None = None,
) -> Drawing:
    """The PDG as the paper draws it: sources merge into an arrow, which splits to its targets.

    Lines are as wide as `attention` makes them (hard arcs have an exclamation mark, unattended ones are dotted);
    deterministic arcs have two heads. Each `focus` (one, several, or several by name) has a colour: beside the arcs it
    attends to otherwise than the others do, and dashed beside those it controls. `blame` colours the arcs: a result of
    `inconsistency`, what its `by_arc()` returns, or numbers by arc. `labels` says whether arcs, or which of them, have
    their names written; arcs named after their only target never have. `theme` is "auto" (as the reader's browser
    prefers), "light" or "dark".

    Arcs run to the right; `direction="down"` lets them run downwards. `width` is that of a page, in pixels (96 an
    inch): parts that are wider run downwards unless `direction` is "right", with as many variables a row as fit, and
    what cannot be made narrower is drawn smaller. `positions` puts the centres of the variables' boxes where they are
    given, y downwards; arcs go around them, and variables without a position stand beside the others.
    """
    if theme not in THEMES:
        raise DissonanceError(f"no theme {theme!r}.{suggest(theme, THEMES)}")
    checked_pdg(pdg)
    if len(pdg.variables) + len(pdg.arcs) > MOST:
        found = f"{len(pdg.variables)} variables and {len(pdg.arcs)} arcs"
        raise SizeError(
            f"a picture of {found} could not be read (at most {MOST} in all). Draw a part: PDG(*some_arcs)."
        )
    if direction not in (None, *DIRECTIONS):
        raise DissonanceError(f"no direction {direction!r}.{suggest(str(direction), DIRECTIONS)}")
    if width is not None and not NARROWEST <= width < math.inf:
        raise DissonanceError(f"a picture cannot be {width:g} wide; expected at least {NARROWEST:g} (pixels).")
    foci = {name: f.on(pdg) for name, f in foci_by_name(focus).items()}
    for f in foci.values():
        f.check(pdg)
    attention = shown_attention(pdg, foci, blame) if attention is None else Attention.of(attention, pdg)
    attention.check(pdg)
    blamed = blames(pdg, blame)
    named = {a.name for a in pdg.arcs} if labels is True else {pdg[n].name for n in labels or ()}
    chi = {name: f.control.largest(pdg) for name, f in foci.items()}
    found = arrow_styles(pdg, attention, foci, chi, blamed, named)
    inner = None if width is None else width - 2 * MARGIN
    where = _arranged(pdg, found, PageFlow(direction, inner), positions or {})
    written = writings(found, where.routes, where.boxes)
    arcs: list[MarkGroup] = []
    for a in pdg.arcs:
        shown = (*marks(found[a.name], where.routes[a.name]), *written[a.name])
        arcs.append(MarkGroup("arc", a.name, _told(a, attention, chi, blamed), shown))
    boxes = [MarkGroup("variable", v.name, repr(v), _box(v, where)) for v in pdg.variables]
    summary = f"PDG with {_count(pdg.variables, 'variable')} and {_count(pdg.arcs, 'arc')}"
    explained = entries(list(found.values()), list(foci), blamed) if legend else []
    scene = _framed([*arcs, *boxes], explained, title, summary, inner)
    if width is not None and scene.width > width:
        scene = replace(scene, scale=width / scene.width)
    return Drawing(scene if positions else moved_scene(scene, -scene.corner), theme)


def _arranged(pdg: PDG, found: Mapping[str, ArrowStyle], flow: PageFlow, positions: Positions) -> Arrangement:
    widths = {v.name: max(30.0, label(v.name).width * style.NAME + 2 * PADDING) for v in pdg.variables}
    ends = {a.name: Ends(_names(a.sources), _names(a.targets)) for a in pdg.arcs}
    tags = {down: {a: look.tag(down) for a, look in found.items()} for down in (False, True)}
    if not positions:
        return packed(widths, ends, tags, flow)
    return given(widths, ends, tags, flow, {pdg.variable(v).name: _at(v, p) for v, p in positions.items()})


def _at(name: str, position: Sequence[float]) -> complex:
    """A position as a point of the plane."""
    at = [float(x) for x in position]
    if len(at) != 2 or not all(map(math.isfinite, at)):
        raise DissonanceError(f"the position of {name!r} is {position!r}; expected two finite numbers, x and y.")
    return complex(*at)


def _names(variables: Sequence[Variable]) -> tuple[str, ...]:
    return tuple(v.name for v in variables)


def _count(things: Sized, word: str) -> str:
    return f"{len(things)} {word}{'s' * (len(things) != 1)}"


def _told(
    arc: Arc, attention: Attention, chi: Mapping[str, Mapping[str, float]], blame: Mapping[str, float] | None
) -> str:
    """What a browser says about an arc."""
    left = ", ".join(_names(arc.sources))
    beta, alpha = attention.beta.get(arc.name, 0.0), attention.alpha.get(arc.name, 0.0)
    parts = [f"{arc.name}: {left}{' ' if left else ''}→ {', '.join(_names(arc.targets))}", type(arc.cpd).__name__]
    parts.append(
        f"beta {short_number(beta)}, alpha {short_number(alpha)}" if attention.alpha else f"beta {short_number(beta)}"
    )
    for name, controls in chi.items():
        if (free := controls.get(arc.name, 0.0)) > 0:
            parts.append(f"control {short_number(free)}{f' ({name})' if len(chi) > 1 else ''}")
    if blame is not None and arc.name in blame:
        parts.append(f"blame {short_number(blame[arc.name])} nats")
    return "\n".join(parts)


def _box(v: Variable, where: Arrangement) -> tuple[Box, Writing]:
    frame = where.boxes[v.name]
    corner = frame.centre - complex(frame.width, frame.height) / 2
    name = Writing(frame.centre + 0.35j * style.NAME, label(v.name), style.NAME, "ink")
    return Box(corner, frame.width, frame.height, 7, "box", "rim"), name


def _framed(
    groups: list[MarkGroup], explained: Sequence[LegendEntry], title: str, shown: str, widest: float | None
) -> Scene:
    """The picture with its title above and its legend below, all inside a margin."""
    left, top, right, bottom = frame_of_marks(groups)
    heading = plain(title, MAX_TITLE)
    keys, wide, tall = laid_out(explained, max(right - left, 440.0) if widest is None else widest)
    width = max(right - left, heading.width * style.TITLE if title else 0, wide) + 2 * MARGIN
    middle, upper = (left + right) / 2, top - MARGIN - (style.TITLE + 14 if title else 0)
    lower = bottom + (14 + tall if explained else 0) + MARGIN
    picture = list(groups)
    if title:
        at = complex(middle, upper + MARGIN + style.TITLE * 0.8)
        picture.insert(0, MarkGroup("title", "", "", (Writing(at, heading, style.TITLE, "ink", bold=True),)))
    if explained:
        by = complex(middle - wide / 2, bottom + 14)
        picture.append(moved_group(MarkGroup("legend", "", "", tuple(keys)), by))
    return Scene(width, lower - upper, tuple(picture), title or shown, complex(middle - width / 2, upper))
