"""What the inner problem of LIR is asked, and what it answers: the inconsistency of P runs at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from dissonance.cpds.gaussian import dimension
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Varying
from dissonance.inconsistency import Inconsistency
from dissonance.lir.inner.compromise import Compromise
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.numerics import DTYPE
from dissonance.pdg import Arc, Theta
from dissonance.variables import cells


@dataclass(frozen=True, eq=False)
class Attentions:
    """phi of P runs: beta and alpha (P, arcs), gamma (P,), and what varies in each run, if anything does."""

    beta: Tensor
    alpha: Tensor
    gamma: Tensor
    varying: tuple[Mapping[str, Varying], ...] = ()

    @classmethod
    def of(cls, attentions: Sequence[Attention], names: Sequence[str]) -> Attentions:
        """Stacked, in the order of the names."""
        return cls(
            torch.tensor([[a.beta.get(n, 0.0) for n in names] for a in attentions], dtype=DTYPE),
            torch.tensor([[a.alpha.get(n, 0.0) for n in names] for a in attentions], dtype=DTYPE),
            torch.tensor([a.gamma for a in attentions], dtype=DTYPE),
            tuple(a.varying for a in attentions) if any(a.varying for a in attentions) else (),
        )

    def __len__(self) -> int:
        return len(self.gamma)

    def take(self, keep: Tensor) -> Attentions:
        """Some of the runs."""
        varying = self.varying
        if varying:
            varying = tuple(varying[k] for k in torch.arange(len(self))[keep].tolist())
        return Attentions(self.beta[keep], self.alpha[keep], self.gamma[keep], varying)

    def clone(self) -> Attentions:
        """Another one of the same numbers."""
        return Attentions(self.beta.clone(), self.alpha.clone(), self.gamma.clone(), self.varying)

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """beta, alpha and gamma."""
        return self.beta, self.alpha, self.gamma

    def varies(self, name: str) -> bool:
        """Whether the attention to an arc depends on the sample, in any run."""
        return any(name in each for each in self.varying)

    def one(self, k: int, names: Sequence[str]) -> Attention:
        """The attention of run k."""
        return Attention(
            dict(zip(names, self.beta[k].tolist(), strict=True)),
            dict(zip(names, self.alpha[k].tolist(), strict=True)),
            float(self.gamma[k]),
            self.varying[k] if self.varying else {},
        )

    def same(self, other: Attentions) -> Tensor:
        """Which runs attend alike, (P,)."""
        equal = (self.beta == other.beta).all(1) & (self.gamma == other.gamma)
        if self.varying or other.varying:
            each = zip(self.varying, other.varying, strict=False)
            alike = [len(a) == len(b) and all(b.get(n) is w for n, w in a.items()) for a, b in each]
            equal = equal & torch.tensor(alike if len(alike) == len(equal) else False)
        return equal & ((self.alpha == other.alpha).all(1) | (self.gamma == 0))


TENSORS = ("lower", "upper", "steps", "joint", "slope")


@dataclass(frozen=True)
class Solved:
    """The inconsistency of P runs between bounds, (P,) each, and how it depends on the tables.

    Runs that are solved together have it all: `joint` (P, entries) is mu(s,t) of every arc; `slope` (P, entries) the
    derivative in log p: -beta mu(s,t) of a soft arc (envelope theorem), mu(s) p(t|s) lambda(s,t) of a hard one with
    multipliers lambda. Others find what they are asked for: the `gradient` in theta, in these parameters (all if None),
    and mu(s,t) of an arc from the results themselves, which `found` has. `drawn`: some is an average over samples.
    """

    lower: Tensor
    upper: Tensor
    steps: Tensor
    joint: Tensor
    slope: Tensor
    gradient: Callable[[Sequence[str] | None], Stacked] | None = None
    drawn: bool = False
    found: Callable[[], Sequence[Inconsistency]] = tuple

    @property
    def results(self) -> Sequence[Inconsistency]:
        """What the solver of each run says; nothing where runs are solved together."""
        return self.found()

    def rows(self, k: int, parameters: Parameters, arc: Arc) -> Tensor | None:
        """mu(s,t) of one arc in run k, as `CPD.project` wants it."""
        if self.gradient is not None:
            return rows_of(self.results[k], arc)
        return self.joint[k, parameters.spans[arc.name]].reshape(cells(arc.sources), cells(arc.targets))

    def every(self, parameters: Parameters, arc: Arc) -> Tensor:
        """The same in all runs, (P, ...); 0 where mu is not about all of the arc's variables."""
        if self.gradient is None:
            return self.joint[:, parameters.spans[arc.name]].reshape(-1, cells(arc.sources), cells(arc.targets))
        each = [rows_of(result, arc) for result in self.results]
        if arc.is_euclidean:
            width = 1 + dimension(arc.scope)
            nothing = torch.zeros(width, width, dtype=DTYPE)
        else:
            nothing = torch.zeros(cells(arc.sources), cells(arc.targets), dtype=DTYPE)
        return torch.stack([nothing if x is None else x for x in each])

    def loose(self, arc: Arc) -> bool:
        """Whether an arc is a loose end in all runs: mu follows it, so that no control of it changes anything."""
        return bool(not self.drawn and self.results) and all(arc.name in r.loose_ends for r in self.results)

    def joints(self, parameters: Parameters) -> Tensor:
        """mu(s,t) of every arc, (P, entries), but for loose ends, which are to blame for nothing: 0."""
        if self.gradient is None:
            return self.joint
        found = torch.zeros(len(self.upper), len(parameters.arc_at), dtype=DTYPE)
        for arc in parameters.arcs:
            if not self.loose(arc):
                found[:, parameters.spans[arc.name]] = self.every(parameters, arc).flatten(1)
        return found

    def take(self, keep: Tensor) -> Solved:
        """Some of the runs."""
        return Solved(*(getattr(self, name)[keep] for name in TENSORS))

    def put(self, where: Tensor, other: Solved) -> None:
        """Overwrite some of the runs, in place."""
        for name in TENSORS:
            getattr(self, name)[where] = getattr(other, name)

    @classmethod
    def blank(cls, runs: int, entries: int) -> Solved:
        """Nothing known."""
        low, high = (torch.full((runs,), x, dtype=DTYPE) for x in (-math.inf, math.inf))
        zeros = torch.zeros(runs, entries, dtype=DTYPE)
        return cls(low, high, torch.zeros(runs, dtype=torch.long), zeros, zeros.clone())


