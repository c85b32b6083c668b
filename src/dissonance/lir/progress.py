"""A progress bar on a terminal, nothing elsewhere; a callback for TensorBoard."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from dissonance.errors import DissonanceError
from dissonance.lir.trace import Trace


class Bar:
    """Steps done, out of so many. `shown`: False never shows it; else it is shown on a terminal or in a notebook."""

    def __init__(self, shown: bool | None, total: int) -> None:
        self.total, self.done = total, 0
        self.bar: Any = None
        if shown is False or (shown is None and not sys.stderr.isatty()):
            return
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        if console.is_terminal or console.is_jupyter:
            self.bar = Progress(console=console, transient=True)
            self.task = self.bar.add_task("resolving", total=total)

    @property
    def callbacks(self) -> list[Bar]:
        """What a run calls after every step: the bar, if there is one to see."""
        return [] if self.bar is None else [self]

    def __call__(self, step: int, traces: Sequence[Trace]) -> None:
        """Advance the bar by one step, as a callback of a run."""
        self.advance(1)

    def advance(self, count: int) -> None:
        """Advance the bar by so many steps."""
        if self.bar is not None:
            self.bar.advance(self.task, count)

    def __enter__(self) -> Bar:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()


class TensorBoard:
    """A callback that writes every run's inconsistency and distortion for TensorBoard."""

    def __init__(self, folder: str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise DissonanceError("the TensorBoard callback needs tensorboard: pip install tensorboard.") from None
        self.writer: Any = SummaryWriter(folder)

    def __call__(self, step: int, traces: Sequence[Trace]) -> None:
        """The row that was just finished, of every run."""
        for k, trace in enumerate(traces):
            row = trace.rows[-1]
            for name in ("local_upper", "global_upper", "tv_theta", "tv_mu", "newton_steps"):
                value = getattr(row, name)
                if value == value:
                    self.writer.add_scalar(f"{name}/{k}", value, row.step)
        self.writer.flush()
