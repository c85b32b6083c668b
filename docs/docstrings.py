"""Docstrings of the library as reStructuredText: plain paragraphs, formulas set off by indentation, lists, examples."""

from __future__ import annotations

import re

COLUMN = " " * 8
"""So far in stands the second column of a list of names and what they mean."""


def as_restructured_text(lines: list[str]) -> None:
    """Rewrite a docstring in place: indented blocks become literal ones, `names` code, and stars stay stars."""
    out: list[str] = []
    for block in _blocks(lines):
        if block[0].lstrip().startswith(">>>"):
            out += [*block, ""]
        elif all(line.startswith("    ") for line in block):
            out += ["::", "", *block, ""]
        elif any(line.startswith(COLUMN) for line in block):
            out += ["::", "", *(f"    {line}" for line in block), ""]
        else:
            out += [*map(_text, block), ""]
    lines[:] = out


def _blocks(lines: list[str]) -> list[list[str]]:
    """Runs of lines without a blank one; where text turns into an indented formula or a list a new one begins."""
    found: list[list[str]] = [[]]
    for line in lines:
        before = found[-1][-1] if found[-1] else ""
        formula = line.startswith("    ") and not line.startswith(COLUMN) and before and before[0] not in " -"
        text_again = before and found[-1][0].startswith("    ") and not line.startswith(" ")
        list_begins = line.startswith("- ") and before and not before.startswith(("- ", "  "))
        if not line.strip() or formula or text_again or list_begins:
            found.append([])
        if line.strip():
            found[-1].append(line.rstrip())
    return [block for block in found if block]


def _text(line: str) -> str:
    """A line of prose: code between backticks, also with letters right after it, everything else as it stands."""
    parts = re.split(r"(`[^`]+`)", line)
    return re.sub(
        r"``(?=\w)(?<=\S``)", r"``\\ ", "".join(f"`{p}`" if p.startswith("`") else _escaped(p) for p in parts)
    )


def _escaped(text: str) -> str:
    bullet = "- " if text.startswith("- ") else ""
    rest = text[len(bullet) :].replace("\\", "\\\\")
    return bullet + re.sub(r"([*|`]|_(?=\W|$))", r"\\\1", rest)
