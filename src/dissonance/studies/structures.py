"""The PDGs of the synthetic study: four published structures, the family they come from, random cpds for them."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dissonance.arc import Arc
from dissonance.cpds import SoftmaxTable
from dissonance.errors import DissonanceError
from dissonance.numerics import DTYPE
from dissonance.pdg import PDG
from dissonance.variables import Variable


@dataclass(frozen=True)
class GraphStructure:
    """An ordinary directed graph: how many values each variable has, and the arcs (source, target) between them."""

    sizes: tuple[int, ...]
    arcs: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        """As the paper calls it: chain_4v_3e has 4 variables and 3 arcs (edges)."""
        return f"chain_{len(self.sizes)}v_{len(self.arcs)}e"

    def draw(self, rows: str, generator: torch.Generator) -> PDG:
        """A PDG of this structure with random learnable cpds; `rows` says how a row is drawn."""
        variables = [Variable(_letter(i), size) for i, size in enumerate(self.sizes)]
        arcs = [
            Arc(
                f"p{k}", variables[s], variables[t], SoftmaxTable(ROWS[rows]((self.sizes[s], self.sizes[t]), generator))
            )
            for k, (s, t) in enumerate(self.arcs, 1)
        ]
        return PDG(*arcs, variables=variables)


PUBLISHED = (
    GraphStructure((2, 2, 2, 3), ((0, 1), (1, 2), (2, 1))),
    GraphStructure((3, 2, 2, 3, 3), ((0, 1), (1, 2), (2, 1), (3, 2))),
    GraphStructure((3, 2, 3, 2, 3, 2), ((0, 1), (1, 2), (3, 2), (5, 2), (5, 1))),
    GraphStructure((2, 3, 3, 3, 2, 3, 2), ((0, 1), (1, 2), (2, 3), (4, 0), (6, 3), (4, 2))),
)
"""The four structures of the published runs: 4 + k variables and 3 + k arcs, k = 0..3."""

INTO_CONFLICT = 0.7
"""How often an arc that is not of the chain goes into a variable that some arc goes into already."""


def structures(count: int, seed: int = 0) -> list[GraphStructure]:
    """The first `count` structures of the family: the published ones, then larger ones drawn with the seed."""
    if count < 1:
        raise DissonanceError(f"a study needs at least 1 structure, found {count}.")
    drawn = [random_structure(4 + k, 3 + k, generator(seed, k)) for k in range(len(PUBLISHED), count)]
    return [*PUBLISHED[:count], *drawn]


def random_structure(variables: int, arcs: int, generator: torch.Generator) -> GraphStructure:
    """A member of the family: a chain of max(2, arcs // 2) arcs, then arcs that mostly make conflicts; none twice.

    Variables have 2 or 3 values. Conflict is likely, not certain: two arcs into one variable are often consistent.
    """
    if variables < 2 or not 1 <= arcs <= variables * (variables - 1):
        raise DissonanceError(f"{arcs} different arcs do not fit between {variables} variables.")
    sizes = tuple(2 + _below(2, generator) for _ in range(variables))
    chosen = [(i, i + 1) for i in range(min(variables - 1, arcs, max(2, arcs // 2)))]
    while len(chosen) < arcs:
        hit = sorted({t for _, t in chosen})
        conflict = float(torch.rand((), generator=generator)) < INTO_CONFLICT
        target = hit[_below(len(hit), generator)] if conflict else _below(variables, generator)
        source = _below(variables, generator)
        if source != target and (source, target) not in chosen:
            chosen.append((source, target))
    return GraphStructure(sizes, tuple(chosen))


def generator(seed: int, *place: int) -> torch.Generator:
    """A generator for one place in the study: what is drawn there does not depend on what is drawn elsewhere."""
    state = np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state) >> 1)


# -- rows --------------------------------------------------------------------------------------------------------------


def normalised_rows(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Rows of numbers from U[0, 1] divided by their sum, as the published runs had them."""
    p = torch.rand(shape, generator=generator, dtype=DTYPE)
    return p / p.sum(-1, keepdim=True)


def simplex_rows(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Rows uniform on the simplex, as the paper's text has them: exponential numbers divided by their sum."""
    p = torch.empty(shape, dtype=DTYPE).exponential_(generator=generator)
    return p / p.sum(-1, keepdim=True)


ROWS: dict[str, Callable[[tuple[int, int], torch.Generator], Tensor]] = {
    "uniform-normalised": normalised_rows,
    "simplex": simplex_rows,
}
"""How a row of a random cpd is drawn."""


def _below(n: int, generator: torch.Generator) -> int:
    return int(torch.randint(n, (), generator=generator))


def _letter(i: int) -> str:
    return string.ascii_uppercase[i] if i < 26 else f"X{i}"
