"""What would go wrong without a word says what it is: names that nothing has, values that nothing can be made of."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dissonance import (
    PDG,
    Arc,
    Attention,
    CapabilityError,
    Control,
    DissonanceError,
    Euclidean,
    Focus,
    FormatError,
    LinearGaussian,
    SoftmaxTable,
    Table,
    Variable,
    inconsistency,
    lir,
    load,
    save,
)
from dissonance.cpds import Data, Function
from dissonance.flows import Natural
from dissonance.refocus import Cycle, Hub
from dissonance.solvers import Newton

X = Variable("X", 2)
FIXED = PDG(Arc("p", (), X, [0.9, 0.1]), Arc("q", (), X, [0.2, 0.8]))
MOVING = FIXED.learnable()


# -- a refocus ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("focus", "said"),
    [
        (Focus(Attention.only({"p": 1.0, "Q": 1.0})), "no arc named 'Q'. Known: p, q."),
        (Focus(Attention.only({"p": 1.0}, {"qq": 1.0})), "no arc named 'qq'"),
        (Focus(Attention.only({"p": 1.0}), Control({"pp": 1.0})), "no arc named 'pp', and no parameter."),
        (Focus(Attention.only({"p": 1.0}), Control({"p.logit": 1.0})), "Did you mean 'p.logits'?"),
        (Focus(Attention.only({"p": 1.0}), context={"d.rows0": torch.zeros(1)}), "context has 'd.rows0'"),
        (Focus(Attention.only({"p": 1.0}), context={"p.logits": torch.zeros(2)}), "no arc's buffer"),  # a parameter
        (Focus(Attention.only({"p": 1.0}), context={"p": 1.0}), "context['p'] must be a tensor"),  # pyright: ignore
    ],
)
@pytest.mark.parametrize("after", [0, 2])
def test_a_focus_that_names_what_the_pdg_does_not_have_is_refused_at_its_step(focus: Focus, said: str, after: int):
    def mine(pdg: PDG, step: int, generator: np.random.Generator, trace: Any) -> Focus:
        return trace.base if step < after else focus

    with pytest.raises(DissonanceError) as caught:
        lir(MOVING, mine, steps=4)
    assert str(caught.value).startswith(f"the refocus 'mine', step {after}: ") and said in str(caught.value)


def test_a_context_for_a_buffer_of_almost_that_name_suggests_it():
    Z = Variable("Z", Euclidean(2))
    pdg = PDG(Arc("data", (), X, SoftmaxTable([0.5, 0.5])), Arc("d.x", (), Z, Data(torch.zeros(5, 2))))
    Focus(context={"d.x.rows0": torch.ones(3, 2)}).check(pdg)  # a dot in a name does no harm
    with pytest.raises(DissonanceError, match=r"Did you mean 'd\.x\.rows0'\?"):
        Focus(context={"d.x.row0": torch.zeros(3, 2)}).check(pdg)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "it returned None, not a focus: return Focus(attention, control)."),
        (
            Attention.only({"p": 1.0}),
            "it returned an Attention, not a focus: return Focus(attention, trace.base.control).",
        ),
        (Control({"p": 1.0}), "it returned a Control, not a focus"),
        (3, "it returned an int"),
    ],
)
def test_a_refocus_that_returns_no_focus_is_told_so(returned: Any, said: str):
    with pytest.raises(DissonanceError) as caught:
        lir(MOVING, lambda *_: returned, steps=1)
    assert said.replace("an int", "a int") in str(caught.value)


@pytest.mark.parametrize(
    ("refocus", "said"),
    [
        (Focus(Attention.only({"p": 1.0})), r"the same one, Cycle\(focus\)"),
        (Attention.only({"p": 1.0}), r"the same one, Cycle\(Focus\(attention, control\)\)"),
        (3, "expected a refocus, by name or as a function, found 3"),
        (Hub, r"Hub is a class of refocus procedures: make one, Hub\(\)"),
    ],
)
def test_what_is_no_refocus_is_told_what_one_is(refocus: Any, said: str):
    with pytest.raises(DissonanceError, match=said):
        lir(MOVING, refocus, steps=1)


def test_foci_that_come_back_are_looked_at_once():
    looked: list[int] = []

    class Watched(Attention):
        def check(self, pdg: PDG) -> None:
            looked.append(1)
            super().check(pdg)

    focus = Focus(Watched({"p": 1.0, "q": 1.0}), Control({"p": 1.0}))
    lir(MOVING, Cycle(focus), steps=5)
    assert len(looked) == 1


# -- arguments of lir --------------------------------------------------------------------------------------------------


def _note(step: int, traces: Any) -> None: ...


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"callbacks": _note}, r"found one by itself: callbacks=\[_note\]"),
        ({"callbacks": 3}, "callbacks is a list of functions, found 3"),
        ({"callbacks": [3]}, r"a callback is called as callback\(step, traces\), found 3"),
        ({"flow": torch.optim.Adam}, r'Adam is an optimiser of torch.*flow=Descent\("Adam", rate=\.\.\.\)'),
        ({"flow": torch.optim.SGD([torch.zeros(1)], 0.1)}, r'flow=Descent\("SGD", rate=\.\.\.\)'),
        ({"flow": Natural}, r"Natural is a class of flows: make one, Natural\(\)"),
        ({"flow": 3}, "expected a flow, or the name of one, found 3"),
        ({"solver": Newton}, r"Newton is a class of solvers: make one, Newton\(\)"),
    ],
)
def test_what_lir_cannot_use_is_refused_in_one_line(options: dict[str, Any], said: str):
    with pytest.raises(DissonanceError, match=said):
        lir(MOVING, steps=1, **options)


def test_a_class_is_no_solver_of_an_inconsistency():
    with pytest.raises(DissonanceError, match=r"make one, Newton\(\)"):
        inconsistency(FIXED, solver=Newton)  # pyright: ignore[reportArgumentType]


# -- variables and arcs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "said"),
    [
        ("yes", "its values are a list of labels, found the text 'yes': did you mean ['yes', ...]?"),
        ("no, yes", "did you mean ['no', 'yes']?"),
        ("low mid high", "did you mean ['low', 'mid', 'high']?"),
        (b"yes", "found the text b'yes'"),
        ({"yes"}, "its values have an order, and a set has none: give a list, ['yes']."),
    ],
)
def test_a_text_or_a_set_is_no_list_of_values(domain: Any, said: str):
    with pytest.raises(DissonanceError) as caught:
        Variable("A", domain)
    assert str(caught.value).startswith("variable 'A': ") and said in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Arc("x", "Age", X, [[1.0, 0.0]]),
        lambda: Arc("x", (), "Age", [1.0]),
        lambda: Arc("x", ["Age"], X, [[1.0, 0.0]]),
    ],
)
def test_a_name_where_a_variable_is_needed_says_how_to_make_one(make: Callable[[], Arc]):
    with pytest.raises(DissonanceError, match=r"arc 'x': .*found the name 'Age': make it with Variable\('Age', \["):
        make()


def test_nothing_where_variables_are_needed_is_an_empty_tuple():
    with pytest.raises(DissonanceError, match=r"arc 'x': expected a variable, found None; for none at all give \(\)"):
        Arc("x", None, X, [0.5, 0.5])  # pyright: ignore[reportArgumentType]


# -- learnable ---------------------------------------------------------------------------------------------------------


def test_plain_tables_are_made_learnable_and_lir_moves_them():
    with pytest.raises(DissonanceError, match=r"pdg\.learnable\(\)"):
        lir(FIXED, steps=1)
    pdg = FIXED.learnable()
    assert [type(a.cpd) for a in pdg] == [SoftmaxTable, SoftmaxTable]
    assert all(torch.equal(pdg[n].cpd.table(), FIXED[n].cpd.table()) for n in "pq")
    assert lir(pdg, steps=20).after.upper < 1e-7
    assert type(FIXED["p"].cpd) is Table  # which is not changed


def test_only_the_named_arcs_are_made_learnable():
    pdg = FIXED.learnable("q")
    assert type(pdg["p"].cpd) is Table and type(pdg["q"].cpd) is SoftmaxTable
    with pytest.raises(DissonanceError, match="no arc named 'r'"):
        FIXED.learnable("r")


def test_cpds_that_move_already_stay_the_same_and_those_that_never_can_are_refused_by_name():
    W, Z = Variable("W", Euclidean(1)), Variable("Z", Euclidean(1))
    pdg = PDG(
        Arc("g", (), W, LinearGaussian(None, [1.0], 2.0, learnable=False)),
        Arc("f", W, Z, Function(nn.Identity())),
        Arc("s", (), X, SoftmaxTable([0.5, 0.5])),
    )
    moving = pdg.learnable()
    assert moving["s"] is pdg["s"] and moving["f"] is pdg["f"]
    assert all(p.requires_grad for p in moving["g"].cpd.parameters())
    assert not any(p.requires_grad for p in pdg["g"].cpd.parameters())
    with pytest.raises(CapabilityError, match="a Function has no parameters that could move"):
        pdg.learnable("f")


def test_learnable_is_what_load_learnable_makes(tmp_path: Path):
    save(tmp_path / "m.json", FIXED)
    plain, learnable = load(tmp_path / "m.json")[0], load(tmp_path / "m.json", learnable=True)[0]
    assert [repr(a) for a in plain.learnable()] == [repr(a) for a in learnable]
    for a in plain.learnable():
        assert torch.equal(a.log_table(), learnable[a.name].log_table())


def test_frames_and_data_are_read_learnable():
    pandas = pytest.importorskip("pandas")
    from dissonance.io import fitted, from_pandas, to_pandas

    assert type(from_pandas("p", to_pandas(FIXED["p"]), learnable=True).cpd) is SoftmaxTable
    data = pandas.DataFrame({"X": [0, 1, 1]})
    assert type(fitted("p", data, (), X, learnable=True).cpd) is SoftmaxTable
    assert type(fitted("p", data, (), X).cpd) is Table


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["m.svg", "m.txt", "m.jsn", "m.svg.gz"])
def test_a_model_is_not_saved_under_the_suffix_of_something_else(tmp_path: Path, name: str):
    with pytest.raises(
        FormatError, match=r"is the suffix of no format of models. Known: \.json \.bif .*\.uai"
    ) as error:
        save(tmp_path / name, FIXED)
    assert ("dissonance draw" in str(error.value)) == (".svg" in name) and list(tmp_path.iterdir()) == []
    save(tmp_path / name, FIXED, format="json")
    assert len(load(tmp_path / name)[0]) == 2


@pytest.mark.parametrize("name", ["m", "m.gz", ".hidden"])
def test_a_name_without_a_suffix_is_json(tmp_path: Path, name: str):
    save(tmp_path / name, FIXED)
    assert len(load(tmp_path / name)[0]) == 2
