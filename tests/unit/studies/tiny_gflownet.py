"""A study of GFlowNets that takes seconds: its settings, and the words that ask for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dissonance.studies.gflownet.settings import Settings

QUICK = {
    "height": 4, "losses": ("TB", "ModTB"), "rewards": ("cosine",), "clamps": ("none",), "trials": 4,
    "seeds": (1, 2, 3), "search_iterations": 60, "iterations": 80, "every": 40, "batch": 16,
}  # fmt: skip
SETTINGS = replace(Settings.tiny(), **QUICK)
WORDS = ["--preset", "tiny", "--no-figures", "--device", "cpu"]
for name, value in QUICK.items():
    WORDS += [f"--{name.replace('_', '-')}", ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]


def study(out: Path, *words: str) -> list[str]:
    return ["study", "gflownet", "--out", str(out), *words]
