"""BIF, the interchange format of Bayesian networks (version 0.15)."""

from __future__ import annotations

import itertools
import re
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dissonance.errors import FormatError, suggest
from dissonance.focus import Focus
from dissonance.io import strict
from dissonance.io.limits import MAX_FILLED, check_count
from dissonance.io.network import Definition, check_scope, counted, known, network_pdg, parts, value_names
from dissonance.io.scan import WORD, Scanner, numbers
from dissonance.pdg import PDG
from dissonance.variables import Variable, cells

ROW = re.compile(r'\(([^()"/;{}\[\]|]*+)\)([-+0-9.eE,\s]*+);')
"""Values of the parents, then numbers: by far the most of a file, and the same to read without quotes or comments."""
RUN = re.compile(r"([-+0-9.eE,\s]*+);")
NUMBER = re.compile(r"[-+0-9.eE]++")
PROPERTY = re.compile(r'(?:[^;"\n]|"[^"\n]*")*+;')
ARC = re.compile(r'property\s+"dissonance\.arc = ([^"\n]*)"\s*;')
"""How an arc keeps a name that is not its target's; other readers pass it over."""
UNQUOTABLE = re.compile(r'["\x00-\x1f\x7f\x85\u2028\u2029]')


# -- reading -----------------------------------------------------------------------------------------------------------


def from_bytes(content: bytes, learnable: bool) -> tuple[PDG, Focus]:
    """The PDG of a Bayesian network: an arc for every probability block, named after its child."""
    scanner = Scanner(strict.text(content).decode())
    variables: dict[str, Variable] = {}
    definitions: list[Definition] = []
    filled = [0]
    while not scanner.ended:
        at = scanner.at
        word = scanner.take(WORD)
        if word is not None and word[0] == "network":
            _network(scanner)
        elif word is not None and word[0] == "variable":
            v = _variable(scanner, at)
            if v.name in variables:
                raise scanner.fail(f"two variables are named {v.name!r}.", at)
            variables[v.name] = v
            check_count(len(variables), "variables", scanner.line(at))
        elif word is not None and word[0] == "probability":
            definitions.append(_probability(scanner, at, variables, filled))
            check_count(len(definitions), "probabilities", scanner.line(at))
        else:
            scanner.at = at
            hint = "" if word is None else suggest(word[0], ("network", "variable", "probability"))
            raise scanner.fail(f"expected network, variable or probability, found {scanner.shown()}.{hint}")
    if not variables:
        raise FormatError("has no variables: it is not BIF.")
    return network_pdg(variables, definitions, learnable)


def _network(scanner: Scanner) -> None:
    scanner.name()
    scanner.need("{", "after the name of the network")
    while not scanner.took("}"):
        _property(scanner, "the network block")


def _property(scanner: Scanner, where: str) -> str | None:
    """Pass over a property; the name that one of ours gives to an arc."""
    if (ours := scanner.take(ARC)) is not None:
        return ours[1]
    at = scanner.at
    word = scanner.take(WORD)
    if word is None or word[0] != "property":
        scanner.at = at
        raise scanner.fail(f"did not understand {scanner.shown()} in {where}.")
    if scanner.take(PROPERTY) is None:
        raise scanner.fail(f"the property in {where} does not end with ';'.", at)
    return None


def _variable(scanner: Scanner, at: int) -> Variable:
    if (found := scanner.name()) is None or not found[0]:
        raise scanner.fail(f"expected the name of a variable, found {scanner.shown()}.")
    name = found[0]
    where = f"in variable {name!r}"
    scanner.need("{", where)
    values: list[tuple[str, bool]] | None = None
    while not scanner.took("}"):
        before = scanner.at
        word = scanner.take(WORD)
        if word is None or word[0] != "type":
            scanner.at = before
            _property(scanner, f"variable {name!r}")
            continue
        if values is not None:
            raise scanner.fail(f"variable {name!r} has two types.", before)
        values = _type(scanner, name, where)
    if values is None:
        raise scanner.fail(f"variable {name!r} has no type; it needs: type discrete [ 2 ] {{ no, yes }};", at)
    written = [x for x, _ in values]
    if not any(quoted for _, quoted in values) and counted(written):
        return Variable(name, len(written))
    return Variable(name, written)


