"""Up the reduced dual: L-BFGS with the natural diagonal, and a line search for concave functions."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

import numpy as np

from dissonance.problem import EPS
from dissonance.reduced.dual import Floats, ReducedDual, ReducedPoint

MEMORY = 30
"""Steps that are remembered."""

SLOPE = 0.3
"""What a line search leaves of the slope, at most."""

TRIES = 12
"""Points of a line search, at most."""

FLOOR = 1e-250
"""The least mass that counts in the diagonal."""


class Ascent:
    """Points of a reduced dual, each higher than the one before: iterate over it."""

    def __init__(self, dual: ReducedDual, x: Floats, temperature: float) -> None:
        self.dual, self.temperature, self.passes = dual, temperature, 0
        self.point = self.look(x)
        self.pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=MEMORY)

    def look(self, x: Floats) -> ReducedPoint:
        """What there is at x."""
        self.passes += 1
        return self.dual.at_point(self.dual.tamed(x), self.temperature)

    def __iter__(self) -> Iterator[ReducedPoint]:
        """The start, then points after steps that help; ends where none does."""
        yield self.point
        while True:
            with np.errstate(over="ignore", invalid="ignore"):
                direction = self._direction()
            found = self._along(direction, float(self.point.gradient @ direction))
            if found is None and self.pairs:
                self.pairs.clear()
                continue
            if found is None:
                return
            s, y = found.x - self.point.x, self.point.gradient - found.gradient
            curved = float(s @ y)
            if curved > 1e-14 * math.sqrt(float(s @ s) * float(y @ y)):
                self.pairs.append((s, y, curved))
            self.point = found
            yield found

    def _diagonal(self) -> Floats:
        """The inverse of w mu(s,t) (1 + w/temperature) at soft entries, of mu(s,t)/temperature at hard ones: nearly the
        curvature of D, were other entries fixed."""
        d, p = self.dual, self.point
        mass = np.maximum(0.5 * (p.mass + np.where(d.hard, d.p, np.exp(p.log_q)) * p.rows), FLOOR)
        soft = np.where(d.soft, d.weight * (1 + d.weight / self.temperature) * mass, math.inf)
        return 1 / np.where(d.hard, mass / self.temperature, soft)

    def _direction(self) -> Floats:
        """The two loops of L-BFGS."""
        diagonal, found = self._diagonal(), self.point.gradient.copy()
        kept: list[float] = []
        for s, y, curved in reversed(self.pairs):
            kept.append(float(s @ found) / curved)
            found -= kept[-1] * y
        scale = 1.0
        if self.pairs:
            _, y, curved = self.pairs[-1]
            scale = curved / max(float(y @ (diagonal * y)), FLOOR)
        found *= scale * diagonal
        for (s, y, curved), a in zip(self.pairs, reversed(kept), strict=True):
            found += (a - float(y @ found) / curved) * s
        return found

    def _along(self, direction: Floats, slope: float) -> ReducedPoint | None:
        """A point along a direction where little of the slope is left and D is no lower; None if there is none."""
        if not 0 < slope < math.inf:
            return None
        blur = 64 * EPS * max(1.0, abs(self.point.value))
        low, low_slope, high, high_slope = 0.0, slope, math.inf, 0.0
        step, best = 1.0, None
        for _ in range(TRIES):
            point = self.look(self.point.x + step * direction)
            now = float(point.gradient @ direction) if math.isfinite(point.value) else -math.inf
            fine = point.value >= self.point.value - blur and math.isfinite(point.value)
            if fine and (best is None or point.value > best.value):
                best = point
            if fine and abs(now) <= SLOPE * slope:
                return point
            if now > 0 and fine:
                low, low_slope = step, now
            else:
                high, high_slope = step, now
            if high == math.inf:
                step *= min(10.0, max(2.0, slope / max(slope - now, 0.1 * slope)))
            else:
                ratio = low_slope / (low_slope - high_slope) if -math.inf < high_slope < 0 else 0.5
                step = low + min(max(ratio, 0.05), 0.95) * (high - low)
        return best if best is not None and best.value > self.point.value else None
