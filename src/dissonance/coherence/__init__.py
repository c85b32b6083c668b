"""Beliefs about events: what they say, their PDG, whether they fit together; public names are in `forecasts.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.coherence.book import coherence as coherence

lazily(__name__)  # the package has the name of a function at the front door