def _type(scanner: Scanner, name: str, where: str) -> list[tuple[str, bool]]:
    at = scanner.at
    kind = scanner.take(WORD)
    if kind is None or kind[0] != "discrete":
        scanner.at = at
        raise scanner.fail(f"the type of variable {name!r} must be discrete, found {scanner.shown()}.")
    scanner.need("[", where)
    size = scanner.take(WORD)
    if size is None or not re.fullmatch(r"[0-9]{1,9}", size[0]):
        raise scanner.fail(f"expected the number of values {where}.", at)
    scanner.need("]", where)
    scanner.need("{", where)
    values = scanner.names("}", where)
    if len(values) != int(size[0]) or not values:
        raise scanner.fail(f"variable {name!r} has {len(values)} values, but says [ {size[0]} ].", at)
    if len({x for x, _ in values}) < len(values):
        seen: set[str] = set()
        twice = next(x for x, _ in values if x in seen or seen.add(x))
        raise scanner.fail(f"variable {name!r} has the value {twice!r} twice.", at)
    scanner.need(";", f"after the values of variable {name!r}")
    return values


def _probability(scanner: Scanner, at: int, variables: dict[str, Variable], filled: list[int]) -> Definition:
    """A probability block; `filled` counts the entries that defaults have filled so far."""
    line = scanner.line(at)
    scanner.need("(", "after probability")
    found = scanner.name()
    if found is None:
        raise scanner.fail(f"expected the name of a variable, found {scanner.shown()}.")
    scanner.took("|")
    listed = [n for n, _ in scanner.names(")", f"in the probability of {found[0]!r}")]
    child = known(found[0], variables, line)
    parents = tuple([known(n, variables, line) for n in listed])
    check_scope(child, parents, line)
    scanner.need("{", f"in the probability of {child.name!r}")
    return _Block(scanner, line, child, parents, filled).read()


class _Block:
    """The body of a probability block."""

    def __init__(
        self, scanner: Scanner, line: int, child: Variable, parents: tuple[Variable, ...], filled: list[int]
    ) -> None:
        self.scanner, self.line, self.child, self.parents, self.filled = scanner, line, child, parents, filled
        self.where = f"in the probability of {child.name!r}"
        self.flat: list[float] = []
        self.settings: list[int] = []
        self.starts: list[int] = []
        self.whole: tuple[list[float], int] | None = None
        self.rest: tuple[list[float], int] | None = None
        self.index = [{str(x): i for i, x in enumerate(v.finite.labels)} for v in parents]

    def read(self) -> Definition:
        """Everything up to the closing brace."""
        scanner = self.scanner
        name: str | None = None
        while not scanner.took("}"):
            start = scanner.at
            if (row := scanner.take(ROW)) is not None:
                self._add(row[1].replace(",", " ").split(), numbers(row[2]), start)
            elif scanner.took("("):
                keys = [x for x, _ in scanner.names(")", self.where)]
                self._add(keys, self._numbers(), start)
            else:
                name = self._statement() or name
        table, starts = self._table()
        return Definition(
            self.child, self.parents, table, self.line, lambda i: scanner.line(starts[i]) if starts else self.line, name
        )

    def _statement(self) -> str | None:
        """A table, a default or a property."""
        scanner = self.scanner
        at = scanner.at
        word = scanner.take(WORD)
        if word is not None and word[0] in ("table", "default"):
            wanted = self.child.size * (cells(self.parents) if word[0] == "table" else 1)
            given = self._sized(self._numbers(), wanted, at, word[0])
            if (self.whole if word[0] == "table" else self.rest) is not None:
                raise scanner.fail(f"{self.where} {word[0]} is given twice.", at)
            if word[0] == "table":
                self.whole = given, at
            else:
                self.rest = given, at
            return None
        scanner.at = at
        return _property(scanner, f"the probability of {self.child.name!r}")

    def _numbers(self) -> list[float] | None:
        scanner = self.scanner
        if (run := scanner.take(RUN)) is not None:
            return numbers(run[1])
        found: list[float] = []
        while not scanner.took(";"):  # comments stand between the numbers
            if scanner.took(","):
                continue
            number = scanner.take(NUMBER)
            if number is None:
                raise scanner.fail(f"expected a number or ';' {self.where}, found {scanner.shown()}.")
            some = numbers(number[0])
            if some is None:
                return None
            found += some
        return found

    def _sized(self, given: list[float] | None, wanted: int, at: int, what: str) -> list[float]:
        if given is None:
            raise self.scanner.fail(f"{self.where} the {what} holds what is not a number.", at)
        if len(given) != wanted:
            raise self.scanner.fail(f"{self.where} the {what} has {len(given)} numbers; {wanted} are needed.", at)
        return given

    def _add(self, keys: list[str], given: list[float] | None, at: int) -> None:
        if len(keys) != len(self.parents):
            raise self.scanner.fail(f"{self.where} a row has {len(keys)} values for {len(self.parents)} parents.", at)
        setting = 0
        for key, v, index in zip(keys, self.parents, self.index, strict=True):
            if key not in index:
                raise self.scanner.fail(f"{v.name!r} has no value {key!r}.{suggest(key, index)}", at)
            setting = setting * v.size + index[key]
        self.flat += self._sized(given, self.child.size, at, "row")
        self.settings.append(setting)
        self.starts.append(at)

    def _table(self) -> tuple[NDArray[np.float64], list[int]]:
        """(parents' settings, child's values), and where each row starts (nowhere in particular: empty)."""
        count, size = cells(self.parents), self.child.size
        if self.whole is not None:
            if self.settings or self.rest is not None:
                self._fail("has both a table and rows", self.whole[1])
            return np.array(self.whole[0]).reshape(size, count).T, []  # the child is the slowest
        given = np.array(self.flat).reshape(-1, size)
        if len(self.settings) == count and self.settings == list(range(count)):
            return given, self.starts
        if len(set(self.settings)) < len(self.settings):
            seen: set[int] = set()
            again = next(i for i, s in enumerate(self.settings) if s in seen or seen.add(s))
            self._fail("gives the same row twice", self.starts[again])
        if self.rest is None and len(self.settings) < count:
            self._fail(f"has {len(self.settings)} of {count} rows and no default", None)
        self.filled[0] += (count - len(self.settings)) * size
        if self.filled[0] > MAX_FILLED:
            self._fail(f"would be a table of {count * size} numbers; defaults fill up to {MAX_FILLED} in a file", None)
        table, starts = np.empty((count, size)), [0] * count
        if self.rest is not None:
            table[:], starts = self.rest[0], [self.rest[1]] * count
        table[self.settings] = given
        for s, at in zip(self.settings, self.starts, strict=True):
            starts[s] = at
        return table, starts

    def _fail(self, what: str, at: int | None) -> NoReturn:
        line = self.line if at is None else self.scanner.line(at)
        raise FormatError(f"the probability of {self.child.name!r} {what}.", line)


