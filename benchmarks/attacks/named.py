"""Facts and controls by odd names: command line, Python and studio move the same arcs, by the same numbers.

Random files of beliefs whose arcs are named like parameters, patterns, prefixes and origins of others, with facts and
controls in them, through `resolve` and `report` with random --keep, --move, --control and --attend, through `lir` with
the control that these options mean, and through the studio's action. What is written is scored by `score`. What the
options mean is said again here, in other words.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dissonance.arc import Arc
from dissonance.cli.app import run
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus
from dissonance.inconsistency import inconsistency
from dissonance.io import load, save
from dissonance.io.sources import Sources, load_sources
from dissonance.lir import lir
from dissonance.pdg import PDG
from dissonance.reporting import report
from dissonance.studio.actions import act
from dissonance.studio.documents import written
from dissonance.studio.place import StudioPlace
from dissonance.variables import Variable

NAMES = (
    "a", "a.b", "a.logits", "a.logits.logits", "a.b.logits", "b", "b.a", "x1", "x[1]", "x[!1]", "x*", "x?", "xx", "*",
    "?", "z", "z.z", "z/a", "survey", "survey.2020", "survey.2021", ".", "a.", ".logits", "b=2", "-b", "a b", "é",
    "{a}", "a|b",
)  # fmt: skip
FILES = ("z", "a", "b", "x1", "survey", "survey.2020", "other", "x")
PATTERNS = ("*", "?", "a*", "x?", "x*", "*.logits", "survey*", "s?rvey", "*b*", "z*", "??*", "[ab]", "x[1]", "a.*")
X, Y = Variable("X", ["no", "yes"]), Variable("Y", ["u", "v", "w"])
STEPS = 3
TOL = 1e-6


@dataclass
class Case:
    """Files, and the options of a command."""

    models: list[Path]
    keep: list[str] = field(default_factory=list)
    move: list[str] = field(default_factory=list)
    control: dict[str, float] = field(default_factory=dict)
    attend: dict[str, float] = field(default_factory=dict)

    @property
    def attended(self) -> list[str]:
        return [f"--attend={n}={b}" for n, b in self.attend.items()]

    @property
    def words(self) -> list[str]:
        """The options of `resolve` and `report`."""
        said = [f"--keep={n}" for n in self.keep] + [f"--move={n}" for n in self.move]
        return [*said, *(f"--control={n}={x}" for n, x in self.control.items()), *self.attended, f"--steps={STEPS}"]


class RefusedError(Exception):
    """What the options mean is an error."""


def attack(seed: int) -> Iterator[str | None]:
    """Cases without end; what is wrong with each."""
    with tempfile.TemporaryDirectory() as folder:
        for k in range(1 << 62):
            rng = np.random.default_rng([seed, k])
            case = drawn(rng, Path(folder))
            try:
                odd = judged(case, Path(folder) / "out")
            except Exception as error:
                odd = f"{type(error).__name__}: {error}"
            yield odd and f"case {k} of seed {seed} ({' '.join(case.words)}): {odd}"


def drawn(rng: np.random.Generator, folder: Path) -> Case:
    """One file or two of one to five arcs each, and up to three options."""
    for old in folder.glob("*.json"):
        old.unlink()
    stems = rng.permutation(FILES)[: 1 + (rng.random() < 0.3)].tolist()
    made = Case([folder / f"{stem}.json" for stem in stems])
    known: list[str] = []
    for path in made.models:
        names = [str(n) for n in rng.permutation(NAMES)[: rng.integers(1, 6)]]
        known += 4 * names
        pdg = PDG(*(_arc(rng, n) for n in names), variables=[X, Y])
        beta = {n: float(rng.choice([math.inf, 1.0, 1.0, 3.0, 100.0, 1e7])) for n in names}
        chi = {n: float(rng.choice([0.0, 0.5, 1.0])) for n in names if rng.random() < 0.4} if rng.random() < 0.3 else {}
        save(path, pdg, Focus(Attention(beta).on(pdg), Control(chi)))

    known += stems
    fitting = [p for p in PATTERNS if any(fnmatchcase(n, p) for n in known)]
    known += fitting if rng.random() < 0.9 else PATTERNS

    def some(most: int, chance: float) -> list[str]:
        return rng.choice(known, rng.integers(1, most + 1)).tolist() if rng.random() < chance else []

    match int(rng.integers(5)):
        case 0:
            made.keep = some(2, 1.0)
        case 1:
            made.move = some(2, 1.0)
        case 2:
            made.keep, made.move = some(1, 0.5), some(2, 0.5)
        case _:
            made.keep = some(1, 0.2)
    made.control = {n: float(rng.choice([0.0, 0.5, 1.0, 1.0])) for n in some(2, 0.4)}
    made.attend = {n: float(rng.choice([math.inf, 2.0, 0.5])) for n in some(1, 0.2)}
    return made


def _arc(rng: np.random.Generator, name: str) -> Arc:
    sources, target = [((), X), ((), Y), ((X,), Y), ((Y,), X)][int(rng.choice([0, 0, 0, 1, 2, 3]))]
    rows = [v.size for v in sources]
    p = rng.dirichlet(np.ones(target.size), rows or None)
    if rng.random() < 0.1:
        p = np.broadcast_to(np.eye(target.size)[0], p.shape)
    return Arc(name, sources, target, p)


# -- what the options mean ---------------------------------------------------------------------------------------------


def stands_for(name: str, given: Sources) -> tuple[int, list[str]]:
    """How exact a name is, and its arcs."""
    arcs = [a.name for a in given.pdg.arcs]
    if name in arcs:
        return 100, [name]
    if name in given.arcs:
        return 99, list(given.arcs[name])
    pattern = name.replace("[", "[[]")
    found = {n for n in arcs if fnmatchcase(n, pattern)}
    found |= {n for origin, own in given.arcs.items() if fnmatchcase(origin, pattern) for n in own}
    if not found:
        raise RefusedError(name)
    return len(re.sub(r"[*?]", "", name)), sorted(found)


def weights(said: Mapping[str, float], given: Sources, facts: set[str]) -> dict[str, float]:
    """The number of each arc: the most exact name decides, the last of equals; patterns pass over facts."""
    best: dict[str, tuple[int, float]] = {}
    for name, x in said.items():
        exact, arcs = stands_for(name, given)
        soft = [n for n in arcs if exact >= 99 or n not in facts]
        if not soft:
            raise RefusedError(name)
        for n in soft:
            if n not in best or exact >= best[n][0]:
                best[n] = exact, x
    return {n: x for n, (_, x) in best.items()}


def meant(case: Case) -> tuple[Sources, Attention, dict[str, float]]:
    """The beliefs, how they are attended, and the control of every arc that may move."""
    given = load_sources(case.models)
    beta = dict(given.focus.attention.beta)
    beta |= weights(case.attend, given, {n for n, b in beta.items() if b == math.inf})
    facts = {n for n, b in beta.items() if b == math.inf}
    said = weights(case.control, given, facts)
    moved = set(weights(dict.fromkeys(case.move, 1.0), given, facts)) if case.move else set()
    kept = {n for name in case.keep for n in stands_for(name, given)[1]}
    free = {n for n, x in said.items() if x > 0}
    if kept & (moved | free) or (moved and free - moved):
        raise RefusedError("clash")
    in_file = dict(given.focus.control.chi)
    if moved:
        chi = {n: said[n] if n in said else float(in_file.get(n) or 1.0) for n in moved}
    elif in_file or said:
        chi = {**in_file, **said}
    else:
        chi = {n: 1.0 for n in beta if n not in facts}
    attention = given.focus.attention.replace(beta=beta)
    return given, attention, {n: float(x) for n, x in chi.items() if x and n not in kept}


# -- what is done ------------------------------------------------------------------------------------------------------


def said(*words: str) -> tuple[int, str]:
    """The status of a command, and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([*words, "--json", "--quiet"])
    logging.getLogger("dissonance").setLevel(logging.CRITICAL)
    return status, out.getvalue() if status == 0 else err.getvalue()


