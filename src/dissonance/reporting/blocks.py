"""What a report is made of, as HTML and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from dissonance.errors import visible


@dataclass(frozen=True)
class Heading:
    """The title of the report, or of a part of it."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; one that `stands_out` holds what the report is about."""

    text: str
    stands_out: bool = False


@dataclass(frozen=True)
class Grid:
    """A table: its headings, its rows, and from which column on it holds numbers."""

    headings: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    numbers_from: int = 99


@dataclass(frozen=True)
class Figure:
    """A picture as SVG, and what it shows."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Code:
    """What to type."""

    text: str


Block = Heading | Paragraph | Grid | Figure | Code

STYLE = """
:root { color-scheme: light dark; --ink: #20242b; --soft: #5b626d; --paper: #ffffff; --rule: #cdd2d9; --box: #f3f4f6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --soft: #a5acb7; --paper: #15181e; --rule: #4a525e; --box: #22272f; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
p.verdict { font-size: 1.15rem; border-left: 4px solid #cf1124; padding: .5rem 1rem; background: var(--box); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
th { font-weight: 600; } .number { text-align: right; white-space: nowrap; }
figure { margin: 1rem 0; } figcaption { color: var(--soft); font-size: .9rem; }
pre { background: var(--box); padding: .8rem; overflow-x: auto; white-space: pre-wrap; }
@media print { :root { --ink: #000; --paper: #fff; --box: #f3f4f6; --rule: #999; --soft: #444; }
  body { margin: 0; max-width: none; } h2 { break-after: avoid; } table, figure, pre { break-inside: avoid; } }
"""


def as_html(title: str, blocks: Sequence[Block]) -> str:
    """One file with everything in it: no script, nothing from elsewhere."""
    body = "\n".join(map(_html, blocks))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    return escape(visible(text))


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_text(text)}</h{level}>"
        case Paragraph(text, stands_out):
            look = ' class="verdict"' if stands_out else ""
            return f"<p{look}>{_text(text)}</p>"
        case Code(text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case Figure(svg, caption):
            return f"<figure>{svg}<figcaption>{_text(caption)}</figcaption></figure>"
        case Grid(headings, rows, numbers_from):
            look = ['class="number"' if i >= numbers_from else "" for i in range(len(headings))]
            head = "".join(f'<th scope="col" {c}>{_text(h)}</th>' for h, c in zip(headings, look, strict=True))
            lines = ["".join(f"<td {c}>{_text(x)}</td>" for x, c in zip(row, look, strict=True)) for row in rows]
            inside = "".join(f"<tr>{line}</tr>" for line in lines)
            return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{inside}</tbody></table></div>'


def as_markdown(blocks: Sequence[Block], picture: str | None) -> str:
    """Markdown; `picture` is the file beside it that holds the picture, if there is one."""
    return "\n\n".join(part for part in (_markdown(b, picture) for b in blocks) if part) + "\n"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in visible(text))


def _markdown(block: Block, picture: str | None) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_plain(text)}"
        case Paragraph(text, stands_out):
            return f"**{_plain(text)}**" if stands_out else _plain(text)
        case Code(text):
            return "\n".join(f"    {line}" for line in text.splitlines())
        case Figure(_, caption):
            return f"![{_plain(caption)}]({picture})" if picture else ""
        case Grid(headings, rows, numbers_from):
            rule = ["---:" if i >= numbers_from else "---" for i in range(len(headings))]
            lines = [map(_plain, headings), rule, *(map(_plain, row) for row in rows)]
            return "\n".join(f"| {' | '.join(line)} |" for line in lines)
