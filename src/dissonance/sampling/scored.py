"""What arcs say of the samples of a part: -log p at each, once, and its average."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from dissonance.arc import Arc, Theta
from dissonance.attended import Attended
from dissonance.distributions.samples import Samples
from dissonance.errors import DissonanceError, suggest

DOT_LENGTH = 4096
"""Up to so many samples are averaged by a dot product, which is fast; for more its rounding error is too large."""


class ScoredSamples:
    """The samples of a part, and -log p of its arcs there, each computed once."""

    def __init__(self, arcs: Mapping[str, Arc], mu: Samples, theta: Theta | None) -> None:
        self.values, self.weights = mu.values, mu.weights
        self._arcs, self._mu, self._theta = arcs, mu, theta
        self._known: dict[str, Tensor] = {}

    def surprisal(self, name: str) -> Tensor:
        """-log p_a(t | s) at each sample."""
        if name not in self._known:
            if name not in self._arcs:
                near = suggest(name, self._arcs)
                raise DissonanceError(f"attention looks at an arc {name!r} that is not attended.{near}")
            self._known[name] = surprisal(self._arcs[name], self._mu, self._theta)
        return self._known[name]

    def log_prob(self, arc: str) -> Tensor:
        """log p_a(t | s) at each sample."""
        return -self.surprisal(arc)

    def weight(self, a: Attended) -> Tensor:
        """w(x) of an arc at each sample."""
        assert a.varying is not None
        found = a.varying.weight(self)
        if found.shape != self.weights.shape:
            raise DissonanceError(
                f"{a.arc}: {len(self.weights)} samples need a weight each, found {tuple(found.shape)}."
            )
        return found.detach() if a.varying.held else found


def surprisal(arc: Arc, mu: Samples, theta: Theta | None) -> Tensor:
    """-log p(t|s) at every sample."""
    values = mu.values
    targets, sources = [values[n] for n in arc.target_names], [values[n] for n in arc.source_names]
    return arc.call("surprisal", theta, targets, sources)


def average(weights: Tensor, x: Tensor) -> Tensor:
    """The sum of x by weight."""
    if weights.dtype == x.dtype and weights.shape == x.shape and x.shape[0] <= DOT_LENGTH:
        return weights.dot(x)
    return (weights * x).sum()
