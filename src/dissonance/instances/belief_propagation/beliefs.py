"""The result of belief propagation: messages, beliefs, marginals and the free energy they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.instances.belief_propagation.factor_graph import FactorGraph, spread_over
from dissonance.variables import Variable, shape


@dataclass(frozen=True, eq=False)
class Beliefs:
    """The state of belief propagation: every message "X->a" and "a->X", and the belief about every region X.

    `powers` are the powers of the factors: all 1, except in message passing by other alpha-divergences.
    """

    graph: FactorGraph
    messages: Mapping[str, Tensor]
    beliefs: Mapping[str, Tensor]
    powers: Mapping[str, float]

    @cached_property
    def marginals(self) -> dict[str, Tensor]:
        """The belief about every variable: that of its region, or what the smallest table that knows it says."""
        found: dict[str, Tensor] = {}
        for r in sorted(self.graph.regions, key=lambda r: r.size):
            for v in r.variables:
                if v.name not in found:
                    found[v.name] = _onto(self.beliefs[r.name], r.variables, v)
        for phi in sorted(self.graph.factors, key=lambda phi: phi.table.numel()):
            for v in phi.scope:
                if v.name not in found:
                    found[v.name] = _onto(self.factor_belief(phi.name), phi.scope, v)
        return {v.name: found[v.name] for v in self.graph.variables}

    def factor_belief(self, name: str) -> Tensor:
        """b_a ~ phi_a^alpha prod_X m_{X->a}: the belief about a factor's scope."""
        table = self._tilted(name)
        return table / table.sum()

    def _tilted(self, name: str) -> Tensor:
        phi = self.graph.factor[name]
        table = phi.table ** self.powers[name]
        for r in self.graph.around[name]:
            table = table * spread_over(self.messages[f"{r.name}->{name}"], r.variables, phi.scope)
        return table

    @cached_property
    def free_energy(self) -> float:
        """The Bethe free energy of a fixed point, -log Z on a tree: a signed sum of local inconsistencies.

            -sum_X log Z_X - sum_a 1/alpha_a (log Z_a - sum_X log Z_aX)

        with Z_X = sum prod_b m_{b->X}^(1/alpha_b), Z_a = sum phi_a^alpha_a prod_X m_{X->a}, Z_aX = sum m_{a->X}
        m_{X->a}. Each -log Z is the inconsistency of the arcs it multiplies at gamma = 1 (of a normalised phi, plus the
        logarithm of its sum).
        """
        total = torch.zeros((), dtype=numerics.DTYPE)
        for r in self.graph.regions:
            product = torch.ones(shape(r.variables), dtype=numerics.DTYPE)
            for a in r.neighbours:
                product = product * self.messages[f"{a}->{r.name}"] ** (1 / self.powers[a])
            total = total - product.sum().log()
        for phi in self.graph.factors:
            own = self._tilted(phi.name).sum().log()
            for r in self.graph.around[phi.name]:
                ends = self.messages[f"{r.name}->{phi.name}"], self.messages[f"{phi.name}->{r.name}"]
                own = own - (ends[0] * ends[1]).sum().log()
            total = total - own / self.powers[phi.name]
        return float(total)

    def __repr__(self) -> str:
        graph = self.graph
        return f"Beliefs({len(graph.variables)} variables, {len(graph.factors)} factors, {len(self.messages)} messages)"


def _onto(table: Tensor, scope: tuple[Variable, ...], v: Variable) -> Tensor:
    """The marginal of one variable."""
    rest = [i for i, u in enumerate(scope) if u != v]
    return table.reshape(shape(scope)).sum(rest) if rest else table.reshape(shape(scope))
