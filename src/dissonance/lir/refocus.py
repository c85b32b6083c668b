"""REFOCUS: procedures that pick the next focus. Anything callable as (pdg, step, generator, trace) -> Focus is one.

Those here scale the base focus of the run, `trace.base`: an arc of weight w is attended with w beta and w alpha, so
that convexity (beta >= gamma alpha) is kept; weight 0 puts it out of attention and out of control.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dissonance.columns.columnar import mentioned
from dissonance.columns.weights import ColumnWeights
from dissonance.control import Chi
from dissonance.errors import DissonanceError, suggest
from dissonance.focus import Attention, Control, Focus, Weights, facts
from dissonance.lir.trace import Row, Trace
from dissonance.pdg import PDG

Refocus = Callable[[PDG, int, np.random.Generator, Trace], Focus]


def default_control(free: Mapping[str, float], attention: Attention) -> Control:
    """Return what moves if nobody says: all that can, but for facts (beta = inf), which a control has to name."""
    hard = facts(attention)
    if isinstance(free, ColumnWeights):
        return Control(free | dict.fromkeys(hard & free.keys(), math.nan))
    return Control({name: chi for name, chi in free.items() if name not in hard})


def base_focus(
    pdg: PDG, attention: Attention | Weights | None, control: Control | Chi | None, *, named: bool = False
) -> Focus:
    """Return the focus that refocus procedures choose from: by default their own beta, alpha = 1, gamma = 0, and
    `default_control`. `named`: one that is known by its name chooses, and controls what the base controls."""
    free = pdg.movable
    if not free:
        raise DissonanceError(
            "no arc has parameters to move: fixed tables have none. Use pdg.learnable(), or learnable=True where the "
            "beliefs are read."
        )
    attended = Attention.of(attention, pdg)
    chosen = default_control(free, attended) if control is None else Control.of(control)
    if control is None and named and not chosen.chi:
        raise DissonanceError(
            "every arc that could move is a fact (beta = inf), and facts are kept unless a control names them: "
            f"control={{{next(iter(free))!r}: 1.0}}."
        )
    attended.check(pdg)
    return Focus(attended, chosen.on(pdg))


def name_of(refocus: Refocus) -> str:
    """Return the name of a procedure: its own, or that of the function or class."""
    return getattr(refocus, "name", getattr(refocus, "__name__", type(refocus).__name__))


def weighted(base: Focus, weights: Mapping[str, float]) -> Focus:
    """The base focus with attention scaled arc by arc, and control where some is left."""
    a = base.attention
    kept = {n: w for n, w in weights.items() if w}
    beta = {n: a.beta[n] * w for n, w in kept.items() if n in a.beta}
    alpha = {n: a.alpha[n] * w for n, w in kept.items() if n in a.alpha}
    return Focus(Attention.only(beta, alpha, a.gamma, a.varying), base.control.within(kept))


def _names(pdg: PDG, trace: Trace) -> list[str]:
    """The arcs that the base attention attends to."""
    beta = trace.attention.beta
    return [a.name for a in pdg.arcs if beta.get(a.name)]


def _at(pdg: PDG, variable: str) -> list[str]:
    """The arcs at a variable."""
    return [a.name for a in pdg.around(variable)]


def _seen(pdg: PDG, trace: Trace) -> Sequence[str]:
    """The variables that an attended arc mentions."""
    if trace.seen is None:
        trace.seen = mentioned(pdg, trace.attention.beta)
    return trace.seen


@dataclass(frozen=True)
class Uniform:
    """Everything, always: the base focus."""

    name: str = "uniform"

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """The base focus."""
        return trace.base


@dataclass(frozen=True)
class Partial:
    """A random floor(share m) of the m arcs, and nothing else."""

    share: float = 0.5
    name: str = "partial"

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """A fresh choice every step."""
        names = _names(pdg, trace)
        order = generator.permutation(len(names)).tolist()
        return weighted(trace.base, {names[i]: 1.0 for i in order[: math.floor(self.share * len(names))]})


@dataclass(frozen=True)
class Hub:
    """The arcs at a random variable; the other arcs have weight `other` (0 in the text, 0.1 in the published runs).

    A variable that no arc mentions may be drawn, as in the published runs, if `anywhere`.
    """

    other: float = 0.0
    anywhere: bool = False
    name: str = "hub"

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """A fresh variable every step."""
        seen = None if self.anywhere else _seen(pdg, trace)
        drawn = int(generator.integers(len(pdg.variables if seen is None else seen)))
        near = _at(pdg, pdg.variables[drawn].name if seen is None else seen[drawn])
        beta = trace.attention.beta
        others = dict.fromkeys(_names(pdg, trace), self.other) if self.other else {}
        return weighted(trace.base, others | {n: 1.0 for n in near if beta.get(n)})


@dataclass(frozen=True)
class Smooth:
    """Random smooth weights: each arc's is exponentially distributed with mean `mean`."""

    mean: float = 1.0
    name: str = "smooth"

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """Fresh weights every step."""
        names = _names(pdg, trace)
        weights = (-self.mean * np.log1p(-generator.random(len(names)))).tolist()
        return weighted(trace.base, dict(zip(names, weights, strict=True)))


