"""PDGs as networkx graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dissonance.focus import Attention
from dissonance.pdg import PDG

if TYPE_CHECKING:
    import networkx as nx


def to_networkx(pdg: PDG, attention: Attention | None = None) -> nx.DiGraph[Any]:
    """A directed graph with a node for every variable and for every arc: sources -> arc -> targets.

    An arc may have any number of ends, which no plain edge has. Nodes are ("variable", name) and ("arc", name), with
    the attributes `kind`, `label`, and `object` (the Variable or the Arc itself); variables have `domain`, arcs `cpd`
    and, if an attention is given, `beta` and `alpha`. Edges have `role`, "source" or "target", and `position`.
    """
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph()
    spelled = None if attention is None else Attention.of(attention, pdg)
    for v in pdg.variables:
        graph.add_node(("variable", v.name), kind="variable", label=v.name, object=v, domain=v.domain)
    for a in pdg.arcs:
        node = ("arc", a.name)
        graph.add_node(node, kind="arc", label=a.name, object=a, cpd=a.cpd)
        if spelled is not None:
            weights = {"beta": spelled.beta.get(a.name, 0.0), "alpha": spelled.alpha.get(a.name, 0.0)}
            graph.nodes[node].update(weights)
        for i, v in enumerate(a.sources):
            graph.add_edge(("variable", v.name), node, role="source", position=i)
        for i, v in enumerate(a.targets):
            graph.add_edge(node, ("variable", v.name), role="target", position=i)
    return graph
