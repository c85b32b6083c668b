"""Gaussian beliefs about the same variables given what hard arcs make, row by row: a logarithmic opinion pool.

    v_r = -W log of the integral over t of prod_a N_a(t | r)^(beta_a/W),   W = sum_a beta_a + gamma (1 - sum_a alpha_a)

With l_a = beta_a/W, mu*(t | r) is the Gaussian of precision P = sum_a l_a P_a and mean m = P^-1 sum_a l_a P_a m_a, and

    v_r = 1/2 sum_a beta_a ( log det 2 pi Sigma_a + |m_a - m|^2 in P_a ) - W/2 log det 2 pi P^-1

The inconsistency is that of everything else, which hard arcs pin, plus the mean of v_r over its rows. Two predictions
of unit variance cost |m_1 - m_2|^2 / 4: the square loss.

All beliefs have the same sources, points apart, which are the same in every row. One with fewer, as a prior without
any, can be pooled if beta = gamma alpha: its entropies cancel, and it is a factor of every row. Otherwise it is about
the mixture of the pools of many rows, which is no Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from dissonance.answer import Answer, Solver
from dissonance.arc import Theta
from dissonance.attended import Attended
from dissonance.distributions.gaussian import LOG_2PI
from dissonance.distributions.samples import Samples
from dissonance.errors import CapabilityError
from dissonance.numerics import DTYPE
from dissonance.problem import Batch
from dissonance.sampling.blocks import estimate
from dissonance.sampling.plan import Estimate, Plan
from dissonance.sampling.solver import SampledAnswer
from dissonance.variables import Euclidean


@dataclass(frozen=True)
class _Pool:
    """m and P of mu* in every row, v_r, and KL(mu* || p_a) of every arc there."""

    mean: Tensor
    precision: Tensor
    value: Tensor
    divergences: dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class GaussianPoolAnswer(SampledAnswer):
    """What the pools of all rows cost, on top of what made the rows."""

    pool: _Pool = field(kw_only=True, repr=False)
    seed: int = 0

    @cached_property
    def mu(self) -> Samples:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The rows, with a draw of the pool for each."""
        assert self.estimate is not None
        rows, mean, precision = self.estimate.mu, self.pool.mean.detach(), self.pool.precision.detach()
        generator = torch.Generator().manual_seed(self.seed)
        z = torch.randn(mean.shape, dtype=DTYPE, generator=generator)
        root = torch.linalg.cholesky(precision).mT
        drawn = mean + torch.linalg.solve_triangular(root, z[..., None], upper=True)[..., 0]
        targets = _pooled(self.part)[0].arc.targets
        widths = [v.domain.dim for v in targets if isinstance(v.domain, Euclidean)]
        values = dict(zip((v.name for v in targets), drawn.split(widths, -1), strict=True))
        return Samples(self.part.variables, {**rows.values, **values}, rows.weights)

    @torch.no_grad()
    def divergences(self) -> dict[str, float]:
        """KL of every soft arc at mu."""
        weights = self.mu.weights
        return super().divergences() | {n: float((weights * kl).sum()) for n, kl in self.pool.divergences.items()}


@dataclass(frozen=True)
class GaussianPool(Solver):
    """Soft Gaussian beliefs, linear or by networks, about the same targets given the same sources, made by hard arcs;
    and factors (beta = gamma alpha) with fewer sources.

    `count` and `seed` are those of `Sampled`, where what hard arcs make is drawn at random.
    """

    name = "gaussian-pool"

    count: int | None = None
    seed: int = 0

    takes = needs = frozenset({"drawn"})

    def fits(self, part: Batch) -> bool:
        """Whether all that hard arcs do not make is in the targets of such beliefs, and of no other arc."""
        return part.is_drawn and bool(_pooled(part))

    def solve(self, part: Batch) -> Answer:
        """The average over rows; converged if nothing in it is random."""
        if not self.fits(part):
            raise CapabilityError(misfit(part) or _NEEDS)
        found, pool = self.evaluate(part, part.theta)
        plan, again = _rest(part), partial(self.estimate, part)
        names = ", ".join(repr(a.name) for a in part.arcs if not a.hard)
        why = f"the inconsistency is NaN: a mean or a scale of {names} is no number at some row."
        return GaussianPoolAnswer.of(
            part, self.name, found, lambda: why, plan=plan, again=again, pool=pool, seed=self.seed
        )

    def for_step(self, seed: int) -> GaussianPool:
        """The same for a step of LIR: see `Sampled.for_step`."""
        return GaussianPool(self.count or 1, seed)

    def estimate(self, part: Batch, theta: Theta | None) -> Estimate:
        """The rows, with the pools' cost among their scores."""
        return self.evaluate(part, theta)[0]

    def evaluate(self, part: Batch, theta: Theta | None) -> tuple[Estimate, _Pool]:
        """The same, and the pools."""
        found = estimate(_rest(part), theta, self.count, self.seed)
        if found.tally is not None:
            raise CapabilityError("that many draws do not fit into memory at once here: ask for fewer.")
        pool = _pool(part, _pooled(part), found.mu, theta)
        value = found.value + (found.mu.weights * pool.value).sum()
        return replace(found, value=value, parts=[*found.parts, (1.0, pool.value)]), pool


