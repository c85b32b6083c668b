"""The study's tables as CSV. Inconsistencies are in bits, as in the paper; only timing.csv depends on the clock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from dissonance.studies.outcomes import ALL, OutcomeGroup, StrategyOutcome, groups
from dissonance.studies.written import csv_table

BIT = math.log(2)
MEASURES = {
    "initial_bits": lambda o: o.initial / BIT,
    "final_bits": lambda o: o.final / BIT,
    "resolution_percent": lambda o: o.resolution_percent,
    "exact_resolution_percent": lambda o: o.exact_resolution_percent,
    "rate_percent": lambda o: o.rate_percent,
    "tv_mu": lambda o: o.tv_mu,
    "tv_theta": lambda o: o.tv_theta[-1],
    "solves": lambda o: o.solves,
    "solver_steps": lambda o: o.solver_steps,
}
"""The columns of a run, and of the means."""


def tables(outcomes: Sequence[StrategyOutcome]) -> dict[str, bytes]:
    """Every table by file name."""
    return {
        "initial.csv": csv_table(_initial(outcomes)),
        "strategies.csv": csv_table(_strategy(g) for g in groups(outcomes)),
        "runs.csv": csv_table(map(_run, outcomes)),
        "steps.csv": csv_table(row for o in outcomes for row in _steps(o)),
        "timing.csv": csv_table(_timing(outcomes)),
    }


def _initial(outcomes: Sequence[StrategyOutcome]) -> Iterable[dict[str, Any]]:
    first = outcomes[0].strategy
    for g in groups([o for o in outcomes if o.strategy == first]):
        seen, exact = g.spread("initial"), g.spread("initial_upper")
        yield {
            "structure": g.structure,
            "runs": len(g.runs),
            "mean_bits": seen.mean / BIT,
            "sd_bits": seen.sd / BIT,
            "exact_mean_bits": exact.mean / BIT,
            "exact_sd_bits": exact.sd / BIT,
            "widest_bounds_bits": max(o.initial_upper - o.initial_lower for o in g.runs) / BIT,
        }


def _strategy(g: OutcomeGroup) -> dict[str, Any]:
    row: dict[str, Any] = {"structure": g.structure, "strategy": g.strategy, "runs": len(g.runs)}
    for name, read in MEASURES.items():
        found = g.spread(read)
        row |= {f"{name}_mean": found.mean, f"{name}_sd": found.sd}
    return row | {
        "pooled_resolution_percent": g.pooled_percent,
        "pooled_exact_resolution_percent": g.pooled_exact_percent,
        "pooled_rate_percent": g.pooled_rate_percent,
    }


def _run(o: StrategyOutcome) -> dict[str, Any]:
    bounds = ("initial_lower", "initial_upper", "final_lower", "final_upper")
    return {
        "structure": o.structure,
        "strategy": o.strategy,
        "replicate": o.replicate,
        **{name: read(o) for name, read in MEASURES.items()},
        **{f"{name}_bits": getattr(o, name) / BIT for name in bounds},
    }


def _steps(o: StrategyOutcome) -> Iterable[dict[str, Any]]:
    for step, (value, tv) in enumerate(zip(o.inconsistency, o.tv_theta, strict=True)):
        yield {
            "structure": o.structure,
            "strategy": o.strategy,
            "replicate": o.replicate,
            "step": step,
            "inconsistency_bits": value / BIT,
            "tv_theta": tv,
        }


def _timing(outcomes: Sequence[StrategyOutcome]) -> Iterable[dict[str, Any]]:
    """By structure only: the runs of all strategies are solved together, so that none has seconds of its own."""
    for name in (*dict.fromkeys(o.structure for o in outcomes), ALL):
        shares = [o.seconds for o in outcomes if name in (o.structure, ALL)]
        yield {
            "structure": name,
            "runs_of_all_strategies": len(shares),
            "seconds_together": sum(shares),
            "seconds_together_per_run": sum(shares) / len(shares),
        }
