"""Full control, chi = inf: parameters go to their fixed point, in closed form where there is one."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dissonance.errors import CapabilityError
from dissonance.lir.flows.base import Flow, Moved, State
from dissonance.lir.flows.projection import followed, projected
from dissonance.lir.flows.quadratic import quadratic_argmin
from dissonance.lir.inner.base import Attentions, Solved
from dissonance.lir.local import MASS, Local, by_run, over
from dissonance.lir.parameters import Stacked
from dissonance.numerics import DTYPE


@dataclass(frozen=True)
class FullControl(Flow):
    """argmin over the controlled arcs' parameters, arc by arc until nothing changes; as a flow it takes any chi > 0 for
    full control.

    - A table: solve without the arc's beta (its gamma alpha kept) and set p <- mu*(T|S). Among several minimisers take
      the one nearest to the present p, the limit of beta -> 0+; rows without mass keep their value. With gamma alpha
      > 0 minima are corners, and several that are found may be equally low (to 1e-7): take the one with the most mass
      in the first cell of the junction tree in which they differ.
    - A linear-Gaussian arc among linear-Gaussian arcs, hard or soft: the same, if p = mu*(T|S) then attains the
      inconsistency without the arc's beta, which proves it the least.
    - A family with `project` that is soft: alternate with the solve, mu* then p <- argmin E_mu*[-log p]; arcs that
      share parameters go together. Where hard arcs pin mu once is enough.
    - Tables at gamma > 0 beside cpds that are no tables, and Gaussians: without the beta of all of them at once, if
      that is attained; one by one if not.
    - Points, and whatever else the inconsistency is quadratic in: all at once, by one step of Newton's method.
    - Anything else, single components of a table, and arcs whose attention varies: descend to stationarity; `residual`
      says how near it came.

    Never raises the local inconsistency: a move that would, by more than the certificate's width, is not made.
    A controlled arc with gamma alpha > 0 is rewarded for being deterministic, and a warning says so.
    """

    sweeps: int = 50
    nearness: float = 1e-4
    name: str = "full control"

    def step(self, local: Local, theta: Stacked, state: State | None = None) -> Moved:
        """Return theta at the fixed point."""
        everyone = range(len(local.parameters.arcs))
        arcs = [i for i in everyone if bool(local.full[i][1].any()) and not local.idle(i)]
        solved = local.solve(theta)
        arcs = [i for i in arcs if local.shares(i) or not solved.loose(local.parameters.arcs[i])]
        residual = torch.zeros_like(solved.upper)
        varies = bool(local.attention.varying) and any(
            local.attention.varies(local.parameters.arcs[i].name) for i in arcs
        )
        at_once = None if varies else self._at_once(local, arcs, theta, solved)
        if at_once is not None:
            return Moved(at_once)
        tables = any(local.parameters.arcs[i].cpd.saturated for i in arcs)  # these have a way of their own
        quadratic = quadratic_argmin(local, theta, solved) if arcs and not (tables or varies) else None
        if quadratic is not None:
            return Moved(quadratic[0], None, quadratic[1])
        going = torch.ones_like(residual, dtype=torch.bool)
        for _ in range(self.sweeps if arcs else 0):
            before = solved.upper
            for i in arcs:
                whole, some = (runs & going for runs in local.full[i])
                trial = self._closed_form(local, i, theta, solved, whole)
                if trial is None:
                    whole = torch.zeros_like(whole)
                else:
                    theta, solved = _kept(local, theta, trial, solved)
                if (some & ~whole).any():
                    theta, solved, off = self._descend(local, i, theta, solved, some & ~whole)
                    residual = torch.maximum(residual, off)
            least = 1e-2 * local.tol * solved.upper.abs().clamp(min=1.0)
            going = going & ~_single_tables(local, arcs) & ~local.resolved(solved) & (before - solved.upper > least)
            if not going.any():  # every run stops by itself, whatever others do
                break
        return Moved(theta, None, residual)

    def _at_once(self, local: Local, arcs: Sequence[int], theta: Stacked, solved: Solved) -> Stacked | None:
        """The argmin over all controlled arcs together, where one move reaches it; None where it may not."""
        parameters = local.parameters
        wholly = all(torch.equal(*local.full[i]) for i in arcs)
        if _mu_is_pinned(local, arcs, solved):
            if not wholly or not all(parameters.projects(parameters.arcs[i]) for i in arcs):
                return None
            trial = theta
            for i in {tuple(parameters.keys_of[parameters.arcs[i].name]): i for i in reversed(arcs)}.values():
                arc = parameters.arcs[i]  # the first of those that have these parameters: they move together
                moved = projected(local, arc, theta, solved, local.full[i][0])
                trial = {**trial, **{k: moved[k] for k in parameters.keys_of[arc.name]}}
            return _kept(local, theta, trial, solved)[0]
        _warn_if_rewarded(local)
        if parameters.tabular or not wholly or not arcs or not bool((local.attention.gamma > 0).all()):
            return None
        if not all(_separate(local, i) for i in arcs):
            return None
        return _attained(local, arcs, theta)

    def _closed_form(self, local: Local, i: int, theta: Stacked, solved: Solved, runs: Tensor) -> Stacked | None:
        """theta with arc i at its argmin in these runs; None if its family has no closed form."""
        parameters, arc = local.parameters, local.parameters.arcs[i]
        if not runs.any() or local.attention.varies(arc.name):
            return None
        hard = local.attention.beta[:, i] == math.inf
        if _separate(local, i):
            if parameters.tabular:
                return self._without(local, i, theta, runs)
            if arc.cpd.saturated and bool(((local.attention.gamma > 0) | hard)[runs].all()):
                return _dropped(local, [i], theta)[1]
            if solved.drawn or arc.is_euclidean:
                trial = _attained(local, [i], theta)
                if trial is not None:
                    return trial
        if bool(hard[runs].any()):  # mu does as a hard arc says: to match it moves nothing
            return None
        return projected(local, arc, theta, solved, runs) if parameters.projects(arc) else None

    def _without(self, local: Local, i: int, theta: Stacked, runs: Tensor) -> Stacked:
        """p <- mu*(T|S) for mu* of the PDG without the beta of arc i."""
        parameters, a = local.parameters, local.attention
        with torch.no_grad():
            log_p = parameters.log_tables(theta)
        arc = parameters.arcs[i]
        span = parameters.spans[arc.name]
        shape = (len(runs), *parameters.shapes[i])
        here = log_p[:, span].reshape(shape)
        blur = torch.logaddexp(here + math.log1p(-self.nearness), here.new_tensor(math.log(self.nearness / shape[-1])))
        near = log_p.clone()  # what is impossible may become possible
        near[:, span] = torch.where((here == -math.inf).any(-1, keepdim=True), blur, here).flatten(1)
        weight = self.nearness * (a.gamma == 0).to(DTYPE)  # at gamma > 0 there is one minimiser only
        found: list[Tensor] = []
        for times in (1, 2) if bool((weight[runs] > 0).any()) else (1,):
            beta = a.beta.clone()
            beta[runs, i] = times * weight[runs]
            found.append(local.precise_joint(near, Attentions(beta, a.alpha, a.gamma), runs, arc))
        joint = (2 * found[0] - found[-1]).clamp(min=0.0).reshape(shape)
        mass = joint.sum(-1)
        p = joint / mass.clamp(min=MASS)[..., None]
        return parameters.with_table(i, theta, p, (mass > MASS) & runs[:, None])

    def _descend(
        self, local: Local, i: int, theta: Stacked, solved: Solved, runs: Tensor
    ) -> tuple[Stacked, Solved, Tensor]:
        """Gradient descent until nothing is gained; and the largest component of the gradient.

        A step is as long as the last one and the change of the gradient along it suggest, |s|^2 / s'y, and shorter if
        that does not lower the inconsistency.
        """
        keys = local.parameters.keys_of[local.parameters.arcs[i].name]
        free = {k: (local.chi[k] > 0) & over(runs, theta[k]) for k in keys}

        def slope_at(there: Solved) -> Stacked:
            slope = local.pull(there, keys)
            return {k: torch.where(free[k], slope[k], 0.0) for k in keys}

        def total(one: Stacked, other: Stacked) -> Tensor:
            return torch.stack([by_run(one[k] * other[k]).sum(1) for k in keys]).sum(0)

        length = torch.where(runs, 1.0, 0.0).to(DTYPE)
        upper, slope = solved.upper, slope_at(solved)
        for _ in range(20 * self.sweeps):
            off = torch.stack([by_run(g.abs()).amax(1) for g in slope.values()]).amax(0)
            length = torch.where((off < 1e-7) | (length * off < 1e-10), 0.0, length)  # these runs stay where they are
            if not length.any():
                break
            trial = {**theta, **{k: theta[k] - over(length, theta[k]) * slope[k] for k in keys}}
            trial, _ = local.parameters.admissible(trial)
            after = local.solve(trial)
            better = after.upper <= upper - 1e-4 * length * total(slope, slope)
            if bool(better.any()):
                now = slope_at(after)
                gone = {k: trial[k] - theta[k] for k in keys}
                bent = total(gone, {k: now[k] - slope[k] for k in keys})
                longer = torch.where(bent > 0, total(gone, gone) / bent.clamp(min=1e-300), 2 * length)
                length = torch.where(better, longer.clamp(max=1e6), length / 4)
                slope = {k: torch.where(over(better, g), now[k], g) for k, g in slope.items()}
                theta = {k: torch.where(over(better, v), trial[k], v) for k, v in theta.items()}
                upper = torch.where(better, after.upper, upper)
            else:
                length = length / 4
        off = torch.stack([by_run(g.abs()).amax(1) for g in slope.values()]).amax(0)
        return theta, local.solve(theta), torch.where(runs, off, 0.0)


def _single_tables(local: Local, arcs: Sequence[int]) -> Tensor:
    """Return which runs, (P,), control one table and nothing else of these arcs: its first argmin is final."""
    tables = [local.parameters.tabular and local.parameters.arcs[i].cpd.saturated for i in arcs]
    some = torch.stack([local.full[i][1] for i in arcs])  # (arcs, P)
    return (some.sum(0) == 1) & (some & torch.tensor(tables)[:, None]).any(0)


def _kept(local: Local, theta: Stacked, trial: Stacked, solved: Solved) -> tuple[Stacked, Solved]:
    """The trial where it does not raise the inconsistency by more than the certificate's width."""
    after = local.solve(trial)
    good = after.upper <= solved.upper + local.tol * solved.upper.abs().clamp(min=1.0)
    if bool(good.all()):
        return trial, after
    theta = {k: torch.where(over(good, v), trial[k], v) for k, v in theta.items()}
    return theta, local.solve(theta)


