"""Components whose mu is known without optimising: pinned by hard arcs, a factor graph, or one given the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dissonance import numerics, tolerances
from dissonance.arc import Theta
from dissonance.attended import Attended
from dissonance.distributions import CliqueTree, Distribution, Joint, Tree
from dissonance.distributions.messages import Messages, calibrate, gathered, message_bytes
from dissonance.distributions.tree import single
from dissonance.errors import CapabilityError
from dissonance.problem import BUDGET, Component, check_bytes
from dissonance.sampling.solver import Sampled, unpinned
from dissonance.scores import unchecked_incompatibility
from dissonance.solution import Solution, Solver, infinite
from dissonance.solvers.concave_convex import ConcaveConvex
from dissonance.solvers.exact import Newton

BYTES_GIVEN = 80
"""What conditioning holds at its peak for a cell of the clusters, which hold R too: ten tables of the size of mu."""


class _Product(CliqueTree):
    """A distribution made of conditionals whose logarithms are known: H(mu) = -sum_a E_mu[log p_a]."""

    def __init__(self, of: Component, tables: list[Tensor], logs: dict[str, Tensor]) -> None:
        super().__init__(of.variables, of.tree, tables)
        self.factors = [(a.arc, logs[a.name]) for a in of.arcs if a.name in logs]

    def _entropy(self) -> Tensor:
        total = torch.zeros((), dtype=numerics.DTYPE)
        for arc, log_p in self.factors:
            total = total - numerics.expectation(self._marginal(arc.names), log_p)
        return total


def _contradicted(component: Component, makers: Sequence[Attended], mu: Distribution, solver: str) -> Solution | None:
    """What is left to say if a hard arc does not hold at the mu that others make: None if they all do.

    What is clear is answered; whether they hold closely enough elsewhere is for the solvers that look for mu.
    """
    worst, off = 0.0, 0.0
    for a in component.arcs:
        if a.hard and a not in makers:
            m = mu.rows(a.arc.sources, a.arc.targets).detach()
            p = torch.from_numpy(a.log_p).exp().reshape(m.shape)
            worst = max(worst, numerics.broken(m, p))
            off = max(off, float((m - m.sum(-1, keepdim=True) * p).abs().max()))
    if worst <= tolerances.ROUNDING:
        return None
    if off > tolerances.CLEARLY * len(component.arcs):
        return infinite(component, solver)
    return (Newton() if component.convex else ConcaveConvex()).solve(component)


def _tables(component: Component, arcs: Sequence[Attended], theta: Theta | None) -> dict[str, Tensor]:
    """log p of some arcs at theta; as they are known already, unless derivatives are asked for."""
    known = theta is component.theta and not torch.is_grad_enabled()
    return {a.name: torch.from_numpy(a.log_p) if known else a.arc.log_table(theta) for a in arcs}


class PinnedSolution(Solution):
    """A pinned mu moves with the hard arcs: the incompatibility itself is the function to differentiate."""

    exact = True

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """The incompatibility as a function of theta, mu included."""
        return _evaluate(self.component, theta)[0]


def _evaluate(component: Component, theta: Theta | None) -> tuple[Tensor, CliqueTree]:
    """The incompatibility of prod_a p_a over the pinning arcs, and that distribution; hard arcs are checked apart."""
    assert component.pinned is not None
    tree = component.tree
    known = _tables(component, component.arcs, theta)
    logs = {a.name: known[a.name] for a in component.pinned}
    logs_by_cluster = gathered(tree, [(a.scope, logs[a.name]) for a in component.pinned])
    # All in one cluster the product is mu itself; across clusters it must be added up.
    tables = [logs_by_cluster[0].exp()] if len(logs_by_cluster) == 1 else calibrate(tree, logs_by_cluster)[1]
    mu = _Product(component, tables, logs)
    soft = component.attention.replace(beta={a.name: 0.0 for a in component.arcs if a.hard})
    return unchecked_incompatibility(mu, component.pdg, soft, theta, known), mu


@dataclass(frozen=True)
class Pinned(Solver):
    """Hard acyclic arcs determine mu in the scope of every arc: nothing is left to optimise, whatever their weights."""

    name = "pinned"

    budget: int = BUDGET

    takes = frozenset({"varying"})

    def fits(self, component: Component) -> bool:
        """Whether hard arcs determine mu."""
        return component.pinned is not None

    def solve(self, component: Component) -> Solution:
        """The incompatibility of the one feasible mu; infinite if a further hard arc contradicts it."""
        if component.pinned is None:
            raise CapabilityError(
                "the pinned solver needs acyclic hard arcs that determine every attended variable; "
                f"{unpinned(component)}."
            )
        if component.varies:  # the one mu, outcome by outcome
            return replace(Sampled().solve(component), solver=self.name)
        check_bytes(component.tree, message_bytes(component.tree), self.budget)
        value, mu = _evaluate(component, component.theta)
        odd = _contradicted(component, component.pinned, mu, self.name)
        if odd is not None:
            return odd
        exact = float(value.detach())
        if not math.isfinite(exact):
            return infinite(component, self.name, exact)
        lower, upper, _ = component.proved(exact, exact, 1e-14 * max(1.0, abs(exact)))
        tables = tuple(map(Tensor.detach, mu.tables))
        return PinnedSolution(component, lower, upper, self.name, tree=mu.tree, tables=tables)


@dataclass(frozen=True)
class SumProductSolver(Solver):
    """A factor graph: beta = gamma alpha on every mechanism and no hard arcs.

    mu* is proportional to prod_a p_a^(beta_a/gamma), and the inconsistency is -gamma log of its normaliser.
    """

    name = "sum-product"

    budget: int = BUDGET

    def fits(self, component: Component) -> bool:
        """Whether this component is a factor graph."""
        return (
            component.gamma > 0
            and not any(a.hard or a.beta < 0 for a in component.arcs)
            and all(w == 0 for w in component.weights.values())
        )

    def solve(self, component: Component) -> Solution:
        """One calibration of the junction tree; exact but for rounding."""
        if not self.fits(component):
            raise CapabilityError(
                "the sum-product solver needs gamma > 0, beta = gamma alpha for every (S, T), and beta in [0, inf)."
            )
        tree, gamma = component.tree, component.gamma
        check_bytes(tree, message_bytes(tree), self.budget)
        logs = [(a.scope, numerics.scale(a.beta / gamma, torch.from_numpy(a.log_p))) for a in component.arcs]
        log_z, tables = calibrate(tree, gathered(tree, logs))
        value = -gamma * float(log_z)
        if math.isinf(value):
            return infinite(component, self.name)
        blur = 1e-14 * max(1.0, abs(value)) * math.sqrt(len(tree.clusters))
        lower, upper, _ = component.proved(value, value, blur)
        return Solution(component, lower, upper, self.name, tree=tree, tables=tables)


@dataclass(frozen=True)
class GivenSolution(Solution):
    """mu(R) by hard arcs, a factor graph given R; `evidence` is log Z(R), of the shape of R's variables in their order.

    Where Z is 0 and mu(R) is not, the component is impossible: `evidence` then says which states of R are to blame.
    """

    evidence: Tensor | None = None

    exact = True

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """The value as a function of theta: mu(R) and Z(R) both move."""
        return _condition(self.component, theta).value


@dataclass(frozen=True)
class _Conditioned:
    """The value; mu(R); log Z(R); and mu's tables over (R, cluster) of `tree`."""

    value: Tensor
    known: Joint
    evidence: Tensor
    tree: Tree
    tables: list[Tensor]


