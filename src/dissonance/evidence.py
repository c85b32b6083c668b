"""Soft evidence: a model conditioned on reports that are uncertain, held with some confidence, or in conflict."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from torch import Tensor

from dissonance.arc import Arc
from dissonance.cpds import PointMass, Table
from dissonance.cpds.empirical import Factor
from dissonance.distributions import Distribution
from dissonance.errors import DissonanceError
from dissonance.focus import Attention
from dissonance.inconsistency import Inconsistency, inconsistencies, inconsistency
from dissonance.numerics import xlogy
from dissonance.pdg import PDG
from dissonance.scores import arc_divergence
from dissonance.solvers import Solver
from dissonance.variables import Variable, shape

__all__ = ["Likelihood", "Report", "ReportRow", "Updated", "condition"]

inf = math.inf
Names = str | Sequence[str]


@dataclass(frozen=True)
class Report:
    """Somebody says how a variable is distributed: `belief`, held with `confidence`, a positive number or inf.

    For one variable `belief` is a list of probabilities, {label: probability}, or a single label: it was seen. The
    report may be about several variables, and conditional, `given` others: `belief` then has an axis for each of these,
    then one for each variable.
    """

    variable: Names
    belief: object
    confidence: float = inf
    given: Names = ()
    name: str | None = None


@dataclass(frozen=True)
class Likelihood:
    """Virtual evidence: something was observed that is `ratios` as probable under each value of the variable.

    Only ratios count. `confidence` is how many times it was observed: the likelihood to that power.
    """

    variable: Names
    ratios: object
    confidence: float = 1.0
    name: str | None = None


@dataclass(frozen=True)
class ReportRow:
    """What became of one report, in nats.

    `divergence` is how far the posterior is from what was reported, KL (of a likelihood: -E log L, largest L = 1);
    `contribution` is confidence times that, and `saved` how much lower the inconsistency would be without the report.
    A hard report is obeyed, so that only `saved` says what it cost.
    """

    name: str
    confidence: float
    divergence: float
    contribution: float
    saved: float


@dataclass(frozen=True)
class _Given:
    """A report as an arc: its weights at gamma = 1, and what to subtract for a likelihood to have largest value 1."""

    arc: Arc
    confidence: float
    beta: float
    alpha: float
    excess: float = 0.0


@dataclass(frozen=True)
class Updated:
    """A model after reports: the posterior mu, how inconsistent they are with it and each other, and who is to blame.

    mu minimises KL(mu || model) + sum_r confidence_r KL(mu(T,S) || r(T|S) mu(S)) - sum_l confidence_l E log L_l, and
    `lower` <= the minimum <= `upper` is proved.
    """

    lower: float
    upper: float
    result: Inconsistency
    _given: tuple[_Given, ...]
    _solver: Solver | str = field(default="auto")

    @property
    def mu(self) -> Distribution:
        """The posterior of all variables."""
        return self.result.mu

    def marginal(self, *names: str) -> Tensor:
        """The posterior of these variables together, axes in this order."""
        return self.mu.marginal(*names)

    def probability(self, event: Mapping[str, Hashable]) -> float:
        """The posterior probability of an event {variable: label}."""
        return float(self.mu.probability(event))

    @cached_property
    def marginals(self) -> dict[str, Tensor]:
        """The posterior of every variable."""
        return {v.name: self.mu.marginal(v.name) for v in self.mu.variables}

    @cached_property
    def reports(self) -> list[ReportRow]:
        """Who is to blame, in the order the reports were given."""
        pdg, attention = self.result.pdg, self.result.attention
        fewer = [attention.without(g.arc.name) for g in self._given]
        without = inconsistencies(pdg, fewer, solver=self._solver)
        rows: list[ReportRow] = []
        for g, other in zip(self._given, without, strict=True):
            off = self._divergence(g)
            cost = 0.0 if g.confidence == inf else g.confidence * off
            saved = max(0.0, self.result.upper - g.excess - other.upper)
            rows.append(ReportRow(g.arc.name, g.confidence, off, cost, saved))
        return rows

    def _divergence(self, g: _Given) -> float:
        if g.confidence == inf:
            return 0.0
        if g.alpha == 0:
            return max(0.0, float(arc_divergence(self.mu, g.arc).detach()))
        p = g.arc.cpd.table()
        joint = self.mu.rows((), g.arc.targets).reshape(p.shape)
        return max(0.0, -float(xlogy(joint, p / p.max()).sum()))

    def __repr__(self) -> str:
        width = max([6, *(len(g.arc.name) for g in self._given)])
        count = f"{len(self._given)} report{'s' * (len(self._given) != 1)}"
        lines = [f"Updated({count}, {self.upper:.6g} nats in [{self.lower:.6g}, {self.upper:.6g}])"]
        lines.append(f"  {'report':<{width}}  confidence  divergence  saved if dropped")
        for r in self.reports:
            lines.append(f"  {r.name:<{width}}  {r.confidence:>10.4g}  {r.divergence:>10.4f}  {r.saved:>16.4f}")
        return "\n".join(lines)


def condition(
    model: PDG, *reports: Report | Likelihood | Mapping[str, object], solver: Solver | str = "auto"
) -> Updated:
    """The model after reports: Jeffrey's rule, virtual evidence and plain evidence are all special cases.

    The model is the factor graph of the PDG: of a Bayesian network, its joint distribution. A mapping {variable:
    belief} is a report of each, held with certainty; a label is plain evidence. Then

        mu = argmin KL(mu || model) + sum_r confidence_r KL( mu(T,S) || r(T|S) mu(S) )

    which is the inconsistency at gamma = 1 of the model (beta = alpha = 1) and the reports (beta = confidence, alpha =
    0). A report of confidence near 0 is ignored, one of confidence inf obeyed; several that are obeyed give the
    distribution nearest to the model among those that agree with all of them. A conditional report also makes its
    conditions less probable, the more so the more it surprises: report these, too, if they are known.
    """
    given = _arcs(model, reports)
    pdg = PDG(*model.arcs, *(g.arc for g in given), variables=model.variables)
    base = Attention.uniform(model, gamma=1.0)
    attention = base.replace(beta={g.arc.name: g.beta for g in given}, alpha={g.arc.name: g.alpha for g in given})
    alone, result = inconsistency(model, base, solver=solver), inconsistency(pdg, attention, solver=solver)
    if alone.upper == inf:
        raise DissonanceError("the model is impossible before anything is reported: its cpds contradict each other.")
    if result.upper == inf:
        raise DissonanceError(_contradiction(pdg, attention, [g.arc.name for g in given], solver))
    excess = sum(g.excess for g in given)
    return Updated(result.lower - alone.upper - excess, result.upper - alone.lower - excess, result, given, solver)


def _arcs(model: PDG, reports: Sequence[Report | Likelihood | Mapping[str, object]]) -> tuple[_Given, ...]:
    """Every report as an arc with a name of its own."""
    listed: list[Report | Likelihood] = []
    for r in reports:
        listed += [Report(n, b) for n, b in r.items()] if isinstance(r, Mapping) else [r]
    taken = {a.name for a in model.arcs}
    found: list[_Given] = []
    for r in listed:
        if not r.confidence > 0:
            raise DissonanceError(
                f"the report on {_listed(r.variable)} has confidence {r.confidence}; it must be positive, or inf. "
                "Leave out what is not to be believed at all."
            )
        made = _report(model, r, taken) if isinstance(r, Report) else _likelihood(model, r, taken)
        taken.add(made.arc.name)
        found.append(made)
    return tuple(found)


def _report(model: PDG, r: Report, taken: set[str]) -> _Given:
    targets, sources = _variables(model, r.variable), _variables(model, r.given)
    seen = _seen(r.belief, targets) if not sources else None
    if seen is not None:
        named = ", ".join(f"{v.name}={x}" for v, x in zip(targets, seen, strict=True))
        label = seen[0] if len(seen) == 1 else seen
        return _Given(Arc(_free(r.name or named, taken), (), targets, PointMass(label)), inf, 1.0, 1.0)
    given = f" given {_listed(r.given)}" if sources else ""
    name = _free(r.name or f"report on {_listed(r.variable)}{given}", taken)
    return _Given(Arc(name, sources, targets, Table(_table(r.belief, targets))), r.confidence, r.confidence, 0.0)


def _likelihood(model: PDG, r: Likelihood, taken: set[str]) -> _Given:
    if r.confidence == inf:
        raise DissonanceError(f"the likelihood of {_listed(r.variable)} needs a finite confidence: it is a power.")
    targets = _variables(model, r.variable)
    name = _free(r.name or f"likelihood of {_listed(r.variable)}", taken)
    try:
        cpd = Factor(_table(r.ratios, targets))
    except DissonanceError as error:
        raise DissonanceError(f"{name}: {error}") from None
    arc = Arc(name, (), targets, cpd)
    excess = -r.confidence * math.log(float(arc.cpd.table().max()))
    return _Given(arc, r.confidence, r.confidence, r.confidence, excess)


def _variables(model: PDG, names: Names) -> tuple[Variable, ...]:
    return tuple(model.variable(n) for n in ((names,) if isinstance(names, str) else names))


def _seen(belief: object, targets: tuple[Variable, ...]) -> tuple[Hashable, ...] | None:
    """The labels, if that is what was reported."""
    if not isinstance(belief, Sequence | Mapping | np.ndarray | Tensor) or isinstance(belief, str):
        return (belief,) if isinstance(belief, Hashable) else None
    if isinstance(belief, tuple) and len(targets) > 1 and len(belief) == len(targets):
        return belief if all(x in v.finite.labels for x, v in zip(belief, targets, strict=True)) else None
    return None


def _table(belief: object, targets: tuple[Variable, ...]) -> object:
    """Probabilities in the order of the labels."""
    if not isinstance(belief, Mapping):
        return belief
    if len(targets) != 1:
        raise DissonanceError(f"a report on {len(targets)} variables is an array, not a mapping.")
    table = np.zeros(shape(targets))
    for label, p in belief.items():
        table[targets[0].finite.index(label)] = p
    return table


def _free(name: str, taken: set[str]) -> str:
    """The name, numbered if there is one like it."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name} ({number})"
    return found


def _listed(names: Names) -> str:
    return names if isinstance(names, str) else ", ".join(names)


def _contradiction(pdg: PDG, attention: Attention, names: Sequence[str], solver: Solver | str) -> str:
    """Which reports cannot all be true, as few as can be: what is impossible without a report does not need it."""
    needed = list(names)
    for name in names:
        fewer = attention.without(*(n for n in names if n not in needed), name)
        if inconsistency(pdg, fewer, solver=solver).upper == inf:
            needed.remove(name)
    if len(needed) == 1:
        return f"{needed[0]!r} contradicts the model, which gives it probability 0. Leave it out, or change the model."
    listed = f"{', '.join(map(repr, needed[:-1]))} and {needed[-1]!r}"
    return (
        f"{listed} contradict each other under the model. Leave one out, or give one a finite confidence and no zeros."
    )
