"""CSV files: one table of one source, with a heading; several files are several sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


APART = "S;T;p\na;x;0,4\na;y;0,1\nb;x;0,25\nb;y;0,25\n"


@pytest.mark.parametrize(
    ("text", "table", "beta"),
    [
        (APART, [[0.4, 0.1], [0.25, 0.25]], 1.0),
        (APART.replace(",", "."), [[0.4, 0.1], [0.25, 0.25]], 1.0),
        (APART.replace(";", "\t"), [[0.4, 0.1], [0.25, 0.25]], 1.0),
        ("S;T=x;T=y\na;0,4;0,6\nb;1,5E-05;0,999985\n", [[0.4, 0.6], [1.5e-05, 0.999985]], 1.0),
        ("S;count\na, b;1\nc;3\n", [0.25, 0.75], 4.0),
        ("S;T\na;x\nb;y\n", [[0.5, 0.0], [0.0, 0.5]], 2.0),
        ('"S, T";p\na;0,5\nb;0,5\n', [0.5, 0.5], 1.0),
        ('"S;T",p\na;b,0.5\nc;d,0.5\n', [0.5, 0.5], 1.0),
        ('S\t"T,U"\tp\na\tx\t0,4\na\ty\t0,1\nb\tx\t0,25\nb\ty\t0,25\n', [[0.4, 0.1], [0.25, 0.25]], 1.0),
    ],
)
def test_the_delimiter_that_every_line_agrees_on_is_read(tmp_path: Path, text: str, table: list[object], beta: float):
    arc = load(written(tmp_path, "survey.csv", text))[0]["survey"]
    assert arc.cpd.table().tolist() == table and arc.beta == beta


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (APART.replace("b;x;", "b;"), 4),
        ("S,x;T;p\na;x;0,4\na;y;0,6\n", 1),
        ("S,x;T;p\na;x;0,4\na;y\n", 3),
        ("S,x;p\na;0,4\nb;0.6\n", 1),
        ("S;p\na;0,4\nb;0.6\n", 2),
        ("S;count\na;1.540\nb;460\n", 2),
        ("S;count\na;460\nb;1,540\n", 3),
        ("S;p\na;1\nb;\n", 3),
        ("X\na;b\n", 2),
        ("X\na\tb\n", 2),
        ("sep=;\nS;p\na;1\n", 1),
    ],
)
def test_lines_that_agree_on_no_delimiter_are_refused(tmp_path: Path, text: str, line: int):
    with pytest.raises(FormatError) as error:
        load(written(tmp_path, "survey.csv", text))
    assert error.value.line == line and "\n" not in str(error.value)


def test_decimal_commas_are_numbers_without_a_heading_that_says_so(tmp_path: Path):
    with pytest.raises(FormatError, match="'height'"):
        load(written(tmp_path, "survey.csv", "Town;height\na;0,25\nb;0,75\n"))


@pytest.mark.parametrize(
    ("text", "line"),
    [("S,p\na,1\n,0\n", 3), ("S;p\na;1\n ;0\n", 3), ("T,S\nx,a\ny,\n", 3), ("S,T=x,T=y\n,1,0\nb,0,1\n", 2)],
)
def test_a_blank_label_is_missing(tmp_path: Path, text: str, line: int):
    with pytest.raises(FormatError, match="'S' is missing") as error:
        load(written(tmp_path, "survey.csv", text))
    assert error.value.line == line


ODD = {
    "a joint table that reads as conditional": (["given X", "T"], [["a", "b"], ["c", "d"]]),
    "a name with space around it": ([" a", "T"], [["a", "b"], ["c", "d"]]),
    "a label with space around it": (["S", "T"], [["a", "b "], ["c", "d"]]),
    "a name that heads numbers": (["p", "T"], [["0.5", "b"], ["c", "d"]]),
    "another one": (["S", "Count"], [["a", "b"], ["0", "1"]]),
    "and another": (["weight", "%"], [["a", "b"], ["0", "1"]]),
    "a name like a value's": (["x=y", "T"], [["0", "1"], ["c", "d"]]),
    "an empty label": (["S", "T"], [["", "b"], ["c", "d"]]),
    "labels that read alike": (["S", "T"], [[1, "1"], ["c", "d"]]),
    "a total": (["S", "T"], [["a", "b", "All"], ["c", "d"]]),
}


@pytest.mark.parametrize(("names", "labels"), ODD.values(), ids=ODD)
def test_a_table_that_would_be_read_as_another_is_not_written(tmp_path: Path, names: list[str], labels: list[Any]):
    scope = [Variable(n, x) for n, x in zip(names, labels, strict=True)]
    table = [[0.1, 0.2], [0.3, 0.4]] if scope[0].size == 2 else [[0.1, 0.15], [0.1, 0.15], [0.2, 0.3]]
    with pytest.raises(FormatError, match="cannot"):
        save(tmp_path / "t.csv", PDG(Arc("t", (), scope, table)))
    assert not list(tmp_path.iterdir())


KEPT = {
    "delimiters": (["a;b", "c,d"], [["x;y", "x,y"], ["1\t2", '"quoted"']]),
    "line breaks": (["a", "b"], [["x\ny", "x\r\ny"], ["x\ry", "x"]]),
    "numbers as labels": (["a", "b"], [["0.5", "1"], ["1e3", "-1"]]),
    "words": (["given", "pp"], [["p", "count"], ["given X", "x=y"]]),
    "other scripts": (["größe", "年齢"], [["é", "e\u0301"], ["\u200b", "א"]]),
}


@pytest.mark.parametrize(("names", "labels"), KEPT.values(), ids=KEPT)
def test_odd_names_that_a_file_can_hold_come_back(tmp_path: Path, names: list[str], labels: list[Any]):
    S, T = (Variable(n, x) for n, x in zip(names, labels, strict=True))
    for arc in (Arc("t", (), (S, T), [[0.1, 0.2], [0.3, 0.4]]), Arc("t", S, T, [[0.1, 0.9], [0.3, 0.7]])):
        save(tmp_path / "t.csv", PDG(arc))
        again = load(tmp_path / "t.csv")[0]["t"]
        assert (again.sources, again.targets) == (arc.sources, arc.targets)
        assert again.cpd.table().tolist() == arc.cpd.table().tolist()


def test_what_a_table_has_no_place_for_is_not_dropped(tmp_path: Path):
    X, Y = Variable("X", ["n", "y"]), Variable("Y", ["n", "y"])
    arc = Arc("t", (), X, [0.5, 0.5])
    with pytest.raises(FormatError, match="'Y'"):
        save(tmp_path / "t.csv", PDG(arc, variables=[X, Y]))
    with pytest.raises(FormatError, match="weights"):
        save(tmp_path / "t.csv", PDG(arc), Focus(Attention(alpha={"t": 0.0})))
    smoothed = load_sources([written(tmp_path, "n.csv", "X,count\nn,10\ny,0\n")]).smoothed(0.5)
    with pytest.raises(FormatError, match="numbers"):
        save(tmp_path / "t.csv", smoothed.pdg, smoothed.focus)
    assert [p.name for p in tmp_path.iterdir()] == ["n.csv"]


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
