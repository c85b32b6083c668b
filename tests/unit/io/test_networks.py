"""BIF, XMLBIF and UAI: what they say is read, what is read is written again bit for bit, the rest is refused."""

from __future__ import annotations

import gzip
import io
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from networks import (
    BIF,
    MARKOV,
    NETWORKS,
    TEXTS,
    TUB,
    UAI,
    XMLBIF,
    XRAY,
    assert_same,
    bayesian_networks,
    factor_graphs,
    needs_networks,
    tables,
)

from dissonance.arc import Arc
from dissonance.cpds import SoftmaxTable
from dissonance.errors import FormatError
from dissonance.focus import Attention, Control, Focus
from dissonance.inconsistency import inconsistency
from dissonance.io import FORMATS, bif, load, load_evidence, save, save_evidence, uai, xmlbif
from dissonance.pdg import PDG
from dissonance.variables import Variable

A, B = Variable("A", 2), Variable("B", ["low", "high"])
PAIR = PDG(Arc("A", (), A, [0.25, 0.75]), Arc("B", A, B, [[0.5, 0.5], [0.1, 0.9]]))


def read(text: str) -> tuple[PDG, Focus]:
    return load(io.BytesIO(text.encode()))


# -- reading


def test_a_bif_file_is_read_with_comments_quotes_defaults_and_properties():
    pdg, focus = read(BIF)
    assert [v.name for v in pdg.variables] == ["Asia", "Tub", "X ray"]
    assert pdg.variable("X ray").finite.labels == ("<5", "5-12", "12 or more")
    assert [str(a) for a in pdg] == [
        "arc 'Asia' (-> Asia)",
        "arc 'Tub' (Asia -> Tub)",
        "arc 'X ray' (Tub, Asia -> X ray)",
    ]
    assert tables(pdg)["Tub"].tolist() == TUB
    assert tables(pdg)["X ray"].tolist() == XRAY
    assert set(focus.attention.beta.values()) == set(focus.attention.alpha.values()) == {1.0}
    assert focus.attention.gamma == 0 and not focus.control.chi


def test_the_table_of_a_conditional_in_bif_has_its_child_slowest():
    text = BIF.split("probability")[0] + (
        "probability ( Asia ) { table 0.01, 0.99; } probability ( Tub | Asia ) { table 0.05 0.01 0.95 0.99; }"
        'probability ( "X ray" ) { table 1 0 0; }'
    )
    assert tables(read(text)[0])["Tub"].tolist() == TUB


def test_an_xmlbif_file_is_read():
    pdg, _ = read(XMLBIF)
    assert tables(pdg)["Tub"].tolist() == TUB
    assert tables(pdg)["X < ray"].tolist() == XRAY


def test_a_uai_network_is_read_with_its_last_variable_fastest():
    pdg, focus = read(UAI)
    assert [str(a) for a in pdg] == ["arc 'x0' (-> x0)", "arc 'x1' (x0 -> x1)", "arc 'x2' (x1, x0 -> x2)"]
    assert tables(pdg)["x1"].tolist() == TUB
    assert tables(pdg)["x2"].tolist() == XRAY
    assert focus.attention.gamma == 0


def test_the_best_compromise_of_a_markov_network_is_its_distribution():
    pdg, focus = read(MARKOV)
    phi = np.einsum("ab,bc->abc", [[1.0, 7.0], [3.0, 0.0]], [[1.0, 2.0, 3.0], [0.5, 0.25, 4.0]])
    result = inconsistency(pdg, focus.attention)
    np.testing.assert_allclose(result.mu.marginal("x0", "x1", "x2").numpy(), phi / phi.sum(), atol=1e-7)
    log_z = sum(float(a.cpd.log_normalizer) for a in pdg) - math.log(phi.sum())
    assert result.lower - 1e-12 <= log_z <= result.upper + 1e-12


@pytest.mark.parametrize("form", TEXTS)
def test_a_format_is_known_by_its_content_and_by_its_suffix(tmp_path: Path, form: str):
    path = tmp_path / f"m.{form}.gz"
    path.write_bytes(gzip.compress(TEXTS[form].encode()))
    assert_same(load(path)[0], read(TEXTS[form])[0])
    assert_same(load(path, format=path.suffixes[-2][1:])[0], read(TEXTS[form])[0])


