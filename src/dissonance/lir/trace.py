"""What a run leaves behind: a row a step, and snapshots of theta."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor

from dissonance.above import ask
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Focus
from dissonance.io import files
from dissonance.lir.plot import plot

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

NAN = math.nan


@dataclass(frozen=True)
class Record:
    """What a trace records beside the cheap things.

    `globally`: the inconsistency under the base attention, at every step (a narrow focus on a large PDG may want to do
    without). `distortion`: every so many steps, how far mu* has moved (0: at the start and the end only). `snapshots`:
    every so many steps, theta (0: none).
    """

    globally: bool = True
    distortion: int = 0
    snapshots: int = 0


@dataclass(frozen=True)
class Row:
    """theta^(t), and the focus it is about to be resolved under; the last row has none.

    Bounds are in nats, NaN where nothing was solved. `beta` and `chi` are the weights of the focus that are not 0 (chi:
    the largest component). `blame` is beta_a KL_a at the global mu*, `surprisal` by how much the targets surprise each
    cpd more than it expects. `tv_theta` is the mean over all rows of all tables of the total variation between p and
    the p of the start, `tv_mu` the total variation of mu* from its start. `solves`, `newton_steps`, `seconds`: what the
    step cost (seconds are shared by the runs of a batch). `projected`: the flow left the parameter space and was
    brought back. `residual`: largest gradient component that full control by descent has left.
    """

    step: int
    beta: dict[str, float] = field(default_factory=dict)
    gamma: float = 0.0
    chi: dict[str, float] = field(default_factory=dict)
    local_lower: float = NAN
    local_upper: float = NAN
    global_lower: float = NAN
    global_upper: float = NAN
    blame: dict[str, float] = field(default_factory=dict)
    surprisal: dict[str, float] = field(default_factory=dict)
    tv_theta: float = NAN
    tv_mu: float = NAN
    solves: int = 0
    newton_steps: int = 0
    seconds: float = 0.0
    projected: bool = False
    residual: float = 0.0

    def updated(self, changes: Mapping[str, Any]) -> Row:
        """The same row with other fields: what `dataclasses.replace` does, in a tenth of the time."""
        row = object.__new__(Row)
        row.__dict__.update(self.__dict__)
        row.__dict__.update(changes)
        row.__dict__.pop("line", None)
        return row

    @cached_property
    def line(self) -> str:
        """The row as a line of JSON, written once however often it is asked for."""
        return json.dumps({f: _plain(getattr(self, f)) for f in FIELDS}, allow_nan=False) + "\n"


FIELDS = tuple(f.name for f in fields(Row))


BLANK = Row(0)
"""A row in which nothing is filled in."""


@dataclass
class Trace:
    """The rows of a run so far; `base` is the focus that refocus procedures choose from, `now` the row being made."""

    base: Focus
    rows: list[Row] = field(default_factory=list)
    snapshots: dict[int, dict[str, Tensor]] = field(default_factory=dict, repr=False)
    now: Row = field(default_factory=lambda: Row(0))
    where: Callable[[], Mapping[str, Tensor]] = field(default=dict, repr=False)
    seen: Sequence[str] | None = field(default=None, repr=False)
    """The variables that an arc in the base attention mentions, once a refocus procedure has asked."""

    @property
    def theta(self) -> Mapping[str, Tensor]:
        """The present parameters of the run, keyed as its PDG has them."""
        return self.where()

    @property
    def attention(self) -> Attention:
        """The attention the global inconsistency is measured with."""
        return self.base.attention

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[Any]:
        """One field of every row."""
        return [getattr(r, name) for r in self.rows]

    def frame(self) -> pandas.DataFrame:
        """The rows as a pandas data frame."""
        try:
            import pandas
        except ImportError:
            raise DissonanceError("a data frame needs pandas: pip install pandas. `rows` holds the same.") from None
        return pandas.DataFrame([asdict(r) for r in self.rows])

    def lines(self) -> str:
        """The rows as JSON Lines; numbers that are not finite are the strings "inf", "-inf", "nan"."""
        return "".join(r.line for r in self.rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rows as JSON Lines, all of the file or nothing."""
        files.write(path, self.lines().encode())

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """A figure of the rows: inconsistency, how far theta and mu* have moved, solver steps; `path` writes it."""
        return plot(self.rows, path)

    def __repr__(self) -> str:
        seen = [r.global_upper for r in self.rows if not math.isnan(r.global_upper)]
        course = f", {seen[0]:.6g} -> {seen[-1]:.6g} nats" if seen else ""
        return f"Trace({len(self.rows)} rows{course})"

    def _repr_html_(self) -> str:
        return ask("html", self)


def rows_of_lines(lines: str) -> list[Row]:
    """The rows that `Trace.lines` wrote."""
    return [Row(**_numbers(json.loads(line))) for line in lines.splitlines()]


def _plain(x: Any) -> Any:
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    return str(x) if isinstance(x, float) and not math.isfinite(x) else x


def _numbers(x: Any) -> Any:
    if isinstance(x, dict):
        return {k: _numbers(v) for k, v in x.items()}
    return float(x) if isinstance(x, str) else x
