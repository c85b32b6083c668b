"""Baum-Welch on long sequences: `HiddenMarkovModel` and hmmlearn from the same start, and the ratio of their times.

OMP_NUM_THREADS=1 python benchmarks/hmm.py --iterations 10
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from dissonance.compiled import engage
from dissonance.estimators import HiddenMarkovModel

STATES, COLUMNS, LABELS = 4, 3, 6


def made(steps: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Vectors and labels of one sequence whose states stay for a while."""
    states = np.cumsum(rng.random(steps) < 0.1) % STATES
    vectors = rng.normal(size=(steps, COLUMNS)) + 2.0 * np.eye(STATES, COLUMNS)[states]
    return vectors, (states + (rng.random(steps) < 0.3) * rng.integers(0, LABELS, steps)) % LABELS


def timed(call: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """What it returns, and the least processor time of a few calls."""
    each: list[float] = []
    found = None
    for _ in range(repeats):
        began = time.process_time()
        found = call()
        each.append(time.process_time() - began)
    return found, min(each)


def main() -> None:
    """Print a table."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--iterations", type=int, default=10)
    asked.add_argument("--steps", type=int, nargs="*", default=[100, 1000, 10_000, 100_000])
    asked.add_argument("--repeats", type=int, default=3)
    given = asked.parse_args()
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)  # that it has not converged
    engage()  # short sequences alone do not start Numba
    peer = import_module("hmmlearn.hmm")
    rng = np.random.default_rng(0)
    start, move = np.full(STATES, 1 / STATES), rng.dirichlet(np.full(STATES, 5.0), STATES)
    means, emit = rng.normal(size=(STATES, COLUMNS)), rng.dirichlet(np.full(LABELS, 5.0), STATES)
    ours: dict[str, Any] = {
        "startprob_init": start,
        "transmat_init": move,
        "max_iter": given.iterations,
        "tol": 0.0,
        "floor": 0.0,
    }
    print("| emissions | steps | hmmlearn, s | dissonance, s | ratio | apart |")
    print("|---|---|---|---|---|---|")
    for steps in given.steps:
        x, labels = made(steps, rng)

        def gaussian(x: np.ndarray = x) -> HiddenMarkovModel:
            init: dict[str, Any] = {"means_init": means, "covariances_init": np.ones((STATES, COLUMNS))}
            return HiddenMarkovModel(STATES, "gaussian", covariance_type="diag", **ours, **init).fit([x])

        def their_gaussian(x: np.ndarray = x) -> Any:
            options = {"n_iter": given.iterations, "tol": -np.inf, "init_params": "", "covars_prior": 0.0}
            model = peer.GaussianHMM(STATES, "diag", **options)
            model.covars_weight, model.means_weight, model.min_covar = 0.0, 0.0, 0.0
            model.startprob_, model.transmat_ = start, move
            model.means_, model.covars_ = means.copy(), np.ones((STATES, COLUMNS))
            return model.fit(x)

        def categorical(labels: np.ndarray = labels) -> HiddenMarkovModel:
            kept: dict[str, Any] = {"emissionprob_init": emit, "categories": range(LABELS)}
            return HiddenMarkovModel(STATES, **ours, **kept).fit([labels.tolist()])

        def their_categorical(labels: np.ndarray = labels) -> Any:
            model = peer.CategoricalHMM(STATES, n_iter=given.iterations, tol=-np.inf, init_params="", n_features=LABELS)
            model.startprob_, model.transmat_, model.emissionprob_ = start, move, emit
            return model.fit(labels[:, None])

        for name, mine, theirs in (
            ("gaussian", gaussian, their_gaussian),
            ("categorical", categorical, their_categorical),
        ):
            mine()  # compiles
            a, here = timed(mine, given.repeats)
            b, there = timed(theirs, given.repeats)
            apart = float(np.abs(a.transmat_ - b.transmat_).max())
            print(f"| {name} | {steps} | {there:.4f} | {here:.4f} | {here / there:.2f} | {apart:.1e} |", flush=True)


if __name__ == "__main__":
    main()
