"""Sets of forecasts of a consistency benchmark ("Consistency checks for language model forecasters", ICLR 2025).

A line of its files is a set: `model`, `check` (which relation), `p` and `outcome` by role, and `stored`, the violation
that the benchmark's own code found. Sets of one check are books of one template.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from dissonance.coherence.beliefs import Belief
from dissonance.coherence.events import parsed, renamed, text_of
from dissonance.coherence.template import Template
from dissonance.errors import FormatError, one_line, suggest
from dissonance.io import files

Floats = npt.NDArray[np.float64]

LEAST = 0.001
"""What probabilities of 0 and 1 are moved by, as the benchmark does before it scores."""

_P, _Q = {"P": ("P", "")}, {"Q": ("Q", "")}
CHECKS: dict[str, Mapping[str, tuple[str, str]]] = {
    "Neg": {**_P, "not_P": ("not P", "")},
    "And": {**_P, **_Q, "P_and_Q": ("P and Q", "")},
    "Or": {**_P, **_Q, "P_or_Q": ("P or Q", "")},
    "AndOr": {**_P, **_Q, "P_and_Q": ("P and Q", ""), "P_or_Q": ("P or Q", "")},
    "But": {**_P, "Q_and_not_P": ("QnotP", ""), "P_or_Q": ("P or QnotP", "")},
    "Cond": {**_P, "Q_given_P": ("Q", "P"), "P_and_Q": ("P and Q", "")},
    "CondCond": {
        **_P,
        "Q_given_P": ("Q", "P"),
        "R_given_P_and_Q": ("R", "P and Q"),
        "P_and_Q_and_R": ("P and Q and R", ""),
    },
    "ExpectedEvidence": {**_P, **_Q, "P_given_Q": ("P", "Q"), "P_given_not_Q": ("P", "not Q")},
    "Paraphrase": {**_P, "para_P": ("P", "")},
    "Consequence": {**_P, "cons_P": ("consequence", "")},
}
"""By check, the event (and its condition) of every role."""

FACTS = {"But": "not (P and QnotP)", "Consequence": "P -> consequence"}


class Line(msgspec.Struct):
    """A set as it stands in the file."""

    model: str
    check: str
    p: dict[str, float]
    outcome: dict[str, bool | None] = {}
    question: dict[str, int] = {}
    stored: float = math.nan


@dataclass(frozen=True)
class Sets:
    """All sets of one check: which lines of the file they are, whose, probabilities and outcomes (1, 0, NaN) by role,
    (P, roles), the stored violations (P,), and the numbers of the questions, (P, roles)."""

    check: str
    line: npt.NDArray[np.int64]
    model: list[str]
    p: Floats
    outcome: Floats
    stored: Floats
    question: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.line)

    @cached_property
    def template(self) -> Template:
        """The relation, as a template."""
        return Template(beliefs(self.check))


def beliefs(check: str) -> list[Belief]:
    """The beliefs of a check, of which the probabilities are not known yet, and what holds for certain."""
    found = [Belief(event, 0.5, given, name=role) for role, (event, given) in CHECKS[check].items()]
    return found + [Belief(fact) for name, fact in FACTS.items() if name == check]


def is_tuples(content: bytes) -> bool:
    """Whether the first line of a file is a set."""
    first = content.lstrip().partition(b"\n")[0]
    try:
        msgspec.json.decode(first, type=Line)
    except msgspec.DecodeError:
        return False
    return True


def tuple_lines(content: bytes, where: str, group: str) -> list[tuple[str, Belief, int]]:
    """The beliefs of all sets of a file with the set they belong to, `model check line`, and their lines; by the group
    `model` all sets of a forecaster belong together, and questions of one number are the same event."""
    sets = _read(content, where)
    if group == "model":
        models = dict.fromkeys(m for s in sets for m in s.model)
        first = {m: next(int(s.line[k]) for s in sets for k, who in enumerate(s.model) if who == m) for m in models}
        return [(m, b, _line(b, first[m])) for m in models for b in book(sets, m)]
    if group != "set":
        raise FormatError(f"{where}: the sets of a tuple file are grouped by set or by model, not by {group!r}.")
    found: list[tuple[str, Belief, int]] = []
    for s in sets:
        said = beliefs(s.check)
        for k, line in enumerate(s.line.tolist()):
            name = f"{s.model[k]} {s.check} {line}"
            for i, b in enumerate(said):
                happened = None if b.is_fact or math.isnan(s.outcome[k, i]) else bool(s.outcome[k, i])
                found.append((name, b if b.is_fact else replace(b, p=float(s.p[k, i]), outcome=happened), line))
    return sorted(found, key=lambda x: x[2])


def _line(belief: Belief, first: int) -> int:
    """The line of a belief of a book: its name says it; facts have that of the forecaster's first set."""
    return int(belief.name.partition(".")[0]) if belief.name else first


