"""Bayesian networks, as several formats hold them: a table p(child | parents) for every variable."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dissonance.arc import Arc
from dissonance.cpds import SoftmaxTable, Table
from dissonance.cpds.table import SUM_TOLERANCE, describe_row
from dissonance.errors import FormatError, suggest
from dissonance.focus import Attention, Focus
from dissonance.io.strict import MAX_AXES
from dissonance.pdg import PDG
from dissonance.variables import Variable, are_numbers, cells


@dataclass(frozen=True)
class Definition:
    """p(child | parents) as a file gives it."""

    child: Variable
    parents: tuple[Variable, ...]
    table: NDArray[np.float64]
    """(settings of the parents, the last parent fastest; values of the child)"""
    line: int
    line_of: Callable[[int], int]
    """The line of a row of the table."""
    name: str | None = None
    """The name of the arc, if it is not the child's."""


def known(name: str, variables: Mapping[str, Variable], line: int) -> Variable:
    """The variable of that name."""
    if name not in variables:
        raise FormatError(f"no variable named {name!r}.{suggest(name, variables)}", line)
    return variables[name]


def check_scope(child: Variable, parents: Sequence[Variable], line: int) -> None:
    """A cpd has no variable twice, and not too many."""
    names = [v.name for v in (*parents, child)]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise FormatError(f"the probability of {child.name!r} mentions {twice!r} twice.", line)
    if len(names) > MAX_AXES:
        raise FormatError(
            f"the probability of {child.name!r} has {len(names)} variables; at most {MAX_AXES} are supported.", line
        )


def check_rows(definition: Definition) -> None:
    """Every row is a distribution, up to the tolerance of tables."""
    table, child = definition.table, definition.child
    with np.errstate(invalid="ignore", over="ignore"):
        sums = table.sum(1)
        wrong = ~((table >= 0).all(1) & (np.abs(sums - 1) <= SUM_TOLERANCE))
    if not wrong.any():
        return
    i = int(wrong.argmax())
    row = table[i]
    low = float(row.min())
    what = (
        "holds a number that is not finite"
        if not np.isfinite(row).all()
        else f"holds the negative number {low:.6g}"
        if low < 0
        else f"sums to {sums[i]:.9g}, not 1"
    )
    where = describe_row(i, definition.parents)
    raise FormatError(f"the probability of {child.name!r}: {where} {what}.", definition.line_of(i))


def network_pdg(
    variables: Mapping[str, Variable], definitions: Iterable[Definition], learnable: bool
) -> tuple[PDG, Focus]:
    """The PDG of a Bayesian network, an arc for each definition, attended with alpha = beta = 1 at gamma = 0."""
    first: dict[str, Definition] = {}
    arcs: dict[str, Arc] = {}
    for d in definitions:
        if d.child.name in first:
            where = f"the first is on line {first[d.child.name].line}"
            raise FormatError(f"variable {d.child.name!r} has two probabilities; {where}.", d.line)
        first[d.child.name] = d
        check_rows(d)
        name = d.child.name if d.name is None else d.name
        if name in arcs:
            raise FormatError(f"two arcs are named {name!r}.", d.line)
        p = d.table.reshape([v.size for v in (*d.parents, d.child)])
        arcs[name] = Arc(name, d.parents, d.child, SoftmaxTable(p) if learnable else Table(p))
    for v in variables.values():
        if v.name not in first:
            raise FormatError(f"variable {v.name!r} has no probability: the file is cut short, or not a network.")
    if cycle := _cycle(arcs.values()):
        raise FormatError(f"the network has a directed cycle: {' -> '.join(cycle)}.", first[cycle[0]].line)
    pdg = PDG(*arcs.values(), variables=variables.values())
    return pdg, Focus(Attention.uniform(pdg))


def _cycle(arcs: Iterable[Arc]) -> list[str]:
    """The names of variables around a directed cycle; none if there is none."""
    import networkx as nx

    graph = nx.DiGraph([(s.name, t.name) for a in arcs for s in a.sources for t in a.targets])
    if nx.is_directed_acyclic_graph(graph):
        return []
    around = [a for a, *_ in nx.find_cycle(graph)]
    return [*around, around[0]]


# -- writing -----------------------------------------------------------------------------------------------------------


def parts(pdg: PDG, focus: Focus, form: str) -> list[tuple[Arc, NDArray[np.float64]]]:
    """The arcs of a PDG that is a Bayesian network and nothing more, with the rows of their tables."""
    check_finite(pdg, form)
    use = f"{form} holds Bayesian networks only: use .json."
    by_target: dict[Variable, Arc] = {}
    for a in pdg.arcs:
        target, *others = a.targets
        if others:
            raise FormatError(f"{a} has {len(a.targets)} targets; {use}")
        if (other := by_target.setdefault(target, a)) is not a:
            raise FormatError(f"{other} and {a} are both about {target.name}; {use}")
    for v in pdg.variables:
        if v not in by_target:
            raise FormatError(f"no arc leads to variable {v.name!r}; {use}")
    if cycle := _cycle(pdg.arcs):
        raise FormatError(f"the arcs go round in a circle, {' -> '.join(cycle)}; {use}")
    check_weights(pdg, focus, form, gamma=0.0)
    return [(a, table_rows(a)) for a in pdg.arcs]


def table_rows(arc: Arc) -> NDArray[np.float64]:
    """The table of an arc as (source settings, target settings)."""
    p = arc.cpd.table().detach().cpu().numpy()
    if not np.isfinite(p).all():
        raise FormatError(f"{arc} holds a number that is not finite.")
    return p.reshape(cells(arc.sources), -1)


def check_finite(pdg: PDG, form: str) -> None:
    """Every variable has finitely many values, and every cpd is a table."""
    for v in pdg.variables:
        if not v.is_finite:
            raise FormatError(f"variable {v.name!r} is {v.domain}; {form} holds finite variables only.")


def check_weights(pdg: PDG, focus: Focus, form: str, gamma: float) -> None:
    """The focus says nothing but alpha = beta = 1 at the gamma that the format stands for."""
    attention = focus.attention
    if attention.gamma != gamma:
        raise FormatError(f"gamma is {attention.gamma:g}, and {form} stands for gamma = {gamma:g}: use .json.")
    for a in pdg.arcs:
        for key, weights in (("beta", attention.beta), ("alpha", attention.alpha)):
            if weights.get(a.name, 0.0) != 1:
                found = weights.get(a.name, 0.0)
                raise FormatError(f"{a} has {key} {found:g}, and {form} has no place for weights: use .json.")
    for name in (*attention.beta, *attention.alpha, *focus.control.chi):
        if name not in pdg:
            raise FormatError(f"the focus names an arc {name!r} that the PDG does not have.")
        if name in focus.control.chi:
            raise FormatError(f"{pdg[name]} has a control, and {form} has no place for it: use .json.")


def value_names(v: Variable) -> tuple[list[str], bool]:
    """The values of a variable as text, and whether they are the numbers 0, 1, 2, ... rather than text like that."""
    given = v.finite.labels
    written = [str(x) for x in given]
    if len(set(written)) < len(written):
        raise FormatError(f"variable {v.name!r} has two values that are written the same.")
    return written, are_numbers(given)


def labelled(name: str, values: Iterable[Hashable]) -> Variable:
    """The variable of those values; 0, 1, 2, ... are so many numbers."""
    found = list(values)
    return Variable(name, len(found) if are_numbers(found) and found else found)


def counted(written: Sequence[str]) -> bool:
    """Whether values are written 0, 1, 2, ..."""
    return all(x == str(i) for i, x in enumerate(written))
