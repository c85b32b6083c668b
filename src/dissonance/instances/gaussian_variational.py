"""Mean field and structured variational inference over Euclidean variables: coordinate ascent is full control.

    <<M + q>> = E_q[ log q - log p ] - H(seen) = -ELBO - H(seen)

as for tables (`variational.py`), with gamma = 1 and alpha = beta = 1 on the model. For each block of hidden variables
there is an arc -> Z_b that holds q_b = N(m, S), and an arc Z_b -> all others that says that these do as their own q
say, independently. A focus has full control of one q_b: without its constraint mu*(Z_b) is proportional to the
exponential of E_others[log p], the coordinate update.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc
from dissonance.cpds import LinearGaussian
from dissonance.cpds.gaussian import dimension
from dissonance.cpds.independent_gaussians import IndependentGaussians
from dissonance.distributions import Gaussian
from dissonance.distributions.gaussian import gaussian_entropy
from dissonance.errors import DissonanceError, suggest
from dissonance.focus import Attention, Control, Focus
from dissonance.inconsistency import inconsistency
from dissonance.instances.base import Instance
from dissonance.lir import Cycle, Run, Value
from dissonance.pdg import PDG
from dissonance.variables import Variable

inf = math.inf

POINT = 1e-4
"""What is seen is a normal distribution this narrow: a point has no density. The ELBO is off by the square of it."""


@dataclass(frozen=True)
class GaussianVariational:
    """An approximate posterior, a Gaussian for each block, and what it proves: elbo <= log p(seen).

    `elbos` is the course of the bound, from before the first step; `bound` minus the ELBO between bounds.
    """

    bound: Value
    elbos: list[float] = field(repr=False)
    q: dict[str, Gaussian]
    log_evidence: float

    @property
    def elbo(self) -> float:
        """The lower bound of the log-evidence."""
        return self.elbos[-1]

    @property
    def gap(self) -> float:
        """How much the bound misses: KL(q || posterior)."""
        return self.log_evidence - self.elbo


def gaussian_variational(
    model: PDG, seen: Mapping[str, object] | None = None, *, blocks: Iterable[Sequence[str]] = (), control: float = inf
) -> Instance[GaussianVariational]:
    """Approximate the posterior of a linear-Gaussian model, given numbers that are seen, by independent blocks.

    Each hidden variable by itself (mean field), or in one of the `blocks` with others. Full control is coordinate
    ascent; a finite control is the natural flow's step towards it. A round is as many steps as there are blocks.
    """
    known = [_seen(model.variable(n), x) for n, x in (seen or {}).items()]
    made = _blocks(model, set(seen or {}), blocks)
    if len(made) < 2:
        raise DissonanceError("one block is the exact posterior: ask `inconsistency` for it, or give several blocks.")
    q = [LinearGaussian(torch.zeros(dimension(b), 0), torch.zeros(dimension(b)), 1.0) for b in made]
    names = [", ".join(v.name for v in b) for b in made]
    own = [Arc(f"q({n})", (), b, cpd) for n, b, cpd in zip(names, made, q, strict=True)]
    others: list[Arc] = []
    for i, (n, b) in enumerate(zip(names, made, strict=True)):
        rest = [j for j in range(len(made)) if j != i]
        targets = [v for j in rest for v in made[j]]
        others.append(Arc(f"others of {n}", b, targets, IndependentGaussians(*(q[j] for j in rest))))
    soft = dict.fromkeys((a.name for a in model), 1.0)

    def attention(i: int) -> Attention:
        hard = [own[i].name, others[i].name, *(a.name for a in known)]
        return Attention.only({**soft, **dict.fromkeys(hard, inf)}, soft, 1.0)

    foci = [Focus(attention(i), Control({own[i].name: control})) for i in range(len(made))]
    entropy = sum(float(gaussian_entropy(a.linear_gaussian()[2].detach())) for a in known)
    plain = Attention.only({**soft, **{a.name: inf for a in known}}, soft, 1.0)

    def read(run: Run) -> GaussianVariational:
        found: dict[str, Gaussian] = {}
        for n, b, arc in zip(names, made, own, strict=True):
            _, mean, covariance = (x.detach() for x in run.pdg[arc.name].linear_gaussian())
            found[n] = Gaussian(b, mean, covariance)
        with torch.no_grad():
            exact = inconsistency(PDG(*model.arcs, *known), plain).upper
        elbos = [-(x + entropy) for x in run.trace.column("global_upper")]
        return GaussianVariational(run.after, elbos, found, -(exact + entropy))

    pdg = PDG(*model.arcs, *known, *own, *others, variables=model.variables)
    return Instance(pdg, Cycle(*foci), read, attention(0), Control({a.name: control for a in own}))


def _seen(v: Variable, value: object) -> Arc:
    x: Tensor = numerics.real(value).reshape(-1)
    if x.numel() != dimension([v]):
        raise DissonanceError(f"{v.name} is {v.domain}, but {x.numel()} numbers of it are seen.")
    noise = (POINT * x.abs().clamp(min=1.0)).square()
    return Arc(f"seen {v.name}", (), v, LinearGaussian(None, x, torch.diag(noise), learnable=False))


def _blocks(model: PDG, seen: set[str], given: Iterable[Sequence[str]]) -> list[tuple[Variable, ...]]:
    free = {v.name: v for v in model.variables if v.name not in seen}
    made: list[tuple[Variable, ...]] = []
    for names in given:
        for n in names:
            if n not in free:
                raise DissonanceError(f"{n!r} is no variable, is seen, or is in two blocks.{suggest(n, free)}")
        made.append(tuple(free.pop(n) for n in names))
    return [*made, *((v,) for v in free.values())]
