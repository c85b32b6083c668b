"""What `inconsistency` returns: the value with its certificate, and who is to blame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.inconsistency import Inconsistency as Inconsistency
    from dissonance.scores import BlameRow as BlameRow

lazily(__name__)
