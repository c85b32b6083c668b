"""Bit flips in what a run goes on from: it is refused with an error of the library, or comes to the same end."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from torch import Tensor

Resumed = Callable[[Path], Tensor]


def attack(seed: int) -> Iterator[str | None]:
    """Flips without end; a line for each that went on to another end, or raised something else."""
    from dissonance.errors import DissonanceError

    rng = random.Random(f"flips {seed}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        kept: list[tuple[str, Resumed, bytes, Tensor]] = []
        for name, resumed, begin in (("run", _run, _begin_run), ("training", _training, _begin_training)):
            begin(path)
            whole = path.read_bytes()
            expected = resumed(path)
            kept.append((name, resumed, whole, expected))
            path.unlink()
        for k in range(1 << 62):
            name, resumed, whole, expected = kept[k % 2]
            content = bytearray(whole)
            bit = rng.randrange(8 * len(content))
            content[bit // 8] ^= 1 << bit % 8
            path.write_bytes(content)
            try:
                same = bool((resumed(path) == expected).all())
                yield None if same else f"{name}, bit {bit}: goes on to another end"
            except DissonanceError as error:
                yield None if "\n" not in str(error) else f"{name}, bit {bit}: not one line: {error}"
            except Exception as error:
                yield f"{name}, bit {bit}: {type(error).__name__}: {error}"


def _run(path: Path, steps: int = 3) -> Tensor:
    from dissonance import PDG, Arc, SoftmaxTable, Variable, lir

    x = Variable("X", 3)
    pdg = PDG(Arc("p", (), x, SoftmaxTable([0.7, 0.2, 0.1])), Arc("q", (), x, SoftmaxTable([0.1, 0.3, 0.6])))
    return lir(pdg, "smooth", steps=steps, checkpoint=path).theta["p.logits"]


def _begin_run(path: Path) -> None:
    _run(path, 2)


def _training(path: Path, stop: int | None = None) -> Tensor:
    from dissonance.gflownets.grids import hyper_grid
    from dissonance.gflownets.trainer import TrainingPlan, TrainingRun
    from dissonance.gflownets.training import train

    def watch(done: int, _: int) -> None:
        if done == stop:
            raise KeyboardInterrupt

    plan = TrainingPlan(iterations=4, batch=8, capacity=16, width=8, depth=1)
    trainer, _ = train([TrainingRun()], hyper_grid(2, 4), plan, checkpoint=path, keep_every=2, progress=watch)
    return trainer.theta


def _begin_training(path: Path) -> None:
    try:
        _training(path, 3)
    except KeyboardInterrupt:
        return
