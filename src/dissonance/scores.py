"""How well a given mu fits a PDG: the only home of these formulas.

Differentiable in the parameters of the PDG (through its cpds, or `theta`) and in mu.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc, Theta
from dissonance.attended import Attended, tabulated
from dissonance.costs import LOG_SCORE, Cost, FlatRows, Floats
from dissonance.distributions import Distribution, Gaussian
from dissonance.distributions.product import part
from dissonance.errors import CapabilityError
from dissonance.focus import Attention, Weights
from dissonance.pdg import PDG
from dissonance.tolerances import FEASIBLE
from dissonance.variables import cells

__all__ = [
    "ArcScore",
    "CellRow",
    "arc_divergence",
    "by_arc",
    "incompatibility",
    "observational_incompatibility",
    "structural_deficiency",
]

Alike = tuple[list[int], Floats, Floats, FlatRows, Cost]

SOME = 1e-9
"""The mass from which on mu(t|s) is known well enough to be differentiated."""


@dataclass(frozen=True)
class ArcScore:
    """One arc at one mu: its KL divergence and the conditional entropy of its targets, in nats."""

    divergence: Tensor
    conditional_entropy: Tensor


@dataclass(frozen=True)
class BlameRow:
    """How much one arc is to blame, in nats.

    `divergence` is KL_a at mu*, `contribution` beta_a KL_a, `saved_if_dropped` how much lower the inconsistency would
    be without the arc (None if not asked for). NaN: there is no such number, as of a hard arc that alone makes values
    for others to be about.
    """

    name: str
    beta: float
    divergence: float
    contribution: float
    saved_if_dropped: float | None


@dataclass(frozen=True)
class CellRow:
    """One cell of an arc's table: what it claims, what mu says, and what the difference costs, in nats.

    `claimed` is p = p(t|s), `reconciled` q = mu(t|s), `mass` mu(s), and `contribution` beta mu(s) (q log q/p - q + p),
    which is never negative; over all cells of an arc they add up to what the arc contributes.
    """

    arc: str
    given: Mapping[str, Hashable]
    value: Mapping[str, Hashable]
    claimed: float
    reconciled: float
    mass: float
    contribution: float


def _log_rows(arc: Arc, theta: Theta | None) -> Tensor:
    return arc.log_table(theta).reshape(cells(arc.sources), cells(arc.targets))


def _names(arc: Arc) -> tuple[list[str], list[str]]:
    return [v.name for v in arc.sources], [v.name for v in arc.targets]


def arc_divergence(mu: Distribution, arc: Arc, theta: Theta | None = None, log_p: Tensor | None = None) -> Tensor:
    """How far mu is from satisfying one arc: KL( mu(T,S) || p_a(T|S) mu(S) ), or what another cost of its cpd says.

    `log_p`: its table, if that is known. Other costs have no derivatives here.
    """
    gaussian = part(mu, (v.name for v in arc.scope))
    if isinstance(gaussian, Gaussian):
        expected = gaussian.expected_log_prob(_names(arc), arc.linear_gaussian(theta))
        return -arc_conditional_entropy(gaussian, arc) - expected
    m = mu.rows(arc.sources, arc.targets)
    log_p = _log_rows(arc, theta) if log_p is None else log_p.reshape(m.shape)
    if arc.cpd.cost is LOG_SCORE:
        return numerics.divergence(m, log_p)
    flat, flat_logs = (x.numpy(force=True).ravel() for x in (m, log_p))
    return numerics.real(arc.cpd.cost.value(flat, flat_logs, FlatRows.wide(np.full(len(m), m.shape[1]))).sum())


def entry_scores(joint: Tensor, mass: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
    """What the entries of tables add to the divergence and to the excess surprisal of their arcs.

    At mu(s,t), mu(s) and log p(t|s): mu(s,t) log mu(t|s)/p(t|s), and (mu(s) p(t|s) - mu(s,t)) log p(t|s), which adds up
    to E_mu[-log p] - E_mu(S)[H(p)].
    """
    surprisal = numerics.times(mass * log_p.exp() - joint, log_p)
    return numerics.entry_divergence(joint, mass, log_p), surprisal


def _alike(mu: Distribution, arcs: Sequence[Arc], theta: Theta | None) -> Iterator[Alike]:
    """Group the arcs that have tables by the shape of these; without derivatives.

    Yields the numbers of these arcs, mu(s,t) and log p(t|s), both (arcs, entries), the rows of entries, and the cost.
    """
    names = [[v.name for v in arc.scope] for arc in arcs]
    tables = [k for k, scope in enumerate(names) if not isinstance(part(mu, scope), Gaussian)]
    scopes, members = [names[k] for k in tables], [arcs[k] for k in tables]
    joints = dict(zip(tables, mu.marginals(scopes), strict=True))
    log_tables = dict(zip(tables, tabulated(members, theta), strict=True))
    for k in tables:
        if not log_tables[k].size:
            arcs[k].log_table(theta)  # it has none, and says why
    alike: dict[tuple[torch.Size, int, Cost], list[int]] = {}
    for k, joint in joints.items():
        alike.setdefault((joint.shape, len(arcs[k].sources), arcs[k].cpd.cost), []).append(k)
    for (shape, sources, cost), members in alike.items():
        rows = FlatRows.wide(np.full(math.prod(shape[:sources]), math.prod(shape[sources:])))
        joint = torch.stack([joints[k] for k in members]).numpy(force=True).reshape(len(members), -1)
        yield members, joint, np.stack([log_tables[k].ravel() for k in members]), rows, cost


def divergences(mu: Distribution, arcs: Sequence[Arc], theta: Theta | None = None) -> list[float]:
    """`arc_divergence` of each of many arcs, those with tables of one shape together; without derivatives."""
    found: dict[int, float] = {}
    for members, joint, log_p, rows, cost in _alike(mu, arcs, theta):
        found |= zip(members, cost.value(joint, log_p, rows).sum(-1).tolist(), strict=True)
    return [found[k] if k in found else float(arc_divergence(mu, arc, theta)) for k, arc in enumerate(arcs)]


def cell_rows(mu: Distribution, arcs: Sequence[Arc], beta: Weights, theta: Theta | None = None) -> list[CellRow]:
    """Every cell of the tables of these arcs."""
    labels = {v.name: v.finite.labels for arc in arcs for v in arc.scope if v.is_finite}
    rows: list[CellRow] = []
    for members, joint, log_p, whole, cost in _alike(mu, arcs, theta):
        claimed, mass = np.exp(log_p), whole.totals(joint)
        costs = cost.value(joint, log_p, whole) + (mass * claimed - joint if cost is LOG_SCORE else 0.0)
        found = claimed, whole.shares(joint), mass, costs
        for k, *numbers in zip(members, *(x.tolist() for x in found), strict=True):
            name, weight = arcs[k].name, beta[arcs[k].name]
            events = product(_events(arcs[k].source_names, labels), _events(arcs[k].target_names, labels))
            for (given, value), p, q, m, cost in zip(events, *numbers, strict=True):
                rows.append(CellRow(name, given, value, p, q, m, weight * max(0.0, cost)))
    return rows


def _events(names: Sequence[str], labels: Mapping[str, Sequence[Hashable]]) -> list[dict[str, Hashable]]:
    """Every setting of variables, as {variable: label}."""
    return [dict(zip(names, cell, strict=True)) for cell in product(*[labels[n] for n in names])]


def most_saved(mu: Distribution, arcs: Sequence[Arc], theta: Theta | None = None) -> list[float]:
    """How much lower min OInc can be without each arc, at most, if mu is a minimiser, for beta_a = 1 (else times it).

    max_{s,t} log mu(t|s) / p_a(t|s)

    These logarithms are the gradient g of KL_a at mu. Let f = OInc and r = f - KL_a. For any nu, by convexity and since
    mu minimises f, r(nu) >= r(mu) + <grad f - g, nu - mu> >= r(mu) - <g, nu - mu> >= r(mu) + KL_a(mu) - max g, where
    r(mu) + KL_a(mu) = f(mu). inf where there is no gradient: p is 0 somewhere, or mu(s) < SOME.
    """
    found: dict[int, float] = {}
    for members, joint, log_p, rows, cost in _alike(mu, arcs, theta):
        smooth = ((rows.totals(joint) >= SOME) & np.isfinite(log_p)).all(-1)
        with np.errstate(divide="ignore"):
            most = cost.price(np.log(rows.shares(joint)), log_p, rows).max(-1)
        found |= zip(members, np.where(smooth, most, math.inf).tolist(), strict=True)
    return [found[k] for k in range(len(arcs))]


def arc_conditional_entropy(mu: Distribution, arc: Arc) -> Tensor:
    """H(T | S) of an arc's targets given its sources; differential where they are Euclidean."""
    sources, targets = _names(arc)
    gaussian = part(mu, (*sources, *targets))
    if isinstance(gaussian, Gaussian):
        return gaussian.conditional_entropy(targets, sources)
    return numerics.conditional_entropy(mu.rows(arc.sources, arc.targets))


