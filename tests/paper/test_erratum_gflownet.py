"""The GFlowNet experiments: what 10^6 samples can tell, from a closed form on the grids of the paper."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom

from dissonance.gflownets import Dag, hyper_grid
from dissonance.gflownets.exact import Fit, sampled

SAMPLES = 10**6
PAPER = {  # the best L1 and JSD that the paper reports
    "original": (0.438, 0.052),
    "cosine": (0.448, 0.050),
    "coprime": (0.134, 0.008),
    "xor": (1.23, 0.288),
}


def expected_l1(target: np.ndarray) -> float:
    """E sum |frequency - p| of samples from p itself, by de Moivre's formula for the binomial."""
    values, counts = np.unique(target, return_counts=True)
    return float(counts @ (2 * values * (1 - values) * binom.pmf(np.floor(SAMPLES * values), SAMPLES - 1, values)))


@pytest.fixture(scope="module", params=PAPER)
def grid(request: pytest.FixtureRequest) -> tuple[str, Dag]:
    return request.param, hyper_grid(4, 24, request.param)


FLOOR = {"original": 0.4379, "cosine": 0.4480, "xor": 0.1299, "coprime": 0.1397}


def test_a_perfect_sampler_has_this_l1(grid: tuple[str, Dag]):
    name, dag = grid
    target = dag.target.numpy()
    expected = expected_l1(target)
    drawn = np.random.default_rng(0).multinomial(SAMPLES, target / target.sum()) / SAMPLES
    assert expected == pytest.approx(FLOOR[name], abs=5e-5)
    assert np.abs(drawn - target).sum() == pytest.approx(expected, rel=5e-3)


def test_only_on_xor_does_the_paper_report_more_than_noise(grid: tuple[str, Dag]):
    name, dag = grid
    l1, jsd = PAPER[name]
    target = dag.target.unsqueeze(0)
    noise = Fit.of(sampled(target, SAMPLES, torch.Generator().manual_seed(0)), target, dag.modes.unsqueeze(0))
    floor = expected_l1(dag.target.numpy())
    if name == "xor":
        assert l1 > 9 * floor and jsd > 15 * float(noise.jsd)
    else:
        assert l1 <= floor * 1.001 and jsd <= float(noise.jsd)


def test_the_published_medians_of_l1_and_jsd_go_together():
    """The paper's r > 0.95 (it prints a percent sign), over the 16 medians of its table."""
    l1 = [1.74, 1.23, 1.49, 1.24, 0.449, 0.448, 0.448, 0.448, 0.137, 0.137, 0.134, 0.138, 0.438, 0.438, 0.44, 0.439]
    jsd = [0.487, 0.289, 0.388, 0.288, *[0.050] * 4, 0.010, 0.010, 0.008, 0.010, *[0.052] * 4]
    assert np.corrcoef(l1, jsd)[0, 1] > 0.95
