"""EM of a state-space model against the length of the sequence, beside the generic engine and statsmodels.

    python benchmarks/state_space.py [--most 100000]

CPU seconds of one iteration (the E-step and the M-step) in one process, after one that compiles. statsmodels has no EM:
its column is one pass of its Kalman smoother (compiled, `pip install statsmodels`), the E-step alone, at the same
numbers, and the two log-likelihoods are compared.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from dissonance import LinearGaussian
from dissonance.compiled import engage
from dissonance.em import gaussian_em, state_space, state_space_em

A, Q, C, R = np.array([[0.9, 0.2], [-0.2, 0.9]]), 0.1 * np.eye(2), np.array([[1.0, 0.3]]), 0.3 * np.eye(1)
GENERIC = 100
"""The longest sequence that the generic engine is asked about: its bookkeeping is quadratic."""


def cpds() -> tuple[LinearGaussian, LinearGaussian, LinearGaussian]:
    initial = LinearGaussian(np.zeros((2, 0)), np.zeros(2), np.eye(2), learnable=False)
    return initial, LinearGaussian(A, np.zeros(2), Q), LinearGaussian(C, np.zeros(1), R)


def sequence(steps: int) -> np.ndarray:
    rng, z, y = np.random.default_rng(0), np.zeros(2), np.zeros((steps, 1))
    for t in range(steps):
        z = A @ z + np.sqrt(0.1) * rng.normal(size=2)
        y[t] = C @ z + np.sqrt(0.3) * rng.normal(size=1)
    return y


def ours(y: np.ndarray, iterations: int) -> tuple[float, float]:
    """CPU seconds of an iteration, and log p(y) at the start."""
    began = time.process_time()
    fitted = state_space_em(*cpds(), y, iterations=iterations, tol=0.0)
    return (time.process_time() - began) / iterations, fitted.bounds[0]


def generic(y: np.ndarray) -> float:
    instance = gaussian_em(state_space(len(y), *cpds()), {f"x{t}": v for t, v in enumerate(y)})
    began = time.process_time()
    instance.run(2)
    return time.process_time() - began


def theirs(y: np.ndarray) -> tuple[float, float] | None:
    try:
        from statsmodels.tsa.statespace.kalman_smoother import (  # pyright: ignore[reportMissingImports]
            KalmanSmoother,
        )
    except ImportError:
        return None
    model = KalmanSmoother(k_endog=1, k_states=2, k_posdef=2)
    model.bind(y.copy())
    model["design"], model["obs_cov"], model["transition"] = C, R, A
    model["selection"], model["state_cov"] = np.eye(2), Q
    model.initialize_known(np.zeros(2), np.eye(2))
    model.tolerance = 0  # no steady state assumed: exact at every step
    model.smooth()
    began = time.process_time()
    found = model.smooth()
    return time.process_time() - began, float(found.llf)


def main() -> None:
    parser = argparse.ArgumentParser(description="EM of a state-space model against the length of the sequence")
    parser.add_argument("--most", type=int, default=100_000)
    most = parser.parse_args().most
    engage()
    ours(sequence(50), 2)
    print(
        f"{'T':>8} {'iteration':>11} {'us a step':>10} {'generic':>10} {'statsmodels':>12} {'ratio':>6} {'log p':>11}"
    )
    sizes, times = [], []
    steps = 100
    while steps <= most:
        y = sequence(steps)
        seconds, score = ours(y, 3)
        slow = f"{generic(y):10.3f}" if steps <= GENERIC else f"{'':>10}"
        other = theirs(y)
        beside = (
            f"{other[0]:12.4f} {seconds / other[0]:6.2f} {abs(other[1] - score) / abs(score):11.1e}" if other else ""
        )
        print(f"{steps:>8} {seconds:11.4f} {1e6 * seconds / steps:10.2f} {slow} {beside}")
        sizes.append(steps)
        times.append(seconds)
        steps *= 10
    slope = np.polyfit(np.log(sizes[-3:]), np.log(times[-3:]), 1)[0]
    print(f"time grows with T to the power {slope:.2f} over the last three")


if __name__ == "__main__":
    main()