# -- writing -----------------------------------------------------------------------------------------------------------


def to_bytes(pdg: PDG, focus: Focus) -> bytes:
    """The content of a file that describes the PDG, if it is a Bayesian network."""
    found = parts(pdg, focus, "BIF")
    values = {v: _values(v) for v in pdg.variables}
    lines = ["network unknown {", "}"]
    for v, words in values.items():
        lines += [f"variable {_word(v.name)} {{", f"  type discrete [ {v.size} ] {{ {', '.join(words)} }};", "}"]
    for a, table in found:
        given = f" | {', '.join(_word(v.name) for v in a.sources)}" if a.sources else ""
        lines.append(f"probability ( {_word(a.targets[0].name)}{given} ) {{")
        if a.name != a.targets[0].name:
            lines.append(f'  property "dissonance.arc = {_quotable(a.name)}";')
        settings = itertools.product(*(values[v] for v in a.sources))
        for words, row in zip(settings, table.tolist(), strict=True):
            head = f"({', '.join(words)})" if a.sources else "table"
            lines.append(f"  {head} {', '.join(map(repr, row))};")
        lines.append("}")
    return ("\n".join(lines) + "\n").encode()


def _values(v: Variable) -> list[str]:
    """Values as words; text that looks like the numbers 0, 1, 2, ... is quoted, to be text when it is read again."""
    written, numbered = value_names(v)
    if not numbered and counted(written):
        return [f'"{x}"' for x in written]
    return [_word(x) for x in written]


def _word(text: str) -> str:
    return text if WORD.fullmatch(text) else f'"{_quotable(text)}"'


def _quotable(text: str) -> str:
    if UNQUOTABLE.search(text):
        raise FormatError(f"BIF cannot hold {text!r}: it has a quote or a control character. Use .json.")
    return text
