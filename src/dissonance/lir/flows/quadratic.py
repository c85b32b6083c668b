"""Full control where the inconsistency is quadratic in what is controlled: a single step of Newton's method."""

from __future__ import annotations

import torch
from torch import Tensor

from dissonance.lir.inner.base import Solved
from dissonance.lir.local import Local, by_run
from dissonance.lir.parameters import Stacked

LARGEST = 512
"""How many components may be under control: their second derivatives are a matrix."""

NEAR = 1e-9
"""How far, relative to where it began, the gradient may be from 0 after the step."""


def quadratic_argmin(local: Local, theta: Stacked, solved: Solved) -> tuple[Stacked, Tensor] | None:
    """theta at the minimum of a local inconsistency that is convex and quadratic in the components under control, and
    the largest component of the gradient there, (P,); None if it is not, or not known to be.

        theta* = theta - H^+ grad,     H the second derivatives

    So are points at which Gaussians are attended to, and the A of N(A s, Sigma) where all else are points: hard arcs
    make mu, nothing in it is random, and -log p is quadratic. Of several minimisers it is the one nearest to theta.
    Whether the inconsistency was quadratic shows in the gradient, which must be gone.
    """
    parts = [s for r in solved.results for s in r.answers]
    if not parts or not all(s.kind == "samples" and s.part.pinned is not None and s.converged for s in parts):
        return None
    before = solved.gradient()
    free = {k: local.chi[k] > 0 for k, v in theta.items() if v.is_floating_point() and local.chi[k].any()}
    found = dict(theta)
    for k in range(len(local.parameters)):
        chosen = {key: which[k] for key, which in free.items() if bool(which[k].any())}
        if sum(int(which.sum()) for which in chosen.values()) > LARGEST:
            return None
        step = _newton(local, k, theta, solved, chosen, before)
        if step is None:
            return None
        for key, which in chosen.items():
            size = int(which.sum())
            found[key] = found[key].clone()
            found[key][k][which] -= step[:size].to(found[key].dtype)
            step = step[size:]
    after = local.solve(found)
    slope = local.pull(after)
    start, end = (_largest({key: torch.where(free[key], g[key], 0.0) for key in free}) for g in (before, slope))
    good = (end <= NEAR * start.clamp(min=1.0)) & (after.upper <= solved.upper + NEAR * solved.upper.abs().clamp(min=1))
    return (found, end) if bool(good.all()) else None


def _newton(
    local: Local, k: int, theta: Stacked, solved: Solved, chosen: dict[str, Tensor], before: Stacked
) -> Tensor | None:
    """H^+ grad of run k, over the chosen components laid end to end; None if H is not positive semidefinite."""
    parameters = local.parameters

    def value(z: Tensor) -> Tensor:
        moved = {key: v[k] for key, v in theta.items()}
        at = 0
        for key, which in chosen.items():
            size = int(which.sum())
            moved[key] = moved[key].masked_scatter(which, z[at : at + size].to(moved[key].dtype))
            at += size
        own = {**{key: moved[home] for key, home in parameters.home.items()}, **local.inner.contexts[k]}
        return torch.stack([s.surrogate(own) for s in solved.results[k].answers]).sum()

    here = torch.cat([theta[key][k][which].double() for key, which in chosen.items()])
    slope = torch.cat([before[key][k][which].double() for key, which in chosen.items()])
    with torch.enable_grad():
        H = torch.autograd.functional.hessian(value, here)  # noqa: N806
    assert isinstance(H, Tensor)
    if not bool(torch.isfinite(H).all()):
        return None
    curvature, directions = torch.linalg.eigh((H + H.T) / 2)
    least = len(here) * torch.finfo(H.dtype).eps * float(curvature.abs().max())
    if bool((curvature < -least).any()):
        return None
    along = directions.T @ slope
    return directions @ torch.where(curvature > least, along / curvature.clamp(min=least), 0.0)


def _largest(slope: Stacked) -> Tensor:
    return torch.stack([by_run(g.abs()).amax(1).double() for g in slope.values()]).amax(0)
