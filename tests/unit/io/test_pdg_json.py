"""The PDG file: what it means, and one clear line for whatever is wrong with it."""

from __future__ import annotations

import copy
import io
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest

from dissonance.cpds import SoftmaxTable, Table
from dissonance.errors import FormatError
from dissonance.io import load
from dissonance.io.lines import line_of

DOCUMENT: dict[str, Any] = {
    "format": "dissonance.pdg",
    "version": 1,
    "gamma": 0.25,
    "variables": [{"name": "Smokes", "values": ["no", "yes"]}, {"name": "Cancer", "size": 2}],
    "arcs": [
        {"name": "prior", "targets": ["Smokes"], "table": [0.8, 0.2]},
        {
            "name": "study",
            "sources": ["Smokes"],
            "targets": ["Cancer"],
            "alpha": 0.5,
            "beta": "inf",
            "control": 2.0,
            "table": [[0.99, 0.01], [0.90, 0.10]],
        },
    ],
}


def changed(**changes: Any) -> dict[str, Any]:
    """The valid document with the last arc changed (a value of None removes the key)."""
    document = copy.deepcopy(DOCUMENT)
    document["arcs"][-1].update(changes)
    document["arcs"][-1] = {k: v for k, v in document["arcs"][-1].items() if v is not None}
    return document


def with_variable(**variable: Any) -> dict[str, Any]:
    """The valid document with one more variable."""
    document = copy.deepcopy(DOCUMENT)
    document["variables"].append(variable)
    return document


def refusal(path: Path, content: object) -> str:
    """The message that a file with this content is refused with: one line that names the file."""
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(FormatError) as refused:
        load(path)
    message = str(refused.value)
    line = refused.value.line
    place = f"{path}: " if line is None else f"{path}:{line}: "
    assert message.startswith(place)
    assert len(message.splitlines()) == 1
    assert len(message) <= 600
    return message.removeprefix(place)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.json"


# -- what a file means -------------------------------------------------------------------------------------------------


def test_a_file_gives_the_pdg_and_the_focus(path: Path):
    path.write_text(json.dumps(DOCUMENT))
    pdg, focus = load(path)
    assert [v.name for v in pdg.variables] == ["Smokes", "Cancer"]
    assert pdg.variable("Smokes").finite.labels == ("no", "yes")
    assert pdg.variable("Cancer").finite.labels == (0, 1)
    assert pdg["study"].cpd.table().tolist() == [[0.99, 0.01], [0.90, 0.10]]
    assert dict(focus.attention.beta) == {"prior": 1.0, "study": math.inf}
    assert dict(focus.attention.alpha) == {"prior": 1.0, "study": 0.5}
    assert focus.attention.gamma == 0.25
    assert dict(focus.control.chi) == {"study": 2.0}


def test_arcs_with_control_are_learnable_and_the_others_only_if_asked(path: Path):
    path.write_text(json.dumps(DOCUMENT))
    assert [type(a.cpd) for a in load(path)[0]] == [Table, SoftmaxTable]
    assert [type(a.cpd) for a in load(path, learnable=True)[0]] == [SoftmaxTable, SoftmaxTable]


def test_negative_beta_is_disbelief(path: Path):
    path.write_text(json.dumps(changed(beta=-1.5)))
    assert load(path)[1].attention.beta["study"] == -1.5


def test_a_file_may_have_no_arcs(path: Path):
    path.write_text(json.dumps(DOCUMENT | {"arcs": []}))
    pdg, focus = load(path)
    assert len(pdg) == 0
    assert len(pdg.variables) == 2
    assert not focus.attention.beta


def test_whole_numbers_are_numbers(path: Path):
    path.write_text(json.dumps(changed(beta=2, alpha=1, control=0, table=[[1, 0], [0, 1]])))
    pdg, focus = load(path)
    assert pdg["study"].cpd.table().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert focus.attention.beta["study"] == 2.0


