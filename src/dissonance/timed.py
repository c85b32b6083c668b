"""Bounds that narrow as long as there is time; what they are is told on the way, and an interrupt keeps them."""

from __future__ import annotations

import logging
import math
from collections.abc import Generator
from contextlib import contextmanager

from dissonance.compiled import clock
from dissonance.proof import meeting

_log = logging.getLogger(__name__)

QUICK = 1.0
"""Seconds after which bounds are told on the way."""


class TimedBounds:
    """The best bounds so far, less and plus the rounding of what found them.

    `limit`: seconds until they are to stand, without those in which Numba compiled; `tol`: the gap that is aimed at,
    relative to max(`unit`, |upper|).
    """

    lower, upper, unit = -math.inf, math.inf, 1.0

    def __init__(self, limit: float, tol: float) -> None:
        self.limit, self.tol, self.began, self.told = limit, tol, clock(), 0.0

    def rise(self, value: float, blur: float) -> bool:
        """Keep a lower bound that rounding may have raised by `blur`, if it is the best; return whether it is."""
        best = value - blur > self.lower
        self.lower = max(self.lower, value - blur)
        return best

    def fall(self, value: float, blur: float) -> bool:
        """Keep an upper bound that rounding may have lowered by `blur`, if it is the best; return whether it is."""
        best = value + blur < self.upper
        self.upper = min(self.upper, value + blur)
        return best

    def contradict(self) -> None:
        """Note that hard arcs and zeros exclude each other: the inconsistency is infinite."""
        self.lower = self.upper = math.inf

    def close(self, share: float = 1.0) -> bool:
        """Whether the gap is at most a share of the one that is aimed at."""
        return bool(meeting(self.lower / self.unit, self.upper / self.unit, share * self.tol))

    @property
    def seconds(self) -> float:
        """The seconds since it began."""
        return clock() - self.began

    @property
    def late(self) -> bool:
        """Whether the time limit is reached."""
        return self.seconds >= self.limit

    @property
    def usable(self) -> bool:
        """Whether there is anything to keep yet."""
        return self.lower > -math.inf

    def tell(self, rarely: float = 1.0) -> None:
        """Say how narrow they are, once it takes long; `rarely`: only after so many times the seconds of before."""
        if self.seconds > max(QUICK, rarely * self.told):
            self.told = self.seconds
            _log.info("between %.6g and %.6g after %.3g s", self.lower, self.upper, self.told)

    @contextmanager
    def interruptible(self) -> Generator[None, None, None]:
        """Ctrl-C ends what is done here, and the best bounds so far are kept; without any it is not caught."""
        try:
            yield
        except KeyboardInterrupt:
            if not self.usable:
                raise
            _log.warning("interrupted after %.3g s: the best bounds so far are kept.", self.seconds)
