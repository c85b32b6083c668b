"""CSV files: one table of one source, with a heading; several files are several sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissonance import PDG, Arc, Attention, DissonanceError, Focus, FormatError, Variable, inconsistency, load, save
from dissonance.io import load_sources

LONG = "Age,Buys,count\nyoung,no,60\nyoung,yes,90\nold,no,140\nold,yes,110\n"


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "sources", "targets", "beta", "first"),
    [
        (LONG, (), ("Age", "Buys"), 400.0, 0.15),
        ("Age,p\nyoung,0.45\nold,0.55\n", (), ("Age",), 1.0, 0.45),
        ("Age,percent\nyoung,45\nold,55\n", (), ("Age",), 1.0, 0.45),
        ("given Age,Buys,p\nyoung,no,0.4\nyoung,yes,0.6\nold,no,0.7\nold,yes,0.3\n", ("Age",), ("Buys",), 1.0, 0.4),
        ("Age,Buys=no,Buys=yes\nyoung,0.4,0.6\nold,0.7,0.3\n", ("Age",), ("Buys",), 1.0, 0.4),
        ("Age,Buys=no,Buys=yes,n\nyoung,0.4,0.6,100\nold,0.7,0.3,300\n", (), ("Age", "Buys"), 400.0, 0.1),
        ("given Age,Buys=no,Buys=yes\nyoung,40,60\nold,70,30\n", ("Age",), ("Buys",), 200.0, 0.4),
        ("Age,Buys\nyoung,no\nold,no\nold,yes\nyoung,no\n", (), ("Age", "Buys"), 4.0, 0.5),
        ("\ufeffAge , p\n young,0.45\n\nold ,0.55\n", (), ("Age",), 1.0, 0.45),
    ],
)
def test_a_table_is_read_as_its_heading_says(
    tmp_path: Path, text: str, sources: tuple[str, ...], targets: tuple[str, ...], beta: float, first: float
):
    if "40,60" in text:
        with pytest.raises(FormatError, match="sum to 100"):
            load(written(tmp_path, "survey.csv", text))
        return
    pdg, focus = load(written(tmp_path, "survey.csv", text))
    arc = pdg["survey"]
    assert (arc.source_names, arc.target_names) == (sources, targets)
    assert focus.attention.beta == {"survey": beta}
    assert float(arc.cpd.table().ravel()[0]) == pytest.approx(first)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Age,p\nyoung,0.45\nold,x\n", "survey.csv:3: arc 'survey': 'x', in row 2 of 'p', is not a number"),
        ("Age,p\nyoung,0.45,1\n", "survey.csv:2: found 3 columns where the heading has 2"),
        ("Age,p\n", "survey.csv:1: has a heading and nothing below it"),
        ("Age,\nyoung,0.5\n", "survey.csv:1: column 2 has no heading"),
        ("Age,p\nyoung,0.45\nold,0.45\n", "the numbers sum to 0.9, not 1"),
        ("Age,p,count\nyoung,1,1\n", "could both hold the numbers"),
        ("p\n0.5\n", "no column holds the labels of a variable"),
    ],
)
def test_a_file_that_is_not_understood_is_refused_with_its_line(tmp_path: Path, text: str, said: str):
    with pytest.raises(FormatError) as error:
        load(written(tmp_path, "survey.csv", text))
    assert said in str(error.value) and "\n" not in str(error.value)


def test_what_is_written_is_read_again_to_the_last_bit(tmp_path: Path):
    age, buys = Variable("Age", ["young", "old"]), Variable("Buys", ["no", "yes"])
    pdg = PDG(Arc("study", age, buys, [[1 / 3, 2 / 3], [0.1, 0.9]]))
    save(tmp_path / "study.csv", pdg)
    again, _ = load(tmp_path / "study.csv")
    assert again["study"].cpd.table().tolist() == pdg["study"].cpd.table().tolist()
    counted, focus = load(written(tmp_path, "n.csv", LONG))
    save(tmp_path / "m.csv.gz", counted, focus)
    assert load(tmp_path / "m.csv.gz")[1].attention.beta == {"m": 400.0}
    with pytest.raises(FormatError, match="holds no weights"):
        save(tmp_path / "x.csv", pdg, Focus(Attention({"study": 2.0})))
    with pytest.raises(FormatError, match="holds one table, and the PDG has 2 arcs"):
        save(tmp_path / "x.csv", pdg + Arc("other", (), age, [0.5, 0.5]))


@pytest.fixture
def three(tmp_path: Path) -> list[str]:
    return [
        written(tmp_path, "phone.csv", LONG),
        written(tmp_path, "till.csv", "Buys,count\nyes,460\nno,1540\n"),
        written(tmp_path, "census.csv", "Age,p\nold,0.55\nyoung,0.45\n"),
    ]


def test_several_files_are_several_sources_with_values_aligned_by_label(three: list[str]):
    sources = load_sources(three)
    assert sources.arcs == {"phone": ("phone",), "till": ("till",), "census": ("census",)}
    assert sources.pdg.variable("Buys").finite.labels == ("no", "yes")
    assert sources.pdg["till"].cpd.table().tolist() == [0.77, 0.23]
    assert sources.focus.attention.beta == {"phone": 400.0, "till": 2000.0, "census": 1.0}
    trusted = sources.trusting({"census": 50.0, "till": 0.0})
    assert trusted.focus.attention.beta == {"phone": 400.0, "till": 0.0, "census": 50.0}
    alone = inconsistency(PDG(sources.pdg["phone"], sources.pdg["census"]), {"census": 50.0}).upper
    assert inconsistency(trusted.pdg, trusted.focus.attention).upper == pytest.approx(alone, abs=1e-8)
    with pytest.raises(DissonanceError, match=r"no source named 'tell'. Did you mean 'till'\?"):
        sources.trusting({"tell": 2.0})
    with pytest.raises(DissonanceError, match="two sources are named 'till'"):
        load_sources([*three, three[1]])


def test_a_pseudocount_makes_what_was_not_seen_possible(tmp_path: Path):
    paths = [written(tmp_path, "a.csv", "X,count\nn,10\ny,0\n"), written(tmp_path, "b.csv", "X,count\nn,0\ny,7\n")]
    sources = load_sources(paths)
    assert inconsistency(sources.pdg).upper == float("inf")
    smooth = sources.smoothed(0.5)
    assert smooth.pdg["a"].cpd.table().tolist() == pytest.approx([10.5 / 11, 0.5 / 11])
    assert smooth.pdg["a"].beta == 10.0 and inconsistency(smooth.pdg).upper < float("inf")
    census = load_sources([written(tmp_path, "c.csv", "X,p\nn,0.5\ny,0.5\n")])
    with pytest.raises(DissonanceError, match="no source has any"):
        census.smoothed(0.5)


def test_arcs_of_one_name_are_told_apart_by_their_source(tmp_path: Path):
    x = Variable("X", ["n", "y"])
    for name, p in (("one", 0.2), ("two", 0.6)):
        save(tmp_path / f"{name}.json", PDG(Arc("x", (), x, [1 - p, p])))
    sources = load_sources([tmp_path / "one.json", tmp_path / "two.json"])
    assert sources.arcs == {"one": ("one/x",), "two": ("two/x",)}
    assert inconsistency(sources.pdg).upper > 0.1


@pytest.mark.parametrize("text", ["Age,no,yes\nold,1,3\nyoung,4,2\n", "Age,Sex,no,yes\nold,f,1,3\nold,m,4,2\n"])
def test_a_crosstab_as_pandas_writes_it_is_not_read_as_a_row_a_person(tmp_path: Path, text: str):
    path = tmp_path / "survey.csv"
    path.write_text(text)
    with pytest.raises(DissonanceError, match=r"columns 'no' and 'yes' hold numbers.*Head them Variable=no"):
        load(path)
    path.write_text(text.replace("no,yes", "Buys=no,Buys=yes"))
    assert load(path)[0].variable("Buys").finite.labels == ("no", "yes")


def test_rows_that_are_persons_may_have_numbers_as_labels(tmp_path: Path):
    path = tmp_path / "people.csv"
    path.write_text("Town,Smokes,Cancer\na,0,1\na,1,1\nb,0,0\nb,0,0\n")
    assert load(path)[0]["people"].beta == 4.0
    path.write_text("Town,share\na,0.25\nb,0.75\n")  # headed share: a number
    assert load(path)[0]["people"].target_names == ("Town",)
    path.write_text("Town,height\na,0.25\nb,0.75\n")
    with pytest.raises(DissonanceError, match="the column 'height' holds numbers, not labels"):
        load(path)
