"""EM whose E-step is belief propagation: one refocus that interleaves the foci of both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc
from dissonance.cpds import SoftmaxTable, Table
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus, full_control
from dissonance.instances.base import Instance
from dissonance.instances.em.instance import learned, learns, shares
from dissonance.lir import Cycle, Record, Run
from dissonance.pdg import PDG
from dissonance.variables import Variable

inf = math.inf


@dataclass(frozen=True)
class FittedLoopy:
    """What EM by belief propagation has learned: the beliefs p at their new parameters, and the run it took."""

    pdg: PDG
    run: Run
    bounds: list[float]
    """Minus the mean Bethe free energy of a row at every M-step; on a tree it is the mean log-likelihood."""

    def posterior(self, name: str) -> Tensor:
        """b(X | row): what belief propagation believes about a hidden variable of each row, (rows, size)."""
        return torch.softmax(self.run.theta[f"b({name}).logits"].detach(), -1)


@dataclass(frozen=True, kw_only=True)
class LoopyEM(Instance[FittedLoopy]):
    """A run of EM by belief propagation: `iteration` steps of LIR are one iteration."""

    iteration: int
    foci: Mapping[str, Focus]

    def fit(self, iterations: int, **options: Any) -> FittedLoopy:
        """So many iterations; `options` are those of `lir`."""
        return self.answer(iterations * self.iteration, **options)


def loopy_em(p: PDG, row: Variable, *, sweeps: int = 1, weights: object = None) -> LoopyEM:
    """EM for beliefs p(hidden, x_row) as `em` has it, with the posterior that belief propagation finds.

    Given the row, p is a factor graph of its hidden variables. Messages X->a and a->X, beliefs b(X) of variables and
    b(a) of factors are tables given the row, each under full control in a focus of its own: d(row) and what is moved
    are hard, what is multiplied has alpha = beta = 1, and gamma = 1. An E-step is `sweeps` passes of messages, towards
    the first variable and back, from the messages there are; then all b(X), then all b(a). The M-step has full control
    of p on copies of the variables, one for each factor, so that factors that do not agree can all be hard:

        <<M>> = sum_a ( E[-log p_a] - H(b_a) ) + sum_X (n_X - 1) H(b_X) - H(d)

    with n_X the number of factors at X, the attention alpha of b(X): the Bethe free energy, less the entropy of the
    data. If the factor graph is a tree a sweep is exact, and this is `em`. If not it costs what the largest factor
    costs, not the largest cluster of a junction tree, and finds stationary points of the Bethe free energy.
    """
    if row not in p.variables:
        raise DissonanceError(f"{row.name!r} is not a variable of the beliefs: no arc is about the data.")
    if sweeps < 1:
        raise DissonanceError(f"an E-step needs at least one sweep of messages, found sweeps={sweeps}.")
    d = shares(weights, row.size)
    own = {a.name: f"p[{a.name}]" for a in p}  # arcs may be named as variables are, and messages are between the two
    factors = [Arc(own[a.name], a.sources, a.targets, a.cpd) for a in p]
    scopes = {a.name: tuple(v for v in a.scope if v != row) for a in factors}
    at = {v: [n for n, scope in scopes.items() if v in scope] for v in p.variables if v != row}
    if not at:
        raise DissonanceError("nothing is hidden: EM needs at least one variable beside the rows.")
    pdg = _pdg(factors, row, d, scopes, at)
    foci = _foci(scopes, at)
    messages = _passes(scopes, at)
    beliefs = [f"b({n})" for n in (*(v.name for v in at), *scopes) if f"b({n})" in foci]
    e_step = messages * sweeps + beliefs
    whole = _bethe(scopes, at)
    controlled = [copied(own[n]) for n in learns(p)]
    m_step = Focus(whole, full_control(*controlled))
    entropy = float(numerics.entropy(d))

    def read(run: Run) -> FittedLoopy:
        rows = [r for r in run.trace.rows[:-1] if r.step % made.iteration == made.iteration - 1]
        found = learned(p, {a.name: copied(own[a.name]) for a in p}, run)
        return FittedLoopy(found, run, [-(r.local_upper + entropy) for r in rows])

    made = LoopyEM(
        pdg,
        Cycle(*(foci[n] for n in e_step), m_step, name="loopy EM"),
        read,
        whole,
        Control(dict.fromkeys(controlled, 1.0)),
        trace=Record(globally=False),
        iteration=len(e_step) + 1,
        foci=foci,
    )
    return made


def copied(name: str) -> str:
    """The name of an arc on copies of its variables, with the same cpd."""
    return f"{name}@"


def _pdg(
    p: Sequence[Arc],
    row: Variable,
    d: Tensor,
    scopes: Mapping[str, Sequence[Variable]],
    at: Mapping[Variable, Sequence[str]],
) -> PDG:
    """p, messages and beliefs about its variables; p and the beliefs of factors once more on copies."""
    arcs = [Arc("d", (), row, Table(d)), *p]
    for v, factors in at.items():
        arcs.append(Arc(f"b({v.name})", row, v, _uniform(row, [v])))
        for a in factors:
            arcs += [Arc(n, row, v, _uniform(row, [v])) for n in (f"{v.name}->{a}", f"{a}->{v.name}")]
    for a in p:
        copy = {v: Variable(f"{v.name}@{a.name}", v.domain) for v in scopes[a.name]} | {row: row}
        arcs.append(Arc(copied(a.name), [copy[v] for v in a.sources], [copy[v] for v in a.targets], a.cpd))
        if scope := scopes[a.name]:
            belief = _uniform(row, scope)
            arcs.append(Arc(f"b({a.name})", row, scope, belief))
            arcs.append(Arc(copied(f"b({a.name})"), row, [copy[v] for v in scope], belief))
    return PDG(*arcs)


def _uniform(row: Variable, scope: Sequence[Variable]) -> SoftmaxTable:
    return SoftmaxTable(logits=torch.zeros([row.size, *(v.size for v in scope)], dtype=numerics.DTYPE))


def _foci(scopes: Mapping[str, Sequence[Variable]], at: Mapping[Variable, Sequence[str]]) -> dict[str, Focus]:
    """A focus for every message and belief: what it is the product of, with alpha = beta = gamma = 1."""
    product: dict[str, list[str]] = {}
    for v, factors in at.items():
        heard = {a: f"{a}->{v.name}" for a in factors}
        product[f"b({v.name})"] = list(heard.values())
        for a in factors:
            product[f"{v.name}->{a}"] = [m for b, m in heard.items() if b != a]
            product[heard[a]] = [a, *(f"{u.name}->{a}" for u in scopes[a] if u != v)]
    for a, scope in scopes.items():
        if scope:
            product[f"b({a})"] = [a, *(f"{u.name}->{a}" for u in scope)]
    found: dict[str, Focus] = {}
    for moved, context in product.items():
        weights = dict.fromkeys(context, 1.0)
        found[moved] = Focus(Attention.only({"d": inf, moved: inf, **weights}, weights, 1.0), full_control(moved))
    return found


def _bethe(scopes: Mapping[str, Sequence[Variable]], at: Mapping[Variable, Sequence[str]]) -> Attention:
    """The attention under which the inconsistency is the Bethe free energy, less the entropy of the data."""
    hard = {copied(f"b({a})"): inf for a, scope in scopes.items() if scope} | {f"b({v.name})": inf for v in at}
    soft = {copied(a): 1.0 for a in scopes}
    counts = {f"b({v.name})": float(len(factors)) for v, factors in at.items()}
    return Attention.only({"d": inf, **hard, **soft}, {**soft, **counts}, 1.0)


def _passes(scopes: Mapping[str, Sequence[Variable]], at: Mapping[Variable, Sequence[str]]) -> list[str]:
    """All messages: towards the first variable of each part of the graph, then away from it. Exact on a tree."""
    near = {v.name: list(factors) for v, factors in at.items()} | {a: [v.name for v in s] for a, s in scopes.items()}
    order: dict[str, int] = {}
    for root in (v.name for v in at):
        waiting = [] if root in order else [root]
        while waiting:
            node = waiting.pop(0)
            if node not in order:
                order[node] = len(order)
                waiting += near[node]
    nodes = list(order)
    back = [f"{n}->{m}" for n in reversed(nodes) for m in near[n] if order[m] < order[n]]
    return back + [f"{n}->{m}" for n in nodes for m in near[n] if order[m] > order[n]]