def _separate(local: Local, i: int) -> bool:
    """Whether arc i can represent any mu(T|S) and shares no parameter with another attended arc: a table, or a
    linear-Gaussian arc with gamma alpha = 0 (with gamma alpha > 0 the problem without its beta is not convex)."""
    arc, a = local.parameters.arcs[i], local.attention
    gaussian = arc.is_euclidean and arc.cpd.can("project") and not bool((a.gamma * a.alpha[:, i] != 0).any())
    return (arc.cpd.saturated or gaussian) and not local.shares(i)


def _mu_is_pinned(local: Local, arcs: Sequence[int], solved: Solved) -> bool:
    """Whether hard arcs that are not under control pin mu, so that nothing the controlled ones do can move it."""
    return solved.pinned and not any(bool((local.attention.beta[:, i] == math.inf).any()) for i in arcs)


def _attained(local: Local, arcs: Sequence[int], theta: Stacked) -> Stacked | None:
    """theta with these arcs at mu*(T|S) of the PDG without their beta, if its inconsistency is as low as without them,
    which proves it the least; None if it is not, or if that PDG cannot be solved."""
    try:
        least, trial = _dropped(local, arcs, theta)
    except CapabilityError:
        return None
    near = least.upper + local.tol * least.upper.abs().clamp(min=1.0)
    return trial if bool((local.solve(trial).upper <= near).all()) else None


