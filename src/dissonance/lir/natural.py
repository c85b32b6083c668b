"""The natural gradient flow: the gradient preconditioned by the Fisher information."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dissonance.cpds import SoftmaxTable
from dissonance.lir.full_control import Moved
from dissonance.lir.inner import Solved
from dissonance.lir.local import MASS, Local, over
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.lir.projection import approached


@dataclass(frozen=True)
class Natural:
    """d theta/dt = -chi . F(theta)^-1 grad, with F = sum_s mu(s) E_p[ score score' ] arc by arc.

    For a table this is dP/dt = chi beta (mu(T|S) - P): while mu stands still, P(t) = mu + (P(0) - mu) e^(-chi beta t),
    which is what each of `steps` parts of the unit of time does, exactly, before mu is solved for again. Tables stay
    in the simplex. Families with sufficient statistics do the same in their mean parameters. Other families, components
    of one row with different chi, hard and disbelieved arcs take Euler steps; `damping` is added to the diagonal of F
    (and makes tables take Euler steps, too).
    """

    steps: int = 1
    damping: float = 0.0

    @property
    def name(self) -> str:
        """What the trace calls it."""
        return "natural" if self.steps == 1 else f"natural(x{self.steps})"

    def __call__(self, local: Local, theta: Stacked) -> Moved:
        """theta a unit of time later."""
        moved = Moved.still(theta)
        for _ in range(self.steps):
            if local.parameters.tabular:
                solved, slope = local.gradient(moved.theta)
            else:
                solved, slope = local.solve(moved.theta), {}  # mean parameters need no gradient
            now, left = local.parameters.admissible(self._part(local, moved.theta, solved, slope))
            moved = moved.then(Moved(now, left, torch.zeros_like(solved.upper)))
        return moved

    def _part(self, local: Local, theta: Stacked, solved: Solved, slope: Stacked) -> Stacked:
        parameters, h = local.parameters, 1 / self.steps
        still = local.resolved(solved) | ~torch.isfinite(solved.upper)
        found = dict(theta)
        for i, arc in enumerate(parameters.arcs):
            keys = [k for k in parameters.keys(arc) if bool(local.control[k].any())]
            if not keys:
                continue
            if not parameters.tabular:
                if parameters.tied(arc)[0] is arc:
                    moved = approached(local, arc, theta, solved, h, ~still)
                    found |= {k: moved[k] for k in keys}
                continue
            joint = solved.joint[:, parameters.spans[arc.name]].reshape(-1, *parameters.shapes[i])
            euler = slice(None)
            if parameters.saturated(arc) and not self.damping:
                chi = local.control[keys[0]].reshape(joint.shape)
                beta = local.attention.beta[:, i]
                even = (chi == chi[..., :1]).flatten(1).all(1) & (beta >= 0) & (beta < math.inf)
                decay = torch.exp(-h * torch.where(even, beta, 0.0)[:, None] * chi[..., 0])
                mass = joint.sum(-1)
                p = parameters.log_table(i, theta).exp()
                aim = joint / mass.clamp(min=MASS)[..., None]
                moves = (mass > MASS) & (decay < 1) & ~still[:, None]
                found = parameters.with_table(i, found, aim + (p - aim) * decay[..., None], moves)
                euler = ~even & ~still
                if not euler.any():
                    continue
            direction = natural_gradient(local, i, theta, slope, joint, self.damping)
            for k in keys:
                step = torch.where(over(still, theta[k]), 0.0, h * local.control[k] * direction[k])
                found[k] = found[k].clone()
                found[k][euler] = (theta[k] - step)[euler]
        return found


def natural_gradient(
    local: Local, i: int, theta: Stacked, slope: Stacked, joint: Tensor, damping: float = 0.0
) -> Stacked:
    """F^-1 grad for the parameters of arc i; F is the Fisher information under mu(s), pseudo-inverted or damped."""
    parameters = local.parameters
    arc, keys = parameters.arcs[i], parameters.keys(parameters.arcs[i])
    if type(arc.cpd) is SoftmaxTable:
        p = parameters.log_table(i, theta).exp()
        x = of_softmax(p, slope[keys[0]].reshape(p.shape), joint.sum(-1), damping)
        return {keys[0]: x.reshape(theta[keys[0]].shape)}
    found = {k: torch.zeros_like(theta[k]) for k in keys}
    for run in range(len(parameters)):
        one = parameters.one(run)
        mine = {k: theta[k][run : run + 1] for k in theta}

        def table(*own: Tensor, one: Parameters = one, mine: Stacked = mine) -> Tensor:
            return one.log_table(i, {**mine, **dict(zip(keys, own, strict=True))}).reshape(-1)

        parts = torch.autograd.functional.jacobian(table, tuple(mine[k] for k in keys))
        J = torch.cat([x.flatten(1) for x in parts], 1).nan_to_num(0.0)  # noqa: N806
        weight = (joint[run].sum(-1, keepdim=True) * one.log_table(i, mine)[0].exp()).reshape(-1)
        F = J.T @ (weight[:, None] * J)  # noqa: N806
        g = torch.cat([slope[k][run].reshape(-1) for k in keys])
        if damping:
            x = torch.linalg.solve(F + damping * torch.eye(len(F), dtype=F.dtype), g)
        else:
            x = torch.linalg.pinv(F, hermitian=True, rtol=1e-10) @ g
        for k, part in zip(keys, x.split([theta[k][run].numel() for k in keys]), strict=True):
            found[k][run] = part.reshape(theta[k][run].shape)
    return found


def of_softmax(p: Tensor, slope: Tensor, weight: Tensor, damping: float = 0.0) -> Tensor:
    """F^-1 slope for logits of rows p (..., s, t) whose sources weigh w (..., s): F = w (diag p - p p') row by row.

    Pseudo-inverted it is x - mean x for x = slope / (w p), that is beta mu(s)/w (mean r - r) with r = mu(t|s)/p(t|s);
    logits of -inf stay. Damped, it is (F + damping 1)^-1 slope.
    """
    if damping:
        F = weight[..., None, None] * (torch.diag_embed(p) - p[..., :, None] * p[..., None, :])  # noqa: N806
        return torch.linalg.solve(F + damping * torch.eye(p.shape[-1], dtype=p.dtype), slope[..., None])[..., 0]
    live = (weight[..., None] > MASS) & (p > 0)
    x = torch.where(live, slope / torch.where(live, weight[..., None] * p, 1.0), 0.0)
    count = live.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(live, x - x.sum(-1, keepdim=True) / count, 0.0)
