"""Models on the command line: one file or several, each a source, and how far each is trusted."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from dissonance.cli.completion import arc_names, arcs

if TYPE_CHECKING:
    from dissonance.focus import Focus
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
Control = Annotated[
    list[str] | None,
    typer.Option(
        help="How freely an arc may move: 0 fixed, inf all the way. May be given often.",
        metavar="ARC=CHI",
        autocompletion=arcs,
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="Arcs, or sources, that stay as they are: a name or a pattern, as 'census*'. May be given often.",
        metavar="PATTERN",
        autocompletion=arc_names,
    ),
]
Move = Annotated[
    list[str] | None,
    typer.Option(
        help="The only arcs, or sources, that may move: a name or a pattern. May be given often.",
        metavar="PATTERN",
        autocompletion=arc_names,
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

    factors = named_numbers("trust", trust or (), "SOURCE")
    for name in factors:
        if name not in found.arcs:
            raise DissonanceError(f"--trust {name}: no source named {name!r}.{suggest(name, found.arcs)}")
    found = found.trusting(factors)
    with of_option("attend"):
        beta = found.names.weights(named_numbers("attend", attend or ()))
    with of_option("without"):
        left_out = found.names.all(without or ())
    return attending(found, found.focus.attention.replace(beta=beta).without(*left_out))


def controlled(
    found: Sources, control: Sequence[str] | None, keep: Sequence[str] | None, move: Sequence[str] | None
) -> Focus:
    """The focus on all beliefs: attention and control of the files, with what the command line says."""
    from dissonance.lir.resolving import movable

    with of_option("control, --keep, --move"):
        return movable(found.names, found.focus, named_numbers("control", control or ()), keep or (), move or ())


@contextmanager
def of_option(option: str) -> Generator[None, None, None]:
    """Say which option an error is about."""
    from dissonance.errors import DissonanceError

    try:
        yield
    except DissonanceError as error:
        raise DissonanceError(f"--{option}: {error}") from None


def named_numbers(option: str, words: Sequence[str], what: str = "ARC") -> dict[str, float]:
    """NAME=NUMBER of an option that may be given often."""
    from dissonance.errors import DissonanceError

    found: dict[str, float] = {}
    for word in words:
        name, equals, number = word.rpartition("=")
        if not equals:
            raise DissonanceError(f"--{option} {word}: expected {what}=NUMBER.")
        try:
            found[name] = float(number)
        except ValueError:
            raise DissonanceError(f"--{option} {word}: {number!r} is not a number.") from None
    return found
