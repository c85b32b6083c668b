"""Work in several processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from typing import Any

import torch

from dissonance.compiled import begin_compiling, finish_compiling
from dissonance.workers.base import Here, Watch, Workers

TICK = 0.2
"""Seconds between two looks at what the processes have done."""


@dataclass(frozen=True)
class Processes(Workers):
    """So many processes, with one thread each; one: this process."""

    jobs: int

    def each(
        self,
        function: Callable[[Any, Watch], Any],
        items: Iterable[Any],
        finished: Callable[[int, Any], None],
        watch: Callable[[int, float], None] = lambda i, part: None,
    ) -> None:
        """Do `function(item, watch)` for all items."""
        todo = list(items)
        jobs = min(self.jobs, len(todo))
        if jobs > 1:
            _together(function, todo, finished, watch, jobs)
            return
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as in a process of many: the same sums in the same order
        try:
            Here().each(function, todo, finished, watch)
        finally:
            torch.set_num_threads(threads)


def _together(
    function: Callable[[Any, Watch], Any],
    todo: list[Any],
    finished: Callable[[int, Any], None],
    watch: Callable[[int, float], None],
    jobs: int,
) -> None:
    begin_compiling()
    context = multiprocessing.get_context("spawn")
    news: SimpleQueue[tuple[int, float]] = context.SimpleQueue()
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start, initargs=(news,)) as pool:
        try:
            with interrupts_ignored():  # the processes inherit that: an interrupt is this process's business
                for _ in range(jobs):
                    pool.submit(_get_ready, function)
            finish_compiling()  # once, not in each of them
            with interrupts_ignored():
                running = {pool.submit(_do, function, i, item): i for i, item in enumerate(todo)}
            left = set(running)
            while left:
                done, left = wait(left, timeout=TICK, return_when=FIRST_COMPLETED)
                while not news.empty():
                    watch(*news.get())
                for future in done:
                    finished(running[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


@contextlib.contextmanager
def interrupts_ignored() -> Generator[None, None, None]:
    """Processes that are started meanwhile do not hear of Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# -- in a process of many ----------------------------------------------------------------------------------------------

_news: list[SimpleQueue[tuple[int, float]]] = []


def _start(news: SimpleQueue[tuple[int, float]]) -> None:
    """Prepare the process: one thread, a way to tell what is done, and an end when the one that started it ends."""
    torch.set_num_threads(1)
    _news.append(news)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _get_ready(function: Callable[[Any, Watch], Any]) -> None:
    """Import what there is to do: that is done by the time this is called."""


def _do(function: Callable[[Any, Watch], Any], i: int, item: Any) -> Any:
    return function(item, lambda part: _news[0].put((i, part)))
