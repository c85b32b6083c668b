"""A document: a model as the page holds it, where its boxes are, and what was observed."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from dissonance.cpds import PointMass, Table
from dissonance.errors import DissonanceError, FormatError, SizeError, suggest
from dissonance.focus import Focus
from dissonance.io import limits, pdg_json
from dissonance.pdg import PDG, Arc
from dissonance.variables import Variable, cells

MAX_CELLS = 1 << 22
"""Numbers in all tables of a model."""

Model = msgspec.Raw
"""The PDG file as JSON, not taken apart yet."""


class Observation(msgspec.Struct, forbid_unknown_fields=True):
    """A value that was observed: for certain, or with a confidence that multiplies its odds by e^confidence."""

    value: str
    confidence: float | str = "inf"


Evidence = dict[str, Observation]
Position = tuple[float, float]


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """What the page holds: it comes and goes as JSON."""

    name: str
    model: Model
    positions: dict[str, Position] = {}
    evidence: Evidence = {}


class _Variable(msgspec.Struct):
    name: str
    values: list[msgspec.Raw] = []
    size: int = 0


class _Arc(msgspec.Struct):
    name: str
    targets: list[str] = []
    sources: list[str] = []
    linear_gaussian: msgspec.Raw = msgspec.Raw()


class _Outline(msgspec.Struct):
    """The sizes of a model, without its tables."""

    variables: list[_Variable] = []
    arcs: list[_Arc] = []


def pdg_of(model: Model) -> tuple[PDG, Focus]:
    """The PDG and the focus of a model; one that is too large is refused before a table is made."""
    content = bytes(model)
    limits.check_parts(content)
    check_size(content)
    try:
        return pdg_json.from_bytes(content, learnable=False)
    except FormatError as error:
        raise DissonanceError(str(error)) from None


def check_size(content: bytes) -> None:
    """Refuse a model whose tables would have too many cells."""
    try:
        outline = msgspec.json.decode(content, type=_Outline)
    except (msgspec.MsgspecError, RecursionError):
        return  # whoever reads it says what is wrong
    sizes = {v.name: len(v.values) or v.size for v in outline.variables}
    _check_total(
        (a.name, 1 if a.linear_gaussian else math.prod(sizes.get(n, 1) for n in (*a.sources, *a.targets)))
        for a in outline.arcs
    )


def check_cells(pdg: PDG) -> None:
    """Refuse a PDG whose tables have too many cells to be shown."""
    _check_total((a.name, cells(a.scope)) for a in pdg.arcs if all(v.is_finite for v in a.scope))


def _check_total(tables: Iterable[tuple[str, int]]) -> None:
    total = 0
    for name, size in tables:
        total += size
        if total > MAX_CELLS:
            raise SizeError(
                f"arc {name!r} has a table of {size:,} cells; the tables of a model may have {MAX_CELLS:,} in all."
            )


def written(pdg: PDG, focus: Focus) -> Model:
    """The model of a PDG and a focus, on one line."""
    return msgspec.Raw(msgspec.json.format(pdg_json.to_bytes(pdg, focus.on(pdg)), indent=-1))


def observed(pdg: PDG, focus: Focus, evidence: Evidence) -> tuple[PDG, Focus]:
    """The model with what was observed as further beliefs, named `observed X`: hard ones, or with beta 1."""
    arcs = [Arc(free_name(f"observed {n}", pdg), (), v, _seen(v, x)) for n, v, x in _by_variable(pdg, evidence)]
    beta = {a.name: math.inf if isinstance(a.cpd, PointMass) else 1.0 for a in arcs}
    attention = focus.attention.replace(beta=beta, alpha={a.name: 0.0 for a in arcs})
    return PDG(*pdg.arcs, *arcs, variables=pdg.variables), Focus(attention, focus.control)


def likelihoods(pdg: PDG, evidence: Evidence) -> dict[str, list[float]]:
    """By variable: how probable what was observed is under each of its values."""
    return {
        n: [1.0 if str(label) == x.value else math.exp(-confidence(n, x)) for label in v.finite.labels]
        for n, v, x in _by_variable(pdg, evidence)
    }


def confidence(variable: str, observation: Observation) -> float:
    """How surely a value was observed: a number >= 0, or inf."""
    given = observation.confidence
    if given == "inf":
        return math.inf
    if isinstance(given, str) or not given >= 0:
        raise DissonanceError(f'{variable!r} was observed with confidence {given!r}: give a number >= 0, or "inf".')
    return given


def free_name(name: str, pdg: PDG) -> str:
    """The name, with stars if an arc has it already."""
    while name in pdg:
        name += "*"
    return name


def _by_variable(pdg: PDG, evidence: Evidence) -> list[tuple[str, Variable, Observation]]:
    found = [(n, pdg.variable(n), x) for n, x in evidence.items()]
    for n, v, x in found:
        known = [str(label) for label in v.finite.labels]
        if x.value not in known:
            raise DissonanceError(f"{n!r} has no value {x.value!r}.{suggest(x.value, known)}")
    return found


def _seen(v: Variable, x: Observation) -> PointMass | Table:
    label = next(label for label in v.finite.labels if str(label) == x.value)
    sure = confidence(v.name, x)
    if sure == math.inf:
        return PointMass(label)
    odds = [1.0 if other == label else math.exp(-sure) for other in v.finite.labels]
    return Table([p / sum(odds) for p in odds])
