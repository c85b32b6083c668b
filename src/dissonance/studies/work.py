"""Computing what is left of a study, in this process or in several."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing.queues import SimpleQueue

import torch

from dissonance.solvers.exact import precompile
from dissonance.studies.synthetic import Batch, SyntheticFolder

Progress = Callable[[float, int], None]
"""Called with how many runs are done, parts of runs counted in, and of how many."""
Report = Callable[[int, float], None]
"""Called with a batch's place in what there is to do and how much of it is done."""
TICK = 0.2
"""Seconds between two looks at what the processes have done."""


def compute(folder: SyntheticFolder, *, jobs: int = 1, progress: Progress | None = None) -> None:
    """Compute the batches of the folder's study that are not kept yet."""
    batches = list(folder.study.batches())
    todo = [b for b in batches if folder.kept(b) is None]
    todo.sort(key=lambda b: -b.place)  # the larger structures first: no process is left alone with one at the end
    total = sum(map(folder.study.runs, batches))
    parts = dict.fromkeys(range(len(todo)), 0.0)

    def report(i: int, part: float) -> None:
        parts[i] = max(parts[i], part)
        if progress:
            progress(total - sum((1 - p) * folder.study.runs(todo[k]) for k, p in parts.items()), total)

    if todo:
        report(0, 0.0)
        (_alone if min(jobs, len(todo)) == 1 else _together)(folder, todo, min(jobs, len(todo)), report)
    folder.tidy()


def _alone(folder: SyntheticFolder, todo: Sequence[Batch], _: int, report: Report) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a process of many: the same sums in the same order
    try:
        for i, batch in enumerate(todo):
            folder.compute(batch, lambda part, i=i: report(i, part))
            report(i, 1.0)
    finally:
        torch.set_num_threads(threads)


def _together(folder: SyntheticFolder, todo: Sequence[Batch], jobs: int, report: Report) -> None:
    precompile()
    context = multiprocessing.get_context("spawn")
    news: SimpleQueue[tuple[int, float]] = context.SimpleQueue()
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start, initargs=(news,)) as pool:
        try:
            with _interrupts_ignored():  # the processes inherit that: an interrupt is this process's business
                running = {pool.submit(_compute, folder, i, batch): i for i, batch in enumerate(todo)}
            left = set(running)
            while left:
                finished, left = wait(left, timeout=TICK, return_when=FIRST_COMPLETED)
                while not news.empty():
                    report(*news.get())
                for future in finished:
                    future.result()
                    report(running[future], 1.0)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


# -- in a process of many ----------------------------------------------------------------------------------------------

_news: list[SimpleQueue[tuple[int, float]]] = []


def _start(news: SimpleQueue[tuple[int, float]]) -> None:
    """Prepare the process: one thread, a way to tell what is done, and an end when the one that started it ends."""
    torch.set_num_threads(1)
    _news.append(news)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _compute(folder: SyntheticFolder, i: int, batch: Batch) -> None:
    folder.compute(batch, lambda part: _news[0].put((i, part)))


@contextlib.contextmanager
def _interrupts_ignored() -> Generator[None, None, None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
