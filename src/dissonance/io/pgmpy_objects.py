"""pgmpy's networks, factor graphs and cpds as PDGs, and PDGs as those."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from dissonance.arc import Arc
from dissonance.cpds import Factor, Table
from dissonance.errors import CapabilityError, FormatError
from dissonance.focus import Attention, Focus
from dissonance.io.network import check_finite, check_weights, labelled, parts, table_rows
from dissonance.pdg import PDG
from dissonance.variables import Variable


def from_pgmpy(model: Any, *, learnable: bool = False) -> tuple[PDG, Focus]:
    """The PDG and the focus of a pgmpy model.

    A DiscreteBayesianNetwork has an arc a cpd, named after its variable, at gamma = 0; a TabularCPD is one such arc. A
    FactorGraph or DiscreteMarkovNetwork has an arc phi1, phi2, ... a factor, attended with alpha = beta = gamma = 1:
    its mu* is the model's distribution. Names of states are kept as labels. `learnable`: tables are `SoftmaxTable`s,
    which can move.
    """
    pdg, focus = _read(model)
    return (pdg.learnable() if learnable else pdg), focus


def _read(model: Any) -> tuple[PDG, Focus]:
    if callable(getattr(model, "get_values", None)) and hasattr(model, "variable"):
        pdg = PDG(_arc(model, {}))
        return pdg, Focus(Attention.uniform(pdg))
    if callable(getattr(model, "get_cpds", None)):
        return _network(model)
    if callable(getattr(model, "get_factors", None)):
        return _factors(model.get_factors())
    raise FormatError(
        f"a {type(model).__name__} is not a pgmpy model with tables: expected a DiscreteBayesianNetwork, a "
        "FactorGraph, a DiscreteMarkovNetwork or a TabularCPD."
    )


def _network(model: Any) -> tuple[PDG, Focus]:
    known: dict[str, Variable] = {}
    cpds = list(model.get_cpds())
    for cpd in cpds:
        if not callable(getattr(cpd, "get_values", None)):
            raise FormatError(f"the cpd of {getattr(cpd, 'variable', '?')!r} is a {type(cpd).__name__}, not a table.")
        known[_text(cpd.variable)] = _variable(cpd, cpd.variable)
    for node in model.nodes():
        if _text(node) not in known:
            raise FormatError(f"variable {node!r} has no cpd: call model.add_cpds first.")
    pdg = PDG(*(_arc(cpd, known) for cpd in cpds), variables=[known[_text(n)] for n in model.nodes()])
    return pdg, Focus(Attention.uniform(pdg))


def _arc(cpd: Any, known: Mapping[str, Variable]) -> Arc:
    child, *parents = cpd.variables
    scope = [known.get(_text(n)) or _variable(cpd, n) for n in (*parents, child)]
    for v, n in zip(scope, (*parents, child), strict=True):
        if v.size != cpd.get_cardinality([n])[n]:
            raise FormatError(
                f"the cpd of {child!r} has {cpd.get_cardinality([n])[n]} states of {n!r}; it has {v.size}."
            )
    order = [_order(cpd, n, v) for n, v in zip((*parents, child), scope, strict=True)]
    p = np.moveaxis(np.asarray(cpd.values, dtype=float), 0, -1)[np.ix_(*order)]
    return Arc(_text(child), scope[:-1], scope[-1], Table(p))


def _factors(factors: Sequence[Any]) -> tuple[PDG, Focus]:
    known: dict[str, Variable] = {}
    arcs: list[Arc] = []
    for i, phi in enumerate(factors, 1):
        scope = [known.setdefault(_text(n), _variable(phi, n)) for n in phi.variables]
        order = [_order(phi, n, v) for n, v in zip(phi.variables, scope, strict=True)]
        arcs.append(Arc(f"phi{i}", (), scope, Factor(np.asarray(phi.values, dtype=float)[np.ix_(*order)])))
    pdg = PDG(*arcs)
    return pdg, Focus(Attention.uniform(pdg, gamma=1.0))


def _variable(table: Any, name: Any) -> Variable:
    return labelled(_text(name), _states(table, name))


def _order(table: Any, name: Any, v: Variable) -> list[int]:
    """Where the labels of a variable are along an axis of a table: tables may list states in orders of their own."""
    states = _states(table, name)
    if len(states) != v.size or any(x not in states for x in v.finite.labels):
        raise FormatError(f"the states of {name!r} are {states} here, and {list(v.finite.labels)} elsewhere.")
    return [states.index(x) for x in v.finite.labels]


def _states(table: Any, name: Any) -> list[Hashable]:
    """The names of states, as Python has them: numbers of numpy would be another label than the number."""
    return [x.item() if isinstance(x, np.generic) else x for x in table.state_names[name]]


def _text(name: Any) -> str:
    return name if isinstance(name, str) else str(name)


# -- to pgmpy ----------------------------------------------------------------------------------------------------------


def to_pgmpy(what: PDG | Arc, focus: Focus | None = None) -> Any:
    """A PDG as a DiscreteBayesianNetwork, or at gamma = 1 as a FactorGraph; an arc with one target as a TabularCPD.

    What pgmpy has no place for is refused: other PDGs, weights, Euclidean variables.
    """
    pgmpy = _pgmpy()
    if isinstance(what, Arc):
        return _tabular(pgmpy, what)
    if focus is None:
        factors = not any(a.sources for a in what.arcs) and any(len(a.targets) > 1 for a in what.arcs)
        focus = Focus(Attention.uniform(what, gamma=1.0 if factors else 0.0))
    if focus.attention.gamma == 0:
        found = [a for a, _ in parts(what, focus, "pgmpy")]
        model = pgmpy.models.DiscreteBayesianNetwork()
        model.add_nodes_from([v.name for v in what.variables])
        model.add_edges_from([(s.name, a.targets[0].name) for a in found for s in a.sources])
        model.add_cpds(*(_tabular(pgmpy, a) for a in found))
        return model
    return _factor_graph(pgmpy, what, focus)


def _tabular(pgmpy: ModuleType, a: Arc) -> Any:
    if len(a.targets) != 1:
        raise FormatError(f"{a} has {len(a.targets)} targets; a TabularCPD has one variable.")
    target = a.targets[0]
    return pgmpy.factors.discrete.TabularCPD(
        target.name,
        target.size,
        table_rows(a).T,
        [v.name for v in a.sources],
        [v.size for v in a.sources],
        state_names={v.name: list(v.finite.labels) for v in a.scope},
    )


def _factor_graph(pgmpy: ModuleType, pdg: PDG, focus: Focus) -> Any:
    check_finite(pdg, "pgmpy")
    check_weights(pdg, focus, "a pgmpy FactorGraph", gamma=1.0)
    model = pgmpy.models.FactorGraph()
    model.add_nodes_from([v.name for v in pdg.variables])
    for a in pdg.arcs:
        if a.sources:
            raise FormatError(f"{a} has sources; at gamma = 1 pgmpy holds factors, arcs without sources, only.")
        phi = a.cpd.phi.numpy() if isinstance(a.cpd, Factor) else table_rows(a)
        names, sizes = [v.name for v in a.targets], [v.size for v in a.targets]
        states = {v.name: list(v.finite.labels) for v in a.targets}
        factor = pgmpy.factors.discrete.DiscreteFactor(names, sizes, phi.reshape(-1), state_names=states)
        model.add_factors(factor)
        model.add_nodes_from([factor])
        model.add_edges_from([(n, factor) for n in names])
    return model


def _pgmpy() -> ModuleType:
    try:
        for part in ("pgmpy.factors.discrete", "pgmpy.models"):
            import_module(part)
        return import_module("pgmpy")
    except ImportError as error:
        raise CapabilityError(f"to_pgmpy needs pgmpy ({error}): pip install 'dissonance[pgmpy]'.") from None
