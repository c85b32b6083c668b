"""Refocus procedures: where LIR looks next, and what may move there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.lir import Choice as Choice
    from dissonance.lir import Cycle as Cycle
    from dissonance.lir import Greedy as Greedy
    from dissonance.lir import Hub as Hub
    from dissonance.lir import Learned as Learned
    from dissonance.lir import Partial as Partial
    from dissonance.lir import Refocus as Refocus
    from dissonance.lir import Smooth as Smooth
    from dissonance.lir import Surprisal as Surprisal
    from dissonance.lir import Uniform as Uniform
    from dissonance.lir import weighted as weighted

lazily(__name__)
