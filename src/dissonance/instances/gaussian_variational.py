"""Mean field and structured variational inference over Euclidean variables: coordinate ascent is full control.

    <<M + q>> = E_q[ log q - log p ] - H(seen) = -ELBO - H(seen)

as for tables (`variational.py`), with gamma = 1 and alpha = beta = 1 on the model. q is a network: for each block of
hidden variables there is an arc Pa_b -> Z_b that holds q_b(Z_b | Pa_b) = N(A Pa_b + m, S), without parents in mean
field. Two more arcs say that all others do as their own q say: -> Pa_b, and (Pa_b, Z_b) -> the rest. A focus has full
control of one q_b: without its constraint mu*(Z_b | Pa_b) is proportional to the exponential of E[log p - log of the
other q], given Pa_b and Z_b: the coordinate update.
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
from dissonance.cpds.base import Variables
from dissonance.cpds.gaussian import dimension
from dissonance.cpds.network_conditional import NetworkConditional
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
    """An approximate posterior and what it proves: elbo <= log p(seen).

    `q` has the marginal of each block, `joint` all hidden variables together. `elbos` is the course of the bound, from
    before the first step; `bound` minus the ELBO between bounds.
    """

    bound: Value
    elbos: list[float] = field(repr=False)
    q: dict[str, Gaussian]
    log_evidence: float
    joint: Gaussian = field(repr=False)

    @property
    def elbo(self) -> float:
        """The lower bound of the log-evidence."""
        return self.elbos[-1]

    @property
    def gap(self) -> float:
        """How much the bound misses: KL(q || posterior)."""
        return self.log_evidence - self.elbo


def gaussian_variational(
    model: PDG,
    seen: Mapping[str, object] | None = None,
    *,
    blocks: Iterable[Sequence[str]] = (),
    given: Mapping[str, Sequence[str]] | None = None,
    control: float = inf,
) -> Instance[GaussianVariational]:
    """Approximate the posterior of a linear-Gaussian model, given numbers that are seen, by a network of blocks.

    Each hidden variable by itself (mean field), or in one of the `blocks` with others. `given`: the parents of some
    variables, {"Z2": ["Z1"]} for a factor q(Z2 | Z1); the others are independent. Full control is coordinate
    ascent; a finite control is the natural flow's step towards it. A round is as many steps as there are blocks.
    """
    known = [_seen(model.variable(n), x) for n, x in (seen or {}).items()]
    made = _blocks(model, set(seen or {}), blocks)
    if len(made) < 2:
        raise DissonanceError("one block is the exact posterior: ask `inconsistency` for it, or give several blocks.")
    parents = _parents(made, given or {})
    names = [", ".join(v.name for v in b) for b in made]
    own: list[Arc] = []
    for n, b, s in zip(names, made, parents, strict=True):
        cpd = LinearGaussian(torch.zeros(dimension(b), dimension(s)), torch.zeros(dimension(b)), 1.0)
        own.append(Arc(f"q({n}{' | ' if s else ''}{', '.join(v.name for v in s)})", s, b, cpd))
    network = [(a.sources, a.targets, a.cpd) for a in own if isinstance(a.cpd, LinearGaussian)]
    others = [_others(n, own[i], [f for j, f in enumerate(network) if j != i]) for i, n in enumerate(names)]
    soft = dict.fromkeys((a.name for a in model), 1.0)

    def attention(i: int) -> Attention:
        hard = [own[i].name, *(a.name for a in others[i]), *(a.name for a in known)]
        return Attention.only({**soft, **dict.fromkeys(hard, inf)}, soft, 1.0)

    foci = [Focus(attention(i), Control({own[i].name: control})) for i in range(len(made))]
    entropy = sum(float(gaussian_entropy(a.linear_gaussian()[2].detach())) for a in known)
    plain = Attention.only({**soft, **{a.name: inf for a in known}}, soft, 1.0)

    def read(run: Run) -> GaussianVariational:
        with torch.no_grad():
            joint = inconsistency(PDG(*(run.pdg[a.name] for a in own)), {a.name: inf for a in own}).mu
            assert isinstance(joint, Gaussian)
            found = {n: joint.marginal(*(v.name for v in b)) for n, b in zip(names, made, strict=True)}
            exact = inconsistency(PDG(*model.arcs, *known), plain).upper
        elbos = [-(x + entropy) for x in run.trace.column("global_upper")]
        return GaussianVariational(run.after, elbos, found, -(exact + entropy), joint)

    pdg = PDG(*model.arcs, *known, *own, *(a for each in others for a in each), variables=model.variables)
    return Instance(pdg, Cycle(*foci), read, attention(0), Control({a.name: control for a in own}))


def _others(name: str, own: Arc, network: Sequence[tuple[Variables, Variables, LinearGaussian]]) -> list[Arc]:
    """What the other factors say: of the parents, and of all others given the parents and the block itself."""
    rest = [v for _, made, _ in network for v in made if v not in own.sources]
    above: list[Arc] = []
    if own.sources:
        ahead = _ancestors(own.sources, network)
        above = [Arc(f"parents of {name}", (), own.sources, NetworkConditional(*ahead))]
    return [*above, Arc(f"others of {name}", own.scope, rest, NetworkConditional(*network))] if rest else above


def _ancestors(
    variables: Variables, network: Sequence[tuple[Variables, Variables, LinearGaussian]]
) -> list[tuple[Variables, Variables, LinearGaussian]]:
    """The factors that make some variables, and those that make their parents, and so on."""
    wanted, found = set(variables), list[tuple[Variables, Variables, LinearGaussian]]()
    while more := [f for f in network if f not in found and not wanted.isdisjoint(f[1])]:
        found += more
        wanted |= {v for parents, *_ in more for v in parents}
    return found


def _parents(made: Sequence[tuple[Variable, ...]], given: Mapping[str, Sequence[str]]) -> list[tuple[Variable, ...]]:
    """The parents of every block: those of its variables."""
    known = {v.name: v for b in made for v in b}
    for n in (*given, *(p for parents in given.values() for p in parents)):
        if n not in known:
            raise DissonanceError(f"given: {n!r} is no hidden variable.{suggest(n, known)}")
    found: list[tuple[Variable, ...]] = []
    for b in made:
        names = dict.fromkeys(p for v in b for p in given.get(v.name, ()) if known[p] not in b)
        found.append(tuple(known[p] for p in names))
    before: set[Variable] = set()
    waiting = list(range(len(made)))
    while waiting:
        ready = [i for i in waiting if before.issuperset(found[i])]
        if not ready:
            raise DissonanceError("given: the parents of q form a cycle; leave one of them out.")
        before |= {v for i in ready for v in made[i]}
        waiting = [i for i in waiting if i not in ready]
    return found


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
