"""Flows: how far, and along which path, a step of LIR moves the parameters it controls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.lir import ODE as ODE
    from dissonance.lir import Descent as Descent
    from dissonance.lir import Flow as Flow
    from dissonance.lir import FullControl as FullControl
    from dissonance.lir import Moved as Moved
    from dissonance.lir import Natural as Natural
    from dissonance.lir import Published as Published
    from dissonance.lir import Step as Step

lazily(__name__)