@dataclass(frozen=True)
class Cycle:
    """Given foci, one after another, over and over."""

    foci: Sequence[Focus]
    name: str = "cycle"

    def __init__(self, *foci: Focus, name: str = "cycle") -> None:
        if not foci:
            raise DissonanceError("a cycle needs at least one focus.")
        object.__setattr__(self, "foci", foci)
        object.__setattr__(self, "name", name)

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """The next focus of the cycle."""
        return self.foci[step % len(self.foci)]


@dataclass(frozen=True)
class Choice:
    """One of finitely many foci at random: the paper's non-deterministic choice from a set F."""

    foci: Sequence[Focus]
    name: str = "choice"

    def __init__(self, *foci: Focus) -> None:
        if not foci:
            raise DissonanceError("a choice needs at least one focus.")
        object.__setattr__(self, "foci", foci)

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """One of the foci, drawn at random."""
        return self.foci[int(generator.integers(len(self.foci)))]


def _known(what: str, weights: Mapping[str, float]) -> Mapping[str, float]:
    if not weights:
        raise DissonanceError(
            f"{what} looks at the global mu*, which needs trace=Record(globally=True) and finite tables."
        )
    return weights


@dataclass(frozen=True)
class Greedy:
    """Where the inconsistency is: the arcs at the variable whose arcs are most to blame at the global mu*.

    A variable whose arcs turned out consistent by themselves is passed over until something has moved; when there is no
    other, the inconsistency is not local to any variable and everything is attended to.
    """

    other: float = 0.0
    name: str = "greedy"

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """The most blamed variable that is not known to be consistent."""
        blame = _known("greedy", trace.now.blame)
        names = _names(pdg, trace)
        stuck: list[set[str]] = []
        for row in reversed(trace.rows):
            if not row.local_upper < 1e-6:
                break
            stuck.append(set(row.beta))
        options: list[tuple[float, set[str]]] = []
        for v in _seen(pdg, trace):
            near = {n: blame.get(n, 0.0) for n in _at(pdg, v) if trace.attention.beta.get(n)}
            if not any(near.keys() <= s for s in stuck):
                options.append((sum(near.values()), set(near)))
        near = max(options, key=lambda x: x[0])[1] if options else set(names)
        return weighted(trace.base, {n: 1.0 if n in near else self.other for n in names})