def judged(case: Case, out: Path) -> str | None:
    """What does not agree, if anything."""
    resolved, page = out.with_suffix(".out.json"), out.with_suffix(".md")
    resolved.unlink(missing_ok=True)
    models = [str(m) for m in case.models]
    status, told = said("resolve", *models, *case.words, "--out", str(resolved))
    reported, page_told = said("report", *models, *case.words, "--out", str(page))
    try:
        given, attention, chi = meant(case)
    except (RefusedError, DissonanceError) as error:
        return None if status == reported == 2 else f"{error} was not refused: {status}, {reported}"
    if status != reported:
        return f"resolve has status {status}, report {reported}: {told} {page_told}"
    before = inconsistency(given.pdg, attention)
    if status == 1:
        return None if before.upper == math.inf and not resolved.exists() else f"refused: {told}"
    if status or before.upper == math.inf:
        return f"status {status} at {before.upper}: {told}"
    record, tables = json.loads(told), _tables(load(resolved)[0])
    odd = _differing(given, attention, chi, tables, record)
    if odd is None and before.upper > 1e-7:
        other = json.loads(page_told)["reconciled"]
        made = report(before, steps=STEPS, replicates=0, top=0, control=chi).resolved
        assert made is not None
        far = _apart(tables, _tables(made.pdg))
        if other != record["final"] or far > TOL:
            odd = f"report leaves {other}, resolve {record['final']}; tables are {far} apart"
    return odd or _scored(case, resolved, record) or _in_studio(case, given, attention, chi, tables, record, out.parent)