@pytest.mark.parametrize("form", TEXTS)
def test_learnable_networks_have_parameters(form: str):
    pdg, _ = load(io.BytesIO(TEXTS[form].encode()), learnable=True)
    assert all(isinstance(a.cpd, SoftmaxTable) for a in pdg)
    plain = tables(read(TEXTS[form])[0])
    assert all(np.array_equal(p, plain[name]) for name, p in tables(pdg).items())


def test_rows_that_sum_to_one_within_a_millionth_are_renormalised_and_zeros_kept():
    text = BIF.replace("0.01, 0.99; }", "0.0, 0.999999; }").replace("(no) 0.01, 0.99", "(no) 0.333333, 0.666666")
    found = tables(read(text)[0])
    assert found["Asia"].tolist() == [0.0, 1.0]
    np.testing.assert_allclose(found["Tub"][1], [1 / 3, 2 / 3], rtol=1e-15)


def test_a_bayesian_network_is_consistent():
    for text in (BIF, XMLBIF, UAI):
        pdg, focus = read(text)
        assert inconsistency(pdg, focus.attention).upper <= 1e-7


# -- writing


@settings(max_examples=150)
@given(bayesian_networks())
def test_bif_and_xmlbif_lose_nothing_of_a_bayesian_network(pdg: PDG):
    focus = Focus(Attention.uniform(pdg))
    for form in (bif, xmlbif):
        again, seen = form.from_bytes(form.to_bytes(pdg, focus), False)
        assert_same(pdg, again)
        assert seen.attention == focus.attention
        assert form.to_bytes(again, seen) == form.to_bytes(pdg, focus)


@settings(max_examples=100)
@given(bayesian_networks())
def test_uai_keeps_every_number_of_a_bayesian_network(pdg: PDG):
    again, focus = uai.from_bytes(uai.to_bytes(pdg, Focus(Attention.uniform(pdg))), False)
    for a, b in zip(pdg, again, strict=True):
        assert [v.size for v in a.scope] == [v.size for v in b.scope]
        assert np.array_equal(a.cpd.table(), b.cpd.table())
    assert_same(again, uai.from_bytes(uai.to_bytes(again, focus), False)[0])


@settings(max_examples=100)
@given(factor_graphs())
def test_uai_loses_nothing_of_a_factor_graph(case: tuple[PDG, Focus]):
    pdg, focus = case
    again, seen = uai.from_bytes(uai.to_bytes(pdg, focus), False)
    assert_same(pdg, again)
    assert seen.attention == focus.attention
    for a, b in zip(pdg, again, strict=True):
        assert np.array_equal(a.cpd.phi, b.cpd.phi)
        assert a.cpd.log_normalizer == b.cpd.log_normalizer


@settings(max_examples=50)
@given(bayesian_networks())
def test_a_network_goes_through_all_formats_and_comes_back(tmp_path_factory: pytest.TempPathFactory, pdg: PDG):
    folder = tmp_path_factory.mktemp("through")
    now, focus = pdg, Focus(Attention.uniform(pdg))
    for form in ("bif", "json", "xmlbif", "json.gz", "bif.gz", "xmlbif.gz"):
        save(folder / f"m.{form}", now, focus)
        now, focus = load(folder / f"m.{form}")
    assert_same(pdg, now)


def test_a_markov_network_survives_as_json(tmp_path: Path):
    pdg, focus = read(MARKOV)
    save(tmp_path / "m.json", pdg, focus)
    again, seen = load(tmp_path / "m.json")
    assert_same(pdg, again)
    assert seen.attention == focus.attention


