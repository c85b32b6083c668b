"""The PDGs of the synthetic study."""

import pytest
import torch

from dissonance.errors import DissonanceError
from dissonance.studies.structures import PUBLISHED, ROWS, generator, random_structure, structures


def test_the_four_published_structures():
    assert [s.name for s in PUBLISHED] == ["chain_4v_3e", "chain_5v_4e", "chain_6v_5e", "chain_7v_6e"]
    assert structures(4) == list(PUBLISHED)
    pdg = PUBLISHED[3].draw("simplex", generator(0))
    arcs = [(a.name, a.sources[0].name, a.targets[0].name) for a in pdg.arcs]
    assert arcs == [
        ("p1", "A", "B"), ("p2", "B", "C"), ("p3", "C", "D"), ("p4", "E", "A"), ("p5", "G", "D"), ("p6", "E", "C"),
    ]  # fmt: skip
    assert [v.size for v in pdg.variables] == [2, 3, 3, 3, 2, 3, 2]


@pytest.mark.parametrize("rows", ROWS)
def test_a_draw_depends_on_its_own_place_only(rows: str):
    def tables(*place: int) -> list[list[list[float]]]:
        return [a.cpd.table().tolist() for a in PUBLISHED[0].draw(rows, generator(0, *place))]

    assert tables(1, 2) == tables(1, 2)
    assert tables(1, 2) != tables(2, 1)


def test_the_two_distributions_of_rows_differ_as_they_should():
    many = {name: draw((20_000, 2), generator(0))[:, 0] for name, draw in ROWS.items()}
    uniform = torch.linspace(0, 1, 20_001, dtype=torch.float64)[1:]
    simplex = many["simplex"].sort().values  # for two values: U[0, 1]
    assert float((simplex - uniform).abs().max()) < 0.02  # Kolmogorov-Smirnov: 1e-4 to exceed 0.0158
    middle = ((many["uniform-normalised"] - 0.5).abs() < 1 / 6).double().mean()  # P(1/2 < U/V < 2) = 1/2
    assert float(middle) == pytest.approx(0.5, abs=0.015)


def test_members_of_the_family_have_a_chain_and_no_arc_twice():
    for k in range(30):
        found = random_structure(9, 14, generator(k))
        assert found.arcs[:7] == tuple((i, i + 1) for i in range(7))
        assert len(set(found.arcs)) == 14
        assert all(s != t for s, t in found.arcs)
        assert set(found.sizes) <= {2, 3}
    assert [s.name for s in structures(6, seed=3)][4:] == ["chain_8v_7e", "chain_9v_8e"]
    assert random_structure(2, 2, generator(0)).arcs == ((0, 1), (1, 0))


def test_what_does_not_fit_is_refused():
    with pytest.raises(DissonanceError, match="7 different arcs do not fit between 3 variables"):
        random_structure(3, 7, generator(0))
