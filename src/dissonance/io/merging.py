"""Beliefs of several sources in one PDG: variables of one name are the same variable, and their values are merged."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from difflib import get_close_matches

import torch
from torch import Tensor

from dissonance.arc import Arc
from dissonance.cpds import SoftmaxTable, Table
from dissonance.errors import DissonanceError
from dissonance.pdg import PDG
from dissonance.variables import Variable

log = logging.getLogger("dissonance")


def merged(pdgs: Sequence[PDG]) -> PDG:
    """All arcs together. Values are told by their labels: those of the first PDG in their order, then new ones.

    A new value that reads like a misspelling of one that is missing is an error. A table that does not have a value
    gives it probability 0 if it is about it, which is noted; given it, it says nothing, which is an error.
    """
    known: dict[str, Variable] = {}
    for pdg in pdgs:
        for v in pdg.variables:
            known[v.name] = _union(known[v.name], v, pdg) if v.name in known else v
    return PDG(*(_on(known, a) for pdg in pdgs for a in pdg.arcs), variables=known.values())


def _union(old: Variable, new: Variable, pdg: PDG) -> Variable:
    """The variable with the values of both."""
    if old == new or not (old.is_finite and new.is_finite):
        return old  # two kinds of domain are an error of the PDG
    places = _places(old)
    odd = [x for x in new.finite.labels if x not in places and str(x) not in places]
    if not odd:
        return old
    there = {str(x) for x in new.finite.labels}
    missing = [str(x) for x in old.finite.labels if str(x) not in there]
    for x in odd:
        folded = {m.casefold().strip(): m for m in missing}
        near = get_close_matches(str(x).casefold().strip(), folded, n=1, cutoff=0.75)
        if near:
            arc = next((a.name for a in pdg.arcs if new in a.scope), "")
            raise DissonanceError(
                f"arc {arc!r}: {old.name!r} has no value {x!r} elsewhere. Did you mean {folded[near[0]]!r}?"
            )
    return Variable(old.name, (*old.finite.labels, *odd))


def _places(v: Variable) -> dict[Hashable, int]:
    """Where each label is, by itself and as text: labels that read the same are the same."""
    return {str(x): i for i, x in enumerate(v.finite.labels)} | {x: i for i, x in enumerate(v.finite.labels)}


def _on(known: dict[str, Variable], arc: Arc) -> Arc:
    """The arc over the merged variables."""
    scope = [known[v.name] for v in arc.scope]
    if all(v == w for v, w in zip(arc.scope, scope, strict=True)):
        return arc
    table, counts = arc.cpd.table().detach(), arc.counts
    for axis, (old, new) in enumerate(zip(arc.scope, scope, strict=True)):
        if old != new:
            source = axis < len(arc.sources)
            table = _moved(arc, old, new, table, axis, source)
            counts = None if counts is None else _moved(arc, old, new, counts, axis, source)
    sources, targets = scope[: len(arc.sources)], scope[len(arc.sources) :]
    cpd = SoftmaxTable(table) if any(True for _ in arc.cpd.parameters()) else Table(table)
    return Arc(arc.name, sources, targets, cpd, beta=arc.beta, counts=counts)


def _moved(arc: Arc, old: Variable, new: Variable, table: Tensor, axis: int, source: bool) -> Tensor:
    """The table with an axis in the order of the merged values."""
    places = _places(new)
    at = [places[x] if x in places else places[str(x)] for x in old.finite.labels]
    if lacking := [x for i, x in enumerate(new.finite.labels) if i not in at]:
        if source:
            raise DissonanceError(f"{arc} says nothing about {new.name}={lacking[0]}, which others mention.")
        log.warning("%s: %s=%s is not among its values and has probability 0 in it.", arc.name, new.name, lacking[0])
    shape = [*table.shape]
    shape[axis] = new.size
    return torch.zeros(shape, dtype=table.dtype).index_copy_(axis, torch.tensor(at), table)
