"""Where things are placed: nothing lies on anything else, also with 60 variables."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import beliefs, boxes, labels, network, overlap, table
from scipy.optimize import minimize

from dissonance import PDG, Arc, Variable, draw
from dissonance.drawing.curves import hits, points, straight
from dissonance.drawing.heights import isotonic
from dissonance.drawing.order import crossings, ordered
from dissonance.drawing.ranks import Ends, ranks
from dissonance.drawing.scene import Stroke
from dissonance.drawing.text import label, text_width


@pytest.mark.parametrize(
    ("make", "size", "seed"),
    [(network, 60, 0), (network, 60, 1), (network, 120, 2), (beliefs, 60, 0), (beliefs, 60, 1), (beliefs, 30, 2)],
)
def test_boxes_and_labels_do_not_overlap_and_lines_keep_clear_of_boxes(make, size: int, seed: int):
    pdg = make(size, seed)
    began = time.process_time()
    drawing = draw(pdg)
    svg = drawing.svg()
    assert time.process_time() - began < (2.0 if size <= 60 else 6.0)
    assert len(svg) < 1200 * (len(pdg.variables) + len(pdg.arcs))
    found, written = boxes(drawing), labels(drawing)
    assert not any(overlap(a, b) for a, b in combinations(found, 2))
    assert not any(overlap(a, b) for a in found for b in written)
    assert not any(overlap(a, b) for a, b in combinations(written, 2))
    strokes = [m for g in drawing.scene.groups if g.kind == "arc" for m in g.marks if isinstance(m, Stroke)]
    inside = np.array(found) + np.array([1, 1, -1, -1])
    assert not any(hits(s.curve, inside) for s in strokes)
    for s in strokes:
        along = points(s.curve)
        assert along.real.min() >= 0 and along.real.max() <= drawing.scene.width
        assert along.imag.min() >= 0 and along.imag.max() <= drawing.scene.height


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_any_small_pdg_can_be_drawn_without_overlaps(data: st.DataObject):
    variables = [Variable(f"V{i}", 2) for i in range(data.draw(st.integers(1, 6)))]
    arcs = []
    for k in range(data.draw(st.integers(0, 7))):
        scope = data.draw(st.lists(st.sampled_from(variables), min_size=1, max_size=4, unique=True))
        cut = data.draw(st.integers(0, len(scope) - 1))
        arcs.append(Arc(f"a{k}", scope[:cut], scope[cut:], table(cut, len(scope) - cut)))
    drawing = draw(PDG(*arcs, variables=variables))
    assert not any(overlap(a, b) for a, b in combinations(boxes(drawing), 2))


def test_sources_stand_left_of_targets_unless_there_is_a_cycle():
    arcs = {"p": Ends(("A", "B"), ("C",)), "q": Ends(("C",), ("D",)), "r": Ends(("A",), ("D",))}
    rank = ranks("ABCD", arcs)
    assert all(rank[s] < rank[t] for e in arcs.values() for s in e.sources for t in e.targets)
    assert rank["B"] == rank["A"] == 0 and rank["D"] == 2
    around = ranks("ABC", {"p": Ends(("A",), ("B",)), "q": Ends(("B",), ("C",)), "r": Ends(("C",), ("A",))})
    assert around == {"A": 0, "B": 1, "C": 2}


def test_a_source_stands_beside_its_target_rather_than_far_left():
    arcs = {"p": Ends(("A",), ("B",)), "q": Ends(("B",), ("C",)), "r": Ends(("Late",), ("C",))}
    assert ranks(["A", "B", "C", "Late"], arcs)["Late"] == 1


def test_order_removes_the_crossings_that_can_be_removed():
    columns = [[0, 1, 2], [3, 4, 5]]
    links = [(0, 5), (1, 4), (2, 3)]
    assert crossings(columns, links) == 3
    assert crossings(ordered(columns, links), links) == 0
    complete = [(u, v) for u in (0, 1, 2) for v in (3, 4, 5)]
    assert crossings(columns, complete) == 9
    assert ordered(columns, complete) == columns


@given(st.lists(st.tuples(st.floats(-10, 10), st.floats(0.1, 5)), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_isotonic_is_the_nearest_sequence_that_does_not_fall(rows: list[tuple[float, float]]):
    values, weights = map(np.array, zip(*rows, strict=True))
    found = np.array(isotonic(values.tolist(), weights.tolist()))
    assert (np.diff(found) >= -1e-9).all()
    rises = {"type": "ineq", "fun": np.diff} if len(values) > 1 else ()
    best = minimize(lambda y: (weights * (y - values) ** 2).sum(), np.sort(values), constraints=rises, method="SLSQP")
    assert (weights * (found - values) ** 2).sum() <= best.fun + 1e-6


def test_a_line_hits_the_rectangles_it_enters():
    line = (straight(0j, 10 + 10j),)
    assert hits(line, np.array([[4.0, 4.0, 6.0, 6.0], [8.0, 0.0, 9.0, 5.0]])) == [0]


def test_labels_have_indices_and_greek_letters():
    def shown(name: str) -> list[str]:
        return [s.text for s in label(name).spans]

    assert shown("X_real") == ["X", "real"]
    assert shown("tau") == ["τ"]
    assert shown("Theta_p") == ["Θ", "p"]
    assert shown("X12") == ["X", "12"]
    assert shown("S'") == ["S", "\N{PRIME}"]
    assert shown("at_home") == ["at_home"]
    assert shown("Cancer") == ["Cancer"]
    assert shown("lambda") == ["λ"]
    assert label("WWW").width > label("iii").width == pytest.approx(text_width("iii"))
