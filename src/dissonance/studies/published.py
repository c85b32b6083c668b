"""The outer and inner loop of the published runs, as they were: all replicates of a structure at once.

This is not Algorithm 1 with a poor solver but the published procedure with all that the paper's text leaves out:

- mu is the best of the iterates of Adam on the clipped, normalised joint over *all* variables, cold for 50 iterations,
  then warm for 20 an outer step and for 50 at the end; nothing makes sure that it has arrived;
- where mu(s,t) = 0 the derivative is not that of OInc, -inf, but -1: mass comes back slowly;
- the inner iterations' backward passes (two each) also add to theta's gradient, which is cleared once per outer step:
  Adam on theta follows the sum over the inner iterations. `accumulate=False` leaves that out.

From the same cpds it gives the published initial inconsistencies to 3e-8, and for a while the same trajectories.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dissonance.errors import CapabilityError
from dissonance.focus import Attention, Focus
from dissonance.numerics import DTYPE
from dissonance.pdg import PDG
from dissonance.problem import BUDGET

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's own constants."""


@dataclass(frozen=True)
class Loop:
    """The numbers of the published loop."""

    first: int = 50
    inner: int = 20
    outer: int = 10
    mu_rate: float = 1e-3
    theta_rate: float = 0.05 / 10
    accumulate: bool = True


@dataclass(frozen=True)
class Traces:
    """What the loop saw, a row for each PDG: nats, and total variation after each timestep (the first is the start)."""

    initial: Tensor
    final: Tensor
    tv_mu: Tensor
    tv_theta: Tensor  # (PDGs, steps + 1)
    log_p: list[Tensor]  # of each timestep, the start first: (PDGs, cells of all tables)
    solves: int
    iterations: int

    def thetas(self, pdgs: Sequence[PDG], step: int) -> list[dict[str, Tensor]]:
        """theta of each PDG after a timestep."""
        found: list[dict[str, Tensor]] = []
        for pdg, row in zip(pdgs, self.log_p[step], strict=True):
            shapes = [a.cpd.log_table().shape for a in pdg.arcs]
            parts = row.split([math.prod(s) for s in shapes])
            found.append({f"{a.name}.logits": z.reshape(s) for a, z, s in zip(pdg.arcs, parts, shapes, strict=True)})
        return found


