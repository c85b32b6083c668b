"""What every test shares: fixed seeds, one thread."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

from dissonance.compiled import kept
from shared_files import SHARED

settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("fixed")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # by a shell that started this in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # commands that tests interrupt would inherit it
torch.set_num_threads(1)
torch.set_warn_always(True)  # a warning that torch gives once would fail whichever test came first

PRECOMPILE = "from dissonance.solvers.exact import precompile; precompile()"


def pytest_configure(config: pytest.Config) -> None:
    """Compile the solver once, before there are several workers: each would do it for itself, and so would commands."""
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None) and not kept():
        subprocess.run([sys.executable, "-c", PRECOMPILE], check=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Workers take tests in a row and then from each other: what the tests of a file share is mostly made once."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.fixture
def shared() -> Path:
    """The folder of shared vectors; skips the test if it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"no shared vectors at {SHARED}")
    return SHARED


@pytest.fixture
def generator() -> torch.Generator:
    """Randomness with a fixed seed."""
    return torch.Generator().manual_seed(20240517)
