"""Draw docs/figures/em.svg: the densities that EM finds for two noisy half-moons, iteration by iteration.

python docs/figures/em.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dissonance.estimators import GaussianMixture

plt.switch_backend("agg")
plt.rcParams.update({"svg.hashsalt": "em", "font.size": 8})


def moons(count: int = 120) -> np.ndarray:
    """Two half-circles with noise."""
    rng = np.random.default_rng(7)
    angle = np.pi * rng.random(count)
    upper = np.arange(count) % 2 == 0
    x = np.where(upper, np.cos(angle), 1 - np.cos(angle))
    y = np.where(upper, np.sin(angle), 0.4 - np.sin(angle))
    return np.stack([x, y], 1) + 0.08 * rng.normal(size=(count, 2))


def main() -> None:
    """A panel each for 1, 5 and 40 iterations, and one for the ELBO at every step."""
    data = moons()
    start = data[:6]
    across, up = np.meshgrid(np.linspace(-1.5, 2.5, 60), np.linspace(-1.1, 1.5, 45))
    points = np.stack([across.ravel(), up.ravel()], 1)
    figure, axes = plt.subplots(1, 4, figsize=(9, 2.2), layout="constrained")
    fits = {n: GaussianMixture(6, means_init=start, max_iter=n, tol=0.0).fit(data) for n in (1, 5, 40)}
    for axis, (count, model) in zip(axes, fits.items(), strict=False):
        density = np.exp(model.score_samples(points)).reshape(across.shape)
        shade = np.full((*density.shape, 4), (0.12, 0.47, 0.71, 0.0))
        shade[..., 3] = density / density.max()  # transparent where there is nothing, on light and dark pages
        axis.imshow(shade, extent=(-1.5, 2.5, -1.1, 1.5), origin="lower", aspect="auto")
        axis.plot(*data.T, ".", color="black", markersize=1.5)
        axis.plot(*model.means_.T, "+", color="firebrick", markersize=7)
        axis.set_title(f"{count} iteration{'s' * (count > 1)}: {model.score(data):.3f} nats a row", fontsize=8)
        axis.set_xticks([])
        axis.set_yticks([])
    bounds = fits[40].fitted_.bounds[1:41]
    axes[3].plot(np.arange(1, len(bounds) + 1), bounds, ".-", markersize=3, linewidth=0.8)
    axes[3].set_title("ELBO, step by step of LIR", fontsize=8)
    axes[3].set_xlabel("step (E, M, E, M, ...)")
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
