"""What `inconsistency` returns: the value with its certificate, and who is to blame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.inconsistency import BlameRow as BlameRow
    from dissonance.inconsistency import Inconsistency as Inconsistency

lazily(__name__)
