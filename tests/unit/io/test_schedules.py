"""Foci and schedules in files: round trips, what is refused, and EM by `dissonance resolve --schedule`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dissonance import DissonanceError, FormatError, inconsistency, lir, load, save
from dissonance.cli.app import run
from dissonance.focus import Schedules
from dissonance.io import load_sources
from dissonance.refocus import Cycle

EXAMPLES = Path(__file__).parents[3] / "examples"
EXAMPLE = EXAMPLES / "latent-class.json"


Tables = list[np.ndarray]


def em(d: np.ndarray, prior: np.ndarray, tables: Tables, iterations: int) -> tuple[np.ndarray, Tables]:
    """Textbook EM of a latent class and three signs of it; d (2, 2, 2) is how often they occur together."""
    for _ in range(iterations):
        joint = np.einsum("z,za,zb,zc->abcz", prior, *tables)
        q = d[..., None] * joint / joint.sum(-1, keepdims=True)
        prior = q.sum((0, 1, 2))
        sides = [q.sum((1, 2)), q.sum((0, 2)), q.sum((0, 1))]
        tables = [(s / s.sum(0)).T for s in sides]
    return prior, tables


def test_a_schedule_of_a_file_is_em_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pdg, focus = load(EXAMPLE)
    out = tmp_path / "out.json"
    assert run(["resolve", str(EXAMPLE), "--schedule", "em", "--steps", "20", "--out", str(out), "--json"]) == 0
    found, _ = load(out)
    names = ["fever", "cough", "rash"]
    tables = [pdg[n].cpd.table().detach().numpy() for n in names]
    prior, tables = em(pdg["data"].cpd.table().numpy(), pdg["prior"].cpd.table().detach().numpy(), tables, 10)
    np.testing.assert_allclose(found["prior"].cpd.table().detach(), prior, atol=1e-7)
    for n, table in zip(names, tables, strict=True):
        np.testing.assert_allclose(found[n].cpd.table().detach(), table, atol=1e-7)
    assert json.loads(capsys.readouterr().out)["refocus"] == "em"
    assert load(out)[1] == focus  # the file that is written has the foci of the one that was read
    again = lir(pdg, Cycle(*focus.schedules["em"]), steps=20, attention=focus.attention)
    np.testing.assert_allclose(again.pdg["rash"].cpd.table().detach(), tables[2], atol=1e-7)


def test_files_with_foci_come_back_as_they_were(tmp_path: Path):
    pdg, focus = load(EXAMPLE)
    save(tmp_path / "again.json", pdg, focus)
    assert (tmp_path / "again.json").read_bytes() == EXAMPLE.read_bytes()
    assert list(focus.schedules.foci) == ["E-step", "M-step"] and focus.schedules.orders == {"em": ("E-step", "M-step")}
    assert inconsistency(pdg, focus.attention).upper == pytest.approx(0.5443907, abs=1e-6)


def resolved(name: str, schedule: str, steps: int, folder: Path) -> dict[str, np.ndarray]:
    """The tables that `dissonance resolve` leaves of an example."""
    out = folder / "out.json"
    asked = ["resolve", str(EXAMPLES / name), "--schedule", schedule, "--steps", str(steps), "--out", str(out)]
    assert run([*asked, "--json"]) == 0
    return {a.name: a.log_table().detach().exp().numpy() for a in load(out)[0].arcs}


@pytest.mark.parametrize("name", ["messages.json", "gan.json", "adversary.json"])
def test_every_example_with_foci_comes_back_as_it_was_and_is_drawn(name: str, tmp_path: Path):
    pdg, focus = load(EXAMPLES / name)
    save(tmp_path / name, pdg, focus)
    assert (tmp_path / name).read_bytes() == (EXAMPLES / name).read_bytes()
    assert run(["draw", str(EXAMPLES / name), str(tmp_path / "drawn.svg")]) == 0
    drawn = (tmp_path / "drawn.svg").read_text()
    assert all(n.replace(">", "&gt;") in drawn for n in focus.schedules.foci)  # the legend names every focus
    assert "controlled" in drawn


def test_belief_propagation_in_a_file_finds_the_marginals_of_a_tree(tmp_path: Path):
    rain, wets, slips = np.array([0.7, 0.3]), np.array([[9.0, 1.0], [1.0, 4.0]]), np.array([[5.0, 1.0], [2.0, 3.0]])
    joint = np.einsum("a,ab,bc->abc", rain, wets, slips)
    joint /= joint.sum()
    found = resolved("messages.json", "flooding", 39, tmp_path)
    np.testing.assert_allclose(found["b(Rain)"], joint.sum((1, 2)), atol=1e-9)
    np.testing.assert_allclose(found["b(Wet)"], joint.sum((0, 2)), atol=1e-9)
    np.testing.assert_allclose(found["b(Slips)"], joint.sum((0, 1)), atol=1e-9)


def test_a_gan_in_a_file_learns_the_real_distribution(tmp_path: Path):
    real, fake = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    middle = (real + fake) / 2
    js = 0.5 * ((real * np.log(real / middle)).sum() + (fake * np.log(fake / middle)).sum())
    pdg, focus = load(EXAMPLES / "gan.json")
    assert inconsistency(pdg, focus.attention).upper == pytest.approx(js, abs=1e-9)
    first = resolved("gan.json", "gan", 1, tmp_path)
    np.testing.assert_allclose(first["D"][:, 0], real / (real + fake), atol=1e-9)  # the best discriminator
    last = resolved("gan.json", "gan", 40, tmp_path)
    np.testing.assert_allclose(last["G"][1], real, atol=1e-5)
    np.testing.assert_allclose(last["D"], 0.5, atol=1e-5)
    np.testing.assert_allclose(last["G"][0], fake, atol=1e-12)  # what it says of a real X is not looked at


def test_an_adversary_in_a_file_attacks_and_is_patched(tmp_path: Path):
    near = np.array([0.15, 0.6, 0.15, 0.07, 0.03])
    benign = np.array([0.95, 0.9, 0.7, 0.2, 0.05])
    for _ in range(3):
        attack = near * (1 - benign) / (near @ (1 - benign))  # argmin KL(x' || x) - E[log p(y' | x')]
        benign = 1 - (1 - benign) * np.exp(-0.5)  # dP/dt = y - P for half a unit of time
    found = resolved("adversary.json", "training", 6, tmp_path)
    np.testing.assert_allclose(found["x'"], attack, atol=1e-8)
    np.testing.assert_allclose(found["p"][:, 0], benign, atol=1e-8)


def changed(change: Any, tmp_path: Path) -> Path:
    document = json.loads(EXAMPLE.read_text())
    change(document)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d["schedules"].update(em=["E-stp"]),
            r"schedule 'em': no focus named 'E-stp'. Did you mean 'E-step'",
        ),
        (lambda d: d["schedules"].update(em=[]), r"schedule 'em': a list of foci is needed"),
        (lambda d: d["foci"]["E-step"]["beta"].update(dada=1.0), r"focus 'E-step'.*'dada'"),
        (lambda d: d["foci"]["E-step"]["control"].update(posterior="much"), r"control of 'posterior' is 'much'"),
        (lambda d: d["foci"]["E-step"].update(delta=1), "delta"),
        (lambda d: d["foci"]["E-step"].update(gamma=-1.0), r"focus 'E-step': .*gamma"),
    ],
)
def test_what_is_wrong_with_foci_is_one_line(change: Any, message: str, tmp_path: Path):
    with pytest.raises(FormatError, match=message):
        load(changed(change, tmp_path))


def test_a_key_given_twice_inside_a_focus_is_refused(tmp_path: Path):
    text = EXAMPLE.read_text().replace('"control":{"posterior":"inf"}', '"control":{"posterior":"inf","posterior":1.0}')
    (tmp_path / "twice.json").write_text(text)
    with pytest.raises(FormatError, match="twice"):
        load(tmp_path / "twice.json")


def test_formats_without_foci_refuse_to_drop_them(tmp_path: Path):
    pdg, focus = load(Path(__file__).parents[3] / "examples" / "two-experts.json")
    named = type(focus)(focus.attention, focus.control, schedules=Schedules({"all": focus}, {}))
    with pytest.raises(DissonanceError, match=r"foci"):
        save(tmp_path / "out.bif", pdg, named)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--schedule", "emm"), "no schedule named 'emm'. Did you mean 'em'"),
        (("--schedule", "em", "--refocus", "hub"), "leave --refocus out"),
        (("--schedule", "em", "--control", "prior=1"), "leave --control out"),
    ],
)
def test_a_schedule_that_is_not_there_or_not_alone_is_refused(
    options: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(["resolve", str(EXAMPLE), *options, "--out", str(tmp_path / "out.json")]) == 2
    assert message in capsys.readouterr().err


def test_foci_stay_when_gamma_is_said_and_are_left_out_of_several_files_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    _, focus = load(EXAMPLE)
    assert load_sources([EXAMPLE], gamma=0.5).focus.schedules == focus.schedules
    assert not caplog.records
    (tmp_path / "till.csv").write_text("Till,p\nno,0.4\nyes,0.6\n")
    assert not load_sources([EXAMPLE, tmp_path / "till.csv"], gamma=0).focus.schedules.foci
    assert "the foci and schedules of latent-class are left out" in caplog.text
