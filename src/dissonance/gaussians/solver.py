"""Linear-Gaussian parts: mu* is Gaussian, its mean by least squares, its covariance in closed form or by Newton.

Why Gaussian: a lower bound that holds for every mu with finite second moments,

    gamma = 0:  OInc(mu) >= E_mu[ sum_a beta_a log r_a(t|s)/p_a(t|s) ] >= min over x of that sum          for any r_a
    gamma > 0:  -gamma log of the integral of exp(-sum/gamma), with beta_a - gamma alpha_a on log r_a

is attained with linear-Gaussian r_a, for which the sum is a quadratic function of x. The bound is proved when that
quadratic is positive semidefinite (`gaussians/covariance.py`).
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics, threads
from dissonance.answer import DEFAULT_TOL, Answer, Solver, infinite
from dissonance.arc import Theta
from dissonance.attended import Array
from dissonance.distributions import Gaussian as GaussianDistribution
from dissonance.distributions.gaussian import check_covariance
from dissonance.errors import CapabilityError, SizeError
from dissonance.problem import BUDGET, EPS, Batch
from dissonance.proof import ProvedBounds
from dissonance.scores import amiss, attended_incompatibility
from dissonance.tolerances import CLEARLY, FEASIBLE, ROUNDING

if TYPE_CHECKING:
    from dissonance.gaussians.covariance import Result
    from dissonance.gaussians.means import GaussianBelief, Mean
    from dissonance.gaussians.moments import Reduction

PRIOR = 1e-9
"""The precision given to directions that no arc bounds, when mu is asked for (scaled coordinates)."""

ALONE = 64
"""Dimensions up to which matrices are so small that threads of BLAS take longer to meet than to multiply them."""

Multiplier = tuple[Array, Array, Array]
"""Omega, Phi and eta of a hard arc: see `GaussianAnswer.surrogate`."""


@dataclass(frozen=True, eq=False)
class GaussianAnswer(Answer):
    """Bounds, the mean, and the reduction from which mu is made on demand."""

    kind = "gaussian"

    mean: Array = field(default_factory=lambda: np.zeros(0))
    reduction: Reduction | None = None
    core: Array = field(default_factory=lambda: np.zeros((0, 0)))
    improper: bool = False
    """Whether the infimum is a limit of ever wider mu, or attained by many: `mu` then stands for them."""
    prices: dict[str, Multiplier] = field(default_factory=dict)

    @cached_property
    def mu(self) -> GaussianDistribution:  # pyright: ignore[reportIncompatibleMethodOverride]
        """mu*; where no arc bounds a direction, a mu with unit variance there (in units of the arcs' noise)."""
        from dissonance.gaussians.covariance import minimise

        assert self.reduction is not None
        core = self.core
        if self.improper:
            core = minimise(self.reduction.program(PRIOR)[0], 1e-3 * PRIOR).C
        C = self.reduction.covariance(core)
        return GaussianDistribution(self.part.variables, torch.from_numpy(self.mean), torch.from_numpy(C))

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """A function of theta with the gradient of the inconsistency at the present theta (its value means nothing).

        Soft arcs, by the envelope theorem: -beta E_mu[log p]. Hard arcs, with R = [-A, I], through the multipliers of
        Sigma = R C R', R C S' = 0 and R m = b, and the entropy H(T|S) = 1/2 log det Sigma that they fix:
        1/2 tr Omega (Sigma - R C R') + tr Phi (R C S')' + eta'(b - R m) + (gamma alpha - beta)/2 log det Sigma.
        """
        total = torch.zeros((), dtype=numerics.DTYPE)
        fixed: set[object] = set()
        for a in self.part.arcs:
            live = a.arc.linear_gaussian(theta)
            if not any(x.requires_grad for x in live):
                continue
            names = list(a.sources), list(a.targets)
            if not a.hard:
                total = total - (a.beta * self.mu.expected_log_prob(names, live) if a.beta else 0.0)
                continue
            A, b, Sigma = live
            i = self.mu.index(a.scope)
            C, m, n = self.mu.covariance[i][:, i], self.mu.mean[i], A.shape[1]
            R = torch.cat([-A, torch.eye(len(b), dtype=numerics.DTYPE)], 1)
            omega, phi, eta = (torch.from_numpy(x) for x in self.prices[a.name])
            total = total + 0.5 * (omega * (Sigma - R @ C @ R.T)).sum() + (phi * (R @ C[:, :n])).sum()
            total = total + eta @ (b - R @ m)
            if a.mechanism not in fixed:
                fixed.add(a.mechanism)
                same = [o for o in self.part.arcs if o.mechanism == a.mechanism]
                weight = sum(self.part.gamma.item() * o.alpha - (0.0 if o.hard else o.beta) for o in same)
                total = total + 0.5 * weight * torch.logdet(Sigma)
        return total


class PinnedGaussian(GaussianAnswer):
    """A pinned mu moves with the hard arcs: the incompatibility itself is the function to differentiate."""

    exact = True

    @cached_property
    def mu(self) -> GaussianDistribution:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The one mu that the hard arcs allow."""
        with torch.no_grad():
            return _product(self.part, self.part.theta)

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """The incompatibility as a function of theta, mu included."""
        return _evaluate(self.part, theta)


def _product(part: Batch, theta: Theta | None) -> GaussianDistribution:
    """prod_a p_a over the pinning arcs: x = B x + b + noise, so m = (I - B)^-1 b and C = (I - B)^-1 N (I - B)^-T."""
    assert part.pinned is not None
    n = sum(len(a.arc.linear_gaussian(theta)[1]) for a in part.pinned)
    empty = GaussianDistribution(part.variables, torch.zeros(n), torch.zeros(n, n))
    B, b, N = torch.eye(n, dtype=numerics.DTYPE), torch.zeros(n, dtype=numerics.DTYPE), torch.zeros(n, n).double()
    for a in part.pinned:
        slope, shift, Sigma = a.arc.linear_gaussian(theta)
        s, t = torch.tensor(empty.index(a.sources), dtype=torch.long), torch.tensor(empty.index(a.targets))
        B = B.index_put((t[:, None], s[None]), -slope)
        b = b.index_put((t,), shift)
        N = N.index_put((t[:, None], t[None]), Sigma)
    half = torch.linalg.solve(B, torch.linalg.cholesky(N))
    return GaussianDistribution(part.variables, torch.linalg.solve(B, b), half @ half.T)


def _evaluate(part: Batch, theta: Theta | None) -> Tensor:
    return attended_incompatibility(_product(part, theta), part.arcs, part.gamma.item(), {}, theta)


@dataclass(frozen=True)
class GaussianSolver(Solver):
    """Linear-Gaussian arcs over Euclidean variables: exact, with proof, for any convex attention.

    `tol`: the gap between the bounds to reach, relative to max(1, |inconsistency|). `budget`: bytes it may use.
    """

    name = "gaussian"

    tol: float = DEFAULT_TOL
    budget: int = BUDGET

    takes = needs = frozenset({"euclidean"})

    def fits(self, part: Batch) -> bool:
        """Whether all is linear-Gaussian."""
        return "euclidean" in part.kinds

    def solve(self, part: Batch) -> Answer:
        """Bounds on the inconsistency, each with its proof, and the Gaussian that attains the upper one.

        -inf if gamma > 0 and some direction is bounded by no arc: mu can be as wide as it likes there.
        """
        if "euclidean" not in part.kinds:
            raise CapabilityError(
                f'the gaussian solver needs Euclidean variables; {part.variables[0]} is not. Use solver="auto".'
            )
        if part.pinned is not None and (known := self._pinned(part)) is not None:
            return known
        if not part.convex:
            if collapses(part):
                return infinite(part, self.name, -math.inf)
            raise CapabilityError(_not_convex(part))
        from dissonance.gaussians.moments import coordinates

        size = sum(map(len, coordinates(part.variables).values()))
        check_covariance(size, self.budget)
        with threads.without_blas_threads() if size <= ALONE else nullcontext():
            return self._bounded(part)

    def _bounded(self, part: Batch) -> Answer:
        """The solution of a convex part."""
        from dissonance.gaussians.moments import gaussian_beliefs

        arcs = gaussian_beliefs(part)
        found = self._solve(part, arcs)
        if found is None:
            return infinite(part, self.name)
        if not math.isfinite(found.upper) or not part.hard.any():
            return found
        residual = _amiss(part, found.mu)
        return replace(found, residual=residual) if residual <= ROUNDING else self._closely(part, arcs, found)

    def _closely(self, part: Batch, arcs: Sequence[GaussianBelief], found: GaussianAnswer) -> Answer:
        """No mu was found at which hard arcs hold: bounds for all mu at which they hold closely enough.

        It is solved as if they said what the present mu does. Where they may be broken by `off` the infimum is lower by
        at most that times their multipliers, to first order; twice that is given up.
        """
        C, m = found.mu.covariance.numpy(), found.mu.mean.numpy()
        now = self._solve(part, [a.said_by(m, C) if a.arc.hard else a for a in arcs])
        if now is None or not math.isfinite(now.upper):
            return replace(found, bounds=part.proved(-math.inf, math.inf, tol=self.tol), within=FEASIBLE)
        residual = _amiss(part, now.mu)
        lower = now.lower - 2 * (FEASIBLE + residual) * _price(part, arcs, now)
        return replace(
            now,
            bounds=part.proved(lower, now.upper, tol=self.tol, broken=residual, within=FEASIBLE),
            steps=found.steps + now.steps,
            residual=residual,
            within=FEASIBLE,
        )

    def _solve(self, part: Batch, arcs: Sequence[GaussianBelief]) -> GaussianAnswer | None:
        """The solution at these beliefs, -inf if nothing bounds it below; None if hard arcs contradict each other."""
        from dissonance.gaussians.covariance import Result, minimise
        from dissonance.gaussians.means import blurred_covariance, mean
        from dissonance.gaussians.moments import Reduction

        middle = mean(arcs, arcs[0].n)
        if middle.residual > 2 * FEASIBLE * math.sqrt(sum(len(a.b) for a in arcs if a.arc.hard)):
            return None  # the root of the sum of their squares is as small as it can be
        if middle.cost == -math.inf:  # more doubt than belief in some direction: the further mu goes there the better
            return GaussianAnswer(part, ProvedBounds.infinite(1, -math.inf), self.name)
        reduction = Reduction(part, arcs)
        if reduction.unbounded:
            return GaussianAnswer(part, ProvedBounds.infinite(1, -math.inf), self.name)
        reduction.peel()
        program, W, V, constant = reduction.program()
        improper = len(V) > 0
        if improper and any(t.hard for t in program.terms):
            raise CapabilityError(
                "hard arcs with a direction that no arc bounds, at gamma = 0: add a soft arc (a wide one is enough) "
                "to the variables that are only sources."
            )
        need = 8 * 6 * program.unknowns**2
        if need > self.budget:
            raise SizeError(
                f"the covariances take {program.unknowns} unknowns, about {need / 2**30:.3g} GiB; the budget is "
                f"{self.budget / 2**30:.3g} GiB. Attend to fewer arcs, or give the solver a larger budget."
            )
        constant += reduction.constant + middle.cost
        tol = 1e-3 * self.tol * max(1.0, abs(constant))
        found = minimise(program, tol) if len(W) else Result(np.zeros((0, 0)), 0.0, 0.0, (), 0.0, 0)
        if found.contradiction:
            return None
        core = W.T @ found.C @ W
        slack = self._rounding(reduction, abs(found.upper) + abs(middle.cost)) + middle.blur
        slack += blurred_covariance(reduction.arcs, np.diag(reduction.covariance(core)))
        low, high = sorted((found.lower + constant, found.upper + constant))  # they cross if hard arcs do not hold yet
        return GaussianAnswer(
            part,
            part.proved(low, high, slack, tol=self.tol),
            self.name,
            steps=found.steps,
            mean=middle.m,
            reduction=reduction,
            core=core,
            improper=improper,
            prices=_prices(reduction, found, middle),
        )

    def _pinned(self, part: Batch) -> Answer | None:
        """The one mu that hard arcs allow; None if others do not hold there, but perhaps closely enough nearby."""
        assert part.pinned is not None
        with torch.no_grad():
            mu, exact = _product(part, part.theta), float(_evaluate(part, part.theta))
        residual = _amiss(part, mu, {a.name for a in part.pinned})  # these hold, however narrow they are
        if residual > CLEARLY * len(part.arcs):
            return infinite(part, self.name)
        if residual > ROUNDING and part.convex:
            return None
        if not math.isfinite(exact):
            raise CapabilityError(
                f"{part.pinned[0].arc} and the other hard arcs make noise that differs by too many orders of "
                "magnitude for double precision. Scale the variables, or widen the narrow arcs."
            )
        from dissonance.gaussians.means import blurred_covariance, blurred_mean
        from dissonance.gaussians.moments import gaussian_beliefs

        arcs, soft = gaussian_beliefs(part), [a for a in part.arcs if not a.hard and a.beta != 0]
        slack = 1e-13 * max(1.0, abs(exact))
        slack += blurred_mean([a for a in arcs if a.arc in soft], mu.mean.numpy())
        slack += blurred_covariance(arcs, mu.covariance.diagonal().numpy())
        within = 0.0 if residual <= ROUNDING else FEASIBLE
        low = -math.inf if within else exact  # other mu, that break all of them a little, may cost less: not convex
        bounds = part.proved(low, exact, slack, tol=self.tol, broken=residual, within=FEASIBLE)
        return PinnedGaussian(part, bounds, self.name, residual=residual, within=within)

    @staticmethod
    def _rounding(reduction: Reduction, value: float) -> float:
        """What float64 blurs: every logarithm, trace and square, times its weight, up to a few ulps."""
        size = value + abs(reduction.constant) + reduction.gamma * reduction.n
        for a in reduction.arcs:
            weight = (0.0 if a.arc.hard else abs(a.arc.beta)) + reduction.gamma * abs(a.arc.alpha)
            size += weight * (abs(a.log_det) + len(a.b))
        return 256 * EPS * size


def _prices(reduction: Reduction, found: Result, middle: Mean) -> dict[str, Multiplier]:
    """The multipliers of the hard arcs, for their equations as they stand (not whitened)."""
    from scipy.linalg import inv, solve_triangular

    hard: list[GaussianBelief] = [h for g in reduction.groups for h in g.hard]
    duals = [d for d in found.duals if len(d.Omega)]
    prices = dict(reduction.multipliers)
    for h, d in zip(hard, duals, strict=True):
        inverse = inv(h.L)
        prices[h.arc.name] = inverse.T @ d.Omega @ inverse, inverse.T @ d.Phi * reduction.scale[h.sources]
    root = {a.arc.name: a.L for a in reduction.arcs}
    eta = {name: solve_triangular(root[name], middle.eta[name], lower=True, trans=1) for name in prices}
    return {name: (*both, eta[name]) for name, both in prices.items()}


def _amiss(part: Batch, mu: GaussianDistribution, but: Container[str] = ()) -> float:
    """How far hard arcs are from holding: see `scores.amiss`."""
    arcs = [a.arc for a in part.arcs if a.hard and a.name not in but]
    return max((amiss(mu, arc, part.theta) for arc in arcs), default=0.0)


def _price(part: Batch, arcs: Sequence[GaussianBelief], found: GaussianAnswer) -> float:
    """What hard arcs cost at most, to first order, for each unit by which `scores.amiss` finds them broken."""
    deviation = np.sqrt(found.mu.covariance.diagonal().numpy())
    total = 0.0
    for a in arcs:
        if a.arc.hard:
            omega, phi, eta = found.prices[a.arc.name]
            total += 0.5 * float(np.abs(a.L.T @ omega @ a.L).sum()) + float(np.abs(a.L.T @ eta).sum())
            total += float((np.abs(a.L.T @ phi) @ deviation[a.sources]).sum())
        total += len(a.b) * (part.gamma.item() * abs(a.arc.alpha) + (0.0 if a.arc.hard else abs(a.arc.beta)))
    return total


def collapses(part: Batch) -> bool:
    """Whether the incompatibility goes to -inf as targets with more doubt than belief become a function of sources.

    If mu lies within epsilon of a subspace, H(A) is loss(A) log epsilon and bounded terms, loss(A) the dimensions that
    A loses there. So sum_A e_A H(A), with e_A the weight of H(A), has no lower end if sum_A e_A loss(A) > 0; all else
    is bounded. Tried are T = 0 and T = f(S) with a linear f in general position, for every (S, T) of negative weight.
    """
    if part.hard.any():
        return False
    from dissonance.gaussians.moments import coordinates

    place, rng = coordinates(part.variables), np.random.default_rng(0)
    for (sources, targets), weight in part.weights.items():
        if weight >= 0:
            continue
        s, t = ([i for name in place if name in names for i in place[name]] for names in (sources, targets))
        for scale in (0.0, 1.0):
            basis = np.eye(sum(map(len, place.values())))
            basis[t] = 0.0
            basis[np.ix_(t, s)] = scale * rng.normal(size=(len(t), len(s)))
            rate = 0.0
            for names, w in part.entropies.items():
                rows = [i for name in place if name in names for i in place[name]]
                rate += w * (len(rows) - int(np.linalg.matrix_rank(basis[rows])))
            if rate > 1e-9 * max(map(abs, part.entropies.values())):
                return True
    return False


def _not_convex(part: Batch) -> str:
    first = next(a for a in part.arcs if a.beta < part.gamma.item() * a.alpha or a.beta < 0)
    return (
        f"{first.arc} has beta < gamma alpha, not outweighed by other arcs with the same sources and targets, so the "
        "incompatibility is not convex. The gaussian solver needs a convex one, unless hard arcs determine mu."
    )
