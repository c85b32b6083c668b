"""Components whose mu is known without optimising: pinned by hard arcs, or a factor graph."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.distributions import CliqueTree, Tree
from dissonance.distributions.messages import calibrate
from dissonance.errors import CapabilityError
from dissonance.pdg import Arc, Theta
from dissonance.problem import BUDGET, Component, check_size
from dissonance.scores import incompatibility
from dissonance.solvers.assemble import linear_cost
from dissonance.solvers.base import FEASIBLE, Solution, infinite


def spread(table: Tensor, arc: Arc, tree: Tree, cluster: int) -> Tensor:
    """An arc's table shaped to broadcast over a cluster that contains it."""
    scope = [v.name for v in arc.scope]
    inside = [v for v in tree.clusters[cluster] if v in scope]
    ordered = table.permute([scope.index(v) for v in inside])
    return ordered.reshape([tree.sizes[v] if v in scope else 1 for v in tree.clusters[cluster]])


def gather(component: Component, tree: Tree, tables: dict[str, Tensor]) -> list[Tensor]:
    """Sums of arc tables cluster by cluster."""
    found = [torch.zeros(s, dtype=numerics.DTYPE) for s in tree.shapes]
    for a in component.arcs:
        if a.name in tables:
            home = tree.home(a.scope)
            assert home is not None
            found[home] = found[home] + spread(tables[a.name], a.arc, tree, home)
    return found


class PinnedSolution(Solution):
    """A pinned mu moves with the hard arcs: the incompatibility itself is the function to differentiate."""

    def surrogate(self, theta: Theta | None = None) -> Tensor:
        """The incompatibility as a function of theta, mu included."""
        return _evaluate(self.component, theta)[0]


def _evaluate(component: Component, theta: Theta | None) -> tuple[Tensor, CliqueTree]:
    """The incompatibility of prod_a p_a over the pinning arcs, and that distribution; hard arcs are checked apart."""
    assert component.pinned is not None
    tree = component.tree
    logs = {a.name: a.arc.log_table(theta) for a in component.pinned}
    _, tables = calibrate(tree, gather(component, tree, logs))
    mu = CliqueTree(component.variables, tree, tables)
    soft = component.attention.replace(beta={a.name: 0.0 for a in component.arcs if a.hard})
    return incompatibility(mu, component.pdg, soft, theta), mu


@dataclass(frozen=True)
class Pinned:
    """Hard acyclic arcs determine mu in the scope of every arc: nothing is left to optimise, whatever their weights."""

    budget: int = BUDGET

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "pinned"

    def solve(self, component: Component) -> Solution:
        """The incompatibility of the one feasible mu; infinite if a further hard arc contradicts it."""
        if component.pinned is None:
            loose = sorted(set(component.sizes) - {t for a in component.arcs if a.hard for t in a.targets})
            raise CapabilityError(
                "the pinned solver needs acyclic hard arcs (beta = inf) that determine every attended variable; "
                + (
                    f"none determines {loose[0]!r}."
                    if loose
                    else "here they form a cycle, or leave free how variables of one arc depend on each other."
                )
            )
        check_size(component.tree, self.budget, False)
        value, mu = _evaluate(component, component.theta)
        residual = 0.0
        for a in component.arcs:
            if a.hard and a not in component.pinned:
                m = mu.rows(a.arc.sources, a.arc.targets).detach()
                p = torch.from_numpy(a.log_p).exp().reshape(m.shape)
                residual = max(residual, float((m - m.sum(-1, keepdim=True) * p).abs().max()))
        exact = float(value.detach())
        if residual > FEASIBLE or math.isinf(exact) or math.isnan(exact):
            return infinite(
                component, self.name, -math.inf if residual <= FEASIBLE and exact == -math.inf else math.inf
            )
        rounding = 1e-14 * max(1.0, abs(exact)) + component.rounding
        tables = tuple(t.detach() for t in mu.tables)
        return PinnedSolution(
            component, exact - rounding, exact + rounding, self.name, tree=mu.tree, tables=tables, residual=residual
        )


@dataclass(frozen=True)
class SumProduct:
    """A factor graph: beta = gamma alpha on every mechanism and no hard arcs.

    mu* is proportional to prod_a p_a^(beta_a/gamma), and the inconsistency is -gamma log of its normaliser.
    """

    budget: int = BUDGET

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "sum-product"

    @staticmethod
    def fits(component: Component) -> bool:
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
        check_size(tree, self.budget, False)
        logs = {a.name: torch.from_numpy(-linear_cost(a, None, gamma) / gamma) for a in component.arcs}
        log_z, tables = calibrate(tree, gather(component, tree, logs))
        value = -gamma * float(log_z)
        if math.isinf(value):
            return infinite(component, self.name)
        rounding = 1e-14 * max(1.0, abs(value)) * math.sqrt(len(tree.clusters)) + component.rounding
        return Solution(component, value - rounding, value + rounding, self.name, tree=tree, tables=tables)
