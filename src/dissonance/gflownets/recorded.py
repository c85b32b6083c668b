"""Launches recorded: what a GPU is told to do, told once and repeated."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class Recorded:
    """Calls a function of state that stays where it is on a GPU, recorded as a CUDA graph for each number it is given.

    It is computed at the first call with a number, recorded at the second and replayed from then on: a replay costs one
    launch, however many the function makes. It must be the same function at every call, read and write the same
    tensors and never wait for the GPU. What it returns is overwritten by the next call with the same number.
    """

    def __init__(self, active: bool) -> None:
        """If not active, the function is just called."""
        self.active = active
        self.graphs: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, Tensor] | None] = {}

    def __call__(self, function: Callable[..., Tensor], *numbers: int) -> Tensor:
        """The function of these numbers."""
        if not self.active:
            return function(*numbers)
        if numbers not in self.graphs:
            self.graphs[numbers] = None
            return function(*numbers)
        known = self.graphs[numbers]
        if known is None:
            known = self.graphs[numbers] = self._record(function, *numbers)
        graph, found = known
        graph.replay()
        return found

    def _record(self, function: Callable[..., Tensor], *numbers: int) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        """Graphs of one function are never replayed together, and share their memory."""
        former = next((known[0] for known in self.graphs.values() if known is not None), None)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=None if former is None else former.pool()):
            found = function(*numbers)
        return graph, found
