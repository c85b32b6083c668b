"""A model as a Python script that makes it and prints its score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dissonance.arc import Arc
from dissonance.cpds import Factor
from dissonance.errors import visible
from dissonance.focus import Focus
from dissonance.pdg import PDG
from dissonance.variables import Euclidean, Variable, are_numbers


def script(name: str, pdg: PDG, focus: Focus) -> str:
    """The script. Names are written as Python strings, whatever they hold."""
    kinds = {"Euclidean": any(isinstance(v.domain, Euclidean) for v in pdg.variables)}
    kinds |= {type(a.cpd).__name__: True for a in pdg.arcs if isinstance(a.cpd, Factor) or a.is_euclidean}
    attention, control = focus.attention, focus.control.chi
    imported = {"Arc", "Attention", "PDG", "Variable", "inconsistency", *(k for k, used in kinds.items() if used)}
    imported |= {"Control"} if control else set()
    infinite = math.inf in (*attention.beta.values(), *control.values())
    lines = [
        f"# {visible(name)}",
        *(["from math import inf", ""] if infinite else []),
        f"from dissonance import {', '.join(sorted(imported, key=lambda n: (n.upper() != n, n.islower(), n)))}",
        "",
        "v = {",
        *(f"    {v.name!r}: Variable({v.name!r}, {_domain(v)})," for v in pdg.variables),
        "}",
        "pdg = PDG(",
        *(f"    {_arc(a)}," for a in pdg.arcs),
        "    variables=v.values(),",
        ")",
        "attention = Attention.only(",
        f"    beta={_weights(attention.beta)},",
        f"    alpha={_weights(attention.alpha)},",
        f"    gamma={attention.gamma!r},",
        ")",
    ]
    if control:
        lines += [
            "# What may move: lir(pdg.learnable(), attention=attention, control=control)",
            f"control = Control({_weights(control)})",
        ]
    lines += ["result = inconsistency(pdg, attention)", "print(result)", "print(result.verdict())"]
    return "\n".join(lines) + "\n"


def _domain(v: Variable) -> str:
    if isinstance(v.domain, Euclidean):
        return f"Euclidean({v.domain.dim})"
    labels = v.finite.labels
    return str(v.size) if are_numbers(labels) else repr(list(labels))


def _arc(a: Arc) -> str:
    return f"Arc({a.name!r}, {_ends(a.sources)}, {_ends(a.targets)}, {_cpd(a)})"


def _ends(variables: Sequence[Variable]) -> str:
    named = [f"v[{v.name!r}]" for v in variables]
    return named[0] if len(named) == 1 else f"({', '.join(named)})"


def _cpd(a: Arc) -> str:
    if a.is_euclidean:
        A, b, Sigma = (x.detach().tolist() for x in a.linear_gaussian())  # noqa: N806
        return f"LinearGaussian({A if a.sources else None}, {b}, {Sigma})"
    if isinstance(a.cpd, Factor):
        return f"Factor({a.cpd.phi.tolist()})"
    return repr(a.cpd.table().detach().tolist())


def _weights(weights: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{n!r}: {w!r}" for n, w in weights.items()) + "}"
