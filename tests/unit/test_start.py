"""What the first answer must not wait for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "smoking.json"
CODE = """
import contextlib, io, json, sys
from dissonance.cli.app import run
with contextlib.redirect_stdout(io.StringIO()):
    assert run(["score", sys.argv[1]]) == 0
print(json.dumps(sorted(sys.modules)))
"""


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """The modules that scoring a small model imports."""
    done = subprocess.run([sys.executable, "-c", CODE, EXAMPLE], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "module",
    [
        "networkx",
        "scipy.sparse.linalg",
        "clarabel",
        "dissonance.cpds.neural",
        "dissonance.io.bif",
        "dissonance.solvers.covariance",
        "matplotlib",
        "optuna",
        "pandas",
        "torch._dynamo",
        "torchdiffeq",
    ],
)
def test_a_score_does_not_import_what_it_does_not_use(imported: set[str], module: str) -> None:
    assert module not in imported