def amiss(mu: Distribution, arc: Arc, theta: Theta | None = None) -> float:
    """How far mu is from a hard arc: at most ROUNDING if it holds, at most FEASIBLE if it holds closely enough.

    Of tables: see `numerics.broken`. A linear-Gaussian arc holds if t - A s - b, in units of its noise, has mean 0,
    covariance I and no correlation with s: the largest of what these are off by, beyond what rounding may add.
    """
    gaussian = part(mu, (v.name for v in arc.scope))
    if not isinstance(gaussian, Gaussian):
        joint = mu.rows(arc.sources, arc.targets).detach()
        return numerics.broken(joint, _log_rows(arc, theta).detach().exp())
    A, b, Sigma = (x.detach() for x in arc.linear_gaussian(theta))  # noqa: N806
    rows, n = gaussian.rows(arc.sources, arc.targets).detach(), A.shape[1]
    unit = torch.eye(len(b), dtype=numerics.DTYPE)
    R = torch.cat([-b[:, None], -A, unit], 1)  # noqa: N806
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(Sigma), R, upper=False)
    sd = rows.diagonal()[1 : n + 1].clamp(min=1e-300).sqrt()
    worst = 0.0
    for off, size in (
        (white @ rows[:, 0], white.abs() @ rows[:, 0].abs()),
        (white[:, 1:] @ rows[1:, 1 : n + 1] / sd, white[:, 1:].abs() @ rows[1:, 1 : n + 1].abs() / sd),
        (
            white[:, 1:] @ rows[1:, 1:] @ white[:, 1:].T - unit,
            white[:, 1:].abs() @ rows[1:, 1:].abs() @ white[:, 1:].abs().T,
        ),
    ):
        if off.numel():
            worst = max(worst, float((off.abs() - 4 * len(rows) * torch.finfo(numerics.DTYPE).eps * size).max()))
    return worst