def _dropped(local: Local, arcs: Sequence[int], theta: Stacked) -> tuple[Solved, Stacked]:
    """The inconsistency without the beta of these arcs, and theta with each of them at mu*(T|S) of that."""
    parameters, beta = local.parameters, local.attention.beta.clone()
    runs = {i: local.full[i][0] for i in arcs}
    for i in arcs:
        beta[runs[i], i] = 0.0
    free = local.solve(theta, replace(local.attention, beta=beta))
    # Direct solvers know small masses as well as large ones.
    least = MASS if bool(torch.as_tensor(free.steps).any()) else 0.0
    for i in arcs:
        arc = parameters.arcs[i]
        if not arc.cpd.saturated:
            theta = followed(parameters, arc, theta, free, runs[i])
            continue
        joint = free.across(arc)
        mass = joint.sum(-1)
        p = joint / torch.where(mass > 0, mass, 1.0)[..., None]
        theta = parameters.with_table(i, theta, p, (mass > least) & runs[i][:, None])
    return free, theta


def _warn_if_rewarded(local: Local) -> None:
    a = local.attention
    for i, arc in enumerate(local.parameters.arcs):
        if bool((local.full[i][1] & (a.gamma * a.alpha[:, i] > 0)).any()):
            warnings.warn(
                f"{arc} is controlled and has gamma alpha > 0: it is rewarded for being deterministic. "
                f"Set alpha[{arc.name!r}] = 0 unless that is meant.",
                stacklevel=5,
            )
