"""Natural gradients: the Fisher information of cpds under mu, and its inverse.

    F(theta) = sum_a E_mu(s) E_p_a(t|s) [ score score' ],   score = d log p_a(t|s; theta)/d theta

summed over the arcs that share the parameters. F comes as a root R, F = R'R: the condition of F is that of R squared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dissonance.errors import CapabilityError
from dissonance.lir.local import MASS
from dissonance.lir.parameters import Parameters, Stacked

FARTHEST = 1e300
"""Largest component of a natural gradient: the differences of larger ones would overflow, inf - inf."""


def natural_gradient(
    parameters: Parameters,
    arcs: Sequence[int],
    theta: Stacked,
    slope: Stacked,
    joints: Sequence[Tensor],
    damping: float = 0.0,
) -> Stacked:
    """F^-1 slope for the parameters of these arcs, run by run; F is pseudo-inverted, or damped.

    `joints`: mu(s,t) of each arc as `Solved.rows` has it, (P, ...).
    """
    keys = list(dict.fromkeys(k for i in arcs for k in parameters.keys_of[parameters.arcs[i].name]))
    found = {k: torch.zeros_like(theta[k]) for k in keys}
    for run in range(len(joints[0])):
        one, mine = parameters.one(run), {k: v[run : run + 1] for k, v in theta.items()}
        R = torch.cat([_root(one, i, mine, joint[run], keys) for i, joint in zip(arcs, joints, strict=True)])  # noqa: N806
        x = solve_fisher(R, torch.cat([slope[k][run].reshape(-1) for k in keys]), damping)
        for k, part in zip(keys, x.split([theta[k][run].numel() for k in keys]), strict=True):
            found[k][run] = part.reshape(theta[k][run].shape)
    return found


def solve_fisher(R: Tensor, slope: Tensor, damping: float = 0.0) -> Tensor:  # noqa: N803
    """(R'R)^+ slope, or (R'R + damping 1)^-1 slope."""
    _, s, V = torch.linalg.svd(R, full_matrices=False)  # noqa: N806
    inside = V @ slope
    if damping:
        return V.T @ (inside / (s * s + damping)) + (slope - V.T @ inside) / damping
    return V.T @ _quotient(inside, s * s, s > 1e-8 * s.max() if len(s) else s > 0)


def _quotient(slope: Tensor, weight: Tensor, live: Tensor) -> Tensor:
    """slope / weight where the weight is live and not 0, else 0; FARTHEST in the place of what is larger."""
    live = live & (weight > 0)
    return torch.where(live, slope / torch.where(live, weight, 1.0), 0.0).clamp(-FARTHEST, FARTHEST)


def _root(one: Parameters, i: int, theta: Stacked, joint: Tensor, keys: Sequence[str]) -> Tensor:
    """R of one arc of one run: a row for each number that log p depends on, a column for each parameter."""
    arc = one.arcs[i]
    leaves = tuple(theta[k] for k in keys)

    def at(own: Sequence[Tensor]) -> Stacked:
        return {**theta, **dict(zip(keys, own, strict=True))}

    if not arc.is_euclidean:
        J = _jacobian(lambda *own: one.log_table(i, at(own)).reshape(-1), leaves)  # noqa: N806
        weight = joint.sum(-1, keepdim=True) * one.log_table(i, theta)[0].exp()
        return weight.reshape(-1, 1).sqrt() * J
    try:
        _, _, Sigma = arc.linear_gaussian(one.of(0, theta))  # noqa: N806
    except CapabilityError:
        raise CapabilityError(
            f"{arc}: the natural flow needs a table or a linear-Gaussian cpd. Use another flow, such as ODE()."
        ) from None
    L, n = torch.linalg.cholesky(Sigma.detach()), joint.shape[0] - 1 - len(Sigma)  # noqa: N806
    root = _second_moment_root(joint, n)  # (n + 1, n + 1): E[(s, 1) (s, 1)'] = root root'

    def whitened(*own: Tensor) -> Tensor:
        """Numbers whose change, squared, is tr(Sigma^-1 dW E[(s,1)(s,1)'] dW') + 1/2 tr((Sigma^-1 dSigma)^2)."""
        A, b, S = arc.linear_gaussian(one.of(0, at(own)))  # noqa: N806
        shift = torch.linalg.solve_triangular(L, torch.cat([A, b[:, None]], 1) @ root, upper=False)
        half = torch.linalg.solve_triangular(L, S, upper=False)
        spread = torch.linalg.solve_triangular(L, half.T, upper=False) / math.sqrt(2)
        return torch.cat([shift.reshape(-1), spread.reshape(-1)])

    return _jacobian(whitened, leaves)


def _second_moment_root(joint: Tensor, n: int) -> Tensor:
    """A root of E[(s, 1) (s, 1)'] from [[1, m'], [m, C]]; 0 where mu says nothing about the arc."""
    values, vectors = torch.linalg.eigh(joint[1 : n + 1, 1 : n + 1])
    inner = vectors * values.clamp(min=0).sqrt()
    mean = joint[1 : n + 1, :1]
    above = torch.cat([inner, mean], 1)
    return torch.cat([above, torch.cat([torch.zeros_like(mean.T), joint[:1, :1]], 1)])


def _jacobian(of: object, leaves: tuple[Tensor, ...]) -> Tensor:
    """(outputs, parameters laid end to end); what is impossible does not count."""
    with torch.enable_grad():
        parts = torch.autograd.functional.jacobian(of, leaves)  # pyright: ignore[reportArgumentType]
    return torch.cat([x.reshape(len(x), -1) for x in parts], 1).nan_to_num(0.0)


def of_softmax(p: Tensor, slope: Tensor, weight: Tensor, damping: float = 0.0) -> Tensor:
    """F^-1 slope for logits of rows p (..., s, t) whose sources weigh w (..., s): F = w (diag p - p p') row by row.

    Pseudo-inverted it is x - mean x for x = slope / (w p), that is beta mu(s)/w (mean r - r) with r = mu(t|s)/p(t|s);
    logits stay where w p is 0 in double precision. Damped, it is (F + damping 1)^-1 slope.
    """
    if damping:
        F = weight[..., None, None] * (torch.diag_embed(p) - p[..., :, None] * p[..., None, :])  # noqa: N806
        return torch.linalg.solve(F + damping * torch.eye(p.shape[-1], dtype=p.dtype), slope[..., None])[..., 0]
    mass = weight[..., None] * p
    live = (weight[..., None] > MASS) & (mass > 0)  # a positive p is no guarantee: w p may underflow
    x = _quotient(slope, mass, live)
    count = live.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(live, x - x.sum(-1, keepdim=True) / count, 0.0)
