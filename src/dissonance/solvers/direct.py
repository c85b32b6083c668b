"""Components whose mu is known without optimising: pinned by hard arcs, a factor graph, or one given the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics, tolerances
from dissonance.answer import Answer, Marginals, Solver, infinite
from dissonance.arc import Theta
from dissonance.attended import Array, Attended
from dissonance.distributions import CliqueTree, Distribution, Joint, Tree
from dissonance.distributions.messages import Messages, calibrate, gathered, message_bytes
from dissonance.distributions.tree import single
from dissonance.errors import CapabilityError
from dissonance.problem import BUDGET, Batch, Bools, check_bytes
from dissonance.proof import ProvedBounds
from dissonance.sampling.solver import Sampled, unpinned
from dissonance.scores import attended_incompatibility
from dissonance.solvers.concave_convex import ConcaveConvex
from dissonance.solvers.exact import Newton

BYTES_GIVEN = 80
"""What conditioning holds at its peak for a cell of the clusters, which hold R too: ten tables of the size of mu."""


class _Product(CliqueTree):
    """A distribution made of conditionals whose logarithms are known: H(mu) = -sum_a E_mu[log p_a]."""

    def __init__(self, of: Batch, tables: list[Tensor], logs: dict[str, Tensor]) -> None:
        super().__init__(of.variables, of.tree, tables)
        self.factors = [(a.arc, logs[a.name]) for a in of.arcs if a.name in logs]

    def _entropy(self) -> Tensor:
        total = torch.zeros((), dtype=numerics.DTYPE)
        for arc, log_p in self.factors:
            total = total - numerics.expectation(self._marginal(arc.names), log_p)
        return total


def _contradicted(part: Batch, makers: Sequence[Attended], mu: Distribution, solver: str) -> Answer | None:
    """What is left to say if a hard arc does not hold at the mu that others make: None if they all do.

    What is clear is answered; whether they hold closely enough elsewhere is for the solvers that look for mu.
    """
    worst, off = 0.0, 0.0
    for a in part.arcs:
        if a.hard and a not in makers:
            m = mu.rows(a.arc.sources, a.arc.targets).detach()
            p = torch.from_numpy(a.log_p).exp().reshape(m.shape)
            worst = max(worst, numerics.broken(m, p))
            off = max(off, float((m - m.sum(-1, keepdim=True) * p).abs().max()))
    if worst <= tolerances.ROUNDING:
        return None
    if off > tolerances.CLEARLY * len(part.arcs):
        return infinite(part, solver)
    return (Newton() if part.convex else ConcaveConvex()).solve(part)


@dataclass(frozen=True, eq=False)
class DirectAnswer(Answer):
    """An answer whose value is a function of the tables, mu included.

    `evidence`: log Z(R) of what `Given` solves, of the shape of R's variables in their order; where Z is 0 and mu(R) is
    not, the problem is impossible, and `evidence` says which states of R are to blame.
    """

    value: Callable[[Tables], Tensor] = field(kw_only=True, repr=False)

    exact = True

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """Return the inconsistency as a function of theta."""
        known = theta is self.part.theta and not torch.is_grad_enabled()
        tables = _known(self.part) if known else _tables(self.part, theta)
        return self.value(tables)

    @cached_property
    def slope(self) -> Array:
        """The derivative of the inconsistency in log p, (1, entries)."""
        leaves = {a.name: torch.from_numpy(a.log_p).clone().requires_grad_() for a in self.part.arcs}
        with torch.enable_grad():
            value = self.value(leaves)
        if not (value.requires_grad and math.isfinite(self.upper)):
            return np.zeros_like(self.part.log_p)
        found = torch.autograd.grad(value, list(leaves.values()), allow_unused=True, materialize_grads=True)
        return torch.cat([x.reshape(-1) for x in found]).nan_to_num(0.0).numpy()[None]


Tables = Mapping[str, Tensor]
"""log p of arcs, by name."""


def _tables(part: Batch, theta: Theta | None) -> Tables:
    """log p of the arcs at theta."""
    return {a.name: a.arc.log_table(theta) for a in part.arcs}


def _known(part: Batch) -> Tables:
    """log p of the arcs as the problem has it."""
    return {a.name: torch.from_numpy(a.log_p) for a in part.arcs}


def _evaluate(part: Batch, tables: Tables) -> tuple[Tensor, CliqueTree]:
    """The incompatibility of prod_a p_a over the pinning arcs, and that distribution; hard arcs are checked apart."""
    assert part.pinned is not None
    tree = part.tree
    logs = {a.name: tables[a.name] for a in part.pinned}
    logs_by_cluster = gathered(tree, [(a.scope, logs[a.name]) for a in part.pinned])
    # All in one cluster the product is mu itself; across clusters it must be added up.
    marginals = [logs_by_cluster[0].exp()] if len(logs_by_cluster) == 1 else calibrate(tree, logs_by_cluster)[1]
    mu = _Product(part, marginals, logs)
    return attended_incompatibility(mu, part.arcs, part.gamma.item(), tables), mu


@dataclass(frozen=True)
class Pinned(Solver):
    """Hard acyclic arcs determine mu in the scope of every arc: nothing is left to optimise, whatever their weights."""

    name = "pinned"

    budget: int = BUDGET

    takes = frozenset({"varying"})

    def fits(self, part: Batch) -> Bools | bool:
        """Return where hard arcs determine mu."""
        return bool(part.hard.any()) and np.array([one.pinned is not None for one in part.singles])

    def solve(self, part: Batch) -> Answer:
        """The incompatibility of the one feasible mu; infinite if a further hard arc contradicts it."""
        if part.pinned is None:
            raise CapabilityError(
                f"the pinned solver needs acyclic hard arcs that determine every attended variable; {unpinned(part)}."
            )
        if part.varying:  # the one mu, outcome by outcome
            return replace(Sampled().solve(part), solver=self.name)
        check_bytes(part.tree, message_bytes(part.tree), self.budget)
        with torch.no_grad():
            value, mu = _evaluate(part, _known(part))
        odd = _contradicted(part, part.pinned, mu, self.name)
        if odd is not None:
            return odd
        exact = float(value)
        if not math.isfinite(exact):
            return infinite(part, self.name, exact)
        bounds = part.proved(exact, exact, 1e-14 * max(1.0, abs(exact)))

        def at(tables: Tables) -> Tensor:
            return _evaluate(part, tables)[0]

        return DirectAnswer(part, bounds, self.name, Marginals(mu.tree, mu.tables), unique=True, value=at)


@dataclass(frozen=True)
class SumProductSolver(Solver):
    """A factor graph: beta = gamma alpha on every mechanism and no hard arcs.

    mu* is proportional to prod_a p_a^(beta_a/gamma), and the inconsistency is -gamma log of its normaliser.
    """

    name = "sum-product"

    budget: int = BUDGET

    def fits(self, part: Batch) -> Bools:
        """Return which problems are factor graphs."""
        factors = (part.gamma > 0) & ((part.beta >= 0) & ~part.hard).all(1)
        return factors & (part.mechanism_weights == 0).all(1) if factors.any() else factors

    def solve(self, part: Batch) -> Answer:
        """One calibration of the junction tree; exact but for rounding."""
        if not self.fits(part):
            raise CapabilityError(
                "the sum-product solver needs gamma > 0, beta = gamma alpha for every (S, T), and beta in [0, inf)."
            )
        tree, gamma = part.tree, part.gamma.item()
        check_bytes(tree, message_bytes(tree), self.budget)
        logs = [(a.scope, numerics.scale(a.beta / gamma, torch.from_numpy(a.log_p))) for a in part.arcs]
        log_z, tables = calibrate(tree, gathered(tree, logs))
        value = -gamma * float(log_z)
        if math.isinf(value):
            return infinite(part, self.name)
        blur = 1e-14 * max(1.0, abs(value)) * math.sqrt(len(tree.clusters))
        return Answer(part, part.proved(value, value, blur), self.name, Marginals(tree, tables), unique=True)


@dataclass(frozen=True)
class _Conditioned:
    """The value; mu(R); log Z(R); and mu's tables over (R, cluster) of `tree`."""

    value: Tensor
    known: Joint
    evidence: Tensor
    tree: Tree
    tables: list[Tensor]


