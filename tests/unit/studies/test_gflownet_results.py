"""The GFlowNet study that is kept: its report and tables follow from its runs, and the documents say what they say."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dissonance.studies.folder import claimed
from dissonance.studies.gflownet.folder import GflownetFolder
from dissonance.studies.gflownet.publish import publish_gflownet
from dissonance.studies.gflownet.settings import Settings

ROOT = Path(__file__).parents[3]
KEPT = ROOT / "results"
COMPUTED = ("study.json", "search.csv", "runs.csv", "traces.csv")
NAMES = {"original": "original", "cosine": "cosine", "bitwise XOR": "xor", "multiplicative coprime": "coprime"}

if not KEPT.exists():
    pytest.skip(f"no results at {KEPT}", allow_module_level=True)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def says(text: str, value: float) -> bool:
    """Whether a number as it is printed is this value, to the digits that are printed."""
    digits = len(text.partition(".")[2])
    return abs(float(text) - value) <= 0.5 * 10**-digits * (1 + 1e-9)


# -- the report --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gflownet", "gflownet-long", "gflownet-published"])
def test_report_and_tables_are_those_of_the_runs(name: str, tmp_path: Path):
    kept = KEPT / name
    for file in COMPUTED:
        shutil.copy(kept / file, tmp_path)
    settings = claimed(tmp_path)
    assert settings is not None
    folder = GflownetFolder(tmp_path, Settings.of(settings))
    assert folder.finished
    assert not publish_gflownet(folder, draw=False)
    made = {p.name for p in tmp_path.iterdir()} - {"report.md"}
    assert made == {p.name for p in kept.iterdir()} - {"report.md", "README.md", "figures"}
    for file in made:
        assert (tmp_path / file).read_bytes() == (kept / file).read_bytes(), file
    text, _, figures = (kept / "report.md").read_text().partition("\n## Figures\n")
    assert (tmp_path / "report.md").read_text() == text
    drawn = re.findall(r"!\[(.*?)\]\(figures/\1\.svg\)", figures)
    assert sorted(drawn) == sorted(p.stem for p in (kept / "figures").iterdir())
    assert sum(p.stat().st_size for p in kept.rglob("*")) < 2_000_000


# -- the documents -----------------------------------------------------------------------------------------------------


def found() -> str:
    """What docs/studies.md says that the study found."""
    text = (ROOT / "docs" / "studies.md").read_text()
    return text[text.index("### What it found") : text.index("### Stopping, going on, and data bases")]


def table() -> Iterator[tuple[str, str, list[str]]]:
    """Its rows: clamp, reward, and six cells."""
    for line in found().splitlines():
        cells = [cell.strip().replace("**", "") for cell in line.strip("|").split("|")]
        if len(cells) == 8 and cells[1] in NAMES:
            yield cells[0], NAMES[cells[1]], cells[2:]


def test_the_table_in_the_documents_has_a_row_for_every_clamp_and_reward():
    summary = rows(KEPT / "gflownet" / "summary.csv")
    assert [(clamp, reward) for clamp, reward, _ in table()] == list(
        dict.fromkeys((r["clamp"], r["reward"]) for r in summary)
    )


def test_the_table_in_the_documents_has_the_medians_of_the_summary():
    medians = {(r["clamp"], r["reward"], r["loss"]): r["l1_median"] for r in rows(KEPT / "gflownet" / "summary.csv")}
    for clamp, reward, cells in table():
        for loss, cell in zip(("TB", "ModTB", "LPV", "ModLPV"), (cells[0], cells[1], cells[3], cells[4]), strict=True):
            assert says(cell, float(medians[clamp, reward, loss])), (clamp, reward, loss, cell)


def test_the_table_in_the_documents_has_the_ratios_of_the_comparisons():
    compared = {
        (r["clamp"], r["reward"], r["modified"]): [float(r[name]) for name in ("ratio", "low", "high")]
        for r in rows(KEPT / "gflownet" / "comparisons.csv")
        if r["measure"] == "l1"
    }
    for clamp, reward, cells in table():
        for modified, cell in (("ModTB", cells[2]), ("ModLPV", cells[5])):
            numbers = re.fullmatch(r"([\d.]+) \[([\d.]+), ([\d.]+)\]", cell)
            assert numbers is not None, cell
            for text, value in zip(numbers.groups(), compared[clamp, reward, modified], strict=True):
                assert says(text, value), (clamp, reward, modified, cell)


def triples() -> list[list[float]]:
    """Every number with an interval that the tables hold."""
    kept: list[list[float]] = []
    for folder in ("gflownet", "gflownet-long", "gflownet-published"):
        for r in rows(KEPT / folder / "comparisons.csv"):
            kept.append([float(r[name]) for name in ("ratio", "low", "high")])
        for r in rows(KEPT / folder / "clamps.csv"):
            for name in (column.removesuffix("_low") for column in r if column.endswith("_low")):
                if r[name]:
                    kept.append([float(r[column]) for column in (name, f"{name}_low", f"{name}_high")])
    return kept


@pytest.mark.parametrize(
    ("document", "begins", "least"),
    [
        ("studies.md", "### What it found", 30),
        ("audit.md", "## The GFlowNet study", 3),
        ("tutorials/gflownet.md", "## Where length normalisation helps", 1),
    ],
)
def test_every_number_with_an_interval_is_in_the_tables(document: str, begins: str, least: int):
    text = (ROOT / "docs" / document).read_text().replace("**", "")
    printed = re.findall(r"(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]", text[text.index(begins) :])
    assert len(printed) >= least
    known = triples()
    for cell in printed:
        assert any(all(map(says, cell, values)) for values in known), cell
