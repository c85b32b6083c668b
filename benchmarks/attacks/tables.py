"""Tables written and read back: odd names and labels in every format, texts by hand, and what `resolve` writes.

What comes back is what was written (variables, labels, tables, weights, control, schedules), or it is refused in one
line.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from attacks.odd import model
from attacks.resolved import resolved
from attacks.typed import forecasts, typed
from dissonance.cpds import Factor
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Focus
from dissonance.io import load, save
from dissonance.pdg import PDG

SUFFIXES = ("json", "csv", "csv", "npz", "bif", "xmlbif", "uai")
COMMANDS = 128
"""One case in so many is a command."""


def attack(seed: int) -> Iterator[str | None]:
    """What is wrong with a table that was written and read back, case by case; None where nothing is."""
    rng = random.Random(f"tables {seed}")
    with tempfile.TemporaryDirectory() as folder:
        for i in range(1 << 62):
            case = typed if i % 4 == 1 else forecasts if i % 8 == 3 else returned
            case = resolved if i % COMMANDS == COMMANDS - 1 else case
            try:
                yield case(rng, Path(folder))
            except Exception as error:
                yield f"case {i}, {case.__name__}: {type(error).__name__}: {error}"


def returned(rng: random.Random, folder: Path) -> str | None:
    """Write a model in some format, and read it."""
    pdg, focus = model(rng)
    suffix = rng.choice(SUFFIXES)
    path = folder / f"model.{suffix}{rng.choice(('', '', '.gz'))}"
    try:
        save(path, pdg, focus)
    except DissonanceError as error:
        left = "" if not path.exists() else f"{path} was left behind by what was refused: "
        path.unlink(missing_ok=True)
        return left or told(error) or unneeded(suffix, pdg, str(error))
    try:
        again, seen = load(path)
    except DissonanceError as error:
        return f"{suffix} was written and cannot be read: {error}: {pdg!r}"
    finally:
        path.unlink()
    gamma = seen.attention.gamma if suffix == "uai" else 0.0  # of factors 1, if nothing else is said
    return changed(suffix, pdg, (focus or Focus(Attention(gamma=gamma))).on(pdg), again, seen)


def told(error: Exception) -> str | None:
    """What is wrong with how something was refused."""
    line = str(error)
    return None if line.isprintable() and 0 < len(line) < 1200 else f"refused, and not in one line: {line!r}"


def unneeded(suffix: str, pdg: PDG, said: str) -> str | None:
    """What is wrong with a refusal of JSON, which holds all names and labels but those that read alike."""
    alike = any(len({str(x) for x in v.finite.labels}) < v.size for v in pdg.variables)
    no_text = "surrogate" in said or "\\ud800" in said
    return None if suffix != "json" or alike or no_text else f"JSON refuses what it can hold: {said}: {pdg!r}"


def changed(suffix: str, pdg: PDG, focus: Focus, again: PDG, seen: Focus) -> str | None:
    """What is not as it was written. UAI has no names, .npz has arcs of one shape together, CSV one unnamed table."""
    unnamed, unordered = suffix == "uai", suffix == "csv"
    name = {v.name: f"x{i}" if unnamed else v.name for i, v in enumerate(pdg.variables)}
    if len(again) != len(pdg) or not (unnamed or unordered or set(again.arc_names) == set(pdg.arc_names)):
        return f"{suffix}: the arcs {pdg.arc_names!r} came back as {again.arc_names!r}"
    arcs = [again[a.name] for a in pdg.arcs] if suffix == "npz" else list(again.arcs)
    to = {a.name: a.name if not (unnamed or unordered) else b.name for a, b in zip(pdg.arcs, arcs, strict=True)}
    labels = {name[v.name]: range(v.size) if unnamed else v.finite.labels for v in pdg.variables}
    values = {n: list(map(str, x)) for n, x in labels.items()}
    ends = [[[name[n] for n in side] for side in (a.source_names, a.target_names)] for a in pdg.arcs]
    weights = [{to[n]: x for n, x in w.items()} for w in (focus.attention.beta, focus.attention.alpha)]
    for what, was, now in (
        ("values", values, {v.name: list(map(str, v.finite.labels)) for v in again.variables}),
        ("order", unordered or list(values), unordered or [v.name for v in again.variables]),
        ("names", list(to.values()), [a.name for a in arcs]),
        ("ends", ends, [[list(side) for side in (a.source_names, a.target_names)] for a in arcs]),
        ("beta and alpha", weights, [dict(seen.attention.beta), dict(seen.attention.alpha)]),
        ("gamma", focus.attention.gamma, seen.attention.gamma),
        ("control", moving(focus), moving(seen)),
        ("schedules", orders(focus, pdg), orders(seen, again)),
    ):
        if was != now:
            return f"{suffix}: {what} {was!r} came back as {now!r}"
    for a, b in zip(pdg.arcs, arcs, strict=True):
        one, other = (x.phi if unnamed and isinstance(x, Factor) else x.table().detach() for x in (a.cpd, b.cpd))
        if not (torch.equal(one, other) or (suffix == "csv" and torch.allclose(one, other, rtol=1e-12, atol=0))):
            return f"{suffix}: the table {one.tolist()} came back as {other.tolist()}"
    return None


def moving(focus: Focus) -> dict[str, object]:
    """The control, without what may not move."""
    return {n: x for n, x in focus.control.chi.items() if x}


def orders(focus: Focus, pdg: PDG) -> object:
    """The schedules of a focus as plain values; a weight of 0 is as none."""
    foci: dict[str, object] = {}
    for name, f in focus.schedules.foci.items():
        attention = f.attention.on(pdg)
        parts = (attention.beta, attention.alpha, f.control.chi)
        foci[name] = [{k: float(x) for k, x in part.items() if x} for part in parts], attention.gamma
    return foci, {name: tuple(order) for name, order in focus.schedules.orders.items()}
