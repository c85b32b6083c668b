"""Odd names, labels and numbers at random: words that mean something to a format, marks, blanks, other scripts."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Sequence

import numpy as np

from dissonance.arc import Arc
from dissonance.cpds import Factor
from dissonance.focus import Attention, Control, Focus, Schedules
from dissonance.pdg import PDG
from dissonance.variables import Variable, cells, shape

PIECES = (
    *("p", "P", "count", "n", "%", "weight", "freq", "share", "given", "given X", "given ", "X", "Y", "x=y", "=", "x="),
    *(" ", "  ", ",", ", ", ";", "\t", '"', '""', "'", "\n", "\r", "\r\n", "\x00", "\x0b", "\x1c", "\x7f", "\x85"),
    *("é", "e\u0301", "年齢", "\u00a0", "\u200b", "\u2028", "\u202e", "\ufeff", "\ufffe", "\U0001f600", "\ud800"),
    *("0", "1", "2", "0.5", "1,5", "1e3", "-1", "nan", "inf", "null", "None", "True", "all", "Total", "sum"),
    *("//", "/*", "*/", "{", "}", "[", "]", "(", ")", "|", "<b>", "&amp;", "]]>", "#", "\\", "\\n", "/", ".", "*"),
    *("variable", "network", "property", "probability", "table", "dissonance.arc = b", "a", "b", "yes", "no", "A"),
)
ALIKE: tuple[Hashable, ...] = (0, 1, "0", "1", 2.5, "2.5", None, "None", ("a", 1), "('a', 1)", False, -1)
"""Labels of which some read alike, and some are the same."""


def word(rng: random.Random) -> str:
    """An odd text, sometimes a plain one."""
    if rng.random() < 0.3:
        return rng.choice("XYZTUV") + str(rng.randrange(9))
    return "".join(rng.choice(PIECES) for _ in range(rng.choice((1, 1, 1, 2, 2, 3))))


def different(rng: random.Random, count: int) -> list[str]:
    """So many odd texts, no two alike."""
    found: dict[str, None] = {}
    while len(found) < count:
        found.setdefault(word(rng))
    return list(found)


def variable(rng: random.Random, name: str) -> Variable:
    """A variable with odd values: numbers, texts, or both."""
    size = rng.choice((1, 2, 2, 2, 3, 4))
    kind = rng.random()
    if kind < 0.15:
        return Variable(name, size)
    labels: list[Hashable] = [*different(rng, size)]
    if kind < 0.2:
        labels[0] = ""
    elif kind < 0.3:
        labels = list(map(str, range(size)))
    elif kind < 0.4:
        labels = list(dict.fromkeys(rng.sample(ALIKE, size)))
    return Variable(name, labels)


def rows(rng: random.Random, tall: int, wide: int) -> np.ndarray:
    """Rows of probabilities, some of them 0 or very small."""
    found = np.array([[rng.random() ** rng.choice((1, 8)) for _ in range(wide)] for _ in range(tall)])
    found[found < rng.choice((0.0, 0.1))] = 0.0
    found[found.sum(1) == 0, 0] = 1.0
    return found / found.sum(1, keepdims=True)


def arc(rng: random.Random, name: str, sources: Sequence[Variable], targets: Sequence[Variable]) -> Arc:
    """A belief with a random table."""
    table = rows(rng, cells(sources), cells(targets))
    return Arc(name, sources, targets, table.reshape(shape((*sources, *targets))))


def some(rng: random.Random, variables: Sequence[Variable]) -> list[Variable]:
    """At least one of the variables, in any order."""
    return rng.sample(variables, rng.randint(1, len(variables)))


def model(rng: random.Random) -> tuple[PDG, Focus | None]:
    """One table, a network, factors, or any beliefs with weights, control and schedules."""
    variables = [variable(rng, n) for n in different(rng, rng.choice((1, 2, 2, 3, 4)))]
    kind = rng.randrange(5)
    if kind <= 1:
        cut = rng.randrange(len(variables))
        return PDG(arc(rng, word(rng), variables[:cut], variables[cut:])), None
    arcs: dict[str, Arc] = {}
    if kind == 2:
        for i, v in enumerate(variables):
            name = v.name if rng.random() < 0.7 else word(rng)
            arcs[name] = arc(rng, name, rng.sample(variables[:i], rng.randint(0, min(i, 2))), [v])
        return PDG(*arcs.values(), variables=variables), None
    if kind == 3:
        for name in different(rng, 2):
            scope = some(rng, variables)
            phi = 3 * rows(rng, 1, cells(scope)).reshape(shape(scope))
            arcs[name] = Arc(name, (), scope, Factor(phi)) if rng.random() < 0.5 else arc(rng, name, (), scope)
        return PDG(*arcs.values(), variables=variables), Focus(Attention(gamma=1.0))
    for name in different(rng, rng.randint(1, 4)):
        scope = some(rng, variables)
        cut = rng.randrange(len(scope))
        arcs[name] = arc(rng, name, scope[:cut], scope[cut:])
    return PDG(*arcs.values(), variables=variables if rng.random() < 0.5 else ()), focus(rng, list(arcs))


def focus(rng: random.Random, names: Sequence[str]) -> Focus:
    """Weights, control and schedules for arcs of these names."""

    def weights(*choices: float) -> dict[str, float]:
        return {n: rng.choice(choices) for n in names if rng.random() < 0.7}

    foci: dict[str, Focus] = {}
    for name in different(rng, rng.choice((0, 0, 1, 2))):
        attention = Attention.only(weights(1.0, math.inf, 0.3), weights(1.0), rng.choice((0.0, 1.0)))
        foci[name] = Focus(attention, Control(weights(1.0)))
    orders = {n: tuple(rng.choices(list(foci), k=2)) for n in different(rng, 1)} if foci else {}
    attention = Attention(weights(2.0, math.inf, 0.0, -0.5, 1e-300), weights(0.0, 0.25), rng.choice((0.0, 0.5)))
    control = Control(weights(0.5, math.inf, 0.0)) if rng.random() < 0.5 else Control()
    return Focus(attention, control, schedules=Schedules(foci, orders))
