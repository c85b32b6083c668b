"""Beliefs of several sources in one PDG: variables of one name are the same variable, and their values are merged."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Hashable, Mapping, Sequence
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

    A new value that reads like one that is known is an error, as are two sets of values that share none: where they are
    meant, the first PDG declares the variable with all its values. A table that does not have a value gives it
    probability 0 if it is about it, which is noted; given it, it says nothing, which is an error.
    """
    known: dict[str, Variable] = {}
    for pdg in pdgs:
        for v in pdg.variables:
            known[v.name] = _union(known[v.name], v, pdg) if v.name in known else v
    return PDG(*(relabelled(known, a) for pdg in pdgs for a in pdg.arcs), variables=known.values())


def _union(old: Variable, new: Variable, pdg: PDG) -> Variable:
    """The variable with the values of both."""
    if old == new or not (old.is_finite and new.is_finite):
        return old  # two kinds of domain are an error of the PDG
    places = _places(old)
    odd = [x for x in new.finite.labels if x not in places and str(x) not in places]
    if not odd:
        return old
    there = {str(x) for x in new.finite.labels}
    for x in odd:
        if near := _near(str(x), [str(y) for y in old.finite.labels], there):
            raise _odd_label(old, new, pdg, f"has no value {x!r} elsewhere. Did you mean {near!r}?")
    if len(odd) == new.size:
        here, others = _listed(odd), _listed(old.finite.labels)
        raise _odd_label(old, new, pdg, f"shares no value with others: {here} here, {others} there.")
    return Variable(old.name, (*old.finite.labels, *odd))


def _near(label: str, known: Sequence[str], there: Collection[str]) -> str | None:
    """The known label that this one seems to be: the same but for case and spaces, or a misspelled one.

    Only labels that are not `there` beside it can be misspelled, and those with other digits are not: 2019 is not 2021.
    """
    plain = {_plain(y): y for y in reversed(known)}
    if _plain(label) in plain:
        return plain[_plain(label)]
    digits = re.findall(r"\d", label)
    missing = {p: y for p, y in plain.items() if y not in there and re.findall(r"\d", y) == digits}
    close = get_close_matches(_plain(label), missing, n=1, cutoff=0.75)
    return missing[close[0]] if close else None


def _plain(label: str) -> str:
    return " ".join(label.casefold().split())


def _listed(labels: Sequence[Hashable]) -> str:
    return ", ".join(map(str, labels[:6])) + (", ..." if len(labels) > 6 else "")


def _odd_label(old: Variable, new: Variable, pdg: PDG, what: str) -> DissonanceError:
    arc = next((a.name for a in pdg.arcs if new in a.scope), "")
    return DissonanceError(
        f"arc {arc!r}: {old.name!r} {what} If they are different values, declare "
        f"{old.name!r} with all of them first: PDG(variables=[Variable(...)]), or a JSON file before the others."
    )


def _places(v: Variable) -> dict[Hashable, int]:
    """Where each label is, by itself and as text: labels that read the same are the same."""
    return {str(x): i for i, x in enumerate(v.finite.labels)} | {x: i for i, x in enumerate(v.finite.labels)}


def relabelled(known: Mapping[str, Variable], arc: Arc) -> Arc:
    """The arc over the variables of these names, which have its values and perhaps others, in any order."""
    scope = [known[v.name] for v in arc.scope]
    if all(v == w for v, w in zip(arc.scope, scope, strict=True)):
        return arc
    table, counts = arc.cpd.table().detach(), arc.counts
    for axis, (old, new) in enumerate(zip(arc.scope, scope, strict=True)):
        if old != new:
            places = _places(new)
            at = [places[x] if x in places else places[str(x)] for x in old.finite.labels]
            _check_lacking(arc, new, [x for i, x in enumerate(new.finite.labels) if i not in at], axis)
            table = _moved(table, at, new.size, axis)
            counts = None if counts is None else _moved(counts, at, new.size, axis)
    sources, targets = scope[: len(arc.sources)], scope[len(arc.sources) :]
    cpd = SoftmaxTable(table) if any(True for _ in arc.cpd.parameters()) else Table(table)
    return Arc(arc.name, sources, targets, cpd, beta=arc.beta, counts=counts)


def _check_lacking(arc: Arc, v: Variable, lacking: Sequence[Hashable], axis: int) -> None:
    """Values that the table does not have: given them it says nothing; else they are impossible in it."""
    if lacking and axis < len(arc.sources):
        raise DissonanceError(f"{arc} says nothing about {v.name}={lacking[0]}, which others mention.")
    if lacking:
        log.warning(
            "%s: %s=%s is not among its values and has probability 0 in it.", arc.name, v.name, _listed(lacking)
        )


def _moved(table: Tensor, at: list[int], size: int, axis: int) -> Tensor:
    """The table with an axis of another size, on which its entries are at these places."""
    shape = [*table.shape]
    shape[axis] = size
    return torch.zeros(shape, dtype=table.dtype).index_copy_(axis, torch.tensor(at), table)