def test_rows_within_a_millionth_are_renormalised(path: Path):
    path.write_text(json.dumps(changed(table=[[0.99, 0.0100009], [0.9, 0.1]])))
    row = load(path)[0]["study"].cpd.table()[0]
    assert abs(float(row.sum()) - 1) < 1e-15
    assert float(row[1]) == pytest.approx(0.0100009 / 1.0000009, rel=1e-14)


def test_a_byte_order_mark_is_ignored(path: Path):
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(DOCUMENT).encode())
    assert len(load(path)[0]) == 2


def test_an_open_file_and_standard_input_are_read_too(monkeypatch: pytest.MonkeyPatch):
    content = json.dumps(DOCUMENT)
    assert len(load(io.StringIO(content))[0]) == 2
    assert len(load(io.BytesIO(content.encode()))[0]) == 2
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    assert len(load("-")[0]) == 2


def test_standard_input_is_named_in_errors(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(FormatError, match=r"^standard input: is empty\.$"):
        load("-")


def test_a_closed_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(FormatError, match="standard input is closed"):
        load("-")


# -- what is refused ---------------------------------------------------------------------------------------------------

WRONG_ARCS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"bta": 1.0}, "arc 'study': unknown key 'bta'. Did you mean 'beta'?"),
    "unknown source": ({"sources": ["Smoke"]}, "arc 'study': no variable named 'Smoke'. Did you mean 'Smokes'?"),
    "unknown target": ({"targets": ["Cancr"]}, "arc 'study': no variable named 'Cancr'. Did you mean 'Cancer'?"),
    "no targets": ({"targets": []}, "arc 'study' has no targets"),
    "no targets key": ({"targets": None}, "arc 'study': the key 'targets' is missing."),
    "no table": ({"table": None}, "arc 'study': the key 'table' is missing."),
    "source and target": ({"targets": ["Smokes"]}, "arc 'study' has 'Smokes' both as a source and as a target"),
    "source twice": ({"sources": ["Smokes", "Smokes"], "table": [[[0.5, 0.5]] * 2] * 2}, "mentions 'Smokes' twice"),
    "duplicate name": ({"name": "prior"}, "two arcs are named 'prior'."),
    "empty name": ({"name": ""}, "non-empty name"),
    "name not a string": ({"name": 3}, "arcs[1]: name: expected a string, found a whole number."),
    "sources not a list": ({"sources": "Smokes"}, "arc 'study': sources: expected a list, found a string."),
    "too many entries": ({"table": [[0.5, 0.25, 0.25], [0.9, 0.1]]}, "table[0] has 3 entries, but Cancer has 2"),
    "ragged": ({"table": [[0.9, 0.1], [1.0]]}, "arc 'study': table[1] has 1 entries, but Cancer has 2 values."),
    "too flat": ({"table": [0.9, 0.1]}, "table[0] is 0.9, not a list over the 2 values of Cancer."),
    "too deep": ({"table": [[[0.9], [0.1]]] * 2}, "table[0][0] is a list of 1, not a number."),
    "too few rows": ({"table": [[0.9, 0.1]]}, "table has 1 entries, but Smokes has 2 values."),
    "empty table": ({"table": []}, "table has 0 entries"),
    "table a number": ({"table": 1}, "table is 1, not a list"),
    "table an object": ({"table": {}}, "table is an object, not a list"),
    "table null": ({"table": [[None, 1], [0, 1]]}, "table[0][0] is None, not a number."),
    "true in the table": ({"table": [[True, 0.0], [0.9, 0.1]]}, "table[0][0] is True, not a number."),
    "string in the table": ({"table": [[0.9, 0.1], ["0.9", 0.1]]}, "table[1][0] is '0.9', not a number."),
    "sum": (
        {"table": [[0.99, 0.01], [0.9, 0.2]]},
        "arc 'study' (Smokes -> Cancer): the slice at Smokes=yes sums to 1.1",
    ),
    "sum just off": ({"table": [[0.99, 0.01], [0.9, 0.100002]]}, "the slice at Smokes=yes sums to 1.000002, not 1."),
    "zero row": ({"table": [[0.0, 0.0], [0.9, 0.1]]}, "the slice at Smokes=no sums to 0, not 1."),
    "negative": ({"table": [[1.5, -0.5], [0.9, 0.1]]}, "the slice at Smokes=no holds the negative number -0.5."),
    "huge numbers": ({"table": [[1e308, 1e308], [0.9, 0.1]]}, "the slice at Smokes=no sums to inf, not 1."),
    "negative control": ({"control": -1}, "control['study'] must be >= 0, found -1.0."),
    "control a bool": ({"control": True}, "arc 'study': control: expected"),
    "control minus inf": ({"control": "-inf"}, "arc 'study': control is '-inf'; it must be a number or \"inf\"."),
    "beta minus inf": ({"beta": "-inf"}, "arc 'study': beta is '-inf'; it must be a number or \"inf\"."),
    "beta a number in quotes": ({"beta": "1.0"}, "arc 'study': beta is '1.0'; it must be a number or \"inf\"."),
    "beta a bool": ({"beta": False}, "arc 'study': beta: expected a number or \"inf\", found true or false."),
    "beta a list": ({"beta": [1.0]}, "arc 'study': beta: expected a number or \"inf\", found a list."),
    "alpha inf": ({"alpha": "inf"}, "arc 'study': alpha: expected a number, found a string."),
}


