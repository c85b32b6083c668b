"""The words and signs of an expression, one after another."""

from __future__ import annotations

import re

from dissonance.errors import DissonanceError

_NUMBERS = {word: n for n, word in enumerate(("zero", "one", "two", "three", "four", "five"))}
_SAME = {
    **{"&": "and", "&&": "and", "AND": "and", "||": "or", "OR": "or", "XOR": "xor", "^": "xor"},
    **{"~": "not", "!": "not", "NOT": "not", "=>": "->", "<=>": "<->", "==": "="},
    **{"IN": "in", "≥": ">=", "≤": "<=", "±": "+-"},
}
_SIGNS = {"and", "or", "xor", "not", "in"}

LONGEST = 100_000
"""Characters of a belief or an expression."""

_SPACE = re.compile(r"\s*")

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<counted>(?:(?P<how>exactly|at\ least|at\ most)\s+(?P<number>\w+)|(?P<some>none|all|any|one))\s+of\b)
    | (?P<quoted>"[^"]*"|'[^']*')
    | (?P<real>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<word>\w[\w.']*)
    | (?P<sign><->|<=>|->|=>|!=|==|>=|<=|\+-|\+/-|&&|\|\||[-≥≤±~!&|^=<>(){},@:%\[\]])
    )""",
    re.VERBOSE,
)


class Tokens:
    """Where reading stands in a text: `now` is what comes next ("" at the end), `kind` what that is; it starts at
    `start`, and the one before it stops at `stop`."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise DissonanceError(f"a belief has {len(text)} characters; {LONGEST} are the most that is read.")
        self.text, self.at, self.start, self.stop = text, 0, 0, 0
        self.now, self.kind = "", ""
        self._match: re.Match[str] | None = None
        self.advance()

    def advance(self) -> None:
        """Go on to the next one."""
        space = _SPACE.match(self.text, self.at)
        self.stop, self.start = self.at, self.at if space is None else space.end()
        if self.start == len(self.text):
            self.now, self.kind, self._match = "", "end", None
            return
        found = self._match = _TOKEN.match(self.text, self.at)
        if found is None:
            raise DissonanceError(f"cannot read {self.text[self.start : self.start + 20]!r} in {self.text!r}.")
        self.at = found.end()
        kind = found.lastgroup if found["counted"] is None else "how many"
        word = found[0].strip()
        if kind == "quoted":
            self.now, self.kind = word[1:-1], "word"
        elif kind == "word" and word not in _SIGNS and word not in _SAME:
            self.now, self.kind = word, "word"
        else:
            self.now = "+-" if word == "+/-" else _SAME.get(word, word)
            self.kind = "sign" if kind == "word" else str(kind)

    def take(self, *signs: str) -> str:
        """The next one, if it is one of these signs, else "" and nothing moves."""
        if self.kind != "sign" or self.now not in signs:
            return ""
        found = self.now
        self.advance()
        return found

    def expect(self, sign: str) -> None:
        """Go past a sign that must be there."""
        if not self.take(sign):
            raise self.unexpected(repr(sign))

    def word(self, what: str) -> str:
        """A name or a value."""
        if self.kind not in ("word", "real"):
            raise self.unexpected(what)
        found = self.now
        if not found:
            raise DissonanceError(f"a name is empty in {self.text!r}.")
        self.advance()
        return found

    def probability(self) -> float:
        """A number, or one in percent."""
        found = self.number("a probability")
        return found / 100 if self.take("%") else found

    def number(self, what: str) -> float:
        """Read a number."""
        if self.kind == "sign" and self.now == "-":
            self.advance()
            return -self.number(what)
        if self.kind == "word" and self.now == "inf":
            self.advance()
            return float("inf")
        if self.kind != "real":
            raise self.unexpected(what)
        found = float(self.now)
        self.advance()
        return found

    def counted(self) -> tuple[str, int | None]:
        """How many of a list: ("at least", 2); None stands for all of them."""
        assert self._match is not None
        how, number, some = self._match["how"], self._match["number"], self._match["some"]
        self.advance()
        if some:
            return {"none": ("exactly", 0), "all": ("exactly", None), "any": ("at least", 1), "one": ("exactly", 1)}[
                some
            ]
        if number not in _NUMBERS and not number.isdecimal():
            raise DissonanceError(f"{number!r} is not a number in {self.text!r}.")
        return how, _NUMBERS[number] if number in _NUMBERS else int(number)

    def unexpected(self, wanted: str) -> DissonanceError:
        """The error that says what was found in place of what."""
        found = f"found {self.now!r}" if self.kind != "end" else "it ends"
        hint = ' ("or" is the disjunction; | is for P(event | given))' if self.now == "|" else ""
        return DissonanceError(f"cannot read {self.text!r}: {found} where {wanted} should be{hint}.")