def holds(mu: Distribution, arc: Arc, theta: Theta | None = None) -> bool:
    """Whether mu satisfies an arc closely enough: see `tolerances.FEASIBLE`."""
    return amiss(mu, arc, theta) <= FEASIBLE


def by_arc(mu: Distribution, pdg: PDG, theta: Theta | None = None) -> dict[str, ArcScore]:
    """Divergence and conditional entropy of every arc."""
    return {a.name: ArcScore(arc_divergence(mu, a, theta), arc_conditional_entropy(mu, a)) for a in pdg.arcs}


def observational_incompatibility(
    mu: Distribution, pdg: PDG, beta: Weights | Attention, theta: Theta | None = None
) -> Tensor:
    """How far mu is from the beliefs, weighted by how much they are believed.

    OInc(mu) = sum_a beta_a KL( mu(T,S) || p_a(T|S) mu(S) )          (eq. 1)

    A hard arc (beta = inf) costs nothing if it `holds` and makes it infinite otherwise; an unattended arc never does.
    `beta` may be an attention, whose beta it is then.
    """
    beta = beta.beta if isinstance(beta, Attention) else beta
    total = torch.zeros((), dtype=numerics.DTYPE)
    impossible = False  # and then disbelief in something else does not help
    for arc in pdg.arcs:
        weight = beta.get(arc.name, 0.0)
        if weight == math.inf:
            impossible |= not holds(mu, arc, theta)
        elif weight:
            cost = weight * arc_divergence(mu, arc, theta)
            impossible |= bool(cost == math.inf)
            total = total + cost
    return torch.full_like(total, math.inf) if impossible else total


