"""EM with real-valued latent variables: probabilistic PCA, factor analysis, linear-Gaussian state-space models.

All cpds are linear-Gaussian, so that only the mean and the covariance of the data matter, and the posterior q(hidden |
seen) is linear-Gaussian too. Rows that lack the same entries go together:

    d_g(seen)           hard: N(mean, covariance) of these rows; in E-steps a wider one
    q_g(hidden | seen)  hard; what a row lacks is hidden
    p                   the model, its variables copied, its parameters shared

E-step: full control of every q_g; without q_g's constraint mu* = d_g(seen) p(hidden | seen) is the Kalman smoother, or
whatever conditioning in p is called. It is the same whatever d_g is, so that E-steps see one that varies in every
direction: few rows do not. M-step: full control of p, the argmin of sum_g (rows of g) E[-log p]: regression.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc
from dissonance.cpds import DiagonalGaussian, LinearGaussian
from dissonance.distributions import Gaussian
from dissonance.distributions.gaussian import gaussian_entropy
from dissonance.errors import DissonanceError, suggest
from dissonance.focus import Attention, Focus, full_control
from dissonance.inconsistency import inconsistency
from dissonance.instances.base import Instance
from dissonance.lir import Cycle, Run
from dissonance.pdg import PDG
from dissonance.variables import Euclidean, Variable

inf = math.inf
Array = npt.NDArray[np.float64]

POINT = 1e-4
"""Where rows do not vary in every direction they are known up to noise of this size, in standard deviations of their
column: points have no density. It adds 1e-8 of their variance to what is learned of noise."""

FLAT = 1e-8
"""Rows vary in every direction if no eigenvalue of their correlations is smaller."""


@dataclass(frozen=True)
class GaussianPart:
    """Rows that lack the same entries: their share of all rows, their arcs p, d, d made wider, and q, and H(d)."""

    share: float
    p: tuple[Arc, ...]
    d: Arc
    wide: Arc
    q: Arc | None
    entropy: float


@dataclass(frozen=True)
class FittedGaussian:
    """The model with what EM has learned, and the run it took."""

    pdg: PDG
    run: Run
    entropy: float

    @property
    def bounds(self) -> list[float]:
        """The mean ELBO of a row before every step of LIR; after an E-step it is the mean log-likelihood."""
        return [-(x + self.entropy) for x in self.run.trace.column("global_upper")]

    @cached_property
    def joint(self) -> Gaussian:
        """p over all of its variables, hidden and seen."""
        with torch.no_grad():
            found = inconsistency(self.pdg, Attention.only(dict.fromkeys(self._names, inf))).mu
        assert isinstance(found, Gaussian)
        return found

    @property
    def _names(self) -> list[str]:
        return [a.name for a in self.pdg]

    def posterior(self, hidden: str, seen: Mapping[str, float]) -> Gaussian:
        """p(hidden | seen), for numbers seen of some variables."""
        names = list(seen)
        cpd = self.joint.conditional(hidden, names)
        x = torch.tensor([float(seen[n]) for n in names], dtype=numerics.DTYPE)
        return Gaussian([self.pdg.variable(hidden)], (cpd.A @ x + cpd.b).detach(), cpd.Sigma.detach())

    def log_likelihood(self, data: Mapping[str, object]) -> Tensor:
        """log p(x_n) of every row; what is NaN is left out of its row."""
        names, x = columns(self.pdg, data)
        found = torch.zeros(len(x), dtype=numerics.DTYPE)
        for rows, there in patterns(x):
            seen = [n for n, t in zip(names, there, strict=True) if t]
            if seen:
                mu = self.joint.marginal(*seen)
                values = {n: torch.from_numpy(x[rows][:, names.index(n)])[:, None] for n in seen}
                found[torch.from_numpy(rows)] = mu.log_prob(values)
        return found


def gaussian_em(p: PDG, data: Mapping[str, object]) -> Instance[FittedGaussian]:
    """EM for a linear-Gaussian model p of hidden and seen variables.

    `data` has a column of numbers for each variable that is seen (of one dimension each), NaN where an entry is
    missing. Arcs of p may share parameters, and those whose cpds have parameters to learn are learned. Two steps of LIR
    are one iteration. The value is minus the mean ELBO less the entropy of the data: KL(d q || p).
    """
    names, x = columns(p, data)
    parts = [
        _part(p, names, x[rows], there, f"@{g}" if g else "", len(rows) / len(x))
        for g, (rows, there) in enumerate(patterns(x))
        if there.any()
    ]
    if not parts:
        raise DissonanceError("every entry of the data is missing.")
    learned = [a.name for a in parts[0].p if any(w.requires_grad for w in a.cpd.parameters())]
    if not learned:
        raise DissonanceError("no arc of p has parameters to learn: they were made with learnable=False.")
    hidden = [part.q.name for part in parts if part.q is not None]
    total = sum(part.share for part in parts)
    foci = [Focus(_attention(parts, [1.0] * len(parts), "wide"), full_control(*hidden))] if hidden else []
    shares = [part.share / total for part in parts]
    foci.append(Focus(_attention(parts, shares), full_control(*learned)))
    pdg = PDG(*(a for part in parts for a in (*part.p, part.d, part.wide, *([part.q] if part.q else []))))
    entropy = sum(share * part.entropy for share, part in zip(shares, parts, strict=True))

    def read(run: Run) -> FittedGaussian:
        return FittedGaussian(p.at(run.theta), run, entropy)

    return Instance(pdg, Cycle(*foci), read, _attention(parts, shares, whole=True))


def columns(p: PDG, data: Mapping[str, object]) -> tuple[list[str], Array]:
    """The names of the columns and their numbers, (rows, columns)."""
    known = {v.name: v for v in p.variables}
    each: list[Array] = []
    for name, column in data.items():
        if name not in known:
            raise DissonanceError(f"the data has a column {name!r}, but no variable.{suggest(name, known)}")
        domain = known[name].domain
        if not isinstance(domain, Euclidean) or domain.dim != 1:
            raise DissonanceError(f"{name} is {domain}; what is seen has one dimension a variable.")
        each.append(np.asarray(column, dtype=np.float64).reshape(-1))
    if not each or len({len(c) for c in each}) != 1 or not len(each[0]):
        raise DissonanceError(f"columns of one length are needed; found {[len(c) for c in each]}.")
    return list(data), np.stack(each, 1)


def patterns(x: Array) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]]:
    """The rows that lack the same entries, and which entries are there; the largest group first."""
    there = ~np.isnan(x)
    kinds, which = np.unique(there, axis=0, return_inverse=True)
    found = [(np.flatnonzero(which.reshape(-1) == k), kinds[k]) for k in range(len(kinds))]
    return sorted(found, key=lambda each: -len(each[0]))


def _part(p: PDG, names: Sequence[str], x: Array, there: npt.NDArray[np.bool_], tag: str, share: float) -> GaussianPart:
    own = {v.name: Variable(v.name + tag, v.domain) if tag else v for v in p.variables}
    arcs = tuple(
        Arc(a.name + tag, [own[v.name] for v in a.sources], [own[v.name] for v in a.targets], a.cpd) for a in p
    )
    seen = [own[n] for n, t in zip(names, there, strict=True) if t]
    rows = x[:, there]
    spread = rows.std(0)
    spread = np.where(spread > 0, spread, np.maximum(np.abs(rows).max(0), 1.0))
    covariance = np.cov(rows.T, bias=True).reshape(len(seen), len(seen))
    if np.linalg.eigvalsh(covariance / np.outer(spread, spread)).min() < FLAT:
        covariance = covariance + np.diag((POINT * spread) ** 2)
    d, wide = (
        Arc(f"{name}{tag}", (), seen, LinearGaussian(None, rows.mean(0), spread_out, learnable=False))
        for name, spread_out in (("d", covariance), ("d, wide", covariance + np.diag(spread**2)))
    )
    lacking = [v for v in own.values() if v not in seen]
    size = sum(v.domain.dim for v in lacking if isinstance(v.domain, Euclidean))
    q = None
    if lacking:
        q = Arc(f"q{tag}", seen, lacking, LinearGaussian(np.zeros((size, len(seen))), np.zeros(size), np.eye(size)))
    return GaussianPart(share, arcs, d, wide, q, float(gaussian_entropy(torch.from_numpy(covariance))))


def _attention(
    parts: Sequence[GaussianPart], shares: Sequence[float], data: str = "d", whole: bool = False
) -> Attention:
    """The data and posteriors hard, the model by share. `data`: as they are, or "wide". `whole`: H of what hard arcs
    make counts by share as well, so that the value is the mean over rows; only shares of 1 do so by themselves."""
    beta: dict[str, float] = {}
    alpha: dict[str, float] = {}
    for part, share in zip(parts, shares, strict=True):
        hard = [a.name for a in (part.d if data == "d" else part.wide, part.q) if a is not None]
        beta |= dict.fromkeys(hard, inf) | {a.name: share for a in part.p}
        alpha |= {a.name: share for a in part.p} | (dict.fromkeys(hard, 1 - share) if whole and share < 1 else {})
    return Attention.only(beta, alpha, 1.0)


def factor_analysis(names: Sequence[str], factors: int, *, isotropic: bool = False, seed: int = 0) -> PDG:
    """p(Z) = N(0, I) and p(x | Z) = N(W Z + m, noise): a variance for each column, or one for all (`isotropic`), which
    is probabilistic PCA. W begins at random."""
    if not 1 <= factors < len(names):
        raise DissonanceError(f"factors: 1 to {len(names) - 1} for {len(names)} columns, found {factors}.")
    rng = np.random.default_rng(seed)
    Z, x = Variable("Z", Euclidean(factors)), [Variable(n, Euclidean(1)) for n in names]  # noqa: N806
    loading = DiagonalGaussian(
        rng.normal(size=(len(x), factors)), np.zeros(len(x)), 1.0 if isotropic else np.ones(len(x))
    )
    prior = LinearGaussian(np.zeros((factors, 0)), np.zeros(factors), np.eye(factors), learnable=False)
    return PDG(Arc("prior", (), Z, prior), Arc("loading", Z, x, loading))


def state_space(
    steps: int, initial: LinearGaussian, transition: LinearGaussian, emission: LinearGaussian, name: str = "x"
) -> PDG:
    """p(Z0) prod_t p(Z_t | Z_t-1) prod_t p(x_t | Z_t), one transition and one emission at all times.

    Seen are x0, x1, ... if emissions have one dimension, x0_0, x0_1, ..., x1_0, ... if they have several.
    """
    size, width = transition.b.numel(), emission.b.numel()
    Z = [Variable(f"Z{t}", Euclidean(size)) for t in range(steps)]  # noqa: N806
    arcs = [Arc("initial", (), Z[0], initial)]
    arcs += [Arc(f"transition{t}", Z[t - 1], Z[t], transition) for t in range(1, steps)]
    for t, z in enumerate(Z):
        seen = [Variable(f"{name}{t}" if width == 1 else f"{name}{t}_{j}", Euclidean(1)) for j in range(width)]
        arcs.append(Arc(f"emission{t}", z, seen, emission))
    return PDG(*arcs)
