"""What a study leaves in its folder: tables, figures where they can be drawn, and last the report."""

from __future__ import annotations

from dissonance.studies.figures import drawable
from dissonance.studies.gflownet.figures import gflownet_figures
from dissonance.studies.gflownet.folder import GflownetFolder
from dissonance.studies.gflownet.report import gflownet_report
from dissonance.studies.gflownet.results import Results
from dissonance.studies.gflownet.tables import gflownet_tables


def publish_gflownet(folder: GflownetFolder, *, draw: bool = True) -> bool:
    """Write all that the runs come to; returns whether there are figures."""
    results = Results.of(folder)
    for name, content in gflownet_tables(results).items():
        folder.write(name, content)
    drawn = gflownet_figures(results) if draw and drawable() else {}
    for name, content in drawn.items():
        folder.write(f"figures/{name}", content)
    folder.write("report.md", gflownet_report(results, list(drawn)).encode())
    return bool(drawn)