class Slopes(NamedTuple):
    """Bounds of P runs that are averages over samples, the steps of a solver, and the derivatives in parameters."""

    lower: list[float]
    upper: list[float]
    steps: int
    gradient: Stacked


class Inner(Protocol):
    """Anything that can bound the inconsistency of P runs at theta: of tables, unless it says otherwise."""

    @property
    def parameters(self) -> Parameters:
        """What the runs are runs of."""
        ...

    @property
    def contexts(self) -> Sequence[Theta]:
        """Values in the place of the buffers of the runs; tables have none."""
        return [{}] * len(self.parameters)

    def alone(self, k: int) -> Inner:
        """The same for run k by itself."""
        ...

    @property
    def random(self) -> bool:
        """Whether answers are averages over samples."""
        return False

    @property
    def supports_varying(self) -> bool:
        """Whether attention may depend on the sample."""
        return False

    def surround(self, contexts: Sequence[Theta], seeds: Sequence[int], free: Sequence[str] | None) -> None:
        """What the runs are seen with from now on: values of their buffers, seeds of their samples, and the parameters
        in which derivatives will be asked for first (None: all)."""
        if any(contexts):
            raise DissonanceError("a focus with a context needs cpds that hold data; these are tables.")

    def solve(self, theta: Stacked, attention: Attentions) -> Solved:
        """Bounds, mu(s,t), and derivatives."""
        ...

    def slopes(self, theta: Stacked, attention: Attentions, keys: Sequence[str]) -> Slopes | None:
        """Bounds and derivatives in these parameters where they are averages over samples; None where they are not."""
        return None

    def compromise(self, theta: Stacked, attention: Attentions) -> Compromise:
        """mu* at theta; at gamma = 0 the gamma -> 0+ selection, because the minimisers are many (erratum 24)."""
        ...

    def fork(self) -> Inner:
        """The same, knowing the same, with a memory of its own from here on."""
        ...

    def dump(self) -> dict[str, Any]:
        """What it knows, as plain tensors: for checkpoints."""
        ...

    def restore(self, known: dict[str, Any]) -> None:
        """The inverse of `dump`."""
        ...

    def precise_joint(self, log_p: Tensor, attention: Attentions, runs: Tensor, arc: Arc) -> Tensor:
        """mu(s,t) of an arc in some runs (P,), (P, its entries), as precisely as can be: not only its cost, but mu."""
        ...


def rows_of(result: Inconsistency, arc: Arc) -> Tensor | None:
    """mu(s,t) of an arc at the mu that attains the upper bound; None if mu is not about all of its variables."""
    for s in result.solutions:
        known = {v.name for v in s.component.variables}
        if known.issuperset(v.name for v in arc.scope) and math.isfinite(s.upper):
            return s.mu.rows(arc.sources, arc.targets).detach()
    return None
