"""The inner loop of the published runs inside LIR, for many runs at once.

`solvers/paper.py` has the loop itself. What the published runs did around it, and the paper's text leaves out:

- mu is cold for 50 iterations, then warm-started for 20 an outer step and for 50 at the end; nothing makes sure that it
  has arrived;
- its joint was over *all* variables, also those that no arc mentions;
- the inner iterations' backward passes (two each) also add to theta's gradient, which is cleared once an outer step:
  Adam on theta follows the sum over the inner iterations. `accumulate=True` does that.

With the flow `ADAM` of `flows/descent.py`, 10 steps of Adam at rate 0.05/10 on gradients in bits, and `tol=0`, which
follows what is left of a conflict however small, runs from the same cpds start at the published initial inconsistencies
to 3e-8 bits and follow the published trajectories until rounding parts them.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from dissonance.answer import Answer
from dissonance.arc import Arc
from dissonance.distributions.tree import single
from dissonance.errors import CapabilityError
from dissonance.lir.inner.base import Attentions, Inner, SolvedTables
from dissonance.lir.inner.compromise import Compromise
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.problem import Batch, check_bytes
from dissonance.proof import ProvedBounds
from dissonance.solvers.paper import Dense, Paper, StackedArcs

BYTES_PER_STATE = 400
"""What a joint state of a run takes, roughly: Adam has a few vectors of them, and each arc its index."""


@dataclass(frozen=True)
class Published(Paper):
    """The paper's solver inside LIR: `iterations` steps of Adam for the first mu and to look at the global
    inconsistency, `then` warm-started ones for every solve in between.

    `accumulate`: the gradient in theta has the inner iterations' in it, as in the published code, where the inner
    solver's backward passes also reached theta (about 50 times the norm, cosine .88 with the intended one). `spread`:
    see `Paper`; 0 counts the settings of the variables that no arc mentions.
    """

    then: int = 20
    accumulate: bool = False
    spread: int = 0

    @classmethod
    def of(cls, solver: Paper) -> Published:
        """The paper's solver as it is used inside LIR."""
        if hasattr(solver, "then"):
            return cast("Published", solver)
        return cls(**{f.name: getattr(solver, f.name) for f in fields(solver) if f.name != "spread"})


class Unconverged(Inner):
    """Adam on the clipped, normalised joint of P runs; `mu` (P, joint states) is the best it passed last time.

    Its memory is the one of the resolving runs: looking at the global inconsistency in between starts from there and
    leaves no trace in it.
    """

    def __init__(self, parameters: Parameters, solver: Published) -> None:
        self._parameters, self.solver = parameters, solver
        variables = parameters.pdgs[0].variables
        seen = {v.name for a in parameters.arcs for v in a.scope}
        mentioned = [v for v in variables if v.name in seen]
        joint = single({v.name: v.size for v in mentioned})
        check_bytes(joint, BYTES_PER_STATE * joint.cells, solver.budget // len(parameters))
        self.dense = Dense.of(mentioned, parameters.arcs)
        self.rate = solver.rate * (solver.spread or math.prod(v.size for v in variables if v.name not in seen))
        self.blank = Batch.over(variables, parameters.arcs, len(parameters))
        self.mu: Tensor | None = None
        self.resolving: Unconverged | None = None

    @property
    def parameters(self) -> Parameters:
        """What the runs are runs of."""
        return self._parameters

    def alone(self, k: int) -> Unconverged:
        """The same for run k by itself."""
        made = Unconverged(self.parameters.one(k), self.solver)
        made.mu = None if self.mu is None else self.mu[k : k + 1]
        return made

    def compromise(self, theta: Stacked, attention: Attentions) -> Compromise:
        """mu* as the best joint distribution of the last solve."""
        if self.mu is None:
            self.solve(theta, attention)
        assert self.mu is not None
        return Compromise(self.mu)

    def fork(self) -> Unconverged:
        """The solver of the local steps, which keeps a mu of its own from step to step."""
        if self.resolving is None:
            self.resolving = copy.copy(self)
        return self.resolving

    def dump(self) -> dict[str, Any]:
        """mu of this solver and of the solver of the local steps."""
        return {"mu": self.mu, "resolving": None if self.resolving is None else self.resolving.mu}

    def restore(self, known: dict[str, Any]) -> None:
        """The inverse of `dump`."""
        self.mu = known["mu"]
        if known["resolving"] is not None:
            self.fork().mu = known["resolving"]

    def solve(self, theta: Stacked, attention: Attentions) -> SolvedTables:
        """The incompatibility of the best that Adam passes; at gamma = 0 and without disbelief, 0 is below it."""
        with torch.no_grad():
            arcs = self._arcs(self.parameters.log_tables(theta), attention)
        known = self.mu if self.resolving is None else self.resolving.mu
        looking = known is None or self.resolving is not None
        count = self.solver.iterations if looking else self.solver.then
        start = self.dense.uniform(len(attention)) if known is None else known
        self.mu, passed = self.dense.descend(start, arcs, count, self.rate)
        joint, value, _ = self.dense.score(self.mu, arcs)
        value = torch.where(self.dense.possible(arcs).any(1), value[:, 0], math.inf)
        plain = (attention.gamma == 0) & (attention.beta >= 0).all(1)
        lower = torch.where(plain, 0.0, torch.full_like(value, -math.inf)).numpy()
        upper = np.maximum(value.numpy(), lower)
        followed = joint + 2 * passed if self.solver.accumulate else joint
        slope = -attention.beta[:, self.parameters.arc_at] * followed
        batch = self.blank.with_numbers(*(x.numpy() for x in (arcs.log_p, arcs.beta, arcs.alpha, arcs.gamma)))
        bounds = ProvedBounds(lower, upper, np.zeros_like(upper), np.zeros(len(upper), dtype=np.bool_))
        answer = Answer.given(batch, bounds, self.solver.name, joint.numpy(), slope.numpy())
        return SolvedTables(self.parameters, theta, answer, torch.full((len(value),), count))

    def precise_joint(self, log_p: Tensor, attention: Attentions, runs: Tensor, arc: Arc) -> Tensor:
        """mu(s,t) of an arc after the iterations of a first solve, from the uniform joint."""
        arcs = self._arcs(log_p, attention)
        mu, _ = self.dense.descend(self.dense.uniform(len(log_p)), arcs, self.solver.iterations, self.rate)
        return self.dense.sums(mu)[:, self.parameters.spans[arc.name]]

    def _arcs(self, log_p: Tensor, a: Attentions) -> StackedArcs:
        hard = (a.beta == math.inf).any(0)
        if hard.any():
            odd = self.parameters.arcs[int(hard.nonzero()[0])]
            raise CapabilityError(f"{odd} is hard (beta = inf), and the paper's solver has no constraints.")
        return StackedArcs(log_p, a.beta, a.alpha, a.gamma)
