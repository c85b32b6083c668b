"""The replicate files of the paper's authors: a graph, its cpds, and results that are not read here."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from dissonance.arc import Arc
from dissonance.errors import FormatError, suggest
from dissonance.focus import Attention, Focus
from dissonance.io import strict
from dissonance.io.lines import at
from dissonance.io.network import check_finite, table_rows, value_names
from dissonance.pdg import PDG
from dissonance.variables import Variable


class AuthorsVariable(msgspec.Struct):
    """A variable and the labels of its values."""

    name: str
    domain: list[str]


class EdgeRecord(msgspec.Struct):
    """An arc without its cpd."""

    label: str
    src_atoms: list[str]
    tgt_atoms: list[str]
    alpha: float | UnsetType = UNSET
    beta: float = 1.0


class GraphRecord(msgspec.Struct):
    """The structure."""

    variables: list[AuthorsVariable]
    edges: list[EdgeRecord]


class CpdRecord(msgspec.Struct):
    """A cpd, by the label of its arc."""

    label: str
    values: msgspec.Raw


class Replicate(msgspec.Struct):
    """The part of a file that describes a PDG."""

    graph: GraphRecord
    cpds: list[CpdRecord]


def from_bytes(content: bytes, learnable: bool) -> tuple[PDG, Focus]:
    """The PDG of a replicate, attended with the file's alpha and beta at gamma = 0."""
    content = strict.text(content)
    replicate = strict.decode(content, Replicate)
    strict.check_keys(content, _keys(strict.decode(content, Any)))
    made = (Variable(v.name, v.domain) for v in replicate.graph.variables)
    known = strict.variables_by_name(content, ["graph", "variables"], made)
    tables = {c.label: c.values for c in replicate.cpds}
    arcs: list[Arc] = []
    for i, e in enumerate(replicate.graph.edges):
        with at(content, "graph", "edges", i):
            if e.label not in tables:
                raise FormatError(f"arc {e.label!r} has no cpd.{suggest(e.label, tables)}")
            arcs.append(strict.arc(e.label, e.src_atoms, e.tgt_atoms, tables[e.label], known, learnable))
    pdg = PDG(*arcs, variables=known.values())
    edges = replicate.graph.edges
    alpha = {e.label: 1.0 if e.alpha is UNSET else e.alpha for e in edges}
    return pdg, Focus(Attention.only({e.label: e.beta for e in edges}, alpha))


def alphas(content: bytes, _: PDG) -> list[str]:
    """The arcs whose alpha a replicate writes."""
    return [e.label for e in strict.decode(content, Replicate).graph.edges if e.alpha is not UNSET]


def _keys(part: object) -> int:
    """How many different keys the objects in it have."""
    if isinstance(part, dict):
        return len(part) + sum(map(_keys, part.values()))
    return sum(map(_keys, part)) if isinstance(part, list) else 0


def to_bytes(pdg: PDG, focus: Focus) -> bytes:
    """The content of a replicate: the PDG at gamma = 0 with its alpha and beta, and no results."""
    attention = focus.attention
    if attention.gamma != 0:
        raise FormatError(f"gamma is {attention.gamma:g}, and a replicate stands for gamma = 0: use our .json.")
    if focus.control.chi:
        raise FormatError(f"arc {next(iter(focus.control.chi))!r} has a control; a replicate has none: use our .json.")
    check_finite(pdg, "a replicate")
    edges: list[dict[str, object]] = []
    cpds: list[dict[str, object]] = []
    for a in pdg.arcs:
        beta, alpha = attention.beta.get(a.name, 0.0), attention.alpha.get(a.name, 0.0)
        if math.isinf(beta):
            raise FormatError(f"{a} has beta inf; a replicate holds finite weights only: use our .json.")
        sources, targets = [v.name for v in a.sources], [v.name for v in a.targets]
        ends = {"src": ",".join(sources), "tgt": ",".join(targets)}
        edges.append(
            {"label": a.name, **ends, "src_atoms": sources, "tgt_atoms": targets, "alpha": alpha, "beta": beta}
        )
        shape = [v.size for v in a.scope]
        cpds.append({"label": a.name, **ends, "shape": shape, "values": table_rows(a).reshape(shape).tolist()})
    variables = [{"name": v.name, "domain": value_names(v)[0]} for v in pdg.variables]
    document = {"complete": False, "graph": {"variables": variables, "edges": edges}, "cpds": cpds}
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"
