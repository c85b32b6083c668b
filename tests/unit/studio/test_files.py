"""Files are read and written in one folder, by plain names; unsaved work is kept and offered again."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dissonance.errors import DissonanceError
from dissonance.studio.actions import act
from dissonance.studio.folder import Folder
from dissonance.studio.place import RECOVERY, StudioPlace
from dissonance.studio.recovery import Recovery

Model = dict[str, Any]
OUTSIDE = [
    "../outside.json",
    "/etc/passwd.json",
    "sub/inside.json",
    "..\\outside.json",
    "C:\\outside.json",
    "..",
    ".hidden.json",
    "",
    " .json",
    "a\0.json",
    "a\n.json",
    "-",
    "%2e%2e/outside.json\u2215",
    "x" * 300 + ".json",
]


@pytest.fixture
def outside(folder: Path) -> Path:
    """A model beside the folder."""
    path = folder.parent / "outside.json"
    path.write_bytes((folder / "smoking.json").read_bytes())
    (folder / "sub").mkdir()
    (folder / "sub" / "inside.json").write_bytes(path.read_bytes())
    return path


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_path_reaches_the_file_system(do, smoking: Model, outside: Path, folder: Path, name: str):
    before = {p: p.stat().st_mtime_ns for p in [*folder.rglob("*"), outside]}
    with pytest.raises(DissonanceError):
        do("open", file=name)
    with pytest.raises(DissonanceError):
        do("save", document={"name": "x", "model": smoking}, file=name, overwrite=True)
    assert {p: p.stat().st_mtime_ns for p in [*folder.rglob("*"), outside]} == before


def test_links_out_of_the_folder_are_not_followed(do, smoking: Model, outside: Path, folder: Path):
    (folder / "link.json").symlink_to(outside)
    (folder / "within.json").symlink_to(folder / "smoking.json")
    assert do("hello")["files"] == ["smoking.json", "within.json"]
    with pytest.raises(DissonanceError, match="reads nothing outside"):
        do("open", file="link.json")
    assert do("open", file="within.json")["model"] == smoking
    for name in ("link.json", "within.json"):
        with pytest.raises(DissonanceError, match="does not write through"):
            do("save", document={"name": "x", "model": smoking}, file=name, overwrite=True)
    assert (folder / "link.json").is_symlink()


def test_what_is_no_plain_file_is_neither_read_nor_written(do, smoking: Model, folder: Path):
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    for name in ("pipe.json", "folder.json"):
        assert name not in do("hello")["files"]
        with pytest.raises(DissonanceError, match="is no file of"):
            do("open", file=name)
        with pytest.raises(DissonanceError, match="no plain file"):
            do("save", document={"name": "x", "model": smoking}, file=name, overwrite=True)


VIEW = {"positions": {"Tar": [10.0, -20.5]}, "evidence": {"Cancer": {"value": "yes", "confidence": 2.5}}}


def test_where_boxes_stand_and_what_was_observed_is_saved_beside_the_model(do, smoking: Model, folder: Path):
    document = {"name": "x", "model": smoking, **VIEW}
    assert do("save", document=document, file="mine.json") == {"file": "mine.json", "view": "mine.json.studio"}
    assert json.loads((folder / "mine.json").read_text()) == smoking  # a model's file has no room for it
    assert do("open", file="mine.json") == {**document, "name": "mine"}
    assert do("hello")["files"] == ["mine.json", "smoking.json"]
    smoking["variables"][2] = {"name": "Cancer", "values": ["no", "perhaps"]}
    smoking["variables"][1]["name"] = "Soot"
    for arc in smoking["arcs"]:
        for key in ("sources", "targets"):
            arc[key] = ["Soot" if n == "Tar" else n for n in arc.get(key, [])]
    (folder / "mine.json").write_text(json.dumps(smoking))
    found = do("open", file="mine.json")
    assert (found["positions"], found["evidence"]) == ({}, {})  # of what the model still has
    do("save", document={"name": "x", "model": smoking}, file="mine.json", overwrite=True)
    assert not (folder / "mine.json.studio").exists()


def test_a_file_beside_the_model_that_is_no_view_is_neither_read_nor_replaced(do, smoking: Model, folder: Path):
    place, document = folder / "mine.json.studio", {"name": "x", "model": smoking, **VIEW}
    for content in ("my notes", '{"format": "other"}', '{"positions": 3}'):
        place.write_text(content)
        with pytest.raises(DissonanceError, match=r"mine\.json\.studio: .* Remove it to go on"):
            do("save", document=document, file="mine.json")
        assert place.read_text() == content and not (folder / "mine.json").exists()
    place.unlink()
    place.symlink_to(folder / "smoking.json")
    with pytest.raises(DissonanceError, match="does not write through it"):
        do("save", document=document, file="mine.json")
    assert do("open", file="smoking.json")["model"] == smoking


def test_a_model_is_saved_and_opened_again(do, smoking: Model, folder: Path):
    smoking["arcs"][0]["beta"] = "inf"
    assert do("save", document={"name": "x", "model": smoking}, file="mine.json") == {"file": "mine.json", "view": None}
    assert do("open", file="mine.json") == {"name": "mine", "model": smoking, "positions": {}, "evidence": {}}
    with pytest.raises(DissonanceError, match=r"there is a file 'mine.json' already"):
        do("save", document={"name": "x", "model": smoking}, file="mine.json")
    smoking["gamma"] = 0.5
    do("save", document={"name": "x", "model": smoking}, file="mine.json", overwrite=True)
    assert do("open", file="mine.json")["model"]["gamma"] == 0.5


@pytest.mark.parametrize("name", ["mine.txt", "mine", "mine.html", "mine.js", "mine.csv", "mine.pickle", "json"])
def test_other_suffixes_are_refused(do, smoking: Model, folder: Path, name: str):
    with pytest.raises(DissonanceError, match="expected a name that ends in"):
        do("save", document={"name": "x", "model": smoking}, file=name)
    assert not (folder / name).exists()


def test_what_a_format_cannot_hold_is_not_half_written(do, smoking: Model, folder: Path):
    with pytest.raises(DissonanceError, match="cannot be written"):
        do("save", document={"name": "x", "model": smoking}, file="mine.bif")
    with pytest.raises(DissonanceError):
        do("save", document={"name": "x", "model": {}}, file="mine.json")
    assert sorted(p.name for p in folder.iterdir()) == ["smoking.json"]


def test_a_network_is_written_in_the_format_of_its_name(do, folder: Path):
    rows = [[0.9, 0.1], [0.3, 0.7]]
    variables = [{"name": n, "values": ["no", "yes"]} for n in "AB"]
    arcs = [
        {"name": "A", "targets": ["A"], "table": [0.8, 0.2]},
        {"name": "B", "sources": ["A"], "targets": ["B"], "table": rows},
    ]
    model = {"format": "dissonance.pdg", "version": 1, "variables": variables, "arcs": arcs}
    for name in ("n.bif", "n.xmlbif", "n.bif.gz", "n.uai"):
        do("save", document={"name": "n", "model": model}, file=name)
        again = do("open", file=name)["model"]
        assert [a["table"] for a in again["arcs"]] == [[0.8, 0.2], rows], name


def test_a_dropped_file_is_read_whatever_its_format(do, smoking: Model, folder: Path):
    text = (folder / "smoking.json").read_text()
    assert do("open", filename="dropped.json", text=text) == {
        "name": "dropped",
        "model": smoking,
        "positions": {},
        "evidence": {},
    }
    packed = base64.b64encode(gzip.compress(text.encode())).decode()
    assert do("open", filename="../../dropped.json.gz", base64=packed)["model"] == smoking
    table = do("open", filename="press.csv", text="Rain,count\nyes,3\nno,1\n")["model"]
    assert [a["name"] for a in table["arcs"]] == ["press"]
    assert sorted(p.name for p in folder.iterdir()) == ["smoking.json"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "name a file"),
        ({"file": "smoking.json", "example": "smoking.json"}, "name a file"),
        ({"filename": "x.json"}, "needs its content"),
        ({"filename": "x.json", "text": "", "base64": ""}, "needs its content"),
        ({"filename": "x.json", "base64": "!"}, "not base64"),
        ({"filename": "x.json", "text": "{"}, "x.json"),
        ({"file": "missing.json"}, "no file 'missing.json'"),
        ({"example": "smokin.json"}, "Did you mean 'smoking.json'"),
        ({"example": "../smoking.json"}, "no example named"),
        ({"start": True}, "without a model"),
    ],
)
def test_what_cannot_be_opened_is_an_error_of_one_line(do, params: dict[str, Any], message: str):
    with pytest.raises(DissonanceError, match=message) as found:
        do("open", **params)
    assert "\n" not in str(found.value)


def test_every_example_can_be_opened_and_scored(do):
    listed = do("hello")["examples"]
    assert len(listed) >= 4
    for example in listed:
        assert do("score", model=do("open", example=example["name"])["model"])["converged"], example


def test_the_networks_of_an_installed_library_are_offered(do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library = tmp_path / "library"
    models = library / "pgmpy" / "utils" / "example_models"
    models.mkdir(parents=True)
    (library / "pgmpy" / "__init__.py").write_text("raise ImportError('must not be imported')")
    bif = "network n { }\nvariable A { type discrete [ 2 ] { no, yes }; }\nprobability ( A ) { table 0.8, 0.2; }\n"
    (models / "tiny.bif.gz").write_bytes(gzip.compress(bif.encode()))
    monkeypatch.syspath_prepend(str(library))
    monkeypatch.delitem(sys.modules, "pgmpy", raising=False)
    assert {"name": "tiny", "title": "tiny, of pgmpy"} in do("hello")["networks"]
    assert do("open", example="tiny")["model"]["arcs"][0]["table"] == [0.8, 0.2]


def test_the_model_of_the_command_line_may_be_anywhere(folder: Path, outside: Path):
    def opened(place: StudioPlace) -> Any:
        return json.loads(act(place, "open", b'{"start": true}', lambda event: False))

    def hello(place: StudioPlace) -> Any:
        return json.loads(act(place, "hello", b"{}", lambda event: False))

    elsewhere, here = StudioPlace(folder, str(outside)), StudioPlace(folder, str(folder / "smoking.json"))
    assert opened(elsewhere)["name"] == "outside"
    assert (hello(elsewhere)["start"], hello(elsewhere)["file"]) == (True, None)
    assert (hello(here)["start"], hello(here)["file"]) == (True, "smoking.json")
    piped = StudioPlace(folder, "-", (folder / "smoking.json").read_bytes())
    assert opened(piped)["model"] == opened(here)["model"]


def test_a_long_folder_is_listed_in_part(tmp_path: Path):
    for i in range(600):
        (tmp_path / f"{i:03}.json").touch()
    assert len(Folder(tmp_path).listed()) == 500


# -- recovery ----------------------------------------------------------------------------------------------------------


def document(name: str, model: Model) -> dict[str, Any]:
    return {"name": name, "model": model, "positions": {"Tar": [1.0, 2.0]}, "evidence": {"Tar": {"value": "low"}}}


def ended_process() -> int:
    """The number of a process that is no more."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_unsaved_work_of_a_studio_that_ended_is_offered(folder: Path, smoking: Model):
    before, now = StudioPlace(folder, process=ended_process()), StudioPlace(folder)

    def ask(place: StudioPlace, action: str, **params: Any) -> Any:
        return json.loads(act(place, action, json.dumps(params).encode(), lambda event: False))

    ask(before, "keep", document=document("old", smoking), tab="1")
    ask(before, "keep", document=document("older", smoking), tab="2")
    ask(before, "keep", document=document("old again", smoking), tab="1")
    ask(now, "keep", document=document("mine", smoking), tab="1")
    offered = ask(now, "hello")["recovery"]
    assert offered == document("old again", smoking) | {"evidence": {"Tar": {"value": "low", "confidence": "inf"}}}
    ask(now, "discard", recovered=True)
    assert ask(now, "hello")["recovery"] is None
    kept = json.loads((folder / RECOVERY).read_text())["kept"]
    assert [k["document"]["name"] for k in kept] == ["mine"]
    ask(now, "discard", tab="1")
    assert not (folder / RECOVERY).exists()
    assert ask(now, "hello")["files"] == ["smoking.json"]


def test_what_is_no_recovery_file_is_left_alone(folder: Path, tmp_path_factory: pytest.TempPathFactory, do):
    for content in (b"", b"{", b"[]", b'{"format": "else", "kept": []}', b'{"kept": [{"studio": "x"}]}'):
        (folder / RECOVERY).write_bytes(content)
        assert Recovery(folder).offered() is None
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "precious.json"
    elsewhere.write_text("precious")
    (folder / RECOVERY).unlink()
    (folder / RECOVERY).symlink_to(elsewhere)
    do("keep", document={"name": "x", "model": {}})
    assert elsewhere.read_text() == "precious"
