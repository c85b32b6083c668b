"""The way to the shared vectors, which need not be there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared"


def shared_json(*parts: str) -> Any:
    """A file under ../shared, or None where there is none (the tests that need it are then skipped)."""
    path = SHARED.joinpath(*parts)
    return json.loads(path.read_text()) if path.is_file() else None
