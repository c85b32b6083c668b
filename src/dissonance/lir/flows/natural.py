"""The natural gradient flow: the gradient preconditioned by the Fisher information."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dissonance.arc import Arc
from dissonance.costs import LOG_SCORE
from dissonance.errors import CapabilityError
from dissonance.lir.flows.base import Flow, Moved, State
from dissonance.lir.flows.fisher import natural_gradient, of_softmax
from dissonance.lir.flows.projection import approached
from dissonance.lir.inner.base import Solved
from dissonance.lir.local import MASS, Local, by_run, over
from dissonance.lir.parameters import Parameters, Stacked

MOST = 64
"""How much finer Euler steps may get where they overshoot."""

SHORTEST = 1e-15
"""How short an Euler step may get where the first of the finest overshoots."""


@dataclass(frozen=True)
class Natural(Flow):
    """d theta/dt = -chi . F(theta)^-1 grad, with F = sum_s mu(s) E_p[ score score' ] arc by arc.

    While mu stands still this is solved exactly, which is what each of `steps` parts of the unit of time does before mu
    is solved for again:

    - a table: dP/dt = chi beta (mu(T|S) - P), so P(t) = mu + (P(0) - mu) e^(-chi beta t);
    - N(A s + b, Sigma): A, b and the second moment of t go to mu's in the same way, e^(-chi beta t) of the way left;
    - families with sufficient statistics (`CPD.match`): the same in their mean parameters.

    Tables stay in the simplex and Sigma stays positive definite. Everything else takes Euler steps through the Fisher
    matrix: other families that have a table or are linear-Gaussian, components of one row with different chi, hard and
    disbelieved arcs, and all of them with `damping`, which is added to the diagonal of F. Arcs that share parameters
    add up their F. Where such steps are proved to have overshot, so that the inconsistency is higher after them, or is
    not known to be finite any more, the unit of time is walked again in twice as many; where 64 times as many
    overshoot, only for as long as it falls.
    """

    steps: int = 1
    damping: float = 0.0

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name in the trace."""
        return "natural" if self.steps == 1 else f"natural(x{self.steps})"

    def step(self, local: Local, theta: Stacked, state: State | None = None) -> Moved:
        """Return theta a unit of time later."""
        solved = local.solve(theta)
        moved, euler = self._walked(local, theta, solved, self.steps)
        steps = self.steps
        while euler.any():
            risen = euler & _risen(local.solve(moved.theta), solved)
            if not risen.any():
                break
            if steps == MOST * self.steps:
                fallen = self._while_it_falls(local, theta, solved, risen, 1 / steps)
                return replace(moved, theta=_where(risen, fallen, moved.theta))
            steps *= 2
            finer, _ = self._walked(local, theta, solved, steps)
            kept = _where(risen, finer.theta, moved.theta)
            moved = Moved(kept, None, moved.residual, moved.projected | finer.projected)
        return moved

    def _while_it_falls(self, local: Local, theta: Stacked, solved: Solved, runs: Tensor, h: float) -> Stacked:
        """Return theta after at most MOST parts of length h, as many as do not raise the inconsistency of a run.

        Where the first part raises it h is a quarter as long, and theta stays where it is when h is below SHORTEST.
        """
        found = theta
        while runs.any() and h > SHORTEST:
            at, here, falls = theta, solved, runs
            for _ in range(MOST):
                trial = _where(falls, local.parameters.admissible(self._part(local, at, here, h)[0])[0], at)
                after = local.solve(trial)
                falls = falls & ~_risen(after, here)
                if not falls.any():
                    break
                at, here = _where(falls, trial, at), after  # the other runs are where they were before they rose
                found, runs = _where(falls, at, found), runs & ~falls
            h /= 4
        return found

    def _walked(self, local: Local, theta: Stacked, solved: Solved, steps: int) -> tuple[Moved, Tensor]:
        """theta a unit of time later in so many parts, the first from what is solved; which runs took Euler steps."""
        moved, euler = Moved(theta), torch.zeros_like(solved.upper, dtype=torch.bool)
        for part in range(steps):
            solved = local.solve(moved.theta) if part else solved
            found, rest = self._part(local, moved.theta, solved, 1 / steps)
            now, left = local.parameters.admissible(found)
            moved, euler = moved.then(Moved(now, projected=left)), euler | rest
        return moved, euler

    def _part(self, local: Local, theta: Stacked, solved: Solved, h: float) -> tuple[Stacked, Tensor]:
        """theta a time h later, and which runs took an Euler step for it."""
        parameters, euler = local.parameters, torch.zeros_like(solved.upper, dtype=torch.bool)
        moves = ~local.resolved(solved) & torch.isfinite(solved.upper)
        found = dict(theta)
        groups = [g for g in _groups(local) if any(bool(local.chi[k].any()) for k in g[1])]
        groups = [g for g in groups if len(g[0]) > 1 or not solved.loose(parameters.arcs[g[0][0]])]
        moving = tuple(k for _, keys in groups for k in keys)
        for arcs, keys in groups:
            done = torch.zeros_like(moves)
            if not self.damping:
                found, done = _exactly(local, arcs, theta, found, solved, moves, h)
            rest = moves & ~done
            euler = euler | rest
            if rest.any():
                _check_fisher([parameters.arcs[i] for i in arcs])
                joints = [solved.every(parameters.arcs[i]) for i in arcs]
                slope = local.pull(solved, moving)
                direction = _direction(parameters, arcs, theta, slope, joints, self.damping)
                for k in keys:
                    step = torch.where(local.chi[k] == 0, 0.0, h * local.chi[k] * direction[k])
                    found[k] = torch.where(over(rest, theta[k]), theta[k] - step, found[k])
        return found, euler


def _risen(after: Solved, before: Solved) -> Tensor:
    """Return which runs are proved to have become more inconsistent, or are not known to be possible any more."""
    return (after.lower > before.upper) | ((after.upper == math.inf) & (before.upper < math.inf))


def _where(runs: Tensor, one: Stacked, other: Stacked) -> Stacked:
    """Return one theta in these runs and the other in all others."""
    return {k: torch.where(over(runs, x), one[k], x) for k, x in other.items()}


def _groups(local: Local) -> list[tuple[list[int], list[str]]]:
    """Arcs that share parameters, with their names; without those that only others in attention can move."""
    group_of: dict[str, tuple[list[int], list[str]]] = {}
    for i, arc in enumerate(local.parameters.arcs):
        if local.idle(i):
            continue
        arcs, keys = [i], local.parameters.keys_of[arc.name]
        for other in _distinct(group_of[k] for k in keys if k in group_of):
            arcs, keys = other[0] + arcs, list(dict.fromkeys(other[1] + keys))
        group_of |= dict.fromkeys(keys, (arcs, keys))
    return _distinct(group_of.values())


def _distinct(groups: Iterable[tuple[list[int], list[str]]]) -> list[tuple[list[int], list[str]]]:
    return list({id(g): g for g in groups}.values())


def _exactly(
    local: Local,
    arcs: Sequence[int],
    theta: Stacked,
    found: Stacked,
    solved: Solved,
    moves: Tensor,
    h: float,
) -> tuple[Stacked, Tensor]:
    """The flow for time h where it has a closed form, and in which of the runs that was, (P,)."""
    parameters = local.parameters
    tied, arc = [parameters.arcs[i] for i in arcs], parameters.arcs[arcs[0]]
    beta = local.attention.beta[:, list(arcs)]
    if any(local.attention.varies(a.name) or a.cpd.cost is not LOG_SCORE for a in tied):
        # then mu(t|s) is not where the flow goes, or not that fast
        return found, torch.zeros_like(moves)
    soft = ((beta >= 0) & (beta < math.inf)).all(1) & moves
    alike = all(parameters.keys_of[a.name] == parameters.keys_of[arc.name] for a in tied)
    if alike and all(a.cpd.saturated for a in tied):
        return _table(local, arcs, theta, found, [solved.every(a) for a in tied], soft, h)
    if len(arcs) == 1 and arc.cpd.can("approach"):
        return _approach(local, arcs[0], theta, found, solved.every(arc), soft, h)
    if alike and all(a.cpd.can("match") for a in tied):
        chi = torch.cat([by_run(local.chi[k]) for k in parameters.keys_of[arc.name]], 1)
        one = (beta == 0) | (beta == beta.amax(1, keepdim=True))
        even = soft & (chi == chi[:, :1]).all(1) & one.all(1)
        runs = moves if any(a.cpd.density for a in tied) else even  # densities have no Fisher matrix here
        moved = approached(local, arc, theta, solved, h, runs)
        return {**found, **{k: moved[k] for k in parameters.keys_of[arc.name]}}, runs
    return found, torch.zeros_like(soft)


def _table(
    local: Local, arcs: Sequence[int], theta: Stacked, found: Stacked, joints: Sequence[Tensor], soft: Tensor, h: float
) -> tuple[Stacked, Tensor]:
    """P(h) = mu + (P - mu) e^(-chi beta h); of arcs that share the table, beta and mu are the means by mass."""
    parameters, i = local.parameters, arcs[0]
    chi = local.chi[parameters.keys_of[parameters.arcs[i].name][0]].reshape(joints[0].shape)
    soft = soft & (chi == chi[..., :1]).flatten(1).all(1)
    beta = torch.where(soft[:, None], local.attention.beta[:, list(arcs)], 0.0)
    pull = torch.stack([b[:, None, None] * m for b, m in zip(beta.T, joints, strict=True)]).sum(0)
    mass = torch.stack(list(joints)).sum(0).sum(-1)
    rate = pull.sum(-1) / mass.clamp(min=MASS)
    aim = pull / pull.sum(-1, keepdim=True).clamp(min=1e-300)
    decay = torch.exp(-h * rate * chi[..., 0])
    p = parameters.log_table(i, theta).exp()
    moves = (mass > MASS) & (decay < 1) & soft[:, None]
    return parameters.with_table(i, found, aim + (p - aim) * decay[..., None], moves), soft


def _check_fisher(arcs: Iterable[Arc]) -> None:
    for arc in arcs:
        if arc.is_drawn:
            raise CapabilityError(
                f"{arc} is a {type(arc.cpd).__name__}, whose Fisher information is not known; the natural flow, which "
                'is the default, needs tables or linear-Gaussian cpds. Use flow="adam", or flow="step" for a plain '
                "gradient step."
            )


def _approach(
    local: Local, i: int, theta: Stacked, found: Stacked, joint: Tensor, soft: Tensor, h: float
) -> tuple[Stacked, Tensor]:
    """The parameters of an arc after time h, mu standing still."""
    parameters = local.parameters
    arc = parameters.arcs[i]
    own = {n: parameters.home[f"{arc.name}.{n}"] for n, _ in arc.cpd.named_parameters()}
    new = {k: found[k].clone() for k in own.values()}
    for run in torch.nonzero(soft & (joint[:, 0, 0] > 0))[:, 0].tolist():
        rate = {n: h * local.attention.beta[run, i] * local.chi[k][run] for n, k in own.items()}
        moved = arc.cpd.approach({n: theta[k][run] for n, k in own.items()}, joint[run], rate)
        for n, k in own.items():
            new[k][run] = moved[n]
    return {**found, **new}, soft


def _direction(
    parameters: Parameters,
    arcs: Sequence[int],
    theta: Stacked,
    slope: Stacked,
    joints: Sequence[Tensor],
    damping: float,
) -> Stacked:
    """F^-1 slope for the parameters of arcs that share them."""
    arc = parameters.arcs[arcs[0]]
    if len(arcs) == 1 and arc.cpd.softmax:
        key = parameters.keys_of[arc.name][0]
        p = parameters.log_table(arcs[0], theta).exp()
        x = of_softmax(p, slope[key].reshape(p.shape), joints[0].sum(-1), damping)
        return {key: x.reshape(theta[key].shape)}
    return natural_gradient(parameters, arcs, theta, slope, joints, damping)