def _differing(
    given: Sources, attention: Attention, chi: Mapping[str, float], tables: Mapping[str, Any], record: dict[str, Any]
) -> str | None:
    """Where resolve differs from lir with the control that was meant."""
    differ = {a.name for a in given.pdg.arcs if not torch.equal(a.cpd.table(), tables[a.name])}
    if wrong := differ - chi.keys():
        return f"{wrong} moved"
    if {m["arc"] for m in record["moved"]} != differ:
        return f"{differ} differ, and {record['moved']} is said to have moved"
    found = lir(given.pdg.learnable(), steps=STEPS, attention=attention, control=chi, progress=False)
    if (far := _apart(tables, _tables(found.pdg))) > TOL:
        return f"lir's tables are {far} apart"
    if not _near(found.after, record["final"]) or not _near(found.before, record["initial"]):
        return f"lir has {found.before} -> {found.after}, resolve {record['initial']} -> {record['final']}"
    return None


def _scored(case: Case, resolved: Path, record: dict[str, Any]) -> str | None:
    """Whether the score of what was written is what was printed."""
    pdg, focus = load(resolved)
    before = Sources(pdg, focus, load_sources(case.models).arcs)
    facts = {n for n, b in focus.attention.beta.items() if b == math.inf}
    beta = weights(case.attend, before, facts) if case.attend else {}
    words = [f"--attend={n}={b}" for n, b in beta.items()]
    status, told = said("score", str(resolved), *words)
    if status:
        return f"score has status {status}: {told}"
    score: dict[str, Any] = json.loads(told)
    rounding = 1e-14 * sum(b for b in focus.attention.beta.values() if b < math.inf)
    room = 1e-9 * max(1.0, record["final"]["upper"]) + rounding
    if not score["converged"]:
        room += score["upper"] - score["lower"]
    if abs(score["upper"] - record["final"]["upper"]) > room:
        return f"score says {score}, resolve printed {record['final']}"
    return None


def _in_studio(
    case: Case,
    given: Sources,
    attention: Attention,
    chi: Mapping[str, float],
    tables: Mapping[str, Any],
    record: dict[str, Any],
    folder: Path,
) -> str | None:
    """Where the studio differs, which is told --control where there is no other option, and else what is meant."""
    plain = len(case.models) == 1 and not (case.keep or case.move) and all(n in given.pdg for n in case.control)
    control = {n: "inf" if x == math.inf else x for n, x in (case.control if plain else chi).items()}
    focus = Focus(attention, given.focus.control if plain else Control())
    if not plain and not chi:
        return None  # nothing that could be said to the studio means that nothing moves
    body = {"model": json.loads(bytes(written(given.pdg, focus))), "control": control, "steps": STEPS}
    found = json.loads(act(StudioPlace(folder), "run", json.dumps(body).encode(), lambda _: False))
    now = {a["name"]: torch.tensor(a["table"], dtype=torch.float64) for a in found["model"]["arcs"]}
    if (far := _apart(tables, now)) > TOL:
        return f"the studio's tables are {far} apart"
    if abs(found["final"]["upper"] - record["final"]["upper"]) > TOL * max(1.0, record["final"]["upper"]):
        return f"the studio leaves {found['final']}, resolve {record['final']}"
    return None


def _tables(pdg: PDG) -> dict[str, Any]:
    return {a.name: a.cpd.table().detach() for a in pdg.arcs}


def _apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    return max(float((one[n] - other[n]).abs().max()) for n in one)


def _near(value: Any, printed: Mapping[str, float]) -> bool:
    """Whether two brackets of one number overlap, but for the tolerance of the solver."""
    room = 1e-6 * max(1.0, abs(value.upper))
    return value.lower <= printed["upper"] + room and printed["lower"] <= value.upper + room
