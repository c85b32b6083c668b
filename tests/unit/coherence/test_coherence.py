"""Books of beliefs: the certain gain against a dense reference, its bets in every world, blame, ranges, both scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissonance import PDG, Attention, Belief, Variable, coherence, inconsistency, lirs
from dissonance.errors import DissonanceError
from dissonance.forecasts import BeliefError, Coherence, Template, check, coherences, graph, read_beliefs
from reference.coherence import dense

BOOKS = {
    "and": "P(A) = 0.5\nP(B) = 0.5\nP(A and B) = 0.6",
    "conditional": "P(A) = 0.3\nP(B | A) = 0.5\nP(A & B) = 0.4 @ 3\nP(C | A & B) = 0.3\nP(A & B & C) = 0.4",
    "evidence": "P(A) = 0.8\nP(B) = 0.3\nP(A | B) = 0.2\nP(A | not B) = 0.4",
    "facts": "exactly one of A, B, C, D, E\nP(A) = 0.3\nP(B) = 0.5\nP(C) = 0.4\nP(D or E) = 0.2 @ 2",
    "a fact given something": "P(A) = 0.9\nP(B) = 0.4\nA -> B",
    "range": "P(A) in [0.3, 0.5]\nP(A) = 0.7",
    "range that holds": "P(A) in [0.3, 0.8]\nP(A) = 0.7",
    "conditional range": "P(A | B) >= 0.9 @ 2\nP(B) = 0.5\nP(A and B) <= 0.2\nP(A) = 0.3",
    "comparison": "P(A) = 0.3\nP(B) = 0.5\nP(A) >= P(B) @ 3\nP(A & B) = 0.25",
    "twice": "P(A) = 0.3\nP(A) = 0.6 @ 2\nP(not A) = 0.5",
    "wide": "P(A & B & C & D & E & F) = 0.7\nP(at least 2 of A, B, C, D, E) = 0.3\nP(any of A, B, C, D, E, F) = 0.5",
    "coherent": "P(A) = 0.5\nP(B | A) = 0.5\nP(A & B) = 0.25",
    "nested": "P((A or B) and (C or D) and (E or F)) = 0.8\nP(A) = 0.2\nP(B) = 0.3\nP((A or B) xor C xor D) = 0.4",
}


@pytest.mark.parametrize("score", ["log", "brier"])
@pytest.mark.parametrize("name", BOOKS)
def test_the_certain_gain_is_that_of_a_dense_reference_and_the_bets_win_it_in_every_world(name: str, score: str):
    beliefs = read_beliefs(BOOKS[name])
    result = coherence(beliefs, score=score)
    assert result.converged and result.upper - result.lower <= 1e-7
    assert result.upper == pytest.approx(dense(beliefs, score), abs=1e-6)
    assert result.worlds is not None
    assert all(w.gain >= result.lower for w in result.worlds)
    assert result.least <= result.upper + 1e-9
    assert sum(r.contribution for r in result.rows) == pytest.approx(result.upper, abs=1e-6)
    if score == "log":
        made = graph(beliefs)
        assert inconsistency(made.pdg, made.attention).upper == pytest.approx(result.upper, abs=1e-7)


@st.composite
def books(draw: st.DrawFn) -> list[Belief]:
    simple = st.sampled_from(["A", "B", "C", "A & B", "A or C", "B -> C", "A xor B", "at least 2 of A, B, C", "~C"])
    p = st.integers(1, 19).map(lambda x: x / 20)
    one = st.builds(Belief, simple, p, st.sampled_from(["", "", "A", "B or C", "~A"]), st.sampled_from([0.5, 1.0, 4.0]))
    return draw(st.lists(one, min_size=1, max_size=6))


@settings(max_examples=25, deadline=None)
@given(books())
def test_random_books_agree_with_the_dense_reference(beliefs: list[Belief]):
    try:
        result = coherence(beliefs)
    except BeliefError:
        return
    assert result.upper == pytest.approx(dense(beliefs), abs=1e-6)
    assert result.worlds is not None and all(w.gain >= result.lower for w in result.worlds)


def test_a_pdg_of_beliefs_has_their_inconsistency():
    lines = ["P(Rain) = 0.5", "P(Wind) = 0.5", "P(Rain and Wind) = 0.6"]
    pdg = PDG.from_beliefs(lines)
    assert inconsistency(pdg).upper == pytest.approx(coherence(lines).upper)
    assert inconsistency(pdg, Attention.uniform(pdg)).mu.marginal("Rain")[1].item() == pytest.approx(0.5337, abs=1e-4)


def test_several_values_and_what_is_left_of_them():
    open_world = coherence(["P(W=x) = 0.3", "P(W=y) = 0.4"])
    assert open_world.upper == pytest.approx(0, abs=1e-9)  # there may be others
    closed = coherence(["P(W=x) = 0.3", "P(W=y) = 0.4", "W in {x, y}"])
    given = coherence(["P(W=x) = 0.3", "P(W=y) = 0.4"], [Variable("W", ["x", "y"])])
    assert closed.lower > 0.05 and given.lower == pytest.approx(closed.lower)
    three = coherence(["P(W=x) = 0.5", "P(W=y) = 0.4", "P(W=z) = 0.3", "P(W=x | W in {x, y}) = 0.9"])
    assert three.worlds is not None and {w.values["W"] for w in three.worlds} == {"x", "y", "z", "other"}
    assert all(w.gain >= three.lower for w in three.worlds)


def test_a_hard_belief_is_kept_and_its_bets_count():
    for score in ("log", "brier"):
        result = coherence(["P(A) = 0.3 @ inf", "P(A) = 0.6", "P(A and B) = 0.5"], score=score)
        assert result.rows[0].coherent == pytest.approx(0.3, abs=1e-7)
        assert result.worlds is not None and all(w.gain >= result.lower - 1e-12 for w in result.worlds)
        assert result.least == pytest.approx(result.upper, abs=1e-6)


HARD = {
    "conditional that fits": ("P(M | V) = 0.18 @ inf\nP(V) = 0.3", 0.0, 0.0),
    "conditional alone": ("P(M | V) = 0.18 @ inf", 0.0, 0.0),
    "comparison": ("P(A) >= P(B) @ inf\nP(A) = 0.3\nP(B) = 0.6", -2 * math.log(0.18**0.5 + 0.28**0.5), 0.045),
    "condition of no chance": ("P(A | B) = 0.5 @ inf\nnot (A and B)\nP(B) = 0.3", -math.log(0.7), 0.09),
    "one by another": (
        "P(A) = 1 @ inf\nP(A | B) = 0.5 @ inf\nP(C | not B) = 0 @ inf\nP(C) = 0.2",
        -math.log(0.8),
        0.04,
    ),
    "excluded by facts": ("V\nP(V) = 0.25 @ inf", math.inf, math.inf),
    "excluded by another": ("P(A) = 0.3 @ inf\nP(A) = 0.6 @ inf", math.inf, math.inf),
    "range that is trivial": ("P(V or not V) >= 0.5 @ inf\nP(A) = 0.3\nP(A) = 0.6", None, 0.045),
    "range beside a certainty": ("P(A) = 1\nP(A) >= 0.9 @ inf\nP(A) = 0.6", -math.log(0.6), None),
    "certain": ("P(A) = 1 @ inf\nP(A) = 0.6", -math.log(0.6), 0.16),
    "chain of exclusions": (
        "not (A and B)\nP(A | B) = 0.5 @ inf\nP(B | C) = 0.2 @ inf\nP(C | D) = 0.1 @ inf\nP(D) = 0.4",
        -math.log(0.6),
        0.16,
    ),
    "all but one world": ("P(not V | U) = 0.6 @ inf\nP(V | V -> U) = 0.52 @ inf\nP(V) = 0.05", -math.log(0.05), 0.9025),
    "without confidence": ("P(A) = 0 @ 0\nP(A) = 0.3\nP(A) = 0.6", None, 0.045),
    "ruled out by another": ("P(A) = 0\nP(A or B) = 0.5\nP(A and B) = 0.3", -math.log(0.7), None),
}


@pytest.mark.parametrize("score", ["log", "brier"])
@pytest.mark.parametrize("name", HARD)
def test_hard_beliefs_hold_where_they_are_not_silent_and_their_bets_win_in_every_world(name: str, score: str):
    text, log, brier = HARD[name]
    result = coherence(text, score=score)
    known = log if score == "log" else brier
    assert result.converged and result.upper == pytest.approx(result.upper if known is None else known, abs=1e-7)
    if result.upper < math.inf:
        assert result.worlds is not None and all(w.gain >= result.lower for w in result.worlds)
        assert result.least == pytest.approx(result.upper, abs=1e-6)
        hard = [(r.belief.low, r) for r in result.rows if r.belief.beta == math.inf and 0 < r.belief.low < 1]
        assert all(p * r.if_true + (1 - p) * r.if_false <= 1e-9 for p, r in hard)


FORCED = {
    "log": """P(not (V5 and V1)) = 0.15 @ inf
        P((V3 <-> V5) <-> (V1 -> V3) | V1) in [0.65, 1] @ 33.0788
        P(V0 xor (not V1)) = 0.2 @ 53.7482
        P(V1 | not V5) in [0, 0.95] @ 0.396647
        P(V2 | V1 -> V3) = 0.55 @ inf
        P(V2 xor V1 | not V3) = 0.35 @ 0.413715
        P(V4 or (at least 2 of (V0, V4))) = 0.6429316686959893 @ 57.4278
        P(V3 <-> (V2 or V0)) = 0.45 @ 43.4814
        P(V5 xor V1 | V0) = 0.55 @ inf
        P(V3 <-> (V6 xor V3) | exactly 1 of (V3 <-> (V6 xor V3), V2)) = 0.5624648202257789 @ 0.0625672
        P(exactly 0 of (V4, V1) | V2 -> V5) in [0.15, 0.4116285394495787] @ inf""",
    "brier": """V0 -> (V1 -> V0)
        P((not V0) <-> (not V1) | not V1) = 0.05 @ 12.0469
        P(not V1 | V0) = 0.6 @ inf
        P(V1 | V1 -> V0) = 0.5201059118361541 @ inf
        P(at most 1 of (V1 xor V1, not V1) | V0 and V0) = 0.55 @ 1.16275
        P(V1) = 0.05 @ 36.2842""",
}


@pytest.mark.parametrize("score", FORCED)
def test_a_mu_is_found_where_hard_beliefs_leave_no_mass_at_cells_without_zeros(score: str):
    result = coherence(FORCED[score], score=score)
    assert result.converged and result.upper < math.inf


def test_bets_that_would_win_less_than_was_proved_lower_what_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Template, "_gains", lambda self, s, a, y: np.full(a.log_p.shape, 0.001))  # pyright: ignore
    result = coherence("P(A) = 0.3\nP(A) = 0.6")
    assert result.lower == pytest.approx(0.002) and result.least >= result.lower
    assert result.upper > 0.04 and not result.converged


def test_what_is_certain_and_impossible_at_once_is_an_infinite_gain():
    result = coherence(["P(A) = 1", "P(A) = 0"])
    assert (result.lower, result.upper, result.worlds) == (math.inf, math.inf, None)
    assert coherence(["P(A) = 1", "P(A) = 0"], score="brier").upper == pytest.approx(0.5)
    assert coherence(["P(A) = 0", "P(A or B) = 0.5"]).upper == pytest.approx(0, abs=1e-9)


def test_a_belief_given_what_is_less_likely_costs_less_and_none_without_confidence():
    assert coherence(["P(A) = 0.3", "P(A) = 0.6 @ 0"]).upper == pytest.approx(0, abs=1e-12)
    often, seldom = (coherence([f"P(B) = {p}", "P(A | B) = 0.1", "P(A | B) = 0.9"]).upper for p in (0.9, 0.1))
    assert often > 3 * seldom > 0


def test_the_blame_of_two_experts_is_known_in_closed_form():
    result = coherence(["P(A) = 0.1", "P(A) = 0.8"])
    assert result.upper == pytest.approx(-2 * math.log(math.sqrt(0.08) + math.sqrt(0.18)))
    assert {round(r.coherent, 6) for r in result.rows} == {0.4}
    assert result.rows[0].stake > 0 > result.rows[1].stake


@pytest.mark.parametrize(
    ("text", "place", "complaint"),
    [
        ("P(B) = 0.2\nA\nnot A", 2, "not A contradicts the facts before it"),
        ("A and not A", 0, "can never hold"),
        ("P(A) = 0.2\nP(A | B and not B) = 0.3", 1, "is about nothing: B and not B can never hold"),
        ("P(A | B) = 0.2\nnot B", 0, "is about nothing"),
        ("W in {x, y}\nP(W=z) = 0.3", 1, "no value W=z. Known: x, y"),
        ("P(W=x) = 0.3\nP(W=y) = 0.2\nP(W) = 0.3", 0, "no value W=x"),
    ],
)
def test_beliefs_that_are_about_nothing_say_which(text: str, place: int, complaint: str):
    with pytest.raises(BeliefError, match=complaint) as error:
        coherence(text)
    assert error.value.belief == place


def test_books_that_differ_in_numbers_and_names_are_solved_together_and_keep_their_names():
    pairs = [("Rain", "Wind", 0.6), ("Sun", "Heat", 0.7), ("X", "Y", 0.2)]
    texts = [f"P({a}) = 0.5\nP({b}) = 0.5\nP({a} and {b}) = {p}\nnot {a} or {b} or {a}" for a, b, p in pairs]
    seen: list[tuple[int, int]] = []
    results = coherences(texts, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(3, 3)] and len({id(r.template) for r in results}) == 1
    for text, result, (a, b, _) in zip(texts, results, pairs, strict=True):
        assert result.upper == pytest.approx(coherence(text).upper, abs=1e-10)
        assert result.worlds is not None and set(result.worlds[0].values) == {a, b}
        assert result.rows[0].belief.event == a


def test_outcomes_of_composite_events_follow_and_the_bets_have_won_at_least_what_was_proved():
    beliefs = [
        Belief("A", 0.5, outcome=True),
        Belief("B", 0.5, outcome=False),
        Belief("A or B", 0.3, outcome=False),  # wrong: A happened
        Belief("B", 0.9, given="not A"),
    ]
    result = coherence(beliefs)
    assert result.outcomes.tolist() == [1, 0, 1, -1]
    assert result.realised >= result.lower > 0
    assert result.before.count == 3 and result.after.log < result.before.log
    assert math.isnan(coherence(["P(A) = 0.5", "P(A) = 0.6"]).realised)


def test_strings_and_numbers_are_checked():
    result = check(["A", "B | A", "A and B"], [0.5, 0.5, 0.4], facts=["A or B"])
    assert isinstance(result, Coherence) and result.lower > 0
    with pytest.raises(ValueError, match="zip"):
        check(["A"], [0.5, 0.4])


def test_frames_go_in_and_out():
    pandas = pytest.importorskip("pandas")
    data = pandas.DataFrame(
        {"event": ["A", "B", "A and B", "A or B"], "p": [0.5, 0.5, 0.6, 1], "beta": [1, 1, 2, math.inf]}
    )
    result = coherence(data)
    frame = result.frame()
    assert result.upper == pytest.approx(coherence(["P(A)=.5", "P(B)=.5", "P(A and B)=.6 @ 2", "A or B"]).upper)
    assert frame["belief"].tolist() == ["A", "B", "A and B"] and frame["coherent"].between(0, 1).all()


def test_a_template_takes_arrays_with_their_own_confidence_and_ranges():
    template = Template(["P(A) = 0.5", "P(B | A) in [0.2, 0.3]", "P(A and B) = 0.5", "A or B"])
    rng = np.random.default_rng(0)
    p, beta = rng.uniform(0.05, 0.6, (50, 3)), rng.uniform(0.5, 2, (50, 3))
    high = np.where(np.arange(3) == 1, p + 0.2, np.nan)
    found = template.solve(p, high, beta)
    assert found.converged.all() and found.gain.shape == (50, 3, 2)
    for k in (0, 17, 49):
        a, b, ab = p[k]
        lines = [Belief("A", a, beta=beta[k, 0]), Belief("B", (b, b + 0.2), "A", beta[k, 1])]
        one = coherence([*lines, Belief("A and B", ab, beta=beta[k, 2]), "A or B"])
        assert found.upper[k] == pytest.approx(one.upper, abs=1e-9)


def test_the_rows_of_a_template_are_runs_of_lir_that_end_coherent():
    template = Template(["P(A) = 0.5", "P(B | A) in [0.5, 0.6]", "P(A and B) = 0.5", "A or B"])
    p, high = np.array([[0.5, 0.5, 0.4], [0.3, 0.5, 0.25]]), np.array([[np.nan, 0.6, np.nan]] * 2)
    exact = template.solve(p, high)
    runs = lirs(template.pdgs(p, high), "uniform", steps=30, attention=template.graph.attention)
    for k, run in enumerate(runs):
        assert run.before.upper == pytest.approx(exact.upper[k], abs=1e-7) and exact.lower[k] > 1e-3
        assert run.after.upper < 1e-5
        assert all(not any(True for _ in run.pdg[a.name].cpd.parameters()) for a in template.graph.facts)


@pytest.mark.parametrize(
    ("p", "complaint"),
    [
        ([[0.5]], "2 beliefs a row are needed"),
        ([[0.5, 1.5]], "row 0: a probability of 'B' is 1.5"),
        ([[0.5, math.nan]], "is nan"),
    ],
)
def test_a_template_refuses_numbers_that_are_no_probabilities(p: list[list[float]], complaint: str):
    with pytest.raises(DissonanceError, match=complaint):
        Template(["P(A) = 0.5", "P(B) = 0.5"]).solve(p)


@pytest.mark.parametrize("score", ["log", "brier"])
def test_a_book_that_no_tree_fits_has_a_bracket(score: str):
    every = [Belief(f"x{i} and x{j}", 0.5) for i in range(40) for j in range(i)]
    result = coherence(every, score=score, seconds=0.0)
    assert 0 <= result.lower <= result.upper < math.inf and not result.converged
    assert "between" in repr(result) and "NOT converged" in repr(result)


def test_without_beliefs_nothing_is_gained():
    assert coherence([]).upper == 0 and coherence(["A or B"]).rows == ()


def test_a_score_that_is_none_is_told_so():
    with pytest.raises(DissonanceError, match="no score named 'quadratic'"):
        coherence(["P(A) = 0.5"], score="quadratic")
