"""UAI, the format of the inference competitions: networks and factor graphs without names, and evidence."""

from __future__ import annotations

import bisect
import itertools
import math
import re
from collections.abc import Hashable, Mapping

import numpy as np

from dissonance.arc import Arc
from dissonance.cpds import Factor, SoftmaxTable
from dissonance.errors import DissonanceError, FormatError
from dissonance.focus import Attention, Focus
from dissonance.io import strict
from dissonance.io.limits import MAX_VALUES, check_count
from dissonance.io.network import Definition, check_finite, check_scope, check_weights, network_pdg, parts, table_rows
from dissonance.pdg import PDG
from dissonance.variables import Finite, Variable, cells

COMMENT = re.compile(r"#[^\n]*")
NUMBERS = re.compile(r"[-+0-9.eE\s]*+")


class _Words:
    """The words of a file, read one after the other."""

    def __init__(self, content: bytes) -> None:
        lines = COMMENT.sub("", strict.text(content).decode()).split("\n")
        by_line = [line.split() for line in lines]
        self.words = list(itertools.chain.from_iterable(by_line))
        self.ends = list(itertools.accumulate(map(len, by_line)))
        self.at = 0
        self.plain = all(NUMBERS.fullmatch(line) for line in lines[self.line(0) :])
        """Whether everything after the first line looks like numbers."""

    def line(self, word: int) -> int:
        """The line of a word, counted from 1; that of the last one for the end of the file."""
        return min(bisect.bisect_right(self.ends, word), bisect.bisect_left(self.ends, len(self.words))) + 1

    def fail(self, reason: str, word: int | None = None) -> FormatError:
        return FormatError(reason, self.line(self.at if word is None else word))

    def next(self, what: str) -> str:
        if self.at == len(self.words):
            raise self.fail(f"the file ends where {what} should stand.")
        self.at += 1
        return self.words[self.at - 1]

    def count(self, what: str, below: int | None = None) -> int:
        """A whole number, less than a bound if there is one."""
        word = self.next(what)
        if not re.fullmatch(r"[0-9]{1,9}", word):
            raise self.fail(f"expected {what}, a whole number, found {word[:30]!r}.", self.at - 1)
        if below is not None and int(word) >= below:
            raise self.fail(f"{what} is {word}; it must be less than {below}.", self.at - 1)
        return int(word)

    def numbers(self, count: int, what: str) -> list[float]:
        some = self.words[self.at : self.at + count]
        if len(some) < count:
            raise FormatError(f"the file ends in {what}: {len(some)} of {count} numbers.", self.line(len(self.words)))
        try:
            if not self.plain:
                raise ValueError
            found = list(map(float, some))
        except ValueError:
            i = next((i for i, word in enumerate(some) if not _is_number(word)), None)
            if i is not None:
                raise self.fail(f"{what} holds {some[i][:30]!r}, which is not a number.", self.at + i) from None
            found = list(map(float, some))
        self.at += count
        return found


