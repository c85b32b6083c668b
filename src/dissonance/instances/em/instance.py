"""Expectation-maximisation: data and posterior hard, alternating full control of the posterior and of the beliefs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc
from dissonance.cpds import Observed, SoftmaxTable, Table, TableInRows
from dissonance.distributions.tree import decompose
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus, full_control
from dissonance.instances.base import Instance
from dissonance.instances.em.fitted import DATA, Fitted
from dissonance.lir import Run, Trace
from dissonance.pdg import PDG
from dissonance.variables import Variable

Rate = float | Callable[[int], float]
"""chi of the M-step, or chi at each iteration, counted from 0."""


@dataclass(frozen=True)
class DataPart:
    """Rows that are attended together: their data d, posterior q and beliefs p, as arcs of their own.

    With alpha = beta = gamma = 1 on p and d and q hard, the inconsistency is E_mu[log q - log p] - H(d): -ELBO - H(d).
    """

    p: tuple[Arc, ...]
    d: Arc
    q: tuple[Arc, ...]

    def weights(self) -> tuple[dict[str, float], dict[str, float]]:
        """beta and alpha of its arcs."""
        hard = {a.name: math.inf for a in (self.d, *self.q)}
        soft = {a.name: 1.0 for a in self.p}
        return {**hard, **soft}, soft


def attention(parts: Sequence[DataPart]) -> Attention:
    """Attention to these parts and to nothing else."""
    beta: dict[str, float] = {}
    alpha: dict[str, float] = {}
    for part in parts:
        more = part.weights()
        beta |= more[0]
        alpha |= more[1]
    return Attention.only(beta, alpha, 1.0)


@dataclass(frozen=True)
class Alternate:
    """E-step and M-step in turn, on the parts in turn.

    The E-step has full control of the part's posterior. With chi = inf the M-step has full control of the beliefs and
    attends to all parts (to one part: EM; to several: incremental EM, whose first E-step is on all of them); with a
    finite chi it attends to the same part and goes a share 1 - e^-chi of the way.
    """

    parts: tuple[DataPart, ...]
    controlled: tuple[str, ...]
    chi: Rate = math.inf
    name: str = "alternate"

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """The focus of a step: even ones are E-steps."""
        iteration, maximise = divmod(step, 2)
        chosen = self.expected(iteration)
        if maximise:
            chi = self._rate(iteration)
            seen = self.parts if chi == math.inf else chosen
            return Focus(attention(seen), Control(dict.fromkeys(self.controlled, chi)))
        return Focus(attention(chosen), full_control(*(a.name for part in chosen for a in part.q)))

    def expected(self, iteration: int) -> tuple[DataPart, ...]:
        """The parts that the E-step of an iteration looks at."""
        incremental = self._rate(iteration) == math.inf and len(self.parts) > 1
        if incremental and iteration == 0:
            return self.parts
        return (self.parts[(iteration - incremental) % len(self.parts)],)

    def _rate(self, iteration: int) -> float:
        return self.chi if isinstance(self.chi, float | int) else self.chi(iteration)


def em(
    p: PDG,
    row: Variable,
    *,
    weights: object = None,
    batches: int = 1,
    chi: Rate = math.inf,
) -> Instance[Fitted]:
    """EM for beliefs p(hidden, x_row) about latent variables and the rows of a data set.

    `p` holds tables between hidden variables and `Observed` cpds whose target is `row`; arcs may share parameters.
    Those with parameters are learned. The PDG of the run has p, the data d(row) (rows equally likely, or by `weights`)
    and the posterior q as arcs (rest | separator, row) along the junction tree of the hidden variables. Two steps of
    LIR, an E-step and an M-step, are one iteration: theta_EM^(t) = theta_LIR^(2t).

    `batches`: the rows in so many parts, in order, each with arcs of its own. `chi`: see `Alternate`.
    """
    if row not in p.variables:
        raise DissonanceError(f"{row.name!r} is not a variable of the beliefs: no arc is about the data.")
    if all(v == row for v in p.variables):
        raise DissonanceError("nothing is hidden: EM needs at least one variable beside the rows.")
    d = shares(weights, row.size)
    parts = _parts(p, row, d, batches, equal=not callable(chi) and chi == math.inf)
    controlled = learns(PDG(*parts[0].p))
    pdg = PDG(*(a for part in parts for a in (*part.p, part.d, *part.q)))
    entropy = float(numerics.entropy(d)) if batches == 1 else math.log(row.size / batches)
    own = {old.name: new.name for old, new in zip(p, parts[0].p, strict=True)}
    return Instance(
        pdg,
        Alternate(parts, controlled, chi),
        lambda run: Fitted(learned(p, own, run), row, run, entropy),
        attention(parts),
        Control(dict.fromkeys(controlled, 1.0)),
    )


def shares(weights: object, rows: int) -> Tensor:
    """The rows' shares of the data."""
    if weights is None:
        return torch.full((rows,), 1 / rows, dtype=numerics.DTYPE)
    given = numerics.real(weights).detach()
    if given.shape != (rows,) or not bool(torch.isfinite(given).all()) or bool((given < 0).any()) or given.sum() <= 0:
        raise DissonanceError(f"weights: {rows} non-negative numbers are needed, one a row, and not all of them zero.")
    return given / given.sum()


