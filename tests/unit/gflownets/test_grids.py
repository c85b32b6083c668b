"""Hyper-grids: the published counts, and every table against plain loops over the states of small grids."""

from __future__ import annotations

import itertools
import math

import pytest

from dissonance import DissonanceError
from dissonance.errors import SizeError
from dissonance.gflownets import hyper_grid

PUBLISHED = {
    "original": (256, 10.693),
    "cosine": (1280, 10.416),
    "xor": (10752, 14.020),
    "coprime": (20736, 14.663),
}
SMALL = [(1, 2), (1, 9), (2, 3), (2, 11), (3, 8), (4, 5)]


def original(s, height):
    a = [abs(x / (height - 1) - 0.5) for x in s]
    close = 1e-9  # the bounds themselves are not met
    band = all(0.3 + close < x < 0.4 - close for x in a)
    return 0.1 + 0.5 * all(x > 0.25 + close for x in a) + 2 * band, band


def cosine(s, height):
    def f(x):
        a = abs(x / (height - 1) - 0.5)
        return (math.cos(50 * a) + 1) * math.exp(-0.5 * (5 * a) ** 2) / math.sqrt(2 * math.pi)

    product = math.prod(f(x) for x in s)
    return 0.1 + 0.5 * product, product >= (0.8 * max(f(x) for x in range(height))) ** len(s) - 1e-14


def xor(s, height):
    total = 0.1
    met = 0
    for weight, last in ((1, 5), (10, 7), (100, 9)):
        if not all(sum(x >> b & 1 for x in s) % 2 == 0 for b in range(last + 1)):
            break
        total, met = total + weight, met + 1
    return total, met == 3


def coprime(s, height):
    def fits(x):
        if x == 0:
            return False
        for p in (2, 3, 5):
            for _ in range(2):
                x = x // p if x % p == 0 else x
        return x == 1

    met = all(map(fits, s))
    return 0.1 + 111 * met, met


BY_HAND = {"original": original, "cosine": cosine, "xor": xor, "coprime": coprime}


@pytest.mark.parametrize("reward", PUBLISHED)
def test_the_grid_of_the_study_has_the_published_modes_and_partition(reward):
    grid = hyper_grid(4, 24, reward)
    modes, log_z = PUBLISHED[reward]
    assert grid.states == 24**4 and grid.longest == 4 * 23 + 1
    assert int(grid.modes.sum()) == modes
    assert grid.log_partition == pytest.approx(log_z, abs=5e-4)
    assert float(grid.target.sum()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("reward", PUBLISHED)
@pytest.mark.parametrize(("dimensions", "height"), SMALL)
def test_rewards_and_modes_are_those_of_a_loop_over_the_states(reward, dimensions, height):
    grid = hyper_grid(dimensions, height, reward)
    total = 0.0
    for i, s in enumerate(itertools.product(range(height), repeat=dimensions)):
        value, mode = BY_HAND[reward](s, height)
        total += value
        assert float(grid.log_reward[i].exp()) == pytest.approx(value, rel=1e-12)
        assert bool(grid.modes[i]) == mode
    assert grid.log_partition == pytest.approx(math.log(total), abs=1e-12)


def test_the_tiers_of_xor_come_apart_on_a_line_of_more_than_64_states():
    grid = hyper_grid(1, 1025, "xor")
    for s in range(1025):
        value, mode = xor((s,), 1025)
        assert float(grid.log_reward[s].exp()) == pytest.approx(value, rel=1e-12)
        assert bool(grid.modes[s]) == mode


@pytest.mark.parametrize(("dimensions", "height"), SMALL)
def test_moves_add_one_to_a_coordinate_and_columns_of_before_undo_them(dimensions, height):
    grid = hyper_grid(dimensions, height, "cosine")
    index = {s: i for i, s in enumerate(itertools.product(range(height), repeat=dimensions))}
    assert grid.before.shape == (len(index), dimensions) and grid.actions == dimensions
    for s, i in index.items():
        for a in range(dimensions):
            up, down = (tuple(x + step * (j == a) for j, x in enumerate(s)) for step in (1, -1))
            assert int(grid.after[i, a]) == index.get(up, -1)
            assert int(grid.before[i, a]) == index.get(down, -1)
            assert int(grid.move[i, a]) == (a if down in index else -1)
            assert int(grid.undo[i, a]) == (a if up in index else -1)
        assert grid.active[i].tolist() == [a * height + x for a, x in enumerate(s)]
        assert i in grid.layers[sum(s)]
    assert grid.inputs == dimensions * height and bool(grid.exits.all())


def test_a_base_of_zero_puts_a_floor_under_the_log_reward_off_the_modes():
    grid = hyper_grid(2, 8, "xor", base=0)
    assert grid.log_reward[grid.modes].tolist() == pytest.approx([math.log(111)] * 8)
    assert grid.log_reward[~grid.modes].unique().tolist() == [-100.0]
    assert hyper_grid(2, 8, "xor", base=0, floor=-7).log_reward.min() == -7
    assert float(grid.target[grid.modes].sum()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reward": "cosin"}, "Did you mean 'cosine'"),
        ({"dimensions": 0}, "dimensions >= 1"),
        ({"height": 1}, "height >= 2"),
        ({"base": -1.0}, "not negative"),
        ({"base": math.nan}, "finite and not negative"),
        ({"dimensions": 1, "height": 4, "reward": "original", "base": -0.5}, "not negative"),
        ({"base": 0, "reward": "xor", "floor": -math.inf}, "must be finite"),
    ],
)
def test_what_cannot_be_a_grid_is_said_in_one_line(options, words):
    with pytest.raises(DissonanceError, match=words):
        hyper_grid(**options)


def test_a_grid_too_large_for_tables_says_how_large_it_is():
    with pytest.raises(SizeError, match=f"{24**6} states"):
        hyper_grid(6, 24)
    with pytest.raises(SizeError, match=r"has 10\^18 or more states"):
        hyper_grid(20_000, 2)
