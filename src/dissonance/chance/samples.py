"""Beliefs that are samples: their counts, tables made of them, and replicates drawn at random, in arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dissonance.arc import Arc
from dissonance.costs import LOG_SCORE, FlatRows
from dissonance.distributions import Distribution
from dissonance.errors import CapabilityError, DissonanceError, SizeError
from dissonance.inconsistency import Inconsistency
from dissonance.pdg import PDG
from dissonance.problem import Batch, check_bytes
from dissonance.solvers import Newton
from dissonance.solvers.exact import BYTES_PER_CELL
from dissonance.solvers.front import solve_rows
from dissonance.variables import cells
from dissonance.workers.base import Watch

Floats = npt.NDArray[np.float64]

AT_ONCE = 1 << 23
"""Cells of junction trees that are solved together."""


@dataclass(frozen=True)
class SourceSamples:
    """The arcs of a PDG that are samples, each attended with beta = n, and the facts (beta = inf) beside them.

    `pseudocount` is added to each count of a cell that is possible, so that what was not seen is not impossible. A cell
    is impossible if the facts say so.
    """

    pdg: PDG
    arcs: tuple[Arc, ...]
    facts: tuple[Arc, ...]
    pseudocount: float
    possible: tuple[npt.NDArray[np.bool_], ...] | None = None
    """By sample (sources, targets): which cells are; None if all."""

    @classmethod
    def of(cls, result: Inconsistency, pseudocount: float) -> SourceSamples:
        """Those that a result attends to."""
        if not 0 < pseudocount < math.inf:
            raise DissonanceError(f"the pseudocount is {pseudocount:g}; it must be a number above 0.")
        if result.gamma:
            raise DissonanceError(f"whether a conflict is chance is asked at gamma = 0, found {result.gamma:g}.")
        beta = result.attention.beta
        arcs = [a for a in result.pdg.arcs if 0 < beta.get(a.name, 0.0) < math.inf and a.counts is not None]
        facts = [a for a in result.pdg.arcs if beta.get(a.name, 0.0) == math.inf]
        if odd := [a for a in facts if not a.has_table]:
            raise DissonanceError(f"{odd[0]} has no table: whether a conflict is chance is asked of tables.")
        if odd := [a for a in arcs if a.cpd.cost is not LOG_SCORE]:
            raise CapabilityError(f"{odd[0]} has the cost {odd[0].cpd.cost.name!r}, and chance is asked of KL only.")
        if not arcs:
            raise DissonanceError(
                "no belief is a sample: give counts (a column headed count, or Arc.from_table(..., counts=...))."
            )
        for a in arcs:
            assert a.counts is not None
            if bool((a.counts.reshape(cells(a.sources), -1).sum(1) <= 0).any()):
                raise DissonanceError(f"{a}: a row has no observations, and so is no sample of anything.")
        return cls(result.pdg, tuple(arcs), tuple(facts), pseudocount)

    def __reduce__(self) -> tuple[object, ...]:  # what is made when it is asked for does not travel
        return SourceSamples, tuple(getattr(self, f.name) for f in fields(self))

    @cached_property
    def counts(self) -> list[Floats]:
        """Of every sample, (sources, targets)."""
        return [a.counts.reshape(cells(a.sources), -1).numpy() for a in self.arcs if a.counts is not None]

    @property
    def sizes(self) -> Floats:
        """How many observations every sample has."""
        return np.array([n.sum() for n in self.counts])

    def tables(self, counts: Sequence[Floats]) -> list[Floats]:
        """p(t|s) = (n(s,t) + c) / (n(s) + c |T|) of counts (..., sources, targets) of every sample."""
        masks = self.possible or [np.ones_like(n, dtype=np.bool_) for n in self.counts]
        raised = [n + self.pseudocount * mask for n, mask in zip(counts, masks, strict=True)]
        return [n / n.sum(-1, keepdims=True) for n in raised]

    @cached_property
    def beliefs(self) -> PDG:
        """The samples with these tables, and the facts."""
        made = [
            Arc(a.name, a.sources, a.targets, p.reshape([v.size for v in a.scope]))
            for a, p in zip(self.arcs, self.tables(self.counts), strict=True)
        ]
        return PDG(*made, *self.facts)

    @property
    def beta(self) -> dict[str, float]:
        """How the beliefs are attended."""
        sizes = dict(zip((a.name for a in self.arcs), self.sizes.tolist(), strict=True))
        return sizes | dict.fromkeys((a.name for a in self.facts), math.inf)

    # -- replicates ------------------------------------------------------------------------------------------------

    def drawn(self, rows: Sequence[Floats], count: int, rng: np.random.Generator) -> list[Floats]:
        """Counts of so many replicates, (count, sources, targets) of every sample.

        `rows` are mu(s,t) or p(t|s). Without sources n is fixed; given sources, how often each setting was seen is.
        """
        found: list[Floats] = []
        for n, p in zip(self.counts, rows, strict=True):
            chances = p / p.sum(1, keepdims=True)
            totals = np.rint(n.sum(1)).astype(np.int64)
            drawn = [rng.multinomial(t, q, size=count) for t, q in zip(totals, chances, strict=True)]
            found.append(np.stack(drawn, 1).astype(np.float64))
        return found

    @cached_property
    def _blank(self) -> Batch:
        return Batch.over(self.beliefs.variables, self.beliefs.arcs)

    def solved(self, counts: Sequence[Floats]) -> tuple[Floats, Floats]:
        """The inconsistency of P replicates (P,), and what each sample contributes (P, samples), in nats."""
        total = len(counts[0])
        tree = self._blank.tree
        solver = Newton(tol=1e-7)
        check_bytes(tree, BYTES_PER_CELL * tree.cells, solver.budget)
        step = max(1, AT_ONCE // tree.cells)
        parts = [self._some([n[k : k + step] for n in counts], solver) for k in range(0, total, step)]
        return np.concatenate([x for x, _ in parts]), np.concatenate([x for _, x in parts])

    def _some(self, counts: Sequence[Floats], solver: Newton) -> tuple[Floats, Floats]:
        count = len(counts[0])
        with np.errstate(divide="ignore"):
            own = [np.log(p).reshape(count, -1) for p in self.tables(counts)]
        hard = [np.broadcast_to(a.log_table().detach().numpy().ravel(), (count, cells(a.scope))) for a in self.facts]
        beta = np.broadcast_to(np.array(list(self.beta.values())), (count, len(self.beta)))
        log_p = np.concatenate([*own, *hard], 1)
        found = solve_rows(self._blank.with_numbers(log_p, beta.copy(), np.zeros_like(beta), np.zeros(count)), solver)
        if not np.isfinite(found.bounds.upper).all():
            raise DissonanceError("the facts contradict each other: there is no population to draw samples from.")
        return found.bounds.upper, self._contributions(found.joint, log_p)

    @cached_property
    def _rows(self) -> FlatRows:
        return FlatRows.wide(np.concatenate([np.full(cells(a.sources), cells(a.targets)) for a in self.arcs]))

    def _contributions(self, joint: Floats, log_p: Floats) -> Floats:
        """n KL( mu(s,t) || p(t|s) mu(s) ) of every sample."""
        ends = np.cumsum([cells(a.scope) for a in self.arcs])
        each = LOG_SCORE.value(joint[:, : ends[-1]], log_p[:, : ends[-1]], self._rows)
        return np.maximum(0.0, self.sizes * np.add.reduceat(each, np.append(0, ends[:-1]), axis=1))


def solved_part(part: tuple[SourceSamples, list[Floats]], watch: Watch) -> tuple[Floats, Floats]:
    """Some replicates, solved."""
    samples, counts = part
    return samples.solved(counts)


def interior(mu: Distribution, smallest: float) -> bool:
    """Whether a population is inside: no possible cell of a cluster has less than one of `smallest` expected."""
    tables = getattr(mu, "tables", None)
    if tables is None:
        raise SizeError("the population has no tables.")
    least = min((float(t[t > 0].min()) for t in tables if bool((t > 0).any())), default=1.0)
    return least * smallest >= 1.0
