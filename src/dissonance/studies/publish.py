"""What a finished study leaves in its folder: tables, figures where they can be drawn, and last the report."""

from __future__ import annotations

from collections.abc import Sequence

from dissonance.studies import figures
from dissonance.studies.outcomes import StrategyOutcome
from dissonance.studies.report import report
from dissonance.studies.reported import reported
from dissonance.studies.synthetic import SyntheticFolder
from dissonance.studies.tables import tables


def publish(folder: SyntheticFolder, outcomes: Sequence[StrategyOutcome], *, draw: bool = True) -> bool:
    """Write all that the outcomes come to; returns whether there are figures."""
    for name, content in tables(outcomes).items():
        folder.write(name, content)
    drawn = figures.figures(outcomes) if draw and figures.drawable() else {}
    for name, content in drawn.items():
        folder.write(f"figures/{name}", content)
    theirs = reported(folder.study.authors, outcomes)
    folder.write("report.md", report(outcomes, folder.study.settings, theirs, drawn).encode())
    return bool(drawn)
