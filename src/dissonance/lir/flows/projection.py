"""Parameters moved to match mu: p <- argmin E_mu[-log p] in closed form, also of arcs that share their parameters."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor

from dissonance.arc import Arc
from dissonance.cpds import CPD
from dissonance.errors import CapabilityError
from dissonance.lir.inner.base import Solved
from dissonance.lir.local import Local
from dissonance.lir.parameters import Parameters, Stacked


def projected(local: Local, arc: Arc, theta: Stacked, solved: Solved, runs: Tensor) -> Stacked:
    """p <- argmin sum_a beta_a E_mu[-log p_a] over the arcs a tied to this one, at the mu that was found."""
    parameters, found = local.parameters, dict(theta)
    for k in torch.nonzero(runs)[:, 0].tolist():
        cpd = _at(parameters, k, arc, theta)
        if len(parameters.tied(arc)) == 1:
            joint = solved.rows(k, arc)
            if joint is None:
                continue
            cpd.project(joint)
        else:
            expected = _expected(local, k, arc, theta, solved)
            if expected is None:
                continue
            cpd.match(expected)
        _put(parameters, k, arc, cpd, theta, found)
    return found


def followed(parameters: Parameters, arc: Arc, theta: Stacked, solved: Solved, runs: Tensor) -> Stacked:
    """p <- mu(T|S) of this arc alone, whatever its weight."""
    found = dict(theta)
    for k in torch.nonzero(runs)[:, 0].tolist():
        joint = solved.rows(k, arc)
        if joint is not None:
            cpd = _at(parameters, k, arc, theta)
            cpd.project(joint)
            _put(parameters, k, arc, cpd, theta, found)
    return found


def approached(local: Local, arc: Arc, theta: Stacked, solved: Solved, time: float, runs: Tensor) -> Stacked:
    """The natural gradient flow for so long while mu stands still: in mean parameters, a share 1 - e^(-chi beta t) of
    the way to the projection."""
    parameters, found = local.parameters, dict(theta)
    i = parameters.number[arc.name]
    for k in torch.nonzero(runs)[:, 0].tolist():
        chi = torch.cat([local.chi[key][k].reshape(-1) for key in parameters.keys_of[arc.name]])
        betas = {float(local.attention.beta[k, parameters.number[a.name]]) for a in parameters.tied(arc)} - {0.0}
        if not arc.cpd.can("match") or bool((chi != chi[0]).any()) or len(betas) > 1:
            raise CapabilityError(
                f"{arc}: the natural flow needs tables, or families with sufficient statistics and one chi and beta "
                "for all of its parameters. Use another flow, such as ODE()."
            )
        beta = betas.pop() if betas else float(local.attention.beta[k, i])
        expected = _expected(local, k, arc, theta, solved)
        if expected is None or beta in (0.0, math.inf):
            continue
        cpd = _at(parameters, k, arc, theta)
        cpd.match(expected, 1 - math.exp(-time * float(chi[0]) * beta))
        _put(parameters, k, arc, cpd, theta, found)
    return found


def _expected(local: Local, k: int, arc: Arc, theta: Stacked, solved: Solved) -> Tensor | None:
    """beta E_mu[statistics] added up over the arcs tied to this one in run k; None if mu is about none of them."""
    parameters, total = local.parameters, None
    for a in parameters.tied(arc):
        beta = float(local.attention.beta[k, parameters.number[a.name]])
        joint = solved.rows(k, a) if beta not in (0.0, math.inf) else None
        if joint is not None:
            part = beta * _at(parameters, k, a, theta).expectations(joint)
            total = part if total is None else total + part
    return total


def _at(parameters: Parameters, k: int, arc: Arc, theta: Stacked) -> CPD:
    """A copy of the arc's cpd in run k, at theta."""
    cpd = copy.deepcopy(parameters.pdgs[k][arc.name].cpd)
    with torch.no_grad():
        for n, p in cpd.named_parameters():
            p.copy_(theta[parameters.home[f"{arc.name}.{n}"]][k])
    return cpd


def _put(parameters: Parameters, k: int, arc: Arc, cpd: CPD, theta: Stacked, found: Stacked) -> None:
    """Write the parameters of a copy into run k of `found`, and nothing into theta."""
    for n, p in cpd.named_parameters():
        key = parameters.home[f"{arc.name}.{n}"]
        if found[key] is theta[key]:
            found[key] = theta[key].clone()
        found[key][k] = p.detach()
