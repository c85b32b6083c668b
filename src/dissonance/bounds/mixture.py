"""mu as a mixture of products over blocks of variables: its marginals are known whatever the treewidth, and its entropy
is at least the mean of theirs.

A product mu = prod_B mu_B costs, with q and all other blocks fixed, what a small problem over B costs: the cost of a
term across blocks is averaged over what others have in it, and H(T|S) is the sum of those of its parts. So every block
is solved exactly in turn, on its own junction tree, and the incompatibility never rises. As it is convex in marginals,

    incompatibility(sum_k c_k mu_k)  <=  sum_m [E cost_m - w_m H(T_m|S_m)](sum_k c_k mu_k)  -  gamma sum_k c_k H(mu_k),

and a mixture of products with other blocks costs no more than they do on average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dissonance.bounds.cut import CutBlock, blocks_apart
from dissonance.bounds.terms import Floats
from dissonance.compiled import clock
from dissonance.costs import LOG_SCORE, FlatRows
from dissonance.distributions import CliqueTree, Distribution
from dissonance.problem import Batch
from dissonance.reduced.dual import FIXED, SOFT, ReducedDual, ReducedPoint, ReducedTerm, reduced_terms
from dissonance.reduced.solver import Cooling, Reduced, agreeing_tables
from dissonance.variables import Variable

ROUNDS = 8
"""How often every block is solved in turn, at most."""

GAIN = 1e-3
"""What a round must gain, as a share of the incompatibility, for another to follow; and how well a block is solved."""

MOST = 24
"""Products of a mixture."""

UNSURE = 1e-12
"""What rounding may do to marginals, relative to all that is added up."""

LEAST = 1.0
"""Seconds that a block may take, at least."""


@dataclass(frozen=True)
class BlockProduct:
    """mu = prod_B mu_B: its mass in the entries of all terms, its entropy, what rounding may have done, and mu_B."""

    mass: Floats
    entropy: float
    blur: float
    parts: tuple[CliqueTree, ...]


class BlockMixture(Distribution):
    """A mixture of products over blocks. Its entropy is at least the mean of theirs, which is what is given for it."""

    def __init__(
        self, variables: tuple[Variable, ...], shares: Sequence[float], products: Sequence[BlockProduct]
    ) -> None:
        self.variables, self.shares, self.products = variables, tuple(shares), tuple(products)

    def _marginal(self, names: tuple[str, ...]) -> Tensor:
        found: Tensor | None = None
        for share, product in zip(self.shares, self.products, strict=True):
            table = share * _across(product, names)
            found = table if found is None else found + table
        assert found is not None
        return found

    def _entropy(self) -> Tensor:
        each = [share * p.entropy for share, p in zip(self.shares, self.products, strict=True)]
        return torch.tensor(math.fsum(each), dtype=torch.float64)

    def _sample(self, count: int, generator: torch.Generator | None) -> dict[str, Tensor]:
        shares = torch.tensor(self.shares, dtype=torch.float64)
        which = torch.multinomial(shares, count, replacement=True, generator=generator)
        found = {v.name: torch.zeros(count, dtype=torch.long) for v in self.variables}
        for k, product in enumerate(self.products):
            here = torch.nonzero(which == k).flatten()
            for part in product.parts if len(here) else ():
                drawn: Any = part
                for name, values in drawn._sample(len(here), generator).items():
                    found[name][here] = values
        return found

    def __repr__(self) -> str:
        return self._labelled(f"BlockMixture of {len(self.products)} products")


def _across(product: BlockProduct, names: tuple[str, ...]) -> Tensor:
    """The marginal of independent parts: the product of theirs."""
    found, order = torch.ones((), dtype=torch.float64), list[str]()
    for part in product.parts:
        own = tuple(n for n in names if n in part.tree.sizes)
        if own:
            found = torch.tensordot(found, part.marginal(*own), 0)
            order += own
    return found.permute([order.index(n) for n in names])


class ProductDescent:
    """The blocks of one cut, each solved in turn given the others."""

    def __init__(self, component: Batch, terms: Sequence[ReducedTerm], blocks: Sequence[CutBlock]) -> None:
        self.component, self.terms, self.blocks = component, terms, blocks
        sizes = component.sizes
        home = {v: k for k, b in enumerate(blocks) for v in b.variables}
        self.homes = [[home[v] for v in t.scope] for t in terms]
        self.shapes = [tuple(sizes[v] for v in t.scope) for t in terms]
        self.members: list[list[int]] = [[] for _ in blocks]
        for i, homes in enumerate(self.homes):
            for k in dict.fromkeys(homes):
                self.members[k].append(i)
        self.mass = {
            (i, k): np.full(self._part(i, k), 1 / math.prod(self._part(i, k)))
            for k, some in enumerate(self.members)
            for i in some
        }
        self.points: list[ReducedPoint | None] = [None] * len(blocks)
        self.blurs = [0.0] * len(blocks)

    def _part(self, i: int, k: int) -> tuple[int, ...]:
        """The sizes of the variables of a term that are in a block."""
        return tuple(n for n, h in zip(self.shapes[i], self.homes[i], strict=True) if h == k)

    def _averaged(self, i: int, k: int) -> Floats:
        """What a term costs in block k, averaged over what other blocks have in it."""
        axes = list(range(len(self.homes[i])))
        others = [h for h in dict.fromkeys(self.homes[i]) if h != k]
        tables = [(self.mass[i, h], [j for j in axes if self.homes[i][j] == h]) for h in others]
        operands: list[Any] = [
            x for pair in ((self.terms[i].cost.reshape(self.shapes[i]), axes), *tables) for x in pair
        ]
        return np.einsum(*operands, [j for j in axes if self.homes[i][j] == k])

    def _seen(self, i: int, k: int) -> ReducedTerm:
        """A term as block k sees it."""
        t, homes = self.terms[i], self.homes[i]
        if all(h == k for h in homes):
            return t
        rows, sources = len(t.cost) // t.width, 0
        while math.prod(self.shapes[i][:sources]) < rows:
            sources += 1
        here = [j for j, h in enumerate(homes) if h == k]
        targets = [j for j in here if j >= sources]
        width = math.prod(self.shapes[i][j] for j in targets)
        weight = t.weight if width > 1 else 0.0
        cost = self._averaged(i, k).ravel()
        even = np.full(len(cost), -math.log(width))
        scope = tuple(t.scope[j] for j in here)
        return ReducedTerm(scope, SOFT if weight > 0 else FIXED, width, cost, weight, even, t.name)

    def solve_block(self, k: int, seconds: float) -> bool:
        """Solve a block given the others, as well as there is time; whether there is a mu."""
        block = self.blocks[k]
        dual = ReducedDual(block.tree, [self._seen(i, k) for i in self.members[k]])
        before = self.points[k]
        run = Cooling(Reduced(seconds, 100 * GAIN), self.component.gamma.item(), dual)
        run.told = math.inf  # its bounds are not those of the whole
        run.run(None if before is None else before.x)
        if run.upper == math.inf or run.best is None:
            return False
        self.points[k], self.blurs[k] = run.best, dual.blur(run.best)
        for j, i in enumerate(self.members[k]):
            self.mass[i, k] = run.best.mass[dual.at[j] : dual.at[j + 1]].reshape(self._part(i, k))
        return True

    def joint(self, i: int) -> Floats:
        """mu in the entries of a term."""
        axes = list(range(len(self.homes[i])))
        parts = [(self.mass[i, h], [j for j in axes if self.homes[i][j] == h]) for h in dict.fromkeys(self.homes[i])]
        operands: list[Any] = [x for pair in parts for x in pair]
        return np.einsum(*operands, axes).ravel()

    def product(self) -> BlockProduct:
        """mu as it stands."""
        entropy, parts = 0.0, list[CliqueTree]()
        known = {v.name: v for v in self.component.variables}
        for block, point in zip(self.blocks, self.points, strict=True):
            assert point is not None
            entropy += max(0.0, (point.mean - point.value) / point.temperature)
            variables = [known[n] for n in block.variables]
            parts.append(CliqueTree(variables, block.tree, agreeing_tables(block.tree, point.cells)))
        mass = np.concatenate([self.joint(i) for i in range(len(self.terms))])
        return BlockProduct(mass, entropy, math.fsum(self.blurs), tuple(parts))


class MixtureDescent:
    """Products over blocks, cut in other places each time, mixed as is best."""

    def __init__(self, component: Batch, generator: np.random.Generator) -> None:
        self.component, self.generator = component, generator
        self.terms = reduced_terms(component)
        self.value, self.blur = math.inf, 0.0
        self.products: list[BlockProduct] = []
        self.shares: list[float] = []
        self.mass, self.entropy = np.zeros(0), 0.0

    @cached_property
    def _flat(self) -> tuple[Floats, Floats, FlatRows]:
        """Cost and weight of all entries, and their rows."""
        cost = np.concatenate([np.where(np.isinf(t.cost), 0.0, t.cost) for t in self.terms])
        weight = np.concatenate([np.full(len(t.cost), t.weight) for t in self.terms])
        widths = np.concatenate([np.full(len(t.cost) // t.width, t.width) for t in self.terms])
        return cost, weight, FlatRows.wide(widths)

    def _cost(self, mass: Floats, entropy: float) -> tuple[float, float]:
        """sum_m E[cost] - w H(T|S), less gamma times the entropy; and all that was added up for it."""
        cost, weight, rows = self._flat
        own, gamma = weight * LOG_SCORE.value(mass, np.zeros_like(mass), rows), self.component.gamma.item()
        value = float((mass * cost + own).sum()) - gamma * entropy
        return value, float((mass * (np.abs(cost) + weight) + np.abs(own)).sum()) + gamma * (1 + entropy)

    def _mixed(self, product: BlockProduct, share: float) -> tuple[Floats, float]:
        mass = (1 - share) * self.mass + share * product.mass
        return mass, (1 - share) * self.entropy + share * product.entropy

    def add(self, deadline: float) -> bool:
        """One product more, with the share that is best; whether another may help. After the deadline it is not made
        any better."""
        if len(self.products) >= MOST:
            return False
        blocks = blocks_apart(self.component.sizes, self.terms, self.generator)
        product = None if blocks is None else self._descended(blocks, deadline)
        if product is None:
            return False
        share = self._share(product) if self.products else 1.0
        if share <= 0:
            return len(blocks or ()) > 1
        self.mass, self.entropy = self._mixed(product, share) if self.products else (product.mass, product.entropy)
        kept = [(s * (1 - share), p) for s, p in zip(self.shares, self.products, strict=True) if share < 1]
        self.shares, self.products = [s for s, _ in kept] + [share], [p for _, p in kept] + [product]
        self.value, size = self._cost(self.mass, self.entropy)
        self.blur = max(p.blur for p in self.products) + UNSURE * size
        return len(blocks or ()) > 1

    def _descended(self, blocks: Sequence[CutBlock], deadline: float) -> BlockProduct | None:
        """The product over these blocks that no block can better by itself."""
        down, before = ProductDescent(self.component, self.terms, blocks), math.inf
        for _ in range(ROUNDS):
            for k in range(len(blocks)):
                if not down.solve_block(k, max(LEAST, (deadline - clock()) / len(blocks))):
                    return None
            found = down.product()
            value = self._cost(found.mass, found.entropy)[0]
            if len(blocks) == 1 or before - value <= GAIN * abs(value) or clock() > deadline:
                return found
            before = value
        return down.product()

    def _share(self, product: BlockProduct) -> float:
        """The share of a product that makes the mixture cost least: the cost is convex in it."""
        low, high = 0.0, 1.0
        for _ in range(20):
            third = (high - low) / 3
            left, right = (self._cost(*self._mixed(product, x))[0] for x in (low + third, high - third))
            low, high = (low, high - third) if left <= right else (low + third, high)
        best = min((0.0, 0.5 * (low + high), 1.0), key=lambda x: self._cost(*self._mixed(product, x))[0])
        return best

    @property
    def mu(self) -> BlockMixture:
        """The mixture."""
        return BlockMixture(self.component.variables, self.shares, self.products)