@pytest.mark.parametrize(("changes", "message"), WRONG_ARCS.values(), ids=WRONG_ARCS)
def test_a_wrong_arc_is_refused_by_name(path: Path, changes: dict[str, Any], message: str):
    assert message in refusal(path, changed(**changes))


WRONG_VARIABLES: dict[str, tuple[dict[str, Any], str]] = {
    "duplicate name": ({"name": "Smokes", "values": ["no", "yes"]}, "two variables are named 'Smokes'."),
    "duplicate value": ({"name": "X", "values": ["a", "b", "a"]}, "variable 'X' has the value 'a' twice."),
    "no values": ({"name": "X", "values": []}, "variable 'X' has no values"),
    "neither": ({"name": "X"}, 'variable \'X\' needs either "values" or "size".'),
    "both": ({"name": "X", "values": ["a"], "size": 1}, "variable 'X' has both"),
    "no name": ({"size": 2}, "variables[2]: the key 'name' is missing."),
    "empty name": ({"name": "", "size": 2}, "a variable needs a non-empty name"),
    "size 0": ({"name": "X", "size": 0}, "variable 'X' has size 0; it needs at least 1."),
    "negative size": ({"name": "X", "size": -2}, "variable 'X' has size -2"),
    "size a fraction": ({"name": "X", "size": 2.5}, "variable 'X': size: expected a whole number, found a number."),
    "size a bool": ({"name": "X", "size": True}, "variable 'X': size: expected a whole number, found true or false."),
    "size null": ({"name": "X", "size": None}, "variable 'X': size: expected a whole number, found null."),
    "label a number": ({"name": "X", "values": ["a", 1]}, "variable 'X': values[1]: expected a string"),
    "unknown key": ({"name": "X", "sizes": 2}, "variable 'X': unknown key 'sizes'. Did you mean 'size'?"),
}


@pytest.mark.parametrize(("variable", "message"), WRONG_VARIABLES.values(), ids=WRONG_VARIABLES)
def test_a_wrong_variable_is_refused_by_name(path: Path, variable: dict[str, Any], message: str):
    assert message in refusal(path, with_variable(**variable))


@pytest.mark.parametrize("size", [10**7, 10**12, 10**30])
def test_a_huge_size_is_refused_before_any_label_is_made(path: Path, size: int):
    began = time.process_time()
    assert f"variable 'X' has size {size}" in refusal(path, with_variable(name="X", size=size))
    assert time.process_time() - began < 1


def test_many_large_sizes_are_refused_together(path: Path):
    document = DOCUMENT | {"variables": [{"name": f"X{i}", "size": 10**5 + i} for i in range(1000)], "arcs": []}
    assert "the sizes in a file add up to at most" in refusal(path, document)


