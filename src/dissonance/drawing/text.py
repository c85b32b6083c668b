"""How much room a label takes, and how a name is written: X_real with an index, tau as a Greek letter.

Widths are those of Helvetica and Arial; a picture states them, so that other fonts are fitted to them.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

MAX_CHARACTERS, MAX_TITLE = 26, 80
SMALL = 0.72
"""The size of an index beside the letter's."""
OTHER_WIDTH, WIDE = 0.6, 1.0

_WIDTHS = (
    "278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 278 "
    "584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 667 944 "
    "667 667 611 278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 556 333 500 "
    "278 556 500 722 500 500 500 334 260 334 584"
)
_ASCII = {chr(32 + i): int(w) / 1000 for i, w in enumerate(_WIDTHS.split())}

_GREEK = {
    unicodedata.name(letter).split()[-1].lower(): letter for letter in "αβγδεζηθικλμνξπρστυφχψω" if letter != "λ"
} | {"lambda": "λ"}
_CAPITAL = {name.capitalize(): letter.upper() for name, letter in _GREEK.items()}
_LETTERS = _GREEK | _CAPITAL
_BASE = rf"(?P<base>{'|'.join(sorted(_LETTERS, key=len, reverse=True))}|[^\W\d_]{{1,2}})"
_NAME = re.compile(
    rf"{_BASE}(?P<primes>'{{0,3}})(?:_?(?P<digits>\d{{1,3}})|_(?P<index>[^\W_]{{1,8}}))?(?P<more>'{{0,3}})"
)


@dataclass(frozen=True)
class Span:
    """Letters of one size; `dx`, `dy` from where the label starts, in units of its size."""

    text: str
    dx: float
    dy: float
    size: float
    width: float


@dataclass(frozen=True)
class Label:
    """A name as it is written; `width` in units of the size."""

    spans: tuple[Span, ...]
    width: float


@lru_cache(maxsize=4096)
def label(name: str) -> Label:
    """The name with its index lowered and Greek letters in Greek; long names are cut."""
    found = _NAME.fullmatch(name)
    if found is None:
        return plain(name)
    index = found["digits"] or found["index"]
    base = _LETTERS.get(found["base"], found["base"])
    if index is not None and len(base) > 1:  # "at_home" is a word, "X_real" is not
        return plain(name)
    first = Span(base, 0.0, 0.0, 1.0, text_width(base))
    spans, right = [first], first.width
    if index is not None:
        spans.append(Span(index, right + 0.03, 0.22, SMALL, SMALL * text_width(index)))
    primes = "\N{PRIME}" * len(found["primes"] + found["more"])
    if primes:
        spans.append(Span(primes, right + 0.03, -0.05, 1.0, 0.25 * len(primes)))
    return Label(tuple(spans), max(s.dx + s.width for s in spans))


def plain(text: str, longest: int = MAX_CHARACTERS) -> Label:
    """The text as it is, cut if it is long; what is not to be seen is a box."""
    text = "".join(c if c.isprintable() else "�" for c in text)
    shown = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return Label((Span(shown, 0.0, 0.0, 1.0, text_width(shown)),), text_width(shown))


def joined(*labels: Label) -> Label:
    """One label after the other."""
    spans: list[Span] = []
    right = 0.0
    for part in labels:
        spans += [Span(s.text, s.dx + right, s.dy, s.size, s.width) for s in part.spans]
        right += part.width
    return Label(tuple(spans), right)


def text_width(text: str) -> float:
    """How wide a text is, in units of its size."""
    return sum(_ASCII[c] if c in _ASCII else _width(c) for c in text)


def _width(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    return WIDE if unicodedata.east_asian_width(character) in "WF" else OTHER_WIDTH