def _condition(part: Batch, tables: Tables) -> _Conditioned:
    """nu(R) = prod of the hard arcs, and for every state of R with mass one problem on the tree of the rest."""
    makers, gamma = part.given, part.gamma.item()
    assert makers is not None
    rest, whole, loose = part.beyond
    known = [v for v in part.variables if v.name not in rest.sizes]
    inside = single({v.name: v.size for v in known})
    nu = gathered(inside, [(a.scope, tables[a.name]) for a in makers])[0].exp()
    within = [a for a in part.arcs if a not in loose]
    inside_mu = Joint(known, nu)
    fixed = attended_incompatibility(inside_mu, within, gamma, tables)
    logs = gathered(whole, [(a.scope, numerics.scale(a.beta / gamma, tables[a.name])) for a in loose])
    support = nu.detach().reshape(-1) > 0
    flat = [x.reshape(nu.numel(), -1) for x in logs]
    everywhere = bool(support.all())
    flat = flat if everywhere else [x[support] for x in flat]
    log_z, cells = Messages(rest).calibrate(torch.cat(flat, 1)) if len(flat) > 1 else _normalised(flat[0])
    weight = nu.reshape(-1)[support]
    value = fixed - gamma * numerics.times(weight, log_z).sum()
    evidence = log_z if everywhere else log_z.new_zeros(nu.numel()).masked_scatter(support, log_z)
    masses = weight[:, None] * cells.detach()
    if not everywhere:
        masses = masses.new_zeros(nu.numel(), masses.shape[1]).index_copy_(0, support.nonzero()[:, 0], masses)
    parts = masses.split([math.prod(s) for s in rest.shapes], 1)
    masses_by_cluster = [x.reshape(s) for x, s in zip(parts, whole.shapes, strict=True)]
    return _Conditioned(value, inside_mu, evidence.reshape(nu.shape), whole, masses_by_cluster)


