"""Bounds that narrow as long as there is time; what they are is told on the way, and an interrupt keeps them."""

from __future__ import annotations

import logging
import math
from collections.abc import Generator
from contextlib import contextmanager

from dissonance.compiled import clock

_log = logging.getLogger(__name__)

QUICK = 1.0
"""Seconds after which bounds are told on the way."""


class TimedBounds:
    """The best bounds so far; `limit`: seconds until they are to stand, without those in which Numba compiled."""

    lower, upper = -math.inf, math.inf

    def __init__(self, limit: float) -> None:
        self.limit, self.began, self.told = limit, clock(), 0.0

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
