"""What there is to say of the beliefs of a model, and the same as `dissonance score --json` prints it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dissonance.bounds.columnar import tangled
from dissonance.chance import Chance
from dissonance.columns import ColumnarPDG
from dissonance.focus import Attention
from dissonance.inconsistency import BlameRow, Inconsistency, inconsistency
from dissonance.jsonable import json_number
from dissonance.pdg import PDG
from dissonance.scores import CellRow
from dissonance.solvers import ColumnBracket, Solver, bracket
from dissonance.variables import Variable, label_texts
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
            "cells": _cells(self.cells, self.result.pdg, size),
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


MOST_RECORDS = 100_000
"""Arcs that are written as JSON if there are very many, those most to blame first."""


@dataclass(frozen=True)
class ScoredColumns:
    """Very many beliefs in columns, that no junction tree is near: a bracket, and blame at the mu of its upper bound.
    An object is made for the arcs that are shown, and for no other."""

    pdg: ColumnarPDG
    beta: npt.NDArray[np.float64]
    found: ColumnBracket

    def rows(self, most: int) -> list[BlameRow]:
        """The arcs most to blame, the first before."""
        costs = np.concatenate(self.found.contributions)
        order = np.argsort(-costs, kind="stable")[:most].tolist()
        names = [self.pdg.arc(i).name for i in order]
        weights, nats = self.beta[order].tolist(), costs[order].tolist()
        kls = [c / b if b else math.nan for b, c in zip(weights, nats, strict=True)]
        return [BlameRow(*row, None) for row in zip(names, weights, kls, nats, strict=True)]

    @property
    def verdict(self) -> str:
        """Which belief costs most."""
        (first,) = self.rows(1)
        share = f"{first.contribution:.4g} of the {self.found.upper:.6g} nats of the compromise that was found"
        return f"Of {len(self.pdg):,} beliefs {self.pdg[first.name]} costs most: {share}."

    def record(self, unit: str = "nats", size: float = 1.0) -> dict[str, Any]:
        """As JSON has it, in a unit of so many nats: the keys of `Scored`, without cells and marginals."""
        return {
            "inconsistency": None,
            "lower": json_number(self.found.lower / size),
            "upper": json_number(self.found.upper / size),
            "unit": unit,
            "gamma": 0.0,
            "converged": False,
            "bracket": True,
            "solver": "bounds",
            "arcs": [_blame(r, size) for r in self.rows(MOST_RECORDS)],
            "arcs_left_out": max(0, len(self.pdg) - MOST_RECORDS),
            "marginals": None,
            "seconds": self.found.seconds,
            "verdict": self.verdict,
            "cells": [],
        }


def scored_columns(pdg: PDG, attention: Attention, seconds: float) -> ScoredColumns | None:
    """Score very many beliefs in columns; None if `scored` is for them: they are few or not in columns, a junction tree
    may fit, or the attention asks for something that `bracket` has not."""
    if not isinstance(pdg, ColumnarPDG) or attention.gamma or attention.varying or not tangled(pdg):
        return None
    attention.check(pdg)
    beta = np.fromiter((attention.beta.get(n, 0.0) for n in pdg.arc_names), np.float64, len(pdg))
    if not ((beta >= 0) & (beta < math.inf)).all():
        return None
    return ScoredColumns(pdg, beta, bracket(pdg, beta, seconds=seconds))


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
    return dict(zip(label_texts(v), marginal.tolist(), strict=True))


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


def _cells(rows: Sequence[CellRow], pdg: PDG, size: float) -> list[dict[str, object]]:
    named = {n for c in rows for n in (*c.given, *c.value)}
    texts = {v.name: dict(zip(v.finite.labels, label_texts(v), strict=True)) for v in pdg.variables if v.name in named}
    return [
        {
            "arc": c.arc,
            "given": {n: texts[n][x] for n, x in c.given.items()},
            "value": {n: texts[n][x] for n, x in c.value.items()},
            "claimed": c.claimed,
            "reconciled": c.reconciled,
            "contribution": json_number(c.contribution / size),
        }
        for c in rows
    ]


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
