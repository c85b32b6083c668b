"""What a study leaves in its folder: tables, figures where they can be drawn, and last the report."""

from __future__ import annotations

from dissonance.studies.figures import drawable
from dissonance.studies.gflownet.figures import figures
from dissonance.studies.gflownet.folder import Folder
from dissonance.studies.gflownet.report import report
from dissonance.studies.gflownet.results import Results
from dissonance.studies.gflownet.tables import tables


def publish(folder: Folder, *, draw: bool = True) -> bool:
    """Write all that the runs come to; returns whether there are figures."""
    results = Results.of(folder)
    for name, content in tables(results).items():
        folder.write(name, content)
    drawn = figures(results) if draw and drawable() else {}
    for name, content in drawn.items():
        folder.write(f"figures/{name}", content)
    folder.write("report.md", report(results, list(drawn)).encode())
    return bool(drawn)