@dataclass(frozen=True)
class Surprisal:
    """Surprise draws attention: an arc's weight is its excess surprisal, relative to the largest.

    E_mu[-log p(T|S)] - E_mu(S)[H(p(T|S))] at the global mu*: how much more the targets surprise the cpd than it
    expects to be surprised. `floor` is what an arc that is not surprised gets.
    """

    floor: float = 0.1
    name: str = "surprisal"

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """Weights in [floor, 1]."""
        excess = {n: max(0.0, x) for n, x in _known("surprisal", trace.now.surprisal).items()}
        largest = max(excess.values())
        scale = {n: x / largest if largest > 0 else 1.0 for n, x in excess.items()}
        return weighted(trace.base, {n: max(self.floor, scale.get(n, 0.0)) for n in _names(pdg, trace)})


@dataclass(frozen=True)
class Learned:
    """Attention that is learnt from the progress that it made: a baseline for the paper's open question.

    Weights e^(w_a + spread * noise) are tried; the reward of a step is the logarithm of how much it lowered the global
    inconsistency, and w moves along the noise by `rate` (reward - mean reward): REINFORCE with a running baseline.
    Everything is read off the trace, so that a resumed run learns the same.
    """

    rate: float = 0.5
    spread: float = 0.5
    name: str = "learned"

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """Weights of mean 1."""
        names = _names(pdg, trace)
        _known("learned", trace.now.blame)
        w = self.weights(names, [*trace.rows, trace.now], trace.attention)
        noise = generator.standard_normal(len(names)).tolist()
        tried = [math.exp(w[n] + self.spread * z) for n, z in zip(names, noise, strict=True)]
        mean = sum(tried) / len(tried)
        return weighted(trace.base, {n: x / mean for n, x in zip(names, tried, strict=True)})

    def weights(self, names: list[str], rows: Sequence[Row], base: Attention) -> dict[str, float]:
        """The logarithms w of the weights, as learnt from these rows of the trace."""
        w = dict.fromkeys(names, 0.0)
        baseline = 0.0
        for t, (row, after) in enumerate(pairwise(rows)):
            if not (row.global_upper > 1e-7 and math.isfinite(row.global_upper)):
                break
            reward = math.log(row.global_upper / max(after.global_upper, 1e-7))
            tried = {n: math.log(row.beta[n] / base.beta[n]) for n in names}
            centre = sum(tried.values()) / len(tried) - sum(w.values()) / len(w)
            for n in names:
                w[n] += self.rate * (reward - baseline) * (tried[n] - centre - w[n])
                w[n] = min(3.0, max(-3.0, w[n]))
            baseline += (reward - baseline) / (t + 1)
        return w


NAMES: dict[str, Callable[[], Refocus]] = {
    "uniform": Uniform,
    "partial": Partial,
    "hub": Hub,
    "smooth": Smooth,
    "greedy": Greedy,
    "surprisal": Surprisal,
    "learned": Learned,
}


SWEEP = "sweep"
"""What `lir` does over all foci of a neighbourhood; no function that chooses the next one."""


def refocus_named(refocus: Refocus | str) -> Refocus:
    """The procedure of that name, with its default options."""
    if not isinstance(refocus, str):
        if isinstance(refocus, type):
            raise DissonanceError(
                f"{refocus.__name__} is a class of refocus procedures: make one, {refocus.__name__}()."
            )
        if isinstance(refocus, Focus | Attention):
            made = "focus" if isinstance(refocus, Focus) else "Focus(attention, control)"
            raise DissonanceError(f"a refocus chooses a focus at every step: for always the same one, Cycle({made}).")
        if not callable(refocus):
            raise DissonanceError(f"expected a refocus, by name or as a function, found {refocus!r}.")
        return refocus
    if refocus == SWEEP:
        raise DissonanceError(
            '"sweep" works for one run, not in lirs() or inside another refocus: call lir(pdg, "sweep").'
        )
    if refocus not in NAMES:
        raise DissonanceError(f"no refocus named {refocus!r}.{suggest(refocus, (*NAMES, SWEEP))}")
    return NAMES[refocus]()
