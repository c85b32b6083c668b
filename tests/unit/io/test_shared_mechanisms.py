"""A mechanism that several files state counts once: its arcs share alpha = 1, unless a file writes an alpha."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dissonance import PDG, Arc, Attention, Variable, inconsistency
from dissonance.cli.app import run
from dissonance.cpds import Factor
from dissonance.focus import Focus
from dissonance.io import load, load_sources, save

NO_YES = ["no", "yes"]
A, T, S, L, B, E, X, D = (
    Variable(n, NO_YES) for n in ("asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp")
)


def given(*yes: float) -> list[list[float]]:
    """Rows of p(yes) as a table."""
    return [[1 - p, p] for p in yes]


ASIA = PDG(
    Arc("asia", (), A, [0.99, 0.01]),
    Arc("tub", A, T, given(0.01, 0.05)),
    Arc("smoke", (), S, [0.5, 0.5]),
    Arc("lung", S, L, given(0.01, 0.1)),
    Arc("bronc", S, B, given(0.3, 0.6)),
    Arc("either", (L, T), E, [given(0, 1), given(1, 1)]),
    Arc("xray", E, X, given(0.05, 0.98)),
    Arc("dysp", (B, E), D, [given(0.1, 0.7), given(0.8, 0.9)]),
)


@pytest.fixture
def record(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    def said(*args: object) -> dict[str, Any]:
        assert run([*map(str, args), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return said


def alphas(*paths: Path) -> dict[str, float]:
    return dict(load_sources(paths).focus.attention.alpha)


def written(path: Path, *arcs: dict[str, Any], size: int = 2) -> Path:
    """A file of arcs as a person writes it."""
    names = sorted({n for a in arcs for n in (*a.get("sources", ()), *a["targets"])})
    variables = [{"name": n, "size": size} for n in names]
    path.write_text(json.dumps({"format": "dissonance.pdg", "version": 1, "variables": variables, "arcs": arcs}))
    return path


def says(name: str, *p: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "targets": ["X"], "table": [*p], **more}


@pytest.mark.parametrize("suffix", ["bif", "json", "xmlbif", "uai"])
@pytest.mark.parametrize("count", [2, 3])
def test_a_network_beside_copies_of_it_says_what_it_says_alone(
    suffix: str, count: int, tmp_path: Path, record: Callable[..., dict[str, Any]]
):
    paths = [tmp_path / f"asia{k}.{suffix}" for k in range(count)]
    for path in paths:
        save(path, ASIA)
    names = [v.name for v in load(paths[0])[0].variables]
    asked = ["--given", f"{names[6]}={load(paths[0])[0].variables[6].finite.labels[1]}", "--of", names[4]]
    alone, together = (record("query", *some, *asked)["marginals"][names[4]] for some in (paths[:1], paths))
    assert [*alone.values()][1] == pytest.approx(0.5063, abs=1e-4)
    assert [*together.values()] == pytest.approx([*alone.values()], abs=1e-5)
    assert set(alphas(*paths).values()) == {1 / count}


def test_arcs_of_one_file_count_each_and_those_of_n_files_one_nth(tmp_path: Path):
    one = written(tmp_path / "one.json", says("p", 0.9, 0.1), says("q", 0.5, 0.5))
    two = written(tmp_path / "two.json", says("r", 0.2, 0.8), {**says("s", 0.3, 0.7), "targets": ["Y"]})
    assert alphas(one) == {"p": 1, "q": 1}
    assert alphas(one, two) == {"p": 0.5, "q": 0.5, "r": 0.5, "s": 1}
    three = written(tmp_path / "three.json", says("t", 0.4, 0.6))
    assert alphas(one, two, three) == pytest.approx({"p": 1 / 3, "q": 1 / 3, "r": 1 / 3, "s": 1, "t": 1 / 3})


def test_a_mechanism_is_its_targets_given_its_sources_in_any_order(tmp_path: Path):
    U, V, W = (Variable(n, 2) for n in "UVW")
    flat, wide = [[[0.5, 0.5]] * 2] * 2, [[[0.25] * 2] * 2] * 2
    save(tmp_path / "one.json", PDG(Arc("p", (U, V), W, flat), Arc("q", U, (V, W), wide)))
    save(tmp_path / "two.json", PDG(Arc("r", (V, U), W, flat), Arc("s", (U, V), W, flat), Arc("t", (), W, [0.5, 0.5])))
    found = alphas(tmp_path / "one.json", tmp_path / "two.json")
    assert found == {"p": 0.5, "r": 0.5, "s": 0.5, "q": 1, "t": 1}


def test_an_alpha_that_a_file_writes_stays_be_it_one_or_another(tmp_path: Path):
    plain = written(tmp_path / "plain.json", says("p", 0.9, 0.1))
    one = written(tmp_path / "one.json", says("q", 0.5, 0.5, alpha=1))
    half = written(tmp_path / "half.json", says("r", 0.2, 0.8, alpha=0.5))
    other = written(tmp_path / "other.json", says("s", 0.2, 0.8))
    assert alphas(plain, one) == {"p": 1, "q": 1}
    assert alphas(plain, one, half, other) == {"p": 0.5, "q": 1, "r": 0.5, "s": 0.5}


def test_an_alpha_in_a_file_of_columns_stays(tmp_path: Path):
    X = Variable("X", 2)
    pdg = PDG(Arc("p", (), X, [0.9, 0.1]))
    save(tmp_path / "one.npz", pdg, Focus(Attention(alpha={"p": 0.25})))
    save(tmp_path / "two.npz", pdg)
    assert alphas(tmp_path / "one.npz", tmp_path / "two.npz") == {"one/p": 0.25, "two/p": 1}


def test_a_factor_states_no_mechanism(tmp_path: Path):
    x = Variable("X", 2)
    for name, phi in (("one", [1.0, 3.0]), ("two", [2.0, 1.0])):
        save(tmp_path / f"{name}.uai", PDG(Arc("phi", (), x, Factor(phi))), Focus(Attention(gamma=1.0)))
    sources = load_sources([tmp_path / "one.uai", tmp_path / "two.uai"])
    assert set(sources.focus.attention.alpha.values()) == {1.0}
    mu = inconsistency(sources.pdg, sources.focus.attention).mu
    assert mu.marginal("x0").tolist() == pytest.approx([2 / 5, 3 / 5], abs=1e-6)  # the product of the factors


def test_two_surveys_of_one_question_cost_the_same_at_every_gamma(
    tmp_path: Path, record: Callable[..., dict[str, Any]]
):
    for name, p in (("one", 0.2), ("two", 0.6)):
        (tmp_path / f"{name}.csv").write_text(f"X,p\nno,{1 - p}\nyes,{p}\n")
    paths = [tmp_path / "one.csv", tmp_path / "two.csv"]
    expected = -2 * math.log(math.sqrt(0.8 * 0.4) + math.sqrt(0.2 * 0.6))  # -H(X) + (1/2 + 1/2) H(X) = 0
    for gamma in (0, 0.3, 1):
        found = record("score", *paths, "--gamma", gamma)
        assert found["lower"] - 1e-7 <= expected <= found["upper"] + 1e-7


def test_a_source_that_is_left_out_shares_nothing(tmp_path: Path, record: Callable[..., dict[str, Any]]):
    paths = [tmp_path / f"asia{k}.bif" for k in range(3)]
    for path in paths:
        save(path, ASIA)
    some, less = (record("score", *p, "--gamma", "0.5") for p in (paths[:2], paths))
    without = record("score", *paths, "--gamma", "0.5", "--without", "asia2")
    assert without["upper"] == pytest.approx(some["upper"], abs=1e-7)
    assert less["upper"] == pytest.approx(some["upper"], abs=1e-7)  # one mechanism each, however many state it


def test_what_resolve_writes_scores_as_it_says(tmp_path: Path, record: Callable[..., dict[str, Any]]):
    other = ASIA.replace(Arc("smoke", (), S, [0.7, 0.3]))
    paths = [tmp_path / "one.bif", tmp_path / "two.bif"]
    for path, pdg in zip(paths, (ASIA, other), strict=True):
        save(path, pdg)
    out = tmp_path / "r.json"
    whole = record("resolve", *paths, "--out", out, "--steps", "1", "--move", "two/smoke")
    assert set(load(out)[1].attention.alpha.values()) == {0.5}
    assert record("score", out)["upper"] == pytest.approx(whole["final"]["upper"], abs=1e-9)
    record("resolve", *paths, "--out", f"{tmp_path / 'folder'}/", "--steps", "1", "--move", "two/smoke")
    assert set(load(tmp_path / "folder" / "two.bif")[1].attention.alpha.values()) == {1.0}