UNWRITABLE = {
    "two targets": (PDG(Arc("p", (), (A, B), np.full((2, 2), 0.25))), None, "arc 'p' (-> A, B) has 2 targets"),
    "a variable twice": (
        PAIR + Arc("q", (), B, [0.5, 0.5]),
        None,
        "arc 'B' (A -> B) and arc 'q' (-> B) are both about B",
    ),
    "a variable never": (PAIR.without("A"), None, "no arc leads to variable 'A'"),
    "a circle": (PDG(Arc("A", B, A, np.full((2, 2), 0.5)), Arc("B", A, B, np.full((2, 2), 0.5))), None, "circle, "),
    "a weight": (
        PAIR,
        Focus(Attention.only({"A": 1.0, "B": 2.0}, {"A": 1.0, "B": 1.0})),
        "arc 'B' (A -> B) has beta 2",
    ),
    "a gamma": (PAIR, Focus(Attention.uniform(PAIR, gamma=0.5)), "gamma is 0.5"),
    "a control": (PAIR, Focus(Attention.uniform(PAIR), Control({"A": 1.0})), "arc 'A' (-> A) has a control"),
}


@pytest.mark.parametrize("form", ["bif", "xmlbif", "uai"])
@pytest.mark.parametrize(("pdg", "focus", "message"), UNWRITABLE.values(), ids=UNWRITABLE)
def test_what_is_not_a_bayesian_network_is_not_written(
    tmp_path: Path, form: str, pdg: PDG, focus: Focus | None, message: str
):
    if form == "uai" and focus is None and not any(a.sources for a in pdg):
        pytest.skip("a factor graph")
    with pytest.raises(FormatError) as refused:
        save(tmp_path / f"m.{form}", pdg, focus)
    assert message in str(refused.value) and "use .json" in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_names_that_a_format_cannot_hold_are_refused(tmp_path: Path):
    for form, name in (("bif", 'a"b'), ("bif", "a\nb"), ("xmlbif", " a"), ("xmlbif", "a\x01b")):
        with pytest.raises(FormatError, match=r"cannot hold.*Use \.json"):
            save(tmp_path / f"m.{form}", PDG(Arc("p", (), Variable(name, 2), [0.5, 0.5])))


def test_a_factor_graph_with_sources_is_not_written_as_uai(tmp_path: Path):
    with pytest.raises(FormatError, match=r"arc 'B' \(A -> B\) has sources"):
        save(tmp_path / "m.uai", PAIR, Focus(Attention.uniform(PAIR, gamma=1.0)))


def test_a_replicate_is_written_as_the_authors_have_it(tmp_path: Path):
    focus = Focus(Attention.only({"A": 2.0, "B": 1.0}, {"A": 0.5, "B": 1.0}))
    named = PDG(*PAIR.arcs, variables=PAIR.variables)
    save(tmp_path / "m.json", named, focus, format="replicate")
    again, seen = load(tmp_path / "m.json")
    assert tables(again).keys() == tables(named).keys()
    assert all(np.array_equal(p, tables(named)[name]) for name, p in tables(again).items())
    assert seen.attention == focus.attention
    with pytest.raises(FormatError, match="gamma is 1"):
        save(tmp_path / "m.json", named, Focus(Attention.uniform(named, gamma=1.0)), format="replicate")


def test_every_format_that_is_written_can_be_read(tmp_path: Path):
    for form in FORMATS:
        path = tmp_path / f"m.{form}"
        pdg = PDG(PAIR.arcs[1]) if FORMATS[form].named else PAIR  # a table alone
        save(path, pdg, format=form)
        again = tables(load(path, format=form)[0])
        assert all(np.array_equal(p, q) for p, q in zip(again.values(), tables(pdg).values(), strict=True))


# -- evidence


def test_evidence_is_written_and_read(tmp_path: Path):
    path = tmp_path / "m.uai.evid"
    save_evidence(path, {"B": "high", "A": 0}, PAIR)
    assert path.read_text() == "2 1 1 0 0\n"
    assert load_evidence(path, PAIR) == {"B": "high", "A": 0}
    path.write_text("1\n2 1 1 0 0\n")
    assert load_evidence(path, PAIR) == {"B": "high", "A": 0}
    path.write_text("0")
    assert load_evidence(path, PAIR) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "2 0 0": ":1: the file ends where an observed variable should stand",
        "1 5 0": ":1: an observed variable is 5; it must be less than 2",
        "1 0 9": ":1: the value of variable 'A' is 9; it must be less than 2",
        "2 0 0\n0 1": ":2: variable 'A' is observed twice",
        "2 0 0 1 1 1": ":1: did not understand '1' after the last observation",
        "2 a b": ":1: expected an observed variable, a whole number, found 'a'",
    }.items(),
)
def test_evidence_that_is_not_understood_is_refused(tmp_path: Path, text: str, message: str):
    path = tmp_path / "m.uai.evid"
    path.write_text(text)
    with pytest.raises(FormatError) as refused:
        load_evidence(path, PAIR)
    assert message in str(refused.value)