def _normalised(log_cells: Tensor) -> tuple[Tensor, Tensor]:
    """log Z and the distribution of problems of one cluster, (problems, cells)."""
    top = log_cells.detach().T.amax(0)
    top = torch.where(top == -math.inf, 0.0, top)
    cells = (log_cells - top[:, None]).exp()
    total = cells.T.sum(0)
    return numerics.log(total) + top, cells / torch.where(total > 0, total, 1.0)[:, None]


@dataclass(frozen=True)
class Given(Solver):
    """Hard arcs that pin mu over some variables R, and a factor graph given R.

        mu* = mu(R) prod p_a^(beta_a/gamma) / Z(R)
        inconsistency = (incompatibility of mu(R) with the arcs in R) - gamma E_mu(R)[log Z(R)]

    Data as a hard arc and a latent-variable model make this: the posterior of the latents, and the mean log evidence.
    """

    name = "given"

    budget: int = BUDGET

    def fits(self, part: Batch) -> Bools | bool:
        """Return which problems are such ones, and their tables fit."""
        if not (part.hard.any() and (part.gamma > 0).any()):
            return False
        sizes = [math.inf if one.given is None else one.beyond[1].cells for one in part.singles]
        return BYTES_GIVEN * np.array(sizes, dtype=np.float64) <= self.budget

    def solve(self, part: Batch) -> Answer:
        """One calibration for every state of R; exact but for rounding."""
        if part.given is None:
            raise CapabilityError(
                "the given solver needs gamma > 0, hard arcs (beta = inf) that determine mu over their own variables, "
                "and beta = gamma alpha for every other (S, T)."
            )
        whole = part.beyond[1]
        check_bytes(whole, BYTES_GIVEN * whole.cells, self.budget)
        with torch.no_grad():
            found = _condition(part, _known(part))
        nu = found.known.table
        odd = _contradicted(part, part.given, found.known, self.name)
        if odd is not None:
            return odd
        value = float(found.value)

        def at(tables: Tables) -> Tensor:
            return _condition(part, tables).value

        more: dict[str, Any] = {"evidence": found.evidence, "unique": True, "value": at}
        if bool(((found.evidence == -math.inf) & (nu > 0)).any()):
            value = math.inf  # whatever an arc in R says
        if math.isinf(value):
            return DirectAnswer(part, ProvedBounds.infinite(1, value), self.name, **more)
        size = float(numerics.times(nu, found.evidence.abs()).sum()) * part.gamma.item()
        blur = 1e-14 * max(1.0, abs(value), size) * math.sqrt(len(found.tree.clusters))
        bounds = part.proved(value, value, blur)
        return DirectAnswer(part, bounds, self.name, Marginals(found.tree, found.tables), **more)
