"""A scene as SVG: small, the same every time, and readable on light and dark pages."""

from __future__ import annotations

from html import escape

from dissonance.drawing.curves import Curve
from dissonance.drawing.scene import Box, Dot, FilledShape, Mark, MarkGroup, Scene, Stroke, Writing
from dissonance.drawing.style import DARK, LIGHT

FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
THEMES = ("auto", "light", "dark")


def svg(scene: Scene, theme: str = "auto") -> str:
    """The scene as the text of an SVG file; "auto" follows what the reader's browser prefers."""
    colours = DARK if theme == "dark" else LIGHT
    w, h = _number(scene.width), _number(scene.height)
    box = f"{_number(scene.corner.real)} {_number(scene.corner.imag)} {w} {h}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="dissonance" width="{w}" height="{h}" viewBox="{box}" '
        f'role="img" font-family="{FONT}" style="max-width:100%;height:auto">',
        f"<title>{_text(scene.title)}</title>",
    ]
    if theme == "auto":
        lines.append(f"<style>{_dark(scene)}</style>")
    background = _paint("paper", "fill", colours, theme)
    lines.append(f'<rect{_at(scene.corner)} width="{w}" height="{h}" rx="6"{background}/>')
    lines += [line for group in scene.groups for line in _group(group, colours, theme)]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _at(corner: complex) -> str:
    """Where a rectangle begins, unless that is 0, 0."""
    return f' x="{_number(corner.real)}" y="{_number(corner.imag)}"' if corner else ""


def _dark(scene: Scene) -> str:
    """What changes on dark pages: the colours of the roles this scene has."""
    used = {c for g in scene.groups for m in g.marks for c in _colours(m)} | {"paper"}
    rules = "".join(
        f".dissonance .{kind[0]}-{role}{{{kind}:{colour}}}"
        for role, colour in DARK.items()
        if role in used
        for kind in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme:dark){{{rules}}}"


def _colours(mark: Mark) -> tuple[str, ...]:
    return (mark.fill, mark.line) if isinstance(mark, Box) else (mark.colour,)


def _group(group: MarkGroup, colours: dict[str, str], theme: str) -> list[str]:
    name = f' data-name="{_text(group.name)}"' if group.name else ""
    lines = [f'<g class="{group.kind}"{name}>']
    if group.title:
        lines.append(f"<title>{_text(group.title)}</title>")
    return [*lines, *(_mark(m, colours, theme) for m in group.marks), "</g>"]


def _mark(mark: Mark, colours: dict[str, str], theme: str) -> str:
    if isinstance(mark, Stroke):
        dash = f' stroke-dasharray="{" ".join(map(_number, mark.dash))}"' if mark.dash else ""
        paint = _paint(mark.colour, "stroke", colours, theme, mark.kind)
        return f'<path{paint} d="{path(mark.curve)}" fill="none" stroke-width="{_number(mark.width, 2)}"{dash}/>'
    if isinstance(mark, FilledShape):
        around = " ".join(f"{_number(p.real)},{_number(p.imag)}" for p in mark.points)
        return f'<polygon{_paint(mark.colour, "fill", colours, theme, mark.kind)} points="{around}"/>'
    if isinstance(mark, Dot):
        at = f'cx="{_number(mark.centre.real)}" cy="{_number(mark.centre.imag)}" r="{_number(mark.radius)}"'
        return f"<circle{_paint(mark.colour, 'fill', colours, theme, mark.kind)} {at}/>"
    if isinstance(mark, Box):
        size = f'width="{_number(mark.width)}" height="{_number(mark.height)}" rx="{_number(mark.radius)}"'
        at = f'x="{_number(mark.corner.real)}" y="{_number(mark.corner.imag)}"'
        rim = f" {_plain(mark.line, 'stroke', colours)}" if mark.line else ""
        both = [(mark.fill, "fill"), *([(mark.line, "stroke")] if mark.line else [])]
        return f"<rect{_classes(both, theme)} {at} {size} {_plain(mark.fill, 'fill', colours)}{rim}/>"
    return _writing(mark, colours, theme)


def _writing(mark: Writing, colours: dict[str, str], theme: str) -> str:
    look = ' font-style="italic"' * mark.italic + ' font-weight="bold"' * mark.bold
    classes = [(mark.colour, "fill"), *([("paper", "stroke")] if mark.halo else [])]
    halo = f' {_plain("paper", "stroke", colours)} stroke-width="3" paint-order="stroke" stroke-linejoin="round"'
    left = mark.at.real - mark.width / 2
    parts = "".join(
        f'<tspan x="{_number(left + s.dx * mark.size)}" y="{_number(mark.at.imag + s.dy * mark.size)}" '
        f'font-size="{_number(s.size * mark.size)}" textLength="{_number(s.width * mark.size)}" '
        f'lengthAdjust="spacingAndGlyphs">{_text(s.text)}</tspan>'
        for s in mark.label.spans
        if s.width > 0
    )
    paint = f"{_classes(classes, theme)} {_plain(mark.colour, 'fill', colours)}"
    return f'<text{paint}{look}{halo * mark.halo} xml:space="preserve">{parts}</text>'


def _paint(colour: str, kind: str, colours: dict[str, str], theme: str, more: str = "") -> str:
    return f"{_classes([(colour, kind)], theme, more)} {_plain(colour, kind, colours)}"


def _plain(colour: str, kind: str, colours: dict[str, str]) -> str:
    return f'{kind}="{colours.get(colour, colour)}"'


def _classes(painted: list[tuple[str, str]], theme: str, more: str = "") -> str:
    """The classes by which a mark is found: its kind, and its roles if the page may turn dark."""
    roles = [f"{kind[0]}-{colour}" for colour, kind in painted if colour in DARK] if theme == "auto" else []
    names = " ".join(filter(None, [more, *roles]))
    return f' class="{names}"' if names else ""


def path(curve: Curve) -> str:
    """The curve as the `d` of an SVG path."""
    parts = [f"M{_point(curve[0][0])}"]
    for a, b, c, d in curve:
        if abs(a.imag - d.imag) + abs(b.imag - d.imag) + abs(c.imag - d.imag) < 0.1:
            parts.append(f"H{_number(d.real)}")
        else:
            parts.append(f"C{_point(b)} {_point(c)} {_point(d)}")
    return "".join(parts)


def _point(p: complex) -> str:
    return f"{_number(p.real)},{_number(p.imag)}"


def _number(x: float, digits: int = 1) -> str:
    shown = f"{x:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{x:.0f}"
    return "0" if shown in ("-0", "") else shown


def _text(text: str) -> str:
    """The text safe inside a file: markup is escaped, and characters that XML does not allow are replaced."""
    allowed = (
        c
        if c in "\t\n\r" or (ord(c) >= 32 and not 0xD800 <= ord(c) <= 0xDFFF and ord(c) not in (0xFFFE, 0xFFFF))
        else "�"
        for c in text
    )
    return escape("".join(allowed), quote=True)
