"""Models on the command line: one file or several, each a source, and how far each is trusted."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from dissonance.cli.completion import arc_names, arcs

if TYPE_CHECKING:
    from dissonance.io.sources import Sources

Models = Annotated[
    list[str], typer.Argument(metavar="MODEL...", help="Files of beliefs, each a source; - is standard input.")
]
Gamma = Annotated[float | None, typer.Option(help="The weight of structure, in place of the file's.", metavar="G")]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        help="How many times as much a source, all arcs of a file, is believed. May be given often.",
        metavar="SOURCE=FACTOR",
    ),
]
Attend = Annotated[
    list[str] | None,
    typer.Option(
        help="How much an arc is believed, in place of the file's beta. May be given often.",
        metavar="ARC=BETA",
        autocompletion=arcs,
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option(
        help="Leave out an arc, or all arcs of a source. May be given often.",
        metavar="NAME",
        autocompletion=arc_names,
    ),
]


Pseudocount = Annotated[
    float | None,
    typer.Option(help="Added to every count of a table of counts, so that nothing is impossible.", metavar="X", min=0),
]


def read_models(
    models: Sequence[str],
    gamma: float | None = None,
    pseudocount: float | None = None,
    trust: Sequence[str] | None = None,
    attend: Sequence[str] | None = None,
    without: Sequence[str] | None = None,
) -> Sources:
    """The beliefs of all files, attended as the options say."""
    from dissonance.io.sources import load_sources

    found = load_sources(models, gamma=gamma)
    return attended(found if pseudocount is None else found.smoothed(pseudocount), trust, attend, without)


def attended(
    found: Sources,
    trust: Sequence[str] | None = None,
    attend: Sequence[str] | None = None,
    without: Sequence[str] | None = None,
) -> Sources:
    """The same beliefs, attended as the options say."""
    from dissonance.errors import DissonanceError, suggest
    from dissonance.io.sources import attending

    found = found.trusting(named_weights("trust", trust or (), found.arcs, "SOURCE"))
    attention = found.focus.attention.replace(beta=named_weights("attend", attend or (), found.pdg))
    for name in without or ():
        if name not in found.arcs and name not in found.pdg:
            known = dict.fromkeys([*found.arcs, *(a.name for a in found.pdg.arcs)])
            raise DissonanceError(f"--without {name}: no source or arc of that name.{suggest(name, known)}")
        attention = attention.without(*found.arcs.get(name, (name,)))
    return attending(found, attention)


def matching(option: str, patterns: Sequence[str], found: Sources) -> set[str]:
    """The arcs that are named by patterns, by their own names or by those of their sources."""
    from fnmatch import fnmatchcase

    from dissonance.errors import DissonanceError, suggest

    arcs: set[str] = set()
    for pattern in patterns:
        mine = {a.name for a in found.pdg.arcs if fnmatchcase(a.name, pattern)}
        mine |= {n for source, names in found.arcs.items() if fnmatchcase(source, pattern) for n in names}
        if not mine:
            known = dict.fromkeys([*found.arcs, *(a.name for a in found.pdg.arcs)])
            raise DissonanceError(f"--{option} {pattern}: no arc or source of that name.{suggest(pattern, known)}")
        arcs |= mine
    return arcs


def named_weights(option: str, words: Sequence[str], known: Container[str], what: str = "ARC") -> dict[str, float]:
    """NAME=NUMBER of an option that may be given often; the names must be known."""
    from dissonance.errors import DissonanceError, suggest

    found: dict[str, float] = {}
    for word in words:
        name, equals, number = word.rpartition("=")
        if not equals:
            raise DissonanceError(f"--{option} {word}: expected {what}=NUMBER.")
        if name not in known:
            names = [str(getattr(x, "name", x)) for x in known]  # pyright: ignore[reportGeneralTypeIssues]
            raise DissonanceError(f"--{option} {word}: no {what.lower()} named {name!r}.{suggest(name, names)}")
        try:
            found[name] = float(number)
        except ValueError:
            raise DissonanceError(f"--{option} {word}: {number!r} is not a number.") from None
    return found
