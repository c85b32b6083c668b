"""The inner solver of the published runs, for many runs at once: Adam on the dense joint, not converged."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dissonance import numerics
from dissonance.distributions.tree import single
from dissonance.errors import CapabilityError
from dissonance.lir.batched import Batched
from dissonance.lir.inner import Attentions, Solved
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.numerics import DTYPE
from dissonance.problem import check_size
from dissonance.solvers.batch import structure
from dissonance.solvers.paper import Paper


@dataclass(frozen=True)
class Published(Paper):
    """The paper's solver inside LIR: `iterations` steps of Adam for the first mu and to look at the global
    inconsistency, `then` warm-started ones for every solve in between.

    `accumulate`: the gradient in theta is the sum over the inner iterations, as in the published code, where the inner
    solver's backward passes also reached theta (about 50 times the norm, cosine .88 with the intended one). `spread`:
    see `Paper`; 0 counts the settings of the variables that no arc mentions.
    """

    then: int = 20
    accumulate: bool = False
    spread: int = 0


class Unconverged:
    """Adam on the clipped, normalised joint of P runs; `mu` (P, joint states) is where it stopped.

    Its memory is the one of the resolving runs: looking at the global inconsistency in between starts from there and
    leaves no trace in it.
    """

    def __init__(self, parameters: Parameters, solver: Published) -> None:
        self._parameters, self.solver = parameters, solver
        self.names = [a.name for a in parameters.arcs]
        component = Batched(parameters).component(((False,) * len(self.names), False))
        tree = single(component.sizes)
        check_size(tree, solver.budget // len(parameters), False)
        self.arcs = structure(component, tree).arcs
        seen = {v.name for v in component.variables}
        free = math.prod(v.size for v in parameters.pdgs[0].variables if v.name not in seen)
        self.rate = solver.rate * (solver.spread or free)
        self.mu: Tensor | None = None
        self.resolving: Unconverged | None = None

    @property
    def parameters(self) -> Parameters:
        """What the runs are runs of."""
        return self._parameters

    def alone(self, k: int) -> Unconverged:
        """The same for run k by itself."""
        return Unconverged(self.parameters.one(k), self.solver)

    def fork(self) -> Unconverged:
        """The one that resolves: it goes on where it was."""
        if self.resolving is None:
            self.resolving = copy.copy(self)
        return self.resolving

    def dump(self) -> dict[str, Any]:
        """mu, here and where it resolves."""
        return {"mu": self.mu, "resolving": None if self.resolving is None else self.resolving.mu}

    def restore(self, known: dict[str, Any]) -> None:
        """The inverse of `dump`."""
        self.mu = known["mu"]
        if known["resolving"] is not None:
            self.fork().mu = known["resolving"]

    def solve(self, theta: Stacked, attention: Attentions) -> Solved:
        """The incompatibility of wherever Adam is after its iterations."""
        hard = (attention.beta == math.inf).any(0)
        if hard.any():
            odd = self.parameters.arcs[int(hard.nonzero()[0])]
            raise CapabilityError(f"{odd} is hard (beta = inf), and the paper's solver has no constraints.")
        with torch.no_grad():
            log_p = self.parameters.log_tables(theta)
            known = self.mu if self.resolving is None else self.resolving.mu
            looking = known is None or self.resolving is not None
            count = self.solver.iterations if looking else self.solver.then
            start = torch.full((len(log_p), self.arcs.n), 1 / self.arcs.n, dtype=DTYPE) if known is None else known
            self.mu, slope = self._descend(start, log_p, attention, count)
            joint, value, _ = self._score(self.mu, log_p, attention)
        plain = (attention.gamma == 0) & (attention.beta >= 0).all(1)
        lower = torch.where(plain, 0.0, torch.full_like(value, -math.inf))
        slope = slope - attention.beta[:, self.parameters.arc_at] * joint
        return Solved(lower, value, torch.full((len(value),), count), joint, slope)

    def _descend(self, start: Tensor, log_p: Tensor, a: Attentions, count: int) -> tuple[Tensor, Tensor]:
        """mu after so many steps, and the slopes on the way if they are to be accumulated."""
        x, first, second = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
        slope = torch.zeros_like(log_p)
        for t in range(1, count + 1):
            clipped = x.clamp(min=self.solver.floor)
            total = clipped.sum(1, keepdim=True)
            mu = clipped / total
            joint, _, g = self._score(mu, log_p, a)
            g = (g - (g * mu).sum(1, keepdim=True)) / total * (x >= self.solver.floor)
            g = g + 2 * self.solver.penalty * (x.sum(1, keepdim=True) - 1)
            first.lerp_(g, 0.1)
            second.mul_(0.999).addcmul_(g, g, value=0.001)
            x.addcdiv_(first, (second / (1 - 0.999**t)).sqrt_().add_(1e-8), value=-self.rate / (1 - 0.9**t))
            if self.solver.accumulate:
                slope -= a.beta[:, self.parameters.arc_at] * joint
        clipped = x.clamp(min=self.solver.floor)
        return clipped / clipped.sum(1, keepdim=True), slope

    def _score(self, mu: Tensor, log_p: Tensor, a: Attentions) -> tuple[Tensor, Tensor, Tensor]:
        """mu(s,t), the incompatibility, and its derivative in mu."""
        at = self.parameters.arc_at
        joint = self.arcs.sums(mu)
        log_q = numerics.log(joint / self.parameters.along_rows(joint).clamp(min=1e-300))
        cost = (a.beta - a.gamma[:, None] * a.alpha)[:, at] * log_q - numerics.times(a.beta[:, at], log_p)
        value, slope = numerics.times(joint, cost).sum(1), self.arcs.back(cost)
        if (a.gamma > 0).any():
            value = value + a.gamma * numerics.xlogy(mu, mu).sum(1)
            slope = slope + a.gamma[:, None] * (numerics.log(mu) + 1)
        return joint, value, slope

    def sharp(self, log_p: Tensor, attention: Attentions, runs: Tensor) -> Tensor:
        """mu(s,t) after the iterations of a first solve, from the uniform joint."""
        start = torch.full((len(log_p), self.arcs.n), 1 / self.arcs.n, dtype=DTYPE)
        mu, _ = self._descend(start, log_p, attention, self.solver.iterations)
        return self.arcs.sums(mu)
