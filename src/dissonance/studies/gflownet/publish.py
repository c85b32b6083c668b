"""What a study leaves in its folder: tables, figures where they can be drawn, and last the report."""

from __future__ import annotations

from dissonance.studies.gflownet.figures import gflownet_figures
from dissonance.studies.gflownet.folder import GflownetFolder
from dissonance.studies.gflownet.report import gflownet_report
from dissonance.studies.gflownet.results import Results
from dissonance.studies.gflownet.tables import gflownet_tables


def publish_gflownet(folder: GflownetFolder, *, draw: bool = True) -> bool:
    """Write all that the runs come to; returns whether there are figures."""
    results = Results.of(folder)
    return folder.publish(
        gflownet_tables(results),
        (lambda: gflownet_figures(results)) if draw else None,
        lambda drawn: gflownet_report(results, drawn),
    )
