"""Tables and forecasts typed by hand: between commas, semicolons or tabs, with decimal commas, with things wrong."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path

from attacks.odd import rows
from dissonance.errors import DissonanceError
from dissonance.io import load

NAMES = ("S", "T", "größe", "a b", "x;y", "u,v", "t\tt", 'q"r')
LABELS = ("a", "b", "c d", "é", "0", "1", "2.5", "yes", "x;y", "x,y", "1,5", "u\tv", 'q"r', "no, never", "n\nm")
ENDS = ("\n", "\r\n", "\r")
FLAWS = ("label", "number", "short", "long", "heading")
NO_NUMBERS = ("", " ", "x", "-0.5", "nan", "inf", "1.2.3", "1,2,3")
EVENTS = ("A", "B", "A and B", "C in {x, y}", "A or B", "not A", "W=a", '"Will X; happen, soon?"')


def quoted(cell: str) -> str:
    """A cell in quotes."""
    return '"' + cell.replace('"', '""') + '"'


def number(x: float, comma: bool) -> str:
    """A number with a decimal point, or a comma in its place."""
    return repr(x).replace(".", ",") if comma else repr(x)


def settled(rng: random.Random, count: int) -> list[float]:
    """Probabilities that sum to 1, written with few digits or with all."""
    found = rows(rng, 1, count)[0].round(rng.choice((2, 3, 15))).tolist()
    most = found.index(max(found))
    found[most] = round(1 - math.fsum(x for i, x in enumerate(found) if i != most), 15)
    return found


def typed(rng: random.Random, folder: Path) -> str | None:
    """Type a table in some dialect, perhaps with something wrong or without the quotes that it needs, and read it."""
    delimiter = rng.choice((",", ";", "\t"))
    comma = delimiter != "," and rng.random() < 0.7
    names = rng.sample(NAMES, rng.choice((1, 2)))
    values = [rng.sample(LABELS, rng.choice((2, 3))) for _ in names]
    settings = list(itertools.product(*values))
    if rng.random() < 0.3:  # counts
        counts = [rng.randrange(1, 5000) for _ in settings]
        head, texts, share = (
            rng.choice(("count", "n", "Freq")),
            list(map(str, counts)),
            [x / sum(counts) for x in counts],
        )
    else:
        share = settled(rng, len(settings))
        head, texts = rng.choice(("p", "P", "share")), [number(x, comma) for x in share]
    lines = [[*names, head], *([*s, x] for s, x in zip(settings, texts, strict=True))]
    flaw = rng.choice((None, None, None, *FLAWS))
    k = rng.randrange(1, len(lines))
    if flaw == "label":
        lines[k][rng.randrange(len(names))] = rng.choice(("", " "))
    elif flaw == "number":
        lines[k][-1] = rng.choice(NO_NUMBERS)
    elif flaw == "short":
        lines[k].pop(rng.randrange(len(lines[k])))
    elif flaw == "long":
        lines[k].append(rng.choice(("", "0", "x")))
    elif flaw == "heading":
        lines[0][rng.randrange(len(names))] = ""
    careless, always = flaw is None and rng.random() < 0.2, rng.random() < 0.2
    marks = '"\n' if careless else '"\n,;\t'

    def cell(x: str, last: bool) -> str:
        return quoted(x) if always or (not last and any(c in marks for c in x)) else x

    end = rng.choice(ENDS)
    text = "".join(delimiter.join(cell(x, i == len(names)) for i, x in enumerate(line)) + end for line in lines)
    path = folder / "typed.csv"
    path.write_bytes((rng.choice(("", "\ufeff")) + text).encode())
    try:
        pdg, _ = load(path)
    except DissonanceError as error:
        needless = flaw is None and not careless
        return f"refused {text!r}: {error}" if needless or not str(error).isprintable() else None
    if flaw is not None:
        return f"{flaw} is wrong, and was read: {text!r} as {pdg!r}"
    (found,) = pdg.arcs
    if list(found.names) != names or any(
        set(v.finite.labels) != set(x) for v, x in zip(found.scope, values, strict=True)
    ):
        return f"{text!r} was read as {pdg!r}"
    table = found.cpd.table()
    for setting, p in zip(settings, share, strict=True):
        at = tuple(v.finite.index(x) for v, x in zip(found.scope, setting, strict=True))
        if not math.isclose(float(table[at]), p, rel_tol=1e-12, abs_tol=1e-15):
            return f"{text!r} was read as {table.tolist()} over {found.scope}"
    return None


def forecasts(rng: random.Random, folder: Path) -> str | None:
    """Type beliefs in some dialect, and read them as `coherence` does."""
    from dissonance.coherence.files import load_books

    delimiter = rng.choice((",", ";", "\t"))
    comma = delimiter != "," and rng.random() < 0.7
    chosen = rng.sample(EVENTS, 3)
    said = [(e, round(rng.random(), rng.choice((1, 2, 3, 4))), rng.choice((1.0, 0.5, 2.25))) for e in chosen]
    keys = rng.choice((["belief", "p", "beta"], ["event", "Probability", "weight"]))
    lines = [delimiter.join(keys)]
    for event, p, beta in said:
        text = quoted(event) if any(c in event for c in ',;\t"') else event
        lines.append(delimiter.join((text, number(p, comma), number(beta, comma))))
    path = folder / f"book{rng.choice(('.csv', '.tsv', '.txt', ''))}"
    path.write_bytes(rng.choice(ENDS).join(lines).encode())
    try:
        books = load_books([path])
    except DissonanceError as error:
        return f"refused {lines!r}: {error}"
    found = [(b.event, b.p, b.beta) for b in books[0].beliefs]
    return None if len(books) == 1 and found == said else f"{lines!r} was read as {found!r}"
