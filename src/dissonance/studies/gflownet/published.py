"""What the paper reports about the GFlowNet study: medians and interquartile ranges over five seeds, and clips."""

from __future__ import annotations

from dissonance.studies.gflownet.statistics import MedianSpread

LOSSES = ("TB", "ModTB", "LPV", "ModLPV")
GRID, SAMPLES = (4, 24), 1_000_000
"""Dimensions and height; samples of the metrics."""


def _spreads(rows: dict[str, tuple[float, ...]], scale: float = 1.0) -> dict[tuple[str, str], MedianSpread]:
    """By reward and loss, from a median and a range for each loss in turn."""
    return {
        (reward, loss): MedianSpread(row[2 * i] / scale, row[2 * i + 1] / scale)
        for reward, row in rows.items()
        for i, loss in enumerate(LOSSES)
    }


PUBLISHED = {
    "sampled_l1": _spreads(
        {
            "xor": (1.74, 0.28, 1.23, 0.01, 1.49, 0.51, 1.24, 0.00),
            "cosine": (0.449, 0.000, 0.448, 0.000, 0.448, 0.000, 0.448, 0.000),
            "coprime": (0.137, 0.003, 0.137, 0.003, 0.134, 0.001, 0.138, 0.002),
            "original": (0.438, 0.000, 0.438, 0.000, 0.44, 1.54, 0.439, 0.001),
        }
    ),
    "sampled_jsd": _spreads(
        {
            "xor": (0.487, 0.111, 0.289, 0.006, 0.388, 0.182, 0.288, 0.001),
            "cosine": (0.050, 0.000, 0.050, 0.000, 0.050, 0.000, 0.050, 0.000),
            "coprime": (0.010, 0.001, 0.010, 0.000, 0.008, 0.000, 0.010, 0.001),
            "original": (0.052, 0.000, 0.052, 0.000, 0.052, 0.620, 0.052, 0.000),
        }
    ),
    "coverage": _spreads(
        {
            "xor": (100.00, 0.00, 99.27, 0.06, 100.00, 0.00, 99.45, 0.29),
            "cosine": (100.00, 0.00, 100.00, 0.00, 100.00, 0.00, 100.00, 0.00),
            "coprime": (100.00, 0.00, 100.00, 0.00, 100.00, 0.00, 100.00, 0.00),
            "original": (100.00, 0.00, 100.00, 0.00, 100.00, 96.09, 100.00, 0.00),
        },
        scale=100,
    ),
    "to_twice_final": _spreads(
        {
            "xor": (0.006, 0.003, 0.030, 0.023, 0.004, 0.002, 0.045, 0.009),
            "cosine": (0.835, 0.054, 0.857, 0.058, 0.794, 0.011, 0.521, 0.055),
            "coprime": (0.199, 0.356, 0.455, 0.099, 0.574, 0.044, 0.248, 0.109),
            "original": (0.838, 0.007, 0.895, 0.013, 0.857, 0.858, 0.586, 0.023),
        }
    ),
}
"""The table "Final metrics for rank-1 configurations" of the appendix: median and interquartile range over 5 seeds."""

CLIPS = {"original": (0.025, 0.23), "cosine": (0.10, 0.045), "xor": (0.033, 1.19), "coprime": (0.013, 0.84)}
"""The table of clips: of LPV and of ModLPV, the median over the 10 best of 50 trials."""
TOP_SHARE = 10 / 50