def _is_number(word: str) -> bool:
    return re.fullmatch(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", word) is not None


# -- models ------------------------------------------------------------------------------------------------------------


def from_bytes(content: bytes, learnable: bool) -> tuple[PDG, Focus]:
    """The PDG of a file: x0, x1, ... are the variables.

    BAYES is a Bayesian network at gamma = 0, an arc a cpd, named after its child. MARKOV is a factor graph: arcs phi1,
    phi2, ... from nothing to their scopes, attended with alpha = beta = gamma = 1, where mu* is its distribution.
    """
    words = _Words(content)
    kind = words.next("BAYES or MARKOV").upper()
    if kind not in ("BAYES", "MARKOV"):
        raise words.fail(f"expected BAYES or MARKOV, found {kind[:30]!r}.", 0)
    variables = _variables(words)
    scopes: list[tuple[tuple[Variable, ...], int]] = []
    count = words.count("the number of tables")
    check_count(count, "tables", words.line(words.at - 1))
    for i in range(count):
        start = words.at
        size = words.count(f"the number of variables of table {i + 1}")
        if not 1 <= size <= strict.MAX_AXES:
            raise words.fail(f"table {i + 1} has {size} variables; 1 to {strict.MAX_AXES} are supported.", start)
        names = [words.count(f"a variable of table {i + 1}", len(variables)) for _ in range(size)]
        scopes.append((tuple([variables[n] for n in names]), start))
    tables: list[tuple[np.ndarray, int]] = []
    for i, (scope, _) in enumerate(scopes):
        start = words.at
        wanted = cells(scope)
        size = words.count(f"the size of table {i + 1}")
        if size != wanted:
            raise words.fail(f"table {i + 1} has size {size}; its variables need {wanted}.", start)
        tables.append((np.array(words.numbers(size, f"table {i + 1}")), start))
    if words.at < len(words.words):
        raise words.fail(f"did not understand {words.words[words.at][:30]!r} after the last table.")
    return (_bayes if kind == "BAYES" else _markov)(words, variables, scopes, tables, learnable)


def _variables(words: _Words) -> list[Variable]:
    domains: dict[int, Finite] = {}
    found: list[Variable] = []
    count = words.count("the number of variables")
    check_count(count, "variables", words.line(words.at - 1))
    for i in range(count):
        size = words.count(f"the size of variable {i}")
        if size < 1:
            raise words.fail(f"variable {i} has size {size}; it needs at least 1.", words.at - 1)
        if size not in domains:
            if size + sum(domains) > MAX_VALUES:
                raise words.fail(f"variable {i} has size {size}; sizes add up to at most {MAX_VALUES}.", words.at - 1)
            domains[size] = Finite(tuple(range(size)))
        found.append(Variable(f"x{i}", domains[size]))
    return found


Scopes = list[tuple[tuple[Variable, ...], int]]
Tables = list[tuple[np.ndarray, int]]


def _bayes(
    words: _Words, variables: list[Variable], scopes: Scopes, tables: Tables, learnable: bool
) -> tuple[PDG, Focus]:
    definitions: list[Definition] = []
    for (scope, at), (table, start) in zip(scopes, tables, strict=True):
        *parents, child = scope
        line = words.line(at)
        check_scope(child, parents, line)

        def line_of(row: int, start: int = start, size: int = child.size) -> int:
            return words.line(start + 1 + row * size)

        definitions.append(Definition(child, tuple(parents), table.reshape(-1, child.size), line, line_of))
    return network_pdg({v.name: v for v in variables}, definitions, learnable)


def _markov(
    words: _Words, variables: list[Variable], scopes: Scopes, tables: Tables, learnable: bool
) -> tuple[PDG, Focus]:
    arcs: list[Arc] = []
    for i, ((scope, at), (table, start)) in enumerate(zip(scopes, tables, strict=True), 1):
        check_scope(scope[-1], scope[:-1], words.line(at))
        phi = table.reshape([v.size for v in scope])
        try:
            factor = Factor(phi)
        except DissonanceError as error:
            raise FormatError(f"table {i}: {error}", words.line(start)) from None
        arcs.append(Arc(f"phi{i}", (), scope, SoftmaxTable(factor.table().numpy()) if learnable else factor))
    pdg = PDG(*arcs, variables=variables)
    return pdg, Focus(Attention.uniform(pdg, gamma=1.0))


def to_bytes(pdg: PDG, focus: Focus) -> bytes:
    """The content of a file: BAYES for a Bayesian network at gamma = 0, MARKOV for a product of factors at gamma = 1.

    The names of variables, values and arcs have no place in it.
    """
    if focus.attention.gamma == 0:
        kind, found = "BAYES", parts(pdg, focus, "UAI (BAYES)")
    else:
        kind, found = "MARKOV", _factors(pdg, focus)
    number = {v: i for i, v in enumerate(pdg.variables)}
    lines = [kind, str(len(number)), " ".join(str(v.size) for v in number), str(len(found))]
    lines += [f"{len(a.scope)} {' '.join(str(number[v]) for v in a.scope)}" for a, _ in found]
    for a, table in found:
        width = a.scope[-1].size
        by_row = table.reshape(-1, width).tolist()
        lines += ["", str(table.size), *(f" {' '.join(map(repr, row))}" for row in by_row)]
    return ("\n".join(lines) + "\n").encode()


def _factors(pdg: PDG, focus: Focus) -> list[tuple[Arc, np.ndarray]]:
    check_finite(pdg, "UAI")
    check_weights(pdg, focus, "UAI (MARKOV)", gamma=1.0)
    for a in pdg.arcs:
        if a.sources:
            raise FormatError(
                f"{a} has sources; at gamma = 1 UAI (MARKOV) holds factors, arcs without sources, only: use .json."
            )
    return [(a, a.cpd.phi.numpy() if isinstance(a.cpd, Factor) else table_rows(a)) for a in pdg.arcs]


# -- evidence ----------------------------------------------------------------------------------------------------------


def read_evidence(content: bytes, pdg: PDG) -> dict[str, Hashable]:
    """{variable: value} of a file "n, then n pairs of variable and value", both by number."""
    words = _Words(content)
    if len(words.words) > 1 and words.words[0] == "1" and len(words.words) != 3:
        words.at = 1  # an older form counts the sets of evidence first
    found: dict[str, Hashable] = {}
    for _ in range(words.count("the number of observed variables")):
        v = pdg.variables[words.count("an observed variable", len(pdg.variables))]
        if v.name in found:
            raise words.fail(f"variable {v.name!r} is observed twice.", words.at - 1)
        found[v.name] = v.finite.labels[words.count(f"the value of variable {v.name!r}", v.size)]
    if words.at < len(words.words):
        raise words.fail(f"did not understand {words.words[words.at][:30]!r} after the last observation.")
    return found


def write_evidence(evidence: Mapping[str, Hashable], pdg: PDG) -> bytes:
    """The content of a file that says what was observed."""
    number = {v.name: i for i, v in enumerate(pdg.variables)}
    pairs = [f"{number[pdg.variable(n).name]} {pdg.variable(n).finite.index(x)}" for n, x in evidence.items()]
    return (" ".join([str(len(pairs)), *pairs]) + "\n").encode()


def observed(pdg: PDG, focus: Focus, evidence: Mapping[str, Hashable]) -> tuple[PDG, Focus]:
    """The PDG with a hard arc for every observation: beta = inf, alpha = 0, named "variable = value"."""
    arcs: list[Arc] = []
    for name, label in evidence.items():
        v = pdg.variable(name)
        p = np.zeros(v.size)
        p[v.finite.index(label)] = 1.0
        arcs.append(Arc(f"{name} = {label}", (), v, p))
    names = [a.name for a in arcs]
    attention = focus.attention.replace(beta=dict.fromkeys(names, math.inf), alpha=dict.fromkeys(names, 0.0))
    both = PDG(*pdg.arcs, *arcs, variables=pdg.variables)
    return both, Focus(attention, focus.control)
