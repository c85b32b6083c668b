"""Work in several processes of this machine."""

from __future__ import annotations

import multiprocessing
import operator

import pytest

from dissonance.workers import processes
from dissonance.workers.processes import Processes


def test_processes_start_while_the_solver_is_made_and_work_once_it_is(monkeypatch: pytest.MonkeyPatch):
    seen: list[object] = []
    monkeypatch.setattr(processes, "begin_compiling", lambda: seen.append("begun"))
    monkeypatch.setattr(processes, "finish_compiling", lambda: seen.append(len(multiprocessing.active_children())))
    Processes(2).each(operator.is_not, [1, 2], lambda i, result: seen.append(result))
    assert seen == ["begun", 2, True, True]
