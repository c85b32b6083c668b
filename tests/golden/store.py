"""Golden numbers on disk: a compressed file a family, of inputs and numbers, and how many cases each has."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "numbers"
INDEX = FOLDER / "index.json"


def counts() -> dict[str, int]:
    """How many cases each family has."""
    return json.loads(INDEX.read_text()) if INDEX.exists() else {}


def read(family: str) -> list[dict[str, Any]]:
    """The cases of a family: "case" and "numbers" of each."""
    return json.loads(gzip.decompress((FOLDER / f"{family}.json.gz").read_bytes()))


def write(family: str, cases: list[dict[str, Any]]) -> int:
    """Write a family, and return its size: the same bytes for the same numbers."""
    text = json.dumps(cases, separators=(",", ":"))
    data = gzip.compress(text.encode(), 9, mtime=0)
    (FOLDER / f"{family}.json.gz").write_bytes(data)
    INDEX.write_text(json.dumps(dict(sorted((counts() | {family: len(cases)}).items())), indent=1) + "\n")
    return len(data)


def rounded(numbers: Any, digits: int = 9) -> Any:
    """The same with fewer significant digits, which take less room."""
    if isinstance(numbers, dict):
        return {k: rounded(v, 17 if k in ("bounds", "bracket") else digits) for k, v in numbers.items()}
    if isinstance(numbers, list):
        return [rounded(x, digits) for x in numbers]
    if isinstance(numbers, float) and math.isfinite(numbers) and digits < 17:
        return 0.0 if abs(numbers) < 1e-12 else float(f"{numbers:.{digits}g}")
    return numbers


def plain(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases as they will be read."""
    return json.loads(json.dumps(cases))
