"""Cpds as tables to look at."""

from __future__ import annotations

import io

import torch
from rich.console import Console, RenderableType

from dissonance.arc import Arc
from dissonance.cpds import Deterministic, PointMass
from dissonance.cpds.display import cpd_table
from dissonance.pdg import PDG
from dissonance.variables import Euclidean, Variable

SMOKES, AGE, CANCER = Variable("Smokes", ["no", "yes"]), Variable("Age", ["young", "old"]), Variable("Cancer", 2)


def drawn(renderable: RenderableType) -> list[str]:
    """The lines that a terminal of 100 columns would show."""
    console = Console(width=100, file=io.StringIO())
    console.print(renderable)
    return [line.rstrip() for line in console.file.getvalue().splitlines() if line.strip()]  # pyright: ignore


def of(arc: Arc) -> list[str]:
    return drawn(cpd_table(arc.name, arc.sources, arc.targets, arc.cpd))


def test_rows_are_source_settings_and_columns_target_settings():
    table = torch.tensor([[[0.99, 0.01], [0.5, 0.5]], [[0.25, 0.75], [1.0, 0.0]]])
    lines = of(Arc("study", (SMOKES, AGE), CANCER, table))
    assert lines[0] == "study: Smokes, Age -> Cancer"
    assert lines[1].split() == ["Smokes", "Age", "Cancer=0", "Cancer=1"]
    assert [line.split() for line in lines[3:]] == [
        ["no", "young", "0.99", "0.01"],
        ["no", "old", "0.5", "0.5"],
        ["yes", "young", "0.25", "0.75"],
        ["yes", "old", "1", "0"],
    ]


def test_an_arc_without_sources_is_one_row():
    lines = of(Arc("prior", (), (SMOKES, AGE), torch.full((2, 2), 0.25)))
    assert lines[0] == "prior: -> Smokes, Age"
    assert lines[-1].split() == ["0.25"] * 4


def test_a_large_table_says_what_is_not_shown():
    many, wide = Variable("Many", 100), Variable("Wide", 12)
    lines = of(Arc("big", many, wide, torch.full((100, 12), 1 / 12)))
    assert lines[-1] == "80 more rows and 6 more columns not shown"
    assert len(lines) == 3 + 20 + 1
    assert not any("…" in line for line in lines)


def test_a_table_a_row_too_long_says_so():
    lines = of(Arc("tall", Variable("S", 21), SMOKES, torch.full((21, 2), 0.5)))
    assert lines[-1] == "1 more row not shown"


def test_a_cpd_that_is_not_finite_is_one_line():
    place = Variable("Place", Euclidean(2))
    assert of(Arc("here", (), place, PointMass([0.0, 1.0]))) == ["here: -> Place   PointMass, Place is Euclidean(2)"]


def test_names_are_shown_as_they_are():
    odd = Variable("[red]X[/red]", ["[b]", "no"])
    lines = of(Arc("[i]a", odd, SMOKES, [[0.5, 0.5], [0.5, 0.5]]))
    assert lines[0] == "[i]a: [red]X[/red] -> Smokes"
    assert lines[3].split()[0] == "[b]"


def test_a_pdg_shows_every_arc():
    pdg = PDG(Arc("prior", (), SMOKES, [0.8, 0.2]), Arc("same", SMOKES, CANCER, Deterministic({"no": 0, "yes": 1})))
    lines = drawn(pdg)
    assert lines[: len(repr(pdg).splitlines())] == repr(pdg).splitlines()
    assert "prior: -> Smokes" in lines
    assert "same: Smokes -> Cancer" in lines