def _parts(p: PDG, row: Variable, d: Tensor, batches: int, equal: bool) -> tuple[DataPart, ...]:
    """The rows in `batches` parts, each with its own copies of the variables and arcs; parameters are shared."""
    if not 1 <= batches <= row.size:
        raise DissonanceError(f"batches: 1 to {row.size} (the number of rows), found {batches}.")
    if batches == 1:
        return (DataPart(p.arcs, Arc(DATA, (), row, Table(d)), _posterior(p, row, "")),)
    if equal and (row.size % batches or not torch.allclose(d, d[:1], rtol=1e-12, atol=0)):
        raise DissonanceError(
            f"{row.size} rows in {batches} batches: incremental EM (chi = inf) needs batches of one size and rows of "
            "one weight, because every part is attended alike."
        )
    found: list[DataPart] = []
    for b, rows in enumerate(torch.arange(row.size).tensor_split(batches)):
        tag = f"@{b}"
        own = {v.name: Variable(v.name + tag, len(rows) if v == row else v.domain) for v in p.variables}
        arcs = [
            Arc(
                a.name + tag,
                [own[v.name] for v in a.sources],
                [own[v.name] for v in a.targets],
                a.cpd.rows(rows) if isinstance(a.cpd, Observed | TableInRows) else a.cpd,
            )
            for a in p
        ]
        share = d[rows].sum()
        if share <= 0:
            raise DissonanceError(f"batch {b} has no row of positive weight.")
        data = Arc(DATA + tag, (), own[row.name], Table(d[rows] / share))
        found.append(DataPart(tuple(arcs), data, _posterior(PDG(*arcs), own[row.name], tag)))
    return tuple(found)


def _posterior(p: PDG, row: Variable, tag: str) -> tuple[Arc, ...]:
    """q(hidden | row) along the junction tree of p given the row: an arc (separator, row) -> rest for each cluster."""
    hidden = {v.name: v for v in p.variables if v != row}
    scopes = [tuple(v.name for v in a.scope if v != row) for a in p]
    tree = decompose({n: v.size for n, v in hidden.items()}, [s for s in scopes if s])
    arcs: list[Arc] = []
    for cluster, separator in zip(tree.clusters, tree.separators, strict=True):
        sources = (row, *(hidden[n] for n in separator))
        targets = tuple(hidden[n] for n in cluster if n not in separator)
        name = f"q({','.join(v.name.removesuffix(tag) for v in targets)}){tag}"
        logits = torch.zeros([v.size for v in (*sources, *targets)], dtype=numerics.DTYPE)
        arcs.append(Arc(name, sources, targets, SoftmaxTable(logits=logits)))
    return tuple(arcs)


def learns(p: PDG) -> tuple[str, ...]:
    """The arcs of p that have parameters; an error if there are none."""
    found = tuple(a.name for a in p if any(True for _ in a.cpd.parameters()))
    if not found:
        raise DissonanceError("no arc of p has parameters to learn: make its tables SoftmaxTable.")
    return found


def learned(p: PDG, own: Mapping[str, str], run: Run) -> PDG:
    """p with the parameters that a run ended with; `own` has the name of each of its arcs in the run."""
    names = [(a.name, n) for a in p for n, _ in a.cpd.named_parameters()]
    return p.at({f"{name}.{n}": run.theta[f"{own[name]}.{n}"] for name, n in names})
