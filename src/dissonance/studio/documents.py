"""A document: a model as the page holds it, where its boxes are, and what was observed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping

import msgspec

from dissonance.arc import Arc
from dissonance.cpds import PointMass
from dissonance.errors import DissonanceError, FormatError, SizeError, suggest
from dissonance.focus import Focus
from dissonance.io import limits, pdg_json
from dissonance.pdg import PDG
from dissonance.variables import Variable, cells, label_texts

MAX_CELLS = 1 << 22
"""Numbers in all tables of a model."""

REPORT = "report:"
"""What the names of variables begin with that stand for an observation which is not certain."""

Model = msgspec.Raw
"""The PDG file as JSON, not taken apart yet."""


class Observation(msgspec.Struct, forbid_unknown_fields=True):
    """A value that was observed: for certain, or with a confidence that multiplies its odds by e^confidence."""

    value: str
    confidence: float | str = "inf"


Evidence = dict[str, Observation]
Position = tuple[float, float]


class StudioDocument(msgspec.Struct, forbid_unknown_fields=True):
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
    check_outline(content)
    try:
        return pdg_json.from_bytes(content, learnable=False)
    except FormatError as error:
        raise DissonanceError(str(error)) from None


def check_outline(content: bytes) -> None:
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


def read_weights(given: Mapping[str, float | str]) -> dict[str, float]:
    """Numbers by name, where infinity is the string "inf" as in files."""
    found: dict[str, float] = {}
    for name, x in given.items():
        if isinstance(x, str) and x not in ("inf", "-inf"):
            raise DissonanceError(f'{name!r}: expected a number or "inf", found {x!r}.')
        found[name] = float(x)
    return found


def with_observations(pdg: PDG, focus: Focus, evidence: Evidence) -> tuple[PDG, Focus]:
    """The model with what was observed as further beliefs, named `observed X`.

    What is certain is a hard arc. Of what is not there is a report, seen for certain, that each value of X makes as
    probable as its likelihood: mu pays confidence for all the probability it gives to other values, and nothing at 0.
    """
    certain, doubtful = labels(pdg, evidence), likelihoods(pdg, evidence)
    arcs: list[Arc] = []
    beta: dict[str, float] = {}
    for n in evidence:
        name = _free_name(f"observed {n}", pdg)
        if n in certain:
            arcs.append(Arc(name, (), pdg.variable(n), PointMass(certain[n])))
            beta[name] = math.inf
        else:
            report = Variable(f"{REPORT} {name}", ["seen", "not seen"])
            arcs.append(Arc(name, pdg.variable(n), report, [[p, 1 - p] for p in doubtful[n]]))
            arcs.append(Arc(report.name, (), report, PointMass("seen")))
            beta |= {name: 1.0, report.name: math.inf}
    attention = focus.attention.replace(beta=beta, alpha=dict.fromkeys(beta, 0.0))
    return PDG(*pdg.arcs, *arcs, variables=pdg.variables), Focus(attention, focus.control)


def labels(pdg: PDG, evidence: Evidence) -> dict[str, Hashable]:
    """By variable: the value that was observed for certain."""
    return {n: _label(pdg, n, x) for n, x in evidence.items() if confidence(n, x) == math.inf}


def likelihoods(pdg: PDG, evidence: Evidence) -> dict[str, list[float]]:
    """By variable: how probable what was observed is under each of its values, at most 1."""
    found: dict[str, list[float]] = {}
    for n, x in evidence.items():
        label, doubt = _label(pdg, n, x), math.exp(-confidence(n, x))
        found[n] = [1.0 if other == label else doubt for other in pdg.variable(n).finite.labels]
    return found


def confidence(variable: str, observation: Observation) -> float:
    """How surely a value was observed: a number >= 0, or inf."""
    (given,) = read_weights({variable: observation.confidence}).values()
    if not given >= 0:
        raise DissonanceError(f'{variable!r} was observed with confidence {given:g}: give a number >= 0, or "inf".')
    return given


def _label(pdg: PDG, variable: str, observation: Observation) -> Hashable:
    v = pdg.variable(variable)
    known = dict(zip(label_texts(v), v.finite.labels, strict=True))
    if observation.value not in known:
        raise DissonanceError(f"{variable!r} has no value {observation.value!r}.{suggest(observation.value, known)}")
    return known[observation.value]


def _free_name(name: str, pdg: PDG) -> str:
    taken = {x.name.removeprefix(f"{REPORT} ") for x in (*pdg.arcs, *pdg.variables)}
    while name in taken:
        name += "*"
    return name