WRONG_DOCUMENTS: dict[str, tuple[object, str]] = {
    "wrong format": (DOCUMENT | {"format": "disonance.pdg"}, "Did you mean 'dissonance.pdg'?"),
    "format a number": (DOCUMENT | {"format": 1}, "format: expected a string, found a whole number."),
    "format null": (DOCUMENT | {"format": None}, "format: expected a string, found null."),
    "no format": ({"variables": [], "arcs": []}, 'it has no key "format"'),
    "newer version": (DOCUMENT | {"version": 2, "novelty": 1}, 'its "version" is 2; this dissonance reads up to 1'),
    "version 0": (DOCUMENT | {"version": 0}, 'its "version" is 0'),
    "version a string": (DOCUMENT | {"version": "1"}, "version: expected a whole number, found a string."),
    "no version": ({k: v for k, v in DOCUMENT.items() if k != "version"}, 'it has no key "version"'),
    "no arcs": ({k: v for k, v in DOCUMENT.items() if k != "arcs"}, "the key 'arcs' is missing."),
    "unknown key": (DOCUMENT | {"gama": 1.0}, "unknown key 'gama'. Did you mean 'gamma'?"),
    "negative gamma": (DOCUMENT | {"gamma": -1}, "gamma must be a finite number >= 0, found -1.0."),
    "gamma inf": (DOCUMENT | {"gamma": "inf"}, "gamma: expected a number, found a string."),
    "arcs an object": (DOCUMENT | {"arcs": {}}, "arcs: expected a list, found an object."),
    "arc a string": (DOCUMENT | {"arcs": ["study"]}, "arcs[0]: expected an object, found a string."),
    "a list": ([DOCUMENT], "expected an object, found a list."),
    "a number": (1, "expected an object, found a whole number."),
    "null": (None, "expected an object, found null."),
}


@pytest.mark.parametrize(("document", "message"), WRONG_DOCUMENTS.values(), ids=WRONG_DOCUMENTS)
def test_a_wrong_document_is_refused(path: Path, document: object, message: str):
    assert message in refusal(path, document)


