"""Sum-product on a junction forest: from a table a cluster to calibrated marginals and the normaliser."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.distributions.tree import Tree


def calibrate(tree: Tree, log_tables: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """log Z and the cluster marginals of mu(x) proportional to prod_C exp(log_tables[C](x_C)).

    Differentiable. -inf is allowed; if nothing is possible log Z = -inf and the marginals mean nothing.
    """
    log = list(log_tables)
    upward: dict[int, Tensor] = {}
    total = torch.zeros((), dtype=numerics.DTYPE)
    for i in reversed(range(len(tree.clusters))):
        message = _log_marginal(log[i], tree.clusters[i], tree.separators[i])
        if tree.parent[i] < 0:
            total = total + message
        else:
            upward[i] = message
            log[tree.parent[i]] = log[tree.parent[i]] + _aligned(message, tree, i, tree.parent[i])
    marginals: list[Tensor] = []
    for i, cluster in enumerate(tree.clusters):
        p = tree.parent[i]
        if p < 0:
            marginals.append((log[i] - _log_marginal(log[i], cluster, ())).exp())
            continue
        wanted = _marginal(marginals[p], tree.clusters[p], tree.separators[i])
        given = (log[i] - _aligned(_finite(upward[i]), tree, i, i)).exp()
        marginals.append(given * _aligned(wanted, tree, i, i))
    return total, marginals


def _finite(message: Tensor) -> Tensor:
    return torch.where(message == -torch.inf, 0.0, message)


def _log_marginal(log_table: Tensor, cluster: Sequence[str], keep: Sequence[str]) -> Tensor:
    rest = [k for k, v in enumerate(cluster) if v not in keep]
    if not rest:
        return log_table
    top = log_table.detach().amax(rest, keepdim=True)
    top = torch.where(top == -torch.inf, 0.0, top)
    return numerics.log((log_table - top).exp().sum(rest)) + top.squeeze(rest)


def _marginal(table: Tensor, cluster: Sequence[str], keep: Sequence[str]) -> Tensor:
    """The marginal with its axes in the order of `keep`."""
    rest = [k for k, v in enumerate(cluster) if v not in keep]
    left = [v for v in cluster if v in keep]
    return (table.sum(rest) if rest else table).permute([left.index(v) for v in keep])


def _aligned(message: Tensor, tree: Tree, child: int, cluster: int) -> Tensor:
    """A table over a child's separator, shaped to broadcast over a cluster that contains it."""
    scope, separator = tree.clusters[cluster], tree.separators[child]
    inside = [v for v in scope if v in separator]
    ordered = message.permute([separator.index(v) for v in inside])
    return ordered.reshape([tree.sizes[v] if v in separator else 1 for v in scope])
