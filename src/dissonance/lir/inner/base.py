"""What the inner problem of LIR is asked, and what it answers: the inconsistency of P runs at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from dissonance.answer import Answer
from dissonance.arc import Arc, Theta
from dissonance.cpds.gaussian import dimension
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Varying
from dissonance.lir.inner.compromise import Compromise
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.numerics import DTYPE
from dissonance.solvers.front import Assembled
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
        """The attentions of some of the runs."""
        varying = self.varying
        if varying:
            varying = tuple(varying[k] for k in torch.arange(len(self))[keep].tolist())
        return Attentions(self.beta[keep], self.alpha[keep], self.gamma[keep], varying)

    def clone(self) -> Attentions:
        """A copy."""
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
        return Attention.only(
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


class Solved(ABC):
    """The inconsistency of P runs at theta between bounds, (P,) each, mu there, and how it depends on theta; `steps`:
    those that solvers took, (P,), or 0 if none took any."""

    lower: Tensor
    upper: Tensor
    steps: Tensor | int
    results: Sequence[Assembled] = ()
    """The answer of each run; nothing where runs are solved together."""

    @property
    def bounds(self) -> tuple[list[float], list[float]]:
        """The lower and the upper bounds as numbers."""
        return self.lower.tolist(), self.upper.tolist()

    @property
    def drawn(self) -> bool:
        """Whether some of it is an average over samples: infinite where these are, and 0 is no lower bound of it."""
        return False

    @property
    def pinned(self) -> bool:
        """Whether hard arcs determine mu in all runs."""
        found = [s.part.pinned is not None for r in self.results for s in r.answers]
        return bool(self.results) and all(found)

    def rows(self, k: int, arc: Arc) -> Tensor | None:
        """mu(s,t) of one arc in run k, as `CPD.project` wants it; None if mu is not about all of its variables."""
        return self.results[k].marginal(arc)

    def every(self, arc: Arc) -> Tensor:
        """The same in all runs, (P, ...); 0 where mu is not about all of the arc's variables."""
        each = [self.rows(k, arc) for k in range(len(self.upper))]
        sides = (1 + dimension(arc.scope),) * 2 if arc.is_euclidean else (cells(arc.sources), cells(arc.targets))
        nothing = torch.zeros(sides, dtype=DTYPE)
        return torch.stack([nothing if x is None else x for x in each])

    def across(self, arc: Arc) -> Tensor:
        """Return mu(s,t) of a finite arc in all runs, also where its variables are in several, independent parts."""
        return torch.stack([r.across(arc) for r in self.results])

    def loose(self, arc: Arc) -> bool:
        """Whether an arc is a loose end in all runs: mu follows it, so that no control of it changes anything."""
        return bool(not self.drawn and self.results) and all([arc.name in r.loose for r in self.results])

    def joints(self, parameters: Parameters) -> Tensor:
        """mu(s,t) of every arc, (P, entries), but for loose ends, which are to blame for nothing: 0."""
        found = torch.zeros(len(self.upper), len(parameters.arc_at), dtype=DTYPE)
        for arc in parameters.arcs:
            if not self.loose(arc):
                found[:, parameters.spans[arc.name]] = self.every(arc).flatten(1)
        return found

    @abstractmethod
    def gradient(self, keys: Sequence[str] | None = None) -> Stacked:
        """The derivatives in theta, (P, ...) each: in these parameters at least, in all if None."""

    def gradients(self, keys: Sequence[str]) -> list[dict[str, Tensor]]:
        """The same run by run, in these parameters."""
        found = self.gradient(keys)
        return [{key: found[key][k] for key in keys} for k in range(len(self.upper))]


class SolvedTables(Solved):
    """The answer to problems of tables that were solved together, at theta."""

    def __init__(self, parameters: Parameters, theta: Stacked, answer: Answer, steps: Tensor | int) -> None:
        self.lower, self.upper = torch.from_numpy(answer.bounds.lower), torch.from_numpy(answer.bounds.upper)
        self.steps, self._parameters, self._theta, self._answer = steps, parameters, theta, answer

    def rows(self, k: int, arc: Arc) -> Tensor:
        """Return mu(s,t) of one arc in run k."""
        return self.every(arc)[k]

    def every(self, arc: Arc) -> Tensor:
        """Return mu(s,t) of one arc in all runs; 0 where mu is not about all of its variables."""
        return torch.nan_to_num(self._every(arc))

    def _every(self, arc: Arc) -> Tensor:
        """Return mu(s,t) of one arc in all runs; NaN where mu is not about all of its variables."""
        known, span = arc.name in self._answer.known, self._parameters.spans[arc.name]
        joint = torch.from_numpy(self._answer.joint[:, span] if known else self._answer.rows(arc))
        return joint.reshape(-1, cells(arc.sources), cells(arc.targets))

    def across(self, arc: Arc) -> Tensor:
        """Return mu(s,t) of one arc in all runs, also where its variables are in several, independent parts."""
        found, variables = self._every(arc), self._parameters.pdgs[0].variables
        for k in found.isnan().any(2).any(1).nonzero().ravel().tolist():
            one: Any = self._answer.take(np.array([k]))  # a piece by itself knows all arcs
            mu, _ = one.selected(variables)
            found[k] = mu.rows(arc.sources, arc.targets).detach()
        return found

    def loose(self, arc: Arc) -> bool:
        """Return whether an arc is a loose end in all runs."""
        return arc.name in self._answer.loose

    def joints(self, parameters: Parameters) -> Tensor:
        """Return mu(s,t) of every arc, (P, entries), but for loose ends, which are to blame for nothing: 0."""
        answer, found = self._answer, torch.from_numpy(self._answer.joint)
        others = [a for a in parameters.arcs if a.name not in answer.known and a.name not in answer.loose]
        found = found.clone() if others else found
        for arc in others:
            found[:, parameters.spans[arc.name]] = self.every(arc).flatten(1)
        return found

    def gradient(self, keys: Sequence[str] | None = None) -> Stacked:
        """Return the derivatives in all parameters."""
        return self._parameters.pull(self._theta, torch.from_numpy(self._answer.slope))


class Inner(Protocol):
    """Anything that can bound the inconsistency of P runs at theta: of tables, unless it says otherwise."""

    random: bool = False
    """Whether answers are averages over samples."""

    supports_varying: bool = False
    """Whether attention may depend on the sample."""

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

    def surround(self, contexts: Sequence[Theta], seeds: Sequence[int], free: Sequence[str] | None) -> None:
        """Set what the next solves use: values of the buffers of the runs, seeds of their samples, and the parameters
        in which derivatives will be asked for first (None: all)."""
        if any(contexts):
            raise DissonanceError("a focus with a context needs cpds that hold data; these are tables.")

    def solve(self, theta: Stacked, attention: Attentions) -> Solved:
        """Bounds, mu(s,t), and derivatives."""
        ...

    def compromise(self, theta: Stacked, attention: Attentions) -> Compromise:
        """mu* at theta; at gamma = 0 the gamma -> 0+ selection, because the minimisers are many (erratum 24)."""
        ...

    def fork(self) -> Inner:
        """A copy with the same memory, which is changed independently from here on."""
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