class _Cells:
    """Joint states, cells of the tables, rows of the tables: a PDG's structure as matrices."""

    def __init__(self, pdg: PDG) -> None:
        sizes = [v.size for v in pdg.variables]
        self.states = math.prod(sizes)
        cells = sum(math.prod(v.size for v in a.scope) for a in pdg.arcs)
        if 8 * self.states * cells > BUDGET:
            raise CapabilityError(f"the published loop is dense: {self.states} states are too many for it.")
        place = {v.name: i for i, v in enumerate(pdg.variables)}
        values = torch.cartesian_prod(*(torch.arange(k) for k in sizes)).reshape(self.states, len(sizes))
        incidence: list[Tensor] = []
        same_row: list[Tensor] = []
        for a in pdg.arcs:
            cell = torch.zeros(self.states, dtype=torch.long)
            for v in a.scope:
                cell = cell * v.size + values[:, place[v.name]]
            targets = math.prod(v.size for v in a.targets)
            rows = math.prod(v.size for v in a.sources)
            incidence.append(torch.nn.functional.one_hot(cell, rows * targets))
            same_row.append(torch.kron(torch.eye(rows), torch.ones(targets, targets)))
        self.T = torch.cat(incidence, 1).to(DTYPE)  # (states, cells)
        self.same_row = torch.block_diag(*same_row).to(DTYPE)  # (cells, cells)
        self.widths = torch.tensor([t.shape[1] for t in incidence])
        self.names = [a.name for a in pdg.arcs]

    def spread(self, weights: Sequence[dict[str, float]]) -> Tensor:
        """A weight for each arc as a weight for each cell."""
        by_arc = torch.tensor([[w.get(n, 0.0) for n in self.names] for w in weights], dtype=DTYPE)
        return by_arc.repeat_interleave(self.widths, 1)

    def divergence(self, mu: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """mu(s,t), mu(s), and log mu(t|s)/p(t|s), the derivative of OInc in mu(s,t).

        Where mu(s,t) = 0 the published derivative is that of the other cells' mu(s), which is -1.
        """
        m = mu @ self.T
        row = m @ self.same_row
        some = m > 0
        return (
            m,
            row,
            torch.where(some, m.where(some, 1.0).log() - row.where(some, 1.0).log() - log_p, -1.0 * (row > 0)),
        )


def published(
    pdgs: Sequence[PDG], foci: Callable[[int], Sequence[Focus]], steps: int = 20, settings: Loop | None = None
) -> Traces:
    """Run the published loop on PDGs of one structure; `foci(t)` has the focus of each at timestep t."""
    s = settings or Loop()
    cells = _Cells(pdgs[0])
    z = torch.stack([torch.cat([a.log_table().detach().reshape(-1) for a in pdg.arcs]) for pdg in pdgs])
    everything = cells.spread([dict(Attention.uniform(p).beta) for p in pdgs])
    mu, _ = _inner(cells, torch.full((len(pdgs), cells.states), 1.0, dtype=DTYPE), z, everything, s.first, s.mu_rate)
    start, log_p = mu, [z]
    for t in range(steps):
        chosen = foci(t)
        beta = cells.spread([dict(f.attention.beta) for f in chosen])
        chi = cells.spread([{n: float(c) for n, c in f.control.chi.items()} for f in chosen])
        adam = _Adam(z, s.theta_rate)
        for _ in range(s.outer):
            mu, gathered = _inner(cells, mu, z, beta, s.inner, s.mu_rate)
            gradient = _theta_gradient(cells, mu, z, beta)
            z = z - adam.step(chi * (gradient + gathered if s.accumulate else gradient))
        log_p.append(_log_softmax(cells, z))
    mu_end, _ = _inner(cells, mu, z, everything, s.first, s.mu_rate)
    p = torch.stack(log_p, 1).exp()
    return Traces(
        initial=_score(cells, start, log_p[0], everything),
        final=_score(cells, mu_end, log_p[-1], everything),
        tv_mu=(mu_end - start).abs().sum(1) / 2,
        tv_theta=(p - p[:, :1]).abs().sum(-1) / 2,
        log_p=log_p,
        solves=2 + steps * s.outer,
        iterations=2 * s.first + steps * s.outer * s.inner,
    )


def _inner(
    cells: _Cells, start: Tensor, z: Tensor, beta: Tensor, iterations: int, rate: float
) -> tuple[Tensor, Tensor]:
    """The best mu that Adam passes on its way, and what the backward passes left in theta's gradient.

    The cost is OInc in bits plus (total - 1)^2. OInc is homogeneous, so its gradient in mu is log mu(t|s)/p(t|s).
    """
    log_p = _log_softmax(cells, z)
    p, bits = log_p.exp(), beta / math.log(2)
    x = start / start.sum(1, keepdim=True)
    best, lowest = x, torch.full((len(x), 1), math.inf, dtype=DTYPE)
    gathered, adam = torch.zeros_like(z), _Adam(x, rate)
    for _ in range(iterations):
        clipped = x.clamp(min=0)
        total = clipped.sum(1, keepdim=True)
        mu = clipped / total
        m, row, log_ratio = cells.divergence(mu, log_p)
        weighted = bits * log_ratio
        value = (weighted * m).sum(1, keepdim=True)
        cost = value + (total - 1) ** 2
        best, lowest = torch.where(cost <= lowest, mu, best), torch.minimum(cost, lowest)
        gathered += 2 * bits * (row * p - m)
        gradient = (weighted @ cells.T.T - value) / total + 2 * (total - 1)
        x = x - adam.step(torch.where(x >= 0, gradient, 0.0))
    return best, gathered


def _theta_gradient(cells: _Cells, mu: Tensor, z: Tensor, beta: Tensor) -> Tensor:
    """Of OInc in bits, in the logits, at a fixed mu: beta (mu(s) p(t|s) - mu(s,t))."""
    m = mu @ cells.T
    return beta / math.log(2) * (m @ cells.same_row * _log_softmax(cells, z).exp() - m)


def _score(cells: _Cells, mu: Tensor, log_p: Tensor, beta: Tensor) -> Tensor:
    m, _, log_ratio = cells.divergence(mu, log_p)
    return (beta * m * log_ratio).sum(1)


def _log_softmax(cells: _Cells, z: Tensor) -> Tensor:
    return z - (z.exp() @ cells.same_row).log()


class _Adam:
    """What Adam would subtract from each of many independent rows."""

    def __init__(self, x: Tensor, rate: float) -> None:
        self.rate, self.count = rate, 0
        self.mean, self.square = torch.zeros_like(x), torch.zeros_like(x)

    def step(self, gradient: Tensor) -> Tensor:
        self.count += 1
        self.mean = BETA1 * self.mean + (1 - BETA1) * gradient
        self.square = BETA2 * self.square + (1 - BETA2) * gradient * gradient
        root = (self.square / (1 - BETA2**self.count)).sqrt()
        return self.rate * self.mean / (1 - BETA1**self.count) / (root + EPSILON)
