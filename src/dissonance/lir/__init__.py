"""Local Inconsistency Resolution: iteratively focus on a part of a PDG and resolve the inconsistency it shows."""

from dissonance.lir.flows import FLOWS, ODE, Descent, Flow, FullControl, Moved, Natural, Step
from dissonance.lir.inner.published import Published
from dissonance.lir.progress import TensorBoard
from dissonance.lir.refocus import (
    NAMES,
    Choice,
    Cycle,
    Greedy,
    Hub,
    Learned,
    Partial,
    Refocus,
    Smooth,
    Surprisal,
    Uniform,
    weighted,
)
from dissonance.lir.run import Callback
from dissonance.lir.start import Run, Value, lir, lirs
from dissonance.lir.trace import Record, Row, Trace

__all__ = [
    "FLOWS",
    "NAMES",
    "ODE",
    "Callback",
    "Choice",
    "Cycle",
    "Descent",
    "Flow",
    "FullControl",
    "Greedy",
    "Hub",
    "Learned",
    "Moved",
    "Natural",
    "Partial",
    "Published",
    "Record",
    "Refocus",
    "Row",
    "Run",
    "Smooth",
    "Step",
    "Surprisal",
    "TensorBoard",
    "Trace",
    "Uniform",
    "Value",
    "lir",
    "lirs",
    "weighted",
]