_NEEDS = (
    "the gaussian pool needs soft Gaussian arcs with the same sources and the same targets, and hard arcs (beta = inf) "
    "that make all other variables."
)


def _pooled(part: Batch) -> tuple[Attended, ...]:
    """The beliefs that are pooled; none if there are others about their targets."""
    arcs = _about(part)
    return () if _apart(part, arcs) else arcs


def _about(part: Batch) -> tuple[Attended, ...]:
    """The arcs about what hard arcs do not make, if they are Gaussians about the same targets."""
    made = {t for a in part.arcs if a.hard for t in a.targets}
    free = {v.name for v in part.variables} - made
    arcs = tuple(a for a in part.arcs if not free.isdisjoint(a.scope))
    if not arcs or part.varying:
        return ()
    alike = all(a.targets == arcs[0].targets and a.beta >= 0 for a in arcs)
    gaussian = all(a.arc.cpd.is_normal for a in arcs)
    if not alike or not gaussian or free != set(arcs[0].targets) or _weight(part, arcs) <= 0:
        return ()
    rest = _without(part, arcs)
    return arcs if rest.arcs and rest.pinned is not None else ()


def _apart(part: Batch, arcs: tuple[Attended, ...]) -> list[Attended]:
    """The arcs that are given something else than the others, and are not mere factors."""
    points = {t for a in part.arcs if a.hard and not a.sources and a.deterministic for t in a.targets}
    given = [set(a.sources) - points for a in arcs]
    most = max(given, key=len, default=set[str]())
    factor = [s <= most and a.beta == part.gamma.item() * a.alpha for a, s in zip(arcs, given, strict=True)]
    return [a for a, s, fits in zip(arcs, given, factor, strict=True) if s != most and not fits]


def misfit(part: Batch) -> str | None:
    """Why beliefs that are nearly fit to be pooled are not; None if they are nothing of the kind."""
    odd = _apart(part, _about(part)) if part.is_drawn else []
    if not odd:
        return None
    given, about = ", ".join(odd[0].sources) or "nothing", ", ".join(odd[0].targets)
    return (
        f"{odd[0].arc} is given {given}, other beliefs about {about} are given more: it is about their mixture over "
        "all rows, which is no Gaussian. Give it the same sources, or have beta = gamma alpha for it, which makes it a "
        "factor of every row."
    )


def _weight(part: Batch, arcs: tuple[Attended, ...]) -> float:
    return sum(a.beta for a in arcs) + part.gamma.item() * (1 - sum(a.alpha for a in arcs))


def _without(part: Batch, arcs: tuple[Attended, ...]) -> Batch:
    gone = set(arcs[0].targets)
    variables = tuple(v for v in part.variables if v.name not in gone)
    kept = [a for a in part.arcs if a not in arcs]
    return Batch.of(variables, kept, part.gamma.item(), part.theta)


def _rest(part: Batch) -> Plan:
    """How the rows are made."""
    rest = _without(part, _pooled(part))
    assert rest.pinned is not None
    return Plan.of(rest, rest.pinned)


def _pool(part: Batch, arcs: tuple[Attended, ...], mu: Samples, theta: Theta | None) -> _Pool:
    W, rows = _weight(part, arcs), len(mu)
    beta = torch.tensor([a.beta for a in arcs], dtype=DTYPE)
    normals = [a.arc.call("normal", theta, [mu.values[n] for n in a.sources]) for a in arcs]
    means = torch.stack([mean.to(DTYPE).expand(rows, -1) for mean, _ in normals])  # (arcs, rows, size)
    roots = [torch.linalg.cholesky(covariance.to(DTYPE)) for _, covariance in normals]
    precisions = torch.stack([torch.cholesky_inverse(L).expand(rows, *L.shape[-2:]) for L in roots])
    size = means.shape[-1] * LOG_2PI
    log_dets = torch.stack([size + _log_det(L).expand(rows) for L in roots])  # log det 2 pi Sigma_a
    shares = (beta / W).view(-1, 1, 1, 1) * precisions
    P = shares.sum(0)
    root = torch.linalg.cholesky(P)
    m = torch.cholesky_solve((shares @ means[..., None]).sum(0), root)[..., 0]
    wide = size - _log_det(root)  # log det 2 pi P^-1
    off = means - m
    squares = (off[..., None, :] @ precisions @ off[..., None])[..., 0, 0]
    value = 0.5 * (beta @ (log_dets + squares) - W * wide)
    traces = (precisions * torch.cholesky_inverse(root)).sum((-2, -1)) - means.shape[-1]
    divergences = 0.5 * (log_dets - wide + squares + traces)
    return _Pool(m, P, value, dict(zip((a.name for a in arcs), divergences, strict=True)))


def _log_det(root: Tensor) -> Tensor:
    """log det L L'."""
    return 2 * root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
