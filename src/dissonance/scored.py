"""What there is to say of the beliefs of a model, and the same as `dissonance score --json` prints it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dissonance.chance import Chance
from dissonance.focus import Attention
from dissonance.inconsistency import BlameRow, Inconsistency, inconsistency
from dissonance.jsonable import json_number
from dissonance.pdg import PDG
from dissonance.scores import CellRow
from dissonance.solvers import Solver
from dissonance.variables import Variable
from dissonance.verdict import MOST_ARCS, verdict

Marginals = dict[str, dict[str, Any]]
"""By variable: the probability of each value, or the mean and the covariance of a Euclidean one."""


@dataclass(frozen=True)
class Scored:
    """The result, blame by arc and by cell, the best compromise (None if there is none), the verdict, and, where it was
    asked for, whether the conflict may be chance."""

    result: Inconsistency
    rows: list[BlameRow]
    cells: list[CellRow]
    marginals: Marginals | None
    verdict: str
    seconds: float
    chance: Chance | None = None

    def record(self, unit: str = "nats", size: float = 1.0) -> dict[str, Any]:
        """As JSON has it, in a unit of so many nats."""
        result = self.result
        tested = {} if self.chance is None else {"chance": _chance(self.chance, size)}
        return {
            "inconsistency": None if result.is_bracket else json_number(float(result.value) / size),
            "lower": json_number(result.lower / size),
            "upper": json_number(result.upper / size),
            "unit": unit,
            "gamma": result.gamma,
            "converged": result.converged,
            "bracket": result.is_bracket,
            "solver": result.solver,
            "arcs": [_blame(r, size) for r in self.rows],
            "marginals": self.marginals,
            "seconds": self.seconds,
            "verdict": self.verdict,
            "cells": [_cell(c, size) for c in self.cells],
            **tested,
        }


@torch.no_grad()
def scored(
    pdg: PDG,
    attention: Attention,
    *,
    solver: Solver | str = "auto",
    saved: bool | None = None,
    top: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Scored:
    """Score a model. `saved`: whether to find what dropping each arc would save (by default, of few arcs).

    `top`: how many cells are listed, those that cost most first; all by default.
    """
    began = time.perf_counter()
    result = inconsistency(pdg, attention, solver=solver)
    seconds = time.perf_counter() - began
    rows = result.by_arc(saved=len(pdg) <= MOST_ARCS if saved is None else saved, progress=progress)
    best = marginals(result)
    cells = result.by_cell(top) if best is not None and top != 0 else []
    return Scored(result, rows, cells, best, verdict(result, rows), seconds)


def marginals(result: Inconsistency) -> Marginals | None:
    """The marginals of the best compromise for every attended variable; None if there is no compromise."""
    if not math.isfinite(result.upper):
        return None
    attention = result.attention
    attended = {
        v.name
        for a in result.pdg.arcs
        if attention.beta.get(a.name, 0.0) != 0 or attention.gamma * attention.alpha.get(a.name, 0.0) != 0
        for v in a.scope
    }
    shown = [v for v in result.pdg.variables if v.name in attended]
    found = result.mu.marginals([(v.name,) for v in shown]) if shown else []
    return {v.name: _labelled(v, x) if v.is_finite else _moments(x) for v, x in zip(shown, found, strict=True)}


def _labelled(v: Variable, marginal: Any) -> dict[str, Any]:
    return dict(zip(map(str, v.finite.labels), marginal.tolist(), strict=True))


def _moments(marginal: Any) -> dict[str, Any]:
    return {key: getattr(marginal, key).tolist() for key in ("mean", "covariance")}


def _blame(r: BlameRow, size: float) -> dict[str, object]:
    return {
        "name": r.name,
        "beta": json_number(r.beta),
        "divergence": json_number(r.divergence / size),
        "contribution": json_number(r.contribution / size),
        "saved_if_dropped": None if r.saved_if_dropped is None else json_number(r.saved_if_dropped / size),
    }


def _cell(c: CellRow, size: float) -> dict[str, object]:
    return {
        "arc": c.arc,
        "given": {n: str(x) for n, x in c.given.items()},
        "value": {n: str(x) for n, x in c.value.items()},
        "claimed": c.claimed,
        "reconciled": c.reconciled,
        "contribution": json_number(c.contribution / size),
    }


def _chance(found: Chance, size: float) -> dict[str, object]:
    return {
        "p_value": found.p_value,
        "method": found.method,
        "statistic": found.statistic,
        "degrees": found.degrees,
        "asymptotic": found.asymptotic,
        "bootstrap": found.bootstrap,
        "replicates": found.replicates,
        "unmet": list(found.unmet),
        "left_out": list(found.left_out),
        "confidence": found.confidence,
        "blame": [
            {
                "name": b.name,
                "contribution": b.contribution / size,
                "low": b.low / size,
                "high": b.high / size,
                "by_chance": b.by_chance / size,
                "most": b.most,
            }
            for b in found.blame
        ],
    }
