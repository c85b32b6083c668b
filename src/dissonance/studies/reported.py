"""What the paper reports about the synthetic study: its tables, or the authors' own results on the same PDGs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from dissonance.errors import FormatError
from dissonance.io import files
from dissonance.studies.outcomes import ALL, StrategyOutcome

Means = dict[tuple[str, str], float]
"""By structure and strategy."""


@dataclass(frozen=True)
class Reported:
    """Means over the runs: inconsistency in bits (unconverged, erratum 23), resolution in percent, TV of mu*."""

    whose: str
    initial: dict[str, float]
    resolution: Means
    distortion: Means


def _means(columns: dict[str, Sequence[float]]) -> Means:
    return {(n, s): x for s, row in columns.items() for n, x in zip((*_STRUCTURES, ALL), row, strict=True)}


_STRUCTURES = ("chain_4v_3e", "chain_5v_4e", "chain_6v_5e", "chain_7v_6e")
PAPER = Reported(
    "the paper",
    dict(zip(_STRUCTURES, (0.159294, 0.168060, 0.209741, 0.145324), strict=True)),
    _means(
        {
            "uniform": (99.95, 99.26, 99.54, 98.18, 99.23),
            "partial": (54.70, 78.82, 71.76, 83.49, 72.19),
            "hub": (99.95, 99.27, 99.74, 98.54, 99.37),
        }
    ),
    _means(
        {
            "uniform": (0.2225, 0.3967, 0.4168, 0.5271, 0.3908),
            "partial": (0.1101, 0.2619, 0.2615, 0.4175, 0.2627),
            "hub": (0.2146, 0.3151, 0.3463, 0.3983, 0.3186),
        }
    ),
)
"""Over 200 runs of each strategy; by structure, the paper's heat map and its figure of distortion."""


def reported(authors: str | None, outcomes: Sequence[StrategyOutcome]) -> Reported:
    """The authors' results on the PDGs of these outcomes if their folder has them, or else what the paper says."""
    path = None if authors is None else Path(authors) / "results.csv"
    if path is None or not path.is_file():
        return PAPER
    ours = {(o.structure, o.replicate) for o in outcomes}
    try:
        lines = csv.DictReader(files.read(path)[0].decode().splitlines())
        rows = [r for r in lines if (r["pdg_name"], int(r["replicate"])) in ours]
        numbers = [(r, float(r["initial"]), float(r["resolution_pct"]), float(r["distortion_tv"])) for r in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: is not a table of the authors' results: {error}.") from None
    resolution: dict[tuple[str, str], list[float]] = {}
    distortion: dict[tuple[str, str], list[float]] = {}
    initial: dict[str, list[float]] = {}
    for row, first, gone, moved in numbers:
        initial.setdefault(row["pdg_name"], []).append(first)
        for name in (row["pdg_name"], ALL):
            resolution.setdefault((name, row["strategy"]), []).append(gone)
            distortion.setdefault((name, row["strategy"]), []).append(moved)
    return Reported(
        "the authors, on the same PDGs",
        {k: fmean(v) for k, v in initial.items()},
        {k: fmean(v) for k, v in resolution.items()},
        {k: fmean(v) for k, v in distortion.items()},
    )