def _condition(component: Component, theta: Theta | None) -> _Conditioned:
    """nu(R) = prod of the hard arcs, and for every state of R with mass one problem on the tree of the rest."""
    makers, gamma = component.given, component.gamma
    assert makers is not None
    rest, whole, loose = component.beyond
    known = [v for v in component.variables if v.name not in rest.sizes]
    tables = _tables(component, (*makers, *loose), theta)
    inside = single({v.name: v.size for v in known})
    nu = gathered(inside, [(a.scope, tables[a.name]) for a in makers])[0].exp()
    within = [a for a in component.arcs if a not in loose]
    soft = component.attention.replace(beta={a.name: 0.0 for a in within if a.hard}).without(*(a.name for a in loose))
    inside_mu = Joint(known, nu)
    fixed = unchecked_incompatibility(inside_mu, component.pdg, soft, theta)
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

    def fits(self, component: Component) -> bool:
        """Whether this is such a component, and its tables fit."""
        if component.gamma <= 0 or component.given is None:
            return False
        return BYTES_GIVEN * component.beyond[1].cells <= self.budget

    def solve(self, component: Component) -> Solution:
        """One calibration for every state of R; exact but for rounding."""
        if component.given is None:
            raise CapabilityError(
                "the given solver needs gamma > 0, hard arcs (beta = inf) that determine mu over their own variables, "
                "and beta = gamma alpha for every other (S, T)."
            )
        whole = component.beyond[1]
        check_bytes(whole, BYTES_GIVEN * whole.cells, self.budget)
        with torch.no_grad():
            found = _condition(component, component.theta)
        nu = found.known.table
        odd = _contradicted(component, component.given, found.known, self.name)
        if odd is not None:
            return odd
        value = float(found.value)
        if bool(((found.evidence == -math.inf) & (nu > 0)).any()):
            value = math.inf  # whatever an arc in R says
        if math.isinf(value):
            return GivenSolution(component, value, value, self.name, evidence=found.evidence)
        size = float(numerics.times(nu, found.evidence.abs()).sum()) * component.gamma
        blur = 1e-14 * max(1.0, abs(value), size) * math.sqrt(len(found.tree.clusters))
        lower, upper, _ = component.proved(value, value, blur)
        known = GivenSolution(component, lower, upper, self.name, evidence=found.evidence)
        return replace(known, tree=found.tree, tables=found.tables)
