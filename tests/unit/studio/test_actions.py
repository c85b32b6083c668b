"""What the page is told is what the command line says."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import pytest

from dissonance import inconsistency, load
from dissonance.cli.app import run
from dissonance.errors import DissonanceError
from dissonance.studio import film
from dissonance.studio.documents import MAX_CELLS
from fresh import python

Model = dict[str, Any]


def printed(capsys: pytest.CaptureFixture[str], *command: str) -> Any:
    """What a command prints with --json."""
    assert run([*command, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def pdg_model(*arcs: dict[str, Any], **sizes: int) -> Model:
    variables = [{"name": n, "size": k} for n, k in sizes.items()]
    return {"format": "dissonance.pdg", "version": 1, "variables": variables, "arcs": arcs}


# -- score and query ---------------------------------------------------------------------------------------------------


def test_a_score_is_what_the_command_prints_with_that_beta(do, smoking: Model, folder: Path, capsys):
    smoking["arcs"][1]["beta"] = 2.5
    found = do("score", model=smoking, top=8)
    wanted = printed(capsys, "score", str(folder / "smoking.json"), "--attend", "survey=2.5")
    assert found.pop("caution") == ""
    for record in (found, wanted):
        del record["seconds"]
    assert found == wanted


def test_a_score_lists_every_cell_the_largest_disagreement_first(do, smoking: Model):
    costs = [c["contribution"] for c in do("score", model=smoking)["cells"]]
    cells = {a["name"]: math.prod(_shape(a["table"])) for a in smoking["arcs"]}
    assert len(costs) == sum(cells.values())
    assert costs == sorted(costs, reverse=True)


def _shape(table: Any) -> list[int]:
    return [len(table), *_shape(table[0])] if isinstance(table, list) else []


def test_hard_evidence_is_answered_as_by_the_query_command(do, smoking: Model, folder: Path, capsys):
    found = do("query", model=smoking, evidence={"Cancer": {"value": "yes"}, "Tar": {"value": "low"}})
    command = ("query", str(folder / "smoking.json"), "--given", "Cancer=yes", "--given", "Tar=low")
    wanted = printed(capsys, *command)
    assert found["marginals"] == wanted["marginals"]
    assert found["probability"] == pytest.approx(wanted["probability"], rel=1e-12)
    assert found["lower"] <= found["inconsistency"] == found["upper"]
    assert found["inconsistency"] > wanted["inconsistency"]


def test_a_confidence_multiplies_the_odds(do, smoking: Model, folder: Path):
    pdg, focus = load(folder / "smoking.json")
    prior = inconsistency(pdg, focus.attention).query()["Cancer"]
    found = do("query", model=smoking, evidence={"Cancer": {"value": "yes", "confidence": 1.5}})
    odds = found["marginals"]["Cancer"]["yes"] / found["marginals"]["Cancer"]["no"]
    assert odds == pytest.approx(math.e**1.5 * prior["yes"] / prior["no"], rel=1e-9)
    assert found["probability"] == pytest.approx(prior["yes"] + math.exp(-1.5) * prior["no"], rel=1e-9)


def test_evidence_goes_from_ignored_to_certain_with_its_confidence(do, smoking: Model):
    def with_confidence(confidence: float | str) -> dict[str, Any]:
        return do("score", model=smoking, evidence={"Cancer": {"value": "yes", "confidence": confidence}})

    alone, certain = do("score", model=smoking), with_confidence("inf")
    values = [with_confidence(c)["inconsistency"] for c in (0, 1, 3, 10)]
    assert values[0] == pytest.approx(alone["inconsistency"], abs=1e-7)
    assert values == sorted(values)
    assert values[-1] < certain["inconsistency"]
    assert with_confidence(40)["inconsistency"] == pytest.approx(certain["inconsistency"], abs=1e-6)
    assert set(with_confidence(1)["marginals"]) == {"Smokes", "Tar", "Cancer"}
    assert "observed Cancer" in {a["name"] for a in with_confidence(1)["arcs"]}


def test_reports_of_a_bayesian_network_are_virtual_evidence(do):
    rows = [[0.9, 0.1], [0.3, 0.7]]
    model = pdg_model(
        {"name": "a", "targets": ["A"], "table": [0.8, 0.2]},
        {"name": "b", "sources": ["A"], "targets": ["B"], "table": rows},
        A=2,
        B=2,
    )
    found = do("query", model=model, evidence={"B": {"value": "1", "confidence": math.log(3)}})
    weights = [p * (r[0] / 3 + r[1]) for p, r in zip([0.8, 0.2], rows, strict=True)]
    assert found["marginals"]["A"]["1"] == pytest.approx(weights[1] / sum(weights), abs=1e-9)
    assert found["inconsistency"] == pytest.approx(-math.log(sum(weights)), abs=1e-6)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"Cancer": {"value": "maybe"}}, "'Cancer' has no value 'maybe'"),
        ({"Cancr": {"value": "yes"}}, "Did you mean 'Cancer'"),
        ({"Cancer": {"value": "yes", "confidence": -1}}, "confidence -1"),
        ({"Cancer": {"value": "yes", "confidence": "very"}}, "found 'very'"),
    ],
)
def test_odd_evidence_is_an_error_of_one_line(do, smoking: Model, evidence: Any, message: str):
    for action in ("score", "query"):
        with pytest.raises(DissonanceError, match=message):
            do(action, model=smoking, evidence=evidence)


def test_impossible_evidence_is_said(do):
    model = pdg_model({"name": "p", "targets": ["X"], "table": [1.0, 0.0]}, X=2)
    with pytest.raises(DissonanceError, match="probability 0"):
        do("query", model=model, evidence={"X": {"value": "1"}})


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refocus", ["uniform", "partial", "hub"])
def test_a_run_ends_with_the_model_that_resolve_writes_bit_for_bit(
    do, smoking: Model, folder: Path, refocus: str, capsys
):
    out = folder / "resolved.json"
    options = ("--refocus", refocus, "--steps", "6", "--seed", "3", "--control", "survey=0.5", "--control", "study=inf")
    wanted = printed(capsys, "resolve", str(folder / "smoking.json"), "--out", str(out), *options)
    control = {"survey": 0.5, "study": "inf"}
    found = do("run", model=smoking, refocus=refocus, steps=6, seed=3, control=control)
    assert found["kind"] == "done"
    assert found["model"] == json.loads(out.read_text())
    for key in ("initial", "final", "resolution_percent", "distortion_tv", "steps", "refocus", "flow", "moved"):
        assert found[key] == wanted[key], key
    assert not found["cancelled"]


def test_frames_are_the_rows_of_the_trace_with_the_tables_of_each_step(do, smoking: Model, folder: Path):
    trace = folder / "trace.jsonl"
    command = ["resolve", str(folder / "smoking.json"), "--out", str(folder / "r.json"), "--trace", str(trace)]
    assert run([*command, "--refocus", "partial", "--steps", "4", "--quiet"]) == 0
    rows = [json.loads(line) for line in trace.read_text().splitlines()]
    found = do("run", model=smoking, refocus="partial", steps=4)
    assert [f["kind"] for f in do.events] == ["frame"] * 5
    for frame, row in zip(do.events, rows, strict=True):
        assert frame["step"] == row["step"]
        assert frame["attention"] == row["beta"]
        assert frame["control"] == row["chi"]
        scored = (row["global_lower"], row["global_upper"])
        if row["step"] == 4:  # what is shown at the end is the score of what is shown
            scored = (found["final"]["lower"], found["final"]["upper"])
        assert frame["global"] == {"value": scored[1], "lower": scored[0], "upper": scored[1]}
        assert frame["distortion"] == row["tv_theta"]
        assert frame["blame"] == row["blame"]
    assert do.events[0]["distortion_mu"] == 0.0
    assert do.events[-1]["distortion_mu"] == rows[-1]["tv_mu"] == found["distortion_tv"]
    assert all(f["distortion_mu"] > 0 for f in do.events[1:])
    assert do.events[0]["tables"] == {a["name"]: a["table"] for a in smoking["arcs"]}
    assert do.events[-1]["tables"] == {a["name"]: a["table"] for a in found["model"]["arcs"]}
    assert do.events[-1]["attention"] == {} and do.events[-1]["local"] is None


def test_the_tables_of_a_frame_are_those_of_a_run_that_ends_there(do, smoking: Model):
    do("run", model=smoking, refocus="partial", steps=4, seed=1)
    frames = list(do.events)
    for steps in (1, 3):
        shorter = do("run", model=smoking, refocus="partial", steps=steps, seed=1)
        assert frames[steps]["tables"] == {a["name"]: a["table"] for a in shorter["model"]["arcs"]}


def test_a_run_that_nobody_watches_stops(do, smoking: Model):
    do.stop_after = 2
    found = do("run", model=smoking, steps=500)
    assert found["cancelled"] and found["steps"] == 2


def test_a_run_of_gaussians_shows_the_model_of_each_step(do):
    shoes = do("open", example="shoes.json")["model"]
    found = do("run", model=shoes, steps=2)
    assert do.events[0]["model"] == shoes
    assert do.events[-1]["model"] == found["model"] != shoes
    assert found["final"]["upper"] < found["initial"]["upper"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": -1}, "steps: expected"),
        ({"steps": 10**9}, "steps: expected"),
        ({"seed": -1}, "seed: expected"),
        ({"refocus": "unifrom"}, "Did you mean 'uniform'"),
        ({"flow": "naturel"}, "Did you mean 'natural'"),
        ({"control": {"surve": 1}}, "Did you mean 'survey'"),
        ({"stepz": 3}, "unknown field `stepz`"),
    ],
)
def test_a_bad_option_of_a_run_is_an_error(do, smoking: Model, options: dict[str, Any], message: str):
    with pytest.raises(DissonanceError, match=message):
        do("run", model=smoking, **options)


def test_a_run_that_ends_in_an_outright_contradiction_is_refused_as_resolve_refuses_it(do, folder: Path, capsys):
    arcs = [{"name": n, "targets": ["A"], "table": p, "beta": "inf"} for n, p in (("p", [1, 0]), ("q", [0, 1]))]
    model = pdg_model(*arcs, A=2)
    (folder / "contradiction.json").write_text(json.dumps(model))
    command = ["resolve", str(folder / "contradiction.json"), "--out", str(folder / "r.json"), "--steps", "2"]
    assert run(command) == 1
    told = capsys.readouterr().err
    with pytest.raises(DissonanceError, match="p and q contradict each other: p gives A=1 probability 0") as refused:
        do("run", model=model, steps=2)
    assert str(refused.value) in " ".join(told.split())


def test_a_film_that_no_page_could_hold_is_refused(do, monkeypatch: pytest.MonkeyPatch, smoking: Model):
    monkeypatch.setattr(film, "MAX_NUMBERS", 1000)
    with pytest.raises(DissonanceError, match="Ask for fewer steps"):
        do("run", model=smoking, steps=100)


# -- pictures, counts, exports -----------------------------------------------------------------------------------------


def test_arcs_run_the_way_that_is_asked_for_and_keep_to_a_width(do, smoking: Model):
    def spread(**asked: Any) -> tuple[float, float]:
        places = do("layout", model=smoking, **asked)["positions"].values()
        x, y = zip(*places, strict=True)
        return max(x) - min(x), max(y) - min(y)

    across, down = spread(), spread(direction="down")
    assert across[0] > across[1] and down[0] < down[1]
    assert do("layout", model=smoking, width=390)["bounds"][2] <= 390 < do("layout", model=smoking)["bounds"][2]
    with pytest.raises(DissonanceError, match="Did you mean 'down'"):
        do("layout", model=smoking, direction="downn")


def test_the_picture_shows_every_variable_and_arc(do, smoking: Model):
    scene = do("layout", model=smoking, blame={"survey": 0.03, "study": "inf", "lab": None})
    names = {kind: {g["name"] for g in scene["groups"] if g["kind"] == kind} for kind in ("arc", "variable")}
    assert names["arc"] == {a["name"] for a in smoking["arcs"]}
    assert names["variable"] == {"Smokes", "Tar", "Cancer"} == set(scene["positions"])


def test_boxes_stand_where_they_were_put(do, smoking: Model):
    put = {"Smokes": [10, 20], "Tar": [400, -50], "Cancer": [200, 300]}
    assert do("layout", model=smoking, positions=put)["positions"] == put


def test_the_focus_of_a_step_is_drawn(do, smoking: Model):
    plain = do("layout", model=smoking)
    focused = do("layout", model=smoking, attention={"survey": 1.0}, control={"survey": 1.0})

    def kinds(scene: Any, name: str) -> set[str]:
        (group,) = (g for g in scene["groups"] if g["kind"] == "arc" and g["name"] == name)
        return {m["kind"] for m in group["marks"] if m["type"] == "path"}

    assert "control" in kinds(focused, "survey") and "control" not in kinds(plain, "survey")
    dotted = [m for g in focused["groups"] if g["name"] == "lab" for m in g["marks"] if m["type"] == "path"]
    assert all(m["dash"] for m in dotted)


@pytest.mark.parametrize(
    ("arc", "text", "table", "confidence"),
    [
        ("census", "10\t20\t30", [1 / 6, 1 / 3, 1 / 2], 60),
        ("census", "10\n20\n30\n", [1 / 6, 1 / 3, 1 / 2], 60),
        ("census", "never,former,current\n10,20,30", [1 / 6, 1 / 3, 1 / 2], 60),
        ("census", "0.5;0.3;0.2", [0.5, 0.3, 0.2], None),
        ("lab", "9 1\n1 1\n0 4", [[0.9, 0.1], [0.5, 0.5], [0, 1]], 16),
        ("lab", "\thigh\tlow\ncurrent\t4\t0\nnever\t1\t9\nformer\t1\t1", [[0.9, 0.1], [0.5, 0.5], [0, 1]], 16),
        (
            "lab",
            "Smokes,Tar,count\nnever,low,9\nnever,high,1\nformer,low,1\nformer,high,1\ncurrent,high,4\n",
            [[0.9, 0.1], [0.5, 0.5], [0, 1]],
            16,
        ),
    ],
)
def test_pasted_numbers_become_a_table_and_a_confidence(
    do, smoking: Model, arc: str, text: str, table: Any, confidence: Any
):
    found = do("counts", model=smoking, arc=arc, text=text)
    flat = [p for row in found["table"] for p in row] if isinstance(found["table"][0], list) else found["table"]
    wanted = [p for row in table for p in row] if isinstance(table[0], list) else table
    assert flat == pytest.approx(wanted)
    assert found["confidence"] == confidence
    assert found["counts"] is (confidence is not None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no numbers"),
        ("1 2", "needs 3 rows of 2 numbers"),
        ("1 2\n3 4\n5 6 7", "needs 3 rows of 2 numbers"),
        ("low,high\n1,2", "expected one row for each"),
        ("\tlow\thigh\nnever\t1\t2\nnever\t1\t2", "expected one row for each"),
        ("low,high\nnever,x,y", "expected one row|not a number|needs"),
        ("-1 2\n3 4\n5 6", "negative|below 0|-1"),
    ],
)
def test_numbers_that_do_not_fit_are_an_error(do, smoking: Model, text: str, message: str):
    with pytest.raises(DissonanceError, match=message):
        do("counts", model=smoking, arc="lab", text=text)


def test_what_numbers_mean_can_be_said(do, smoking: Model):
    with pytest.raises(DissonanceError, match="Say which they are"):
        do("counts", model=smoking, arc="census", text="50 30 20")
    counted = do("counts", model=smoking, arc="census", text="50 30 20", counts=True)
    assert counted == {"table": [0.5, 0.3, 0.2], "confidence": 100.0, "counts": True}
    shares = do("counts", model=smoking, arc="lab", text="50 50\n3 1\n0.1 0.3", counts=False)
    assert shares["table"] == [[0.5, 0.5], [0.75, 0.25], [0.25, 0.7499999999999999]]
    assert shares["confidence"] is None and not shares["counts"]


def test_rows_serve_as_well_as_text(do, smoking: Model):
    rows = [[9, 1], [1, 1], [0, 4]]
    by_text = do("counts", model=smoking, arc="lab", text="9 1\n1 1\n0 4")
    assert do("counts", model=smoking, arc="lab", rows=rows) == by_text


@pytest.mark.parametrize(
    ("example", "evidence"),
    [
        ("smoking.json", {}),
        ("smoking.json", {"Tar": {"value": "low"}}),
        ("smoking.json", {"Tar": {"value": "low", "confidence": 2.0}}),
        ("sensors.json", {}),
        ("shoes.json", {}),
    ],
)
def test_a_copied_script_runs_as_it_is_and_prints_the_same_score(do, example: str, evidence: Any, capsys):
    model = do("open", example=example)["model"]
    model["arcs"][0] |= {"control": "inf"}
    document = {"name": "it's\nimport os", "model": model, "evidence": evidence}
    text = do("export", document=document, kind="python")["text"]
    exec(compile(text, "copied", "exec"), {"__name__": "__main__"})
    score = do("score", model=model, evidence=evidence)
    result, verdict = capsys.readouterr().out.splitlines()
    assert result.startswith(f"Inconsistency({score['inconsistency']:.9g} nats")
    assert verdict == score["verdict"]


def test_a_copied_script_needs_nothing_else(do, smoking: Model, tmp_path: Path):
    text = do("export", document={"name": "smoking", "model": smoking}, kind="python")["text"]
    done = python("-c", text, cwd=tmp_path)
    assert done.stdout.startswith("Inconsistency(0.10524674 nats")


def test_exports_are_files_of_their_kind(do, smoking: Model):
    document = {"name": "a/b", "model": smoking, "positions": {"Tar": [5, 5], "gone": [0, 0]}}
    found = {k: do("export", document=document, kind=k) for k in ("svg", "png", "html", "md", "python", "json")}
    assert {k: x["filename"] for k, x in found.items()} == {
        "svg": "a-b.svg", "png": "a-b.png", "html": "a-b.html", "md": "a-b.md", "python": "a-b.py", "json": "a-b.json",
    }  # fmt: skip
    assert found["svg"]["text"].startswith("<svg")
    assert base64.b64decode(found["png"]["base64"]).startswith(b"\x89PNG")
    assert "survey disagrees most" in found["html"]["text"] and "survey disagrees most" in found["md"]["text"]
    assert json.loads(found["json"]["text"]) == smoking
    with pytest.raises(DissonanceError, match="no export named 'pdf'"):
        do("export", document=document, kind="pdf")


# -- what is too large, and what is no model ---------------------------------------------------------------------------


def test_a_table_of_too_many_cells_is_refused_before_it_is_made(do):
    model = pdg_model({"name": "p", "targets": ["X", "Y"], "table": []}, X=10**6, Y=10**6)
    for action in ("score", "layout", "query", "run"):
        with pytest.raises(DissonanceError, match=r"1,000,000,000,000 cells"):
            do(action, model=model)
    assert MAX_CELLS < 10**7


def test_a_model_whose_tree_would_be_too_large_gets_a_bracket_and_no_posteriors(do):
    names = [f"x{i}" for i in range(30)]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[:i]]
    rows = [[0.6, 0.4], [0.3, 0.7]]
    arcs = [{"name": f"{a}{b}", "sources": [a], "targets": [b], "table": rows} for a, b in pairs]
    model = pdg_model(*arcs, **dict.fromkeys(names, 2))
    found = do("score", model=model)
    assert 0 <= found["lower"] < found["upper"] and not found["converged"] and "bracket" in found["caution"]
    with pytest.raises(DissonanceError, match=r"needs the junction tree"):
        do("query", model=model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({}, "format|missing"),
        ({"format": "dissonance.pdg", "version": 1, "variables": [], "arcs": [], "more": 1}, "more"),
        ([1, 2], "expected|Expected"),
        (None, "expected|Expected"),
        (pdg_model({"name": "p", "targets": ["X"], "table": [0.5, 0.6]}, X=2), "sums to 1.1"),
        (pdg_model({"name": "p", "targets": ["X"], "table": [[0.5], 0.5]}, X=2), "table"),
    ],
)
def test_what_is_no_model_is_an_error_of_one_line(do, model: Any, message: str):
    with pytest.raises(DissonanceError, match=message) as found:
        do("score", model=model)
    assert "\n" not in str(found.value)


def test_an_unknown_action_is_an_error_with_the_nearest_name(do):
    with pytest.raises(DissonanceError, match="Did you mean 'score'"):
        do("scores")


def test_a_body_that_is_not_json_is_an_error(do, folder: Path):
    from dissonance.studio.actions import act
    from dissonance.studio.place import StudioPlace

    for body in (b"{", b"[" * 100_000, b'{"model": NaN}', b"\xff\xfe", b'{"model": 1e999}'):
        with pytest.raises(DissonanceError) as found:
            act(StudioPlace(folder), "score", body, lambda event: False)
        assert "\n" not in str(found.value)