def load_sets(source: files.Source) -> list[Sets]:
    """The sets of a file (JSON lines, also .gz), by check."""
    return _read(*files.read(source))


def _read(content: bytes, where: str) -> list[Sets]:
    by_check: dict[str, list[tuple[int, Line]]] = {}
    decoder = msgspec.json.Decoder(Line)
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            one = decoder.decode(line)
        except msgspec.DecodeError as error:
            raise FormatError(one_line(f"{where}:{number}: {error}."), number) from None
        roles = CHECKS.get(one.check)
        if roles is None:
            raise FormatError(f"{where}:{number}: no check {one.check!r}.{suggest(one.check, CHECKS)}", number)
        if one.p.keys() != roles.keys():
            raise FormatError(f"{where}:{number}: {one.check} needs the roles {', '.join(roles)}.", number)
        by_check.setdefault(one.check, []).append((number, one))
    return list(_sets(by_check))


def _sets(by_check: Mapping[str, list[tuple[int, Line]]]) -> Iterator[Sets]:
    truth = {True: 1.0, False: 0.0, None: math.nan}
    for check, lines in by_check.items():
        roles = list(CHECKS[check])
        p = np.array([[one.p[r] for r in roles] for _, one in lines])
        yield Sets(
            check,
            np.array([number for number, _ in lines]),
            [one.model for _, one in lines],
            np.where(p == 0, LEAST, np.where(p == 1, 1 - LEAST, p)),
            np.array([[truth[one.outcome.get(r)] for r in roles] for _, one in lines]),
            np.array([one.stored for _, one in lines]),
            np.array([[one.question.get(r, -1) for r in roles] for _, one in lines]),
        )


def book(sets: Sequence[Sets], model: str) -> list[Belief]:
    """All the sets of one forecaster as one book: questions of one number are about the same event.

    Where a set does not name Q, it is known if `P_and_Q` or `P_or_Q` is a question of a set that does.
    """
    mine = [(s, k) for s in sets for k, whose in enumerate(s.model) if whose == model]
    questions = [dict(zip(CHECKS[s.check], s.question[k].tolist(), strict=True)) for s, k in mine]
    pairs = {q[role]: (q["P"], q["Q"]) for q in questions for role in ("P_and_Q", "P_or_Q") if role in q and "Q" in q}
    found: dict[Belief, None] = {}
    for (s, k), q in zip(mine, questions, strict=True):
        name = {role: f"q{number}" for role, number in q.items()}
        pair = pairs.get(q.get("P_and_Q", q.get("P_or_Q", -1)), ())
        other = [x for x in pair if x != q["P"]]
        if other:
            name.setdefault("Q", f"q{other[0]}")
        local = "_".join(name[role] for role in CHECKS[s.check])
        name = {"Q": f"Q_{local}", "R": f"R_{local}"} | name
        name |= {"QnotP": name.get("Q_and_not_P", ""), "consequence": name.get("cons_P", "")}

        def said(text: str, name: dict[str, str] = name) -> str:
            return text_of(renamed(parsed(text), name)) if text else ""

        facts = [said(FACTS[s.check])] if s.check in FACTS else []
        if s.check == "But" and other:
            facts.append(f"{name['QnotP']} <-> ({name['Q']} and not {name['P']})")
        found |= dict.fromkeys([Belief(fact) for fact in facts])
        for i, (event, given) in enumerate(CHECKS[s.check].values()):
            found[Belief(said(event), float(s.p[k, i]), said(given), name=f"{s.line[k]}.{i}")] = None
    return list(found)
