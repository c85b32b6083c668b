"""A solver for foci with many copies of few variables: copies that hard arcs make equal are one variable."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.answer import Answer, Ints, Marginals, Solver, infinite
from dissonance.attended import Attended
from dissonance.distributions.tree import Scope, Tree
from dissonance.problem import Batch
from dissonance.solvers import Auto


@dataclass(frozen=True)
class Tied(Solver):
    """Factor graphs with copies, and at most one marginal belief beside them, in closed form; `Auto` for the rest.

    Hard arcs X = X' tie copies together. If then beta = gamma alpha on every mechanism but one, and that one is a
    belief about T alone, of weight w = beta - gamma alpha (inf if it is hard), then with
    nu(t) = sum over the rest of prod_a p_a^(beta_a/gamma)

        mu*(t) ~ nu(t)^(gamma/(gamma + w)),    mu*(rest|t) = nu(rest|t),
        inconsistency = -(gamma + w) log sum_t nu(t)^(gamma/(gamma + w)),

    and if it is hard, mu*(t) = p(t) and the inconsistency is gamma sum_t p log(p / nu).
    """

    name = "tied"

    tol: float = 1e-10
    cells: int = 2**22

    def choose(self, part: Batch) -> list[tuple[Solver, Ints]]:
        """Return the solver where its closed form applies, `Auto` elsewhere."""
        fits = np.array([self._applies(one) for one in part.singles])
        found: list[tuple[Solver, Ints]] = [(self, np.flatnonzero(fits))] if fits.any() else []
        if not fits.all():
            left = np.flatnonzero(~fits)
            found += [(s, left[rows]) for s, rows in Auto(self.tol).choose(part.take(left) if fits.any() else part)]
        return found

    def _applies(self, part: Batch) -> bool:
        """Whether one belief at most is no factor, and the joint table of what stands for the copies is small."""
        if part.kinds or part.gamma.item() == 0:
            return False
        into = _representatives(part)
        large = math.prod(part.sizes[v] for v in set(into.values())) > self.cells
        return not large and self._special(part, into) is not None

    def solve(self, part: Batch) -> Answer:
        """Closed form; exact but for rounding."""
        into = _representatives(part)
        scope = tuple(dict.fromkeys(into.values()))
        odd = self._special(part, into)
        assert odd is not None
        targets, w, hard = odd
        gamma, arcs = part.gamma.item(), [a for a in part.arcs if not tie(a)]
        log_mu = torch.zeros([part.sizes[v] for v in scope], dtype=numerics.DTYPE)
        for a in arcs:
            if not a.hard and a.beta != 0:
                log_mu = log_mu + _shaped(torch.from_numpy(a.log_p) * (a.beta / gamma), a.scope, scope, into)
        rest = [i for i, v in enumerate(scope) if v not in targets]
        log_nu = torch.logsumexp(log_mu, rest, keepdim=True) if rest else log_mu
        multipliers = np.zeros_like(part.log_p)  # what ties copies together is given, and has no derivative
        if hard is None:
            power = gamma / (gamma + w)
            log_z = torch.logsumexp((power * log_nu).reshape(-1), 0)
            value, log_m = -(gamma + w) * float(log_z), power * log_nu - log_z
        else:
            log_m = _shaped(torch.from_numpy(hard.log_p), hard.scope, scope, into)
            excess = torch.where(log_m == -math.inf, 0.0, log_m - log_nu)
            value = gamma * float((log_m.exp() * excess).sum())
            back = sorted(range(len(hard.scope)), key=lambda i: scope.index(into[hard.scope[i]]))
            own = (gamma * excess).reshape([part.sizes[hard.scope[i]] for i in back])
            own = own.permute([back.index(i) for i in range(len(back))])
            multipliers[0, part.entries([part.arcs.index(hard)])] = own.reshape(-1).numpy()
        if math.isinf(value):
            return infinite(part, self.name)
        mu = (log_mu + torch.where(log_nu == -math.inf, 0.0, log_m - log_nu)).exp()
        tree, tables = _with_copies(part, into, scope, mu)
        bounds = part.proved(value, value, 1e-14 * max(1.0, abs(value)) * math.sqrt(len(arcs) + 1))
        return Answer(part, bounds, self.name, Marginals(tree, tables, multipliers), unique=True)

    def _special(self, part: Batch, into: dict[str, str]) -> tuple[Scope, float, Attended | None] | None:
        """The scope, the weight and, if it is hard, the arc of the one belief that is no factor; None if there are
        more, or it is conditional; an empty scope if there is none."""
        total: dict[tuple[Scope, Scope], float] = {}
        hard: dict[tuple[Scope, Scope], Attended] = {}
        for a in part.arcs:
            if tie(a):
                continue
            sources, targets = (tuple(sorted({into[v] for v in part})) for part in (a.sources, a.targets))
            if len(sources) + len(targets) < len(a.scope) or (a.beta < 0 and np.isneginf(a.log_p).any()):
                return None
            key = sources, targets
            total[key] = total.get(key, 0.0) + (0.0 if a.hard else a.beta - part.gamma.item() * a.alpha)
            if a.hard:
                if key in hard or part.gamma.item() * a.alpha:
                    return None
                hard[key] = a
        scale = max((abs(a.beta) for a in part.arcs if not a.hard), default=1.0)
        found = [key for key, w in total.items() if key in hard or abs(w) > 1e-12 * scale]
        if len(found) > 1 or (found and (found[0][0] or total[found[0]] < 0)):
            return None
        if not found:
            return (), 0.0, None
        return found[0][1], total[found[0]], hard.get(found[0])


def tie(a: Attended) -> bool:
    """Whether an arc says that two variables are equal."""
    square = len(a.sources) == len(a.targets) == 1 and a.log_p.shape[0] == a.log_p.shape[1]
    return a.hard and square and bool((a.log_p.diagonal() == 0).all()) and a.deterministic


def _representatives(part: Batch) -> dict[str, str]:
    """For each variable the one that stands for all its copies."""
    into = {v: v for v in part.sizes}

    def top(v: str) -> str:
        while into[v] != v:
            v = into[v]
        return v

    for a in part.arcs:
        if tie(a):
            into[top(a.targets[0])] = top(a.sources[0])
    return {v: top(v) for v in into}


def _shaped(table: Tensor, own: Scope, scope: Scope, into: dict[str, str]) -> Tensor:
    """A table over an arc's variables, shaped to broadcast over their representatives."""
    names = [into[v] for v in own]
    order = sorted(range(len(own)), key=lambda i: scope.index(names[i]))
    sizes = dict(zip(names, table.shape, strict=True))
    return table.permute(order).reshape([sizes.get(v, 1) for v in scope])


def _with_copies(part: Batch, into: dict[str, str], scope: Scope, mu: Tensor) -> tuple[Tree, tuple[Tensor, ...]]:
    """The same distribution with every copy: a cluster (X, X') with all mass on the diagonal for each."""
    own = {v: torch.diag(mu.movedim(i, 0).reshape(mu.shape[i], -1).sum(1)) for i, v in enumerate(scope)}
    copies = [(of, v) for v, of in into.items() if v != of]
    tree = Tree(part.sizes, (scope, *copies), (-1, *[0] * len(copies)))
    return tree, (mu, *(own[of] for of, _ in copies))
