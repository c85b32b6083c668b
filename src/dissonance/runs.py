"""Runs of LIR: what they return, record and report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.lir import Callback as Callback
    from dissonance.lir import Record as Record
    from dissonance.lir import Row as Row
    from dissonance.lir import Run as Run
    from dissonance.lir import TensorBoard as TensorBoard
    from dissonance.lir import Trace as Trace
    from dissonance.lir import Value as Value

lazily(__name__)