TEXT = json.dumps(DOCUMENT, indent=1)
WRONG_TEXTS: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "is empty."),
    "blank": (" \n\t\n", "is empty."),
    "truncated": (TEXT[: len(TEXT) // 2], "the JSON ends too soon"),
    "trailing comma": (TEXT[:-3] + ",\n]}", "is not valid JSON, column "),
    "two documents": (TEXT + TEXT, "is not valid JSON, column "),
    "not JSON": ("network unknown {\n}\n", "is not valid JSON, column "),
    "NaN": (TEXT.replace("0.99", "NaN"), "NaN is not a JSON number"),
    "Infinity": (TEXT.replace("0.25", "Infinity"), "Infinity is not a JSON number"),
    "-Infinity": (TEXT.replace("0.25", "-Infinity"), "-Infinity is not a JSON number"),
    "overflow in a table": (TEXT.replace("0.99", "1e999"), "arc 'study': table [0][0]: a number is too large."),
    "overflow in a weight": (
        TEXT.replace('"alpha": 0.5', '"alpha": 1e999'),
        "arc 'study': alpha: a number is too large.",
    ),
    "overflow in gamma": (TEXT.replace("0.25", "1" + "0" * 400), "gamma: a number is too large."),
    "latin-1": (TEXT.replace("yes", "oui, \xe7a va").encode("latin-1"), "is not UTF-8 text (byte "),
    "utf-16": (TEXT.encode("utf-16"), "is not UTF-8 text (byte 0)"),
    "half a surrogate pair": (TEXT.replace("yes", "\\ud800"), ""),
    "deep lists": ("[" * 100_000, "expected an object, found a list."),
    "deep objects": ('{"a":' * 100_000, "nested too deeply"),
    "deep table": (TEXT.replace("0.99", "[" * 100_000 + "]" * 100_000), "nested too deeply"),
    "deep format": ('{"format": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    "gzip": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "is not a whole gzip file"),
}


@pytest.mark.parametrize(("text", "message"), WRONG_TEXTS.values(), ids=WRONG_TEXTS)
def test_text_that_is_no_such_document_is_refused(path: Path, text: str | bytes, message: str):
    assert message in refusal(path, text)


LINES = {
    "syntax": (TEXT.replace('"version": 1,', '"version": 1;'), '"version"'),
    "not a number": (TEXT.replace("0.25", "-Infinity"), "-Infinity"),
    "cut short": (TEXT[: TEXT.index("0.99") + 4], "0.99"),
    "unknown key of an arc": (TEXT.replace('"alpha"', '"alhpa"'), '"study"'),
    "wrong kind": (TEXT.replace('"alpha": 0.5', '"alpha": "much"'), '"much"'),
    "wrong row": (TEXT.replace("0.99", "0.5"), '"study"'),
    "unknown variable": (TEXT.replace('"Cancer"\n   ]', '"Canker"\n   ]'), '"study"'),
    "two variables": (TEXT.replace('"name": "Cancer"', '"name": "Smokes"'), '"size"'),
}


@pytest.mark.parametrize(("text", "there"), LINES.values(), ids=LINES)
def test_a_refusal_has_the_line_of_what_is_refused(path: Path, text: str, there: str):
    """The line of the very thing if that is known, else that of the record it is in, which opens just above."""
    message = refusal(path, text)
    path.write_text(text)
    with pytest.raises(FormatError) as refused:
        load(path)
    line = refused.value.line
    assert line is not None
    assert any(there in x for x in text.splitlines()[line - 1 : line + 2]), message


def test_the_line_of_a_path_is_where_it_starts():
    content = b'{"a": 1,\n "1": [1,\n  {"x": 1},\n  {"x":\n 1}],\n "b": {"c": 1}}'
    assert [line_of(content, *path) for path in ([], ["a"], ["1"], ["1", 0], ["1", 1], ["1", 2])] == [1, 1, 2, 2, 3, 4]
    assert line_of(content, "1", 2, "x") == 5
    assert line_of(content, "b", "c") == 6
    assert line_of(content, "1", 7) == 2 and line_of(content, "z") == 1


def test_a_message_stays_on_one_line_whatever_the_names_hold(path: Path):
    document = copy.deepcopy(DOCUMENT)
    document["variables"][0] = {"name": "a\nb\x1b[31m", "values": ["line\nbreak", "\u2028"]}
    document["arcs"] = [
        {"name": "x\r\ny", "sources": ["a\nb\x1b[31m"], "targets": ["Cancer"], "table": [[1, 1], [1, 0]]}
    ]
    message = refusal(path, document)
    assert message.isprintable()
    assert "line\\nbreak" in message


def test_more_variables_than_an_array_has_axes_are_refused(path: Path):
    names = [f"X{i}" for i in range(40)]
    table: Any = 1.0
    for _ in names:
        table = [table]
    document = DOCUMENT | {
        "variables": [{"name": n, "size": 1} for n in names],
        "arcs": [{"name": "wide", "targets": names, "table": table}],
    }
    assert "arc 'wide' has 40 variables; at most 32 are supported." in refusal(path, document)


def test_a_long_chain_loads_in_seconds(path: Path):
    arcs = 20_000
    document = DOCUMENT | {
        "variables": [{"name": f"X{i}", "size": 2} for i in range(arcs + 1)],
        "arcs": [
            {"name": f"a{i}", "sources": [f"X{i}"], "targets": [f"X{i + 1}"], "table": [[0.9, 0.1], [0.2, 0.8]]}
            for i in range(arcs)
        ],
    }
    path.write_text(json.dumps(document))
    began = time.process_time()
    assert len(load(path)[0]) == arcs
    assert time.process_time() - began < 5  # 10^5 arcs in seconds: a fifth of them in well under five
