"""On a GPU a batch gives what it gives on the CPU."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dissonance import PDG, Arc, Attention, Variable, inconsistencies, threads
from dissonance.solvers import Newton, exact

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def loops(count: int) -> list[PDG]:
    rng = np.random.default_rng(0)
    a, b, c = (Variable(n, k) for n, k in zip("ABC", (2, 3, 2), strict=True))

    def rows(*shape: int) -> np.ndarray:
        p = rng.random(shape)
        p[rng.random(shape) < 0.1] = 0.0
        p[..., 0] += 0.05
        return p / p.sum(-1, keepdims=True)

    return [
        PDG(Arc("p", a, b, rows(2, 3)), Arc("q", b, c, rows(3, 2)), Arc("r", c, a, rows(2, 2))) for _ in range(count)
    ]


@pytest.mark.parametrize(("gamma", "hard"), [(0.0, False), (0.4, False), (0.4, True)])
def test_the_same_bounds(gamma: float, hard: bool) -> None:
    pdgs = loops(50)
    attention = Attention.uniform(pdgs[0], gamma=gamma).replace(beta={"p": math.inf} if hard else {})
    here, there = (inconsistencies(pdgs, [attention] * 50, solver=Newton(device=d)) for d in ("cpu", "cuda"))
    for x, y in zip(here, there, strict=True):
        assert x.converged == y.converged
        assert x.upper == y.upper == math.inf or x.upper == pytest.approx(y.upper, abs=1e-9)


def test_very_large_batches_go_there_by_themselves() -> None:
    many = exact.LARGE * threads.allowed()
    assert Newton().on_gpu(many) and not Newton().on_gpu(many - 1)
    assert not Newton(device="cpu").on_gpu(many)