def test_evidence_is_not_taken_for_a_model(tmp_path: Path):
    path = tmp_path / "m.uai.evid"
    path.write_text("0")
    with pytest.raises(FormatError, match="is evidence, not a model"):
        load(path)


# -- the published networks


@needs_networks
@pytest.mark.parametrize("name", NETWORKS)
def test_every_published_network_is_read_and_written_again_bit_for_bit(name: str):
    pdg, focus = load(NETWORKS[name])
    if sum(a.cpd.table().numel() for a in pdg) < 25_000:
        for form in (bif, xmlbif):
            assert_same(pdg, form.from_bytes(form.to_bytes(pdg, focus), False)[0])
        again = uai.from_bytes(uai.to_bytes(pdg, focus), False)[0]
        assert all(np.array_equal(a.cpd.table(), b.cpd.table()) for a, b in zip(pdg, again, strict=True))


# -- pyAgrum


def apart(pdg: PDG, path: Path) -> float:
    """How far our tables are from what pyAgrum reads in a file."""
    gum = pytest.importorskip("pyagrum")
    theirs = gum.loadBN(str(path))
    worst = 0.0
    for a in pdg:
        cpt = theirs.cpt(a.targets[0].name)
        order = list(reversed(cpt.names))
        table = cpt.toarray().transpose([order.index(v.name) for v in a.scope])
        for v in a.scope:
            assert list(theirs.variable(v.name).labels()) == [str(x) for x in v.finite.labels]
        worst = max(worst, float(np.abs(table - a.cpd.table().numpy()).max()))
    return worst


SINGLE = 1e-7
"""pyAgrum reads BIF in single precision."""


def random_network(seed: int) -> PDG:
    """A network with names that every program can read."""
    rng = np.random.default_rng(seed)
    variables = [Variable(f"v{i}", [f"s{j}" for j in range(int(rng.integers(2, 5)))]) for i in range(8)]
    arcs = []
    for i, v in enumerate(variables):
        parents = [variables[j] for j in rng.permutation(i)[: int(rng.integers(0, 4))]]
        table = rng.dirichlet(np.ones(v.size), int(np.prod([u.size for u in parents])))
        arcs.append(Arc(v.name, parents, v, table.reshape([u.size for u in (*parents, v)])))
    return PDG(*arcs, variables=variables)


@pytest.mark.parametrize("seed", range(5))
def test_pyagrum_reads_the_same_numbers_and_writes_what_we_read(tmp_path: Path, seed: int):
    gum = pytest.importorskip("pyagrum")
    pdg = random_network(seed)
    for form, tolerance in (("bif", SINGLE), ("bifxml", 0.0)):
        save(tmp_path / f"ours.{form}", pdg)
        assert apart(pdg, tmp_path / f"ours.{form}") <= tolerance
    theirs = tmp_path / "theirs.bif"
    gum.saveBN(gum.loadBN(str(tmp_path / "ours.bifxml")), str(theirs))
    assert apart(load(theirs)[0], theirs) <= SINGLE


@needs_networks
@pytest.mark.parametrize("name", ["asia", "cancer", "survey", "sachs", "alarm", "insurance", "hepar2"])
def test_pyagrum_reads_the_same_numbers_in_published_networks(tmp_path: Path, name: str):
    if name not in NETWORKS:
        pytest.skip("not in this version of pgmpy")
    path = tmp_path / f"{name}.bif"
    path.write_bytes(gzip.decompress(NETWORKS[name].read_bytes()))
    assert apart(load(path)[0], path) <= 1e-6