def structural_deficiency(mu: Distribution, pdg: PDG, alpha: Weights | Attention) -> Tensor:
    """How far mu is from independent mechanisms along the arcs.

    SDef(mu) = -H(X) + sum_a alpha_a H(T | S)          (eq. 2)

    Can be negative: with no arcs at all it is -H(X). `alpha` may be an attention, whose alpha it is then.
    """
    alpha = alpha.alpha if isinstance(alpha, Attention) else alpha
    total = -mu.entropy()
    for arc in pdg.arcs:
        weight = alpha.get(arc.name, 0.0)
        if weight:
            total = total + weight * arc_conditional_entropy(mu, arc)
    return total


def incompatibility(mu: Distribution, pdg: PDG, attention: Attention | Weights, theta: Theta | None = None) -> Tensor:
    """OInc(mu) + gamma SDef(mu)          (eq. 3, before the infimum).

    Where beta = gamma alpha the entropies of an arc cancel, and -beta E_mu[log p] is left.
    """
    pdg.check(theta)
    attention = Attention.of(attention, pdg)
    attention.check(pdg)
    if attention.varying:
        raise CapabilityError("a given mu has no score under sample-dependent attention: ask for the inconsistency.")
    beta, alpha, none = attention.beta, attention.alpha, np.zeros(0)
    arcs = [Attended(a, none, beta.get(a.name, 0.0), alpha.get(a.name, 0.0)) for a in pdg.arcs]
    if any(a.hard and not holds(mu, a.arc, theta) for a in arcs):
        return torch.tensor(math.inf, dtype=numerics.DTYPE)
    finite = [a for a in arcs if 0 < a.beta == attention.gamma * a.alpha and all([v.is_finite for v in a.arc.scope])]
    return attended_incompatibility(mu, arcs, attention.gamma, {a.name: a.arc.log_table(theta) for a in finite}, theta)


def attended_incompatibility(
    mu: Distribution,
    arcs: Sequence[Attended],
    gamma: float,
    tables: Mapping[str, Tensor],
    theta: Theta | None = None,
) -> Tensor:
    """Return the incompatibility of mu with weighted arcs, of which the hard ones hold.

    It is infinite if that of a believed arc is. `tables`: log p of arcs by name; those of others are as theta has them.
    """
    total = -gamma * mu.entropy() if gamma else torch.zeros((), dtype=numerics.DTYPE)
    impossible = False  # and then disbelief in something else does not help
    for a in arcs:
        log_p = tables.get(a.name)
        if log_p is not None and a.arc.cpd.cost is LOG_SCORE and 0 < a.beta == gamma * a.alpha:  # entropies cancel
            m = mu.rows(a.arc.sources, a.arc.targets)
            total = total - a.beta * numerics.expectation(m, log_p.reshape(m.shape))
            continue
        if a.beta and not a.hard:
            cost = a.beta * arc_divergence(mu, a.arc, theta, log_p)
            impossible |= bool(cost == math.inf)
            total = total + cost
        if gamma * a.alpha:
            total = total + gamma * a.alpha * arc_conditional_entropy(mu, a.arc)
    return torch.full_like(total, math.inf) if impossible else total
