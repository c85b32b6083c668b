"""What a finished study leaves in its folder: tables, figures where they can be drawn, and last the report."""

from __future__ import annotations

from collections.abc import Sequence

from dissonance.studies.figures import figures
from dissonance.studies.outcomes import StrategyOutcome
from dissonance.studies.report import study_report
from dissonance.studies.reported import reported
from dissonance.studies.synthetic import SyntheticFolder
from dissonance.studies.tables import tables


def publish(folder: SyntheticFolder, outcomes: Sequence[StrategyOutcome], *, draw: bool = True) -> bool:
    """Write all that the outcomes come to; returns whether there are figures."""
    theirs = reported(folder.study.authors, outcomes)
    return folder.publish(
        tables(outcomes),
        (lambda: figures(outcomes)) if draw else None,
        lambda drawn: study_report(outcomes, folder.study.settings, theirs, drawn),
    )
