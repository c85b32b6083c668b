"""Scanning text: patterns are matched where the last one ended, and what does not fit is an error with its line."""

from __future__ import annotations

import re

from dissonance.errors import FormatError

SKIPPED = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
"""Space and comments as in C. Not possessive: Python 3.11.2 goes on behind a comment that does not end."""
WORD = re.compile(r'(?:[^\s(){}\[\],;|"/]|/(?![/*]))++')
STRING = re.compile(r'"([^"\n]*+)"')
SHOWN = 30


class Scanner:
    """A place in a text: `take` moves on past a pattern and the space behind it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._counted = (0, 1)
        self.skip()

    def skip(self) -> None:
        """Move on past space and comments."""
        found = SKIPPED.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """What the pattern matches here, if it does."""
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            self.skip()
        return found

    def took(self, symbol: str) -> bool:
        """Whether the symbol stood here."""
        if not self.text.startswith(symbol, self.at):
            return False
        self.at += len(symbol)
        self.skip()
        return True

    def need(self, symbol: str, where: str) -> None:
        """Move on past a symbol that must stand here."""
        if not self.took(symbol):
            raise self.fail(f"expected {symbol!r} {where}, found {self.shown()}.")

    def name(self) -> tuple[str, bool] | None:
        """A word or a string in quotes, and whether it had quotes; None if there is neither."""
        if (found := self.take(WORD)) is not None:
            return found[0], False
        if (found := self.take(STRING)) is not None:
            return found[1], True
        return None

    def names(self, end: str, where: str) -> list[tuple[str, bool]]:
        """Words and strings up to a symbol; commas between them are but space."""
        listed: list[tuple[str, bool]] = []
        while not self.took(end):
            if self.took(","):
                continue
            if (found := self.name()) is None:
                raise self.fail(f"expected a name or {end!r} {where}, found {self.shown()}.")
            listed.append(found)
        return listed

    @property
    def ended(self) -> bool:
        """Whether nothing is left."""
        return self.at == len(self.text)

    def line(self, at: int | None = None) -> int:
        """The line of a position, counted from 1."""
        at = self.at if at is None else at
        since, line = self._counted if self._counted[0] <= at else (0, 1)
        self._counted = at, line + self.text.count("\n", since, at)  # a file is asked for its lines in order, mostly
        return self._counted[1]

    def shown(self) -> str:
        """What stands here, for a message."""
        rest = self.text[self.at : self.at + SHOWN].split("\n")[0]
        return repr(rest) if rest else "the end of the file"

    def fail(self, reason: str, at: int | None = None) -> FormatError:
        """An error at a position."""
        return FormatError(reason, self.line(at))


def numbers(run: str) -> list[float] | None:
    """The numbers of a run of digits, points, signs, exponents, space and commas; None if one is not a number."""
    try:
        return list(map(float, run.replace(",", " ").split()))
    except ValueError:
        return None
