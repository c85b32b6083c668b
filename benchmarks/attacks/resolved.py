"""Odd names through `dissonance resolve --out`: what it writes says what its files said, but for what moved."""

from __future__ import annotations

import contextlib
import io
import json
import math
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attacks.odd import arc, different, variable, word
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus, Schedules
from dissonance.io import load, save
from dissonance.pdg import PDG
from dissonance.variables import Variable

FILES = ("poll.csv.json", "a b.json", "p.json", "m.json", "x=y.json", "é;ü.json", "0.json", "m.a.json", "T,U.json")
OTHERS = (".csv", ".bif", ".npz", ".csv.gz", ".xmlbif")


def clean(rng: random.Random) -> Variable:
    """A variable of two values or more, all of them texts that most formats hold."""
    while True:
        v = variable(rng, word(rng))
        texts = list(dict.fromkeys(map(str, v.finite.labels)))
        if len(texts) > 1 and all(x and "\ud800" not in x for x in (v.name, *texts)):
            return Variable(v.name, texts)


def pair(rng: random.Random) -> tuple[PDG, Focus, PDG]:
    """Beliefs about a variable with weights and schedules, and one more belief, the values in another order."""
    x, y = clean(rng), clean(rng)
    while y.name == x.name:
        y = clean(rng)
    turned = Variable(x.name, rng.sample(x.finite.labels, x.size))
    names = [n for n in dict.fromkeys((*different(rng, 2), "a")) if "\ud800" not in n]
    about = [x, *rng.choices((x, y), k=len(names) - 1)]
    one = PDG(
        *(arc(rng, n, (), (v,)) for n, v in zip(names, about, strict=True)),
        variables=[x, y, Variable(f"free {y.name}", 3)],
    )
    here = Focus(Attention.only({names[0]: 1.0}), Control({names[-1]: 1.0}))
    focus = Focus(
        Attention({names[0]: rng.choice((2.0, 0.5))}, {names[-1]: 0.5}),
        Control(dict.fromkeys(names, 1.0)) if rng.random() < 0.5 else Control(),
        schedules=Schedules({"here, now": here}, {"p": ("here, now",)}) if rng.random() < 0.5 else Schedules(),
    )
    return one, focus, PDG(arc(rng, rng.choice((x.name, "a", names[0])), (), (turned,)))


def resolved(rng: random.Random, folder: Path) -> str | None:
    """Resolve files that disagree, into a folder or one file, and read what was written."""
    from dissonance.cli.app import run

    inside, out = folder / "in", folder / "out"
    for old in (inside, out):
        shutil.rmtree(old, ignore_errors=True)
    inside.mkdir()
    one, focus, other = pair(rng)
    names: list[str] = rng.sample(FILES, 2)
    if rng.random() < 0.5:
        names[1] = names[1].replace(".json", rng.choice(OTHERS))
    if rng.random() < 0.2:
        names.pop()
    try:
        save(inside / names[0], one, focus)
        if len(names) > 1:
            save(inside / names[1], other)
    except DissonanceError as error:
        return None if str(error).isprintable() else f"refused, and not in one line: {error}"
    single = rng.random() < 0.3
    place = str(folder / "out.json") if single else f"{out}/"
    said, errors = io.StringIO(), io.StringIO()
    command = ["resolve", *(str(inside / n) for n in names), "--out", place, "--steps", "2", "--json"]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
        status = run(command)
    if status:
        lines = errors.getvalue().removesuffix("\n").split("\n")
        written = out.exists() if not single else False
        fine = status in (1, 2) and lines[-1].isprintable() and not written
        return None if fine else f"resolve ended with {status}, written: {written}: {lines}"
    record: dict[str, Any] = json.loads(said.getvalue())
    if not single:
        return apart(record, errors.getvalue(), inside, out, names)
    found, seen = load(place)
    return pooled(record, [load(inside / n) for n in names], found, seen)


def values(pdg: PDG) -> dict[str, dict[str, float]]:
    """The tables, none of which has sources, by arc and label."""
    by_label = ((a.name, map(str, a.targets[0].finite.labels), a.cpd.table().tolist()) for a in pdg.arcs)
    return {name: dict(zip(labels, table, strict=True)) for name, labels, table in by_label}


def near(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether two tables are the same but for rounding."""
    return one.keys() == other.keys() and all(
        math.isclose(x, other[k], rel_tol=1e-12, abs_tol=1e-15) for k, x in one.items()
    )


def shared_alphas(parts: Sequence[tuple[PDG, Focus]]) -> list[float]:
    """Every alpha where all parts are one: what n of them state counts once, but where a file writes an alpha.

    Tables have no sources here, and the alpha that is written is never 1.
    """
    of = [[(f.attention.alpha[a.name], a.targets[0].name) for a in pdg.arcs] for pdg, f in parts]
    free = [{name for alpha, name in part if alpha == 1} for part in of]
    return [1 / sum(name in names for names in free) if alpha == 1 else alpha for part in of for alpha, name in part]


def pooled(record: dict[str, Any], parts: Sequence[tuple[PDG, Focus]], found: PDG, seen: Focus) -> str | None:
    """What is wrong with one file for all beliefs."""
    tables = values(found)
    for m in record["moved"]:
        if not near(m["is"], tables[m["arc"]]):
            return f"{m['arc']!r} is {m['is']} and was written as {tables[m['arc']]}"
    before = [values(pdg) for pdg, _ in parts]
    still = [t for name, t in tables.items() if name not in {m["arc"] for m in record["moved"]}]
    if odd := [t for t in still if not any(near(t, u) for b in before for u in b.values())]:
        return f"{odd[0]} did not move and was not there"
    variables = {v.name for pdg, _ in parts for v in pdg.variables}
    if len(found) != sum(len(pdg) for pdg, _ in parts) or {v.name for v in found.variables} != variables:
        return f"of {[pdg for pdg, _ in parts]!r} came {found!r}"
    if len(parts) == 1 and parts[0][1] != seen:
        return f"{parts[0][1]!r} came back as {seen!r}"
    weights = sorted([*(x for _, f in parts for x in f.attention.beta.values()), *shared_alphas(parts)])
    if weights != sorted(x for w in (seen.attention.beta, seen.attention.alpha) for x in w.values()):
        return f"the weights {weights} came back as {seen.attention!r}"
    return None


def apart(record: dict[str, Any], said: str, inside: Path, out: Path, names: Sequence[str]) -> str | None:
    """What is wrong with a folder that has a file for each source."""
    moved = [m["is"] for m in record["moved"]]
    for name in names:
        (before, focus), (after, seen) = load(inside / name), load(out / name)
        if before.variables != after.variables or before.arc_names != after.arc_names:
            return f"{name}: {before!r} came back as {after!r}"
        was, now = values(before), values(after)
        if odd := [n for n in was if was[n] != now[n] and not any(near(m, now[n]) for m in moved)]:
            return f"{name}: {odd[0]!r} was {was[odd[0]]}, is {now[odd[0]]}, and what moved is {moved}"
        if focus != seen and not (".csv" in name and "beta = 1" in said):
            return f"{name}: {focus!r} came back as {seen!r}"
        if was == now and (inside / name).read_bytes() != (out / name).read_bytes():
            return f"{name}: nothing moved, and its bytes changed"
    return None
