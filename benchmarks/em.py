"""EM on a Gaussian mixture, against scikit-learn from the same start: time, ratio, and how far apart they end.

    python benchmarks/em.py                                  # 100,000 x 20, 10 components, full, tied and diag
    python benchmarks/em.py --rows 2000 --iterations 4       # soon done

Both run the same number of iterations in this process, in turn; the time of one iteration is the difference between a
long and a short run, so that what is done once is not counted.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from dissonance.estimators import GaussianMixture


def sample(rows: int, columns: int, components: int) -> np.ndarray:
    """Rows around as many centres as there are components, overlapping."""
    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(components, columns))
    return rng.normal(size=(rows, columns)) + centres[rng.integers(components, size=rows)]


def seconds(fit: Callable[[int], object], iterations: int, repeats: int) -> float:
    """The least seconds an iteration took, of several tries."""
    found: list[float] = []
    for _ in range(repeats):
        times: list[float] = []
        for count in (1, 1 + iterations):
            began = time.perf_counter()
            fit(count)
            times.append(time.perf_counter() - began)
        found.append((times[1] - times[0]) / iterations)
    return min(found)


def compare(x: np.ndarray, components: int, kind: str, iterations: int, repeats: int) -> str:
    """One line about one kind of covariance."""
    from sklearn.mixture import GaussianMixture as Theirs

    means, c = x[:: len(x) // components][:components], np.cov(x.T)
    covariances = {"full": np.stack([c] * components), "tied": c, "diag": np.stack([np.diag(c)] * components)}[kind]
    precisions = 1 / covariances if kind == "diag" else np.linalg.inv(covariances)
    models: list[GaussianMixture] = []
    others: list[Any] = []

    def ours(count: int) -> None:
        start: dict[str, Any] = {"means_init": means, "covariances_init": covariances, "floor": 0.0}
        models.append(GaussianMixture(components, kind, tol=0.0, max_iter=count, **start).fit(x))  # pyright: ignore[reportArgumentType]

    def theirs(count: int) -> None:
        options: dict[str, Any] = {
            "covariance_type": kind,
            "means_init": means,
            "precisions_init": precisions,
            "reg_covar": 0.0,
        }
        weights = np.full(components, 1 / components)
        others.append(Theirs(components, weights_init=weights, tol=0.0, max_iter=count, **options).fit(x))

    took = seconds(theirs, iterations, repeats), seconds(ours, iterations, repeats)
    apart = max(
        float(np.abs(models[-1].means_ - others[-1].means_).max()),
        float(np.abs(models[-1].covariances_ - others[-1].covariances_).max()),
    )
    return (
        f"{kind:4}  scikit-learn {1e3 * took[0]:7.1f} ms, dissonance {1e3 * took[1]:7.1f} ms an iteration: "
        f"ratio {took[1] / took[0]:.2f}; parameters apart by {apart:.1e} after {1 + iterations} iterations"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", default=["full", "tied", "diag"])
    a = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*did not converge.*")
    x = sample(a.rows, a.columns, a.components)
    print(f"{a.rows} x {a.columns}, {a.components} components")
    for kind in a.kinds:
        print(compare(x, a.components, kind, a.iterations, a.repeats), flush=True)


if __name__ == "__main__":
    main()
