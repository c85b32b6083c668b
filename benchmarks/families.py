"""Families of PDGs with random tables that grow: chains, grids, trees of width 3. As a command: one of them as a file.

python benchmarks/families.py chain 100000 chain.json
dissonance score chain.json --json
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable

import numpy as np

from dissonance import PDG, Arc, Table, Variable, save


class _Arcs:
    """Collects arcs with random tables."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.arcs: list[Arc] = []

    def add(self, source: Variable, target: Variable) -> None:
        p = self.random.random((source.size, target.size))
        self.arcs.append(Arc(f"a{len(self.arcs)}", source, target, Table(p / p.sum(1, keepdims=True))))


def chain(n: int, seed: int, values: int = 2) -> PDG:
    """n variables; on every link one arc forward and one back."""
    made = _Arcs(seed)
    x = [Variable(f"X{i}", values) for i in range(n)]
    for a, b in itertools.pairwise(x):
        made.add(a, b)
        made.add(b, a)
    return PDG(*made.arcs)


def parallel_chain(n: int, seed: int) -> PDG:
    """n variables; on every link two arcs forward."""
    made = _Arcs(seed)
    x = [Variable(f"X{i}", 2) for i in range(n)]
    for a, b in itertools.pairwise(x):
        made.add(a, b)
        made.add(a, b)
    return PDG(*made.arcs)


def grid(height: int, n: int, seed: int) -> PDG:
    """About n variables, `height` in a column; arcs right and down, and up from every third variable."""
    made = _Arcs(seed)
    width = n // height
    x = [[Variable(f"X{i}_{j}", 2) for j in range(width)] for i in range(height)]
    for i in range(height):
        for j in range(width):
            if j + 1 < width:
                made.add(x[i][j], x[i][j + 1])
            if i + 1 < height:
                made.add(x[i][j], x[i + 1][j])
                if (i + j) % 3 == 0:
                    made.add(x[i + 1][j], x[i][j])
    return PDG(*made.arcs)


def three_tree(n: int, seed: int) -> PDG:
    """n variables; each is joined to three of a random earlier clique of four, by arcs in random directions."""
    made = _Arcs(seed)
    x = [Variable(f"X{i}", 2) for i in range(n)]
    cliques = [(0, 1, 2, 3)]
    links = [(i, j) for i in range(4) for j in range(i)]
    for v in range(4, n):
        home = cliques[made.random.integers(len(cliques))]
        near = tuple(made.random.permutation(home)[:3].tolist())
        cliques.append((*near, v))
        links += [(v, u) for u in near]
    for a, b in links:
        made.add(x[a], x[b]) if made.random.random() < 0.5 else made.add(x[b], x[a])
    return PDG(*made.arcs)


FAMILIES: dict[str, Callable[[int, int], PDG]] = {
    "chain": chain,
    "ternary chain": lambda n, seed: chain(n, seed, 3),
    "parallel chain": parallel_chain,
    "3 x n/3 grid": lambda n, seed: grid(3, n, seed),
    "4 x n/4 grid": lambda n, seed: grid(4, n, seed),
    "treewidth 3": three_tree,
}


def nudged(pdg: PDG, size: float = 1e-2, seed: int = 1) -> PDG:
    """The same PDG with slightly changed tables."""
    random = np.random.default_rng(seed)

    def table(arc: Arc) -> Table:
        p = arc.log_table().exp().numpy() * np.exp(size * random.standard_normal(arc.log_table().shape))
        return Table(p / p.sum(-1, keepdims=True))

    return PDG(*(Arc(a.name, a.sources, a.targets, table(a)) for a in pdg.arcs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=list(FAMILIES))
    parser.add_argument("variables", type=int)
    parser.add_argument("path")
    asked = parser.parse_args()
    save(asked.path, FAMILIES[asked.family](asked.variables, 0))


if __name__ == "__main__":
    main()
