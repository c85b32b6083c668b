"""The PDG whose arcs are rows of columns, made when they are asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from dissonance.arc import Arc, arc_ends
from dissonance.collector import uncollected
from dissonance.columns.column import Column
from dissonance.columns.numbered import Chosen, Numbered
from dissonance.columns.weights import ColumnWeights
from dissonance.costs import LOG_SCORE
from dissonance.errors import CapabilityError, DissonanceError
from dissonance.pdg import PDG
from dissonance.variables import Variable, shape

Ints = npt.NDArray[np.int64]


class ColumnarPDG(PDG):
    """A PDG in columns. It is a PDG like any other; its arcs and variables are made when they are asked for.

    `columns` hold the arcs, one column after another; `sizes` (variables,) how many values each variable has.
    """

    columns: tuple[Column, ...]
    sizes: Ints

    def __init__(self, columns: Sequence[Column], variables: Sequence[Variable] | Ints) -> None:
        """Of columns whose scopes are numbers of `variables`, given as they are or by their sizes."""
        given = None if isinstance(variables, np.ndarray) else tuple(variables)
        sizes = variables if isinstance(variables, np.ndarray) else np.array(shape(variables), dtype=np.int64)
        counts = [len(c) for c in columns]
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        names: list[str] | None = None
        if any(c.names is not None for c in columns):
            names = [
                n
                for c, a in zip(columns, first, strict=False)
                for n in c.names or [f"a{i}" for i in range(a, a + len(c))]
            ]
            if len(set(names)) != len(names):
                raise DissonanceError("two arcs of different columns have the same name.")
        if given is not None and len({v.name for v in given}) != len(given):
            raise DissonanceError("two variables have the same name.")
        make_variable = (lambda i: Variable(f"X{i}", int(sizes[i]))) if given is None else given.__getitem__
        known = None if given is None else [v.name for v in given]
        self.__dict__.update(
            columns=tuple(columns),
            sizes=sizes,
            first=first,
            _arc=Numbered(int(first[-1]), "a", names, self._made),
            _variable=Numbered(len(sizes), "X", known, make_variable),
        )

    @classmethod
    def of(cls, pdg: PDG) -> ColumnarPDG:
        """The columns of any PDG of tables, arcs of one shape together."""
        if isinstance(pdg, ColumnarPDG):
            return pdg
        number = {v.name: i for i, v in enumerate(pdg.variables)}
        kinds: dict[tuple[tuple[int, ...], tuple[int, ...], bool], list[Arc]] = {}
        for a in pdg.arcs:
            if not a.has_table or a.cpd.density:
                raise CapabilityError(f"{a} has no table of probabilities, and columns hold nothing else.")
            if a.cpd.cost is not LOG_SCORE:
                raise CapabilityError(f"{a} has the cost {a.cpd.cost.name!r}, and columns know of KL only.")
            moves = any(True for _ in a.cpd.parameters())
            kinds.setdefault((shape(a.sources), shape(a.targets), moves), []).append(a)
        columns: list[Column] = []
        for (_, _, moves), arcs in kinds.items():
            sources, targets = (
                np.array([[number[v.name] for v in side] for side in sides], dtype=np.int64).reshape(len(arcs), -1)
                for sides in ([a.sources for a in arcs], [a.targets for a in arcs])
            )
            columns.append(
                Column.made(
                    sources=sources,
                    targets=targets,
                    tables=torch.stack([a.log_table() if moves else a.cpd.table() for a in arcs]).detach(),
                    names=[a.name for a in arcs],
                    beta=np.array([a.beta for a in arcs], dtype=np.float64),
                    learnable=moves,
                )
            )
        return cls(columns, pdg.variables)

    @property
    def implicit_names(self) -> tuple[bool, bool]:
        """Whether variables, and arcs, are called by their numbers."""
        return not self.__dict__["_variable"].named, not self.__dict__["_arc"].named

    @cached_property
    def arcs(self) -> tuple[Arc, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All arcs, each made."""
        with uncollected():
            return tuple([self.arc(i) for i in range(len(self))])

    @cached_property
    def variables(self) -> tuple[Variable, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All variables, each made."""
        return tuple(self.__dict__["_variable"].at(i) for i in range(len(self.sizes)))

    def arc(self, number: int) -> Arc:
        """The arc of that number."""
        return self.__dict__["_arc"].at(number)

    def number(self, name: str) -> int:
        """The number of an arc."""
        return self.__dict__["_arc"].index(name)

    def place(self, number: int) -> tuple[int, int]:
        """The column of an arc, and its row there."""
        first: Ints = self.__dict__["first"]
        k = int(np.searchsorted(first, number, side="right")) - 1
        return k, number - int(first[k])

    def name(self, column: int, row: int) -> str:
        """The name of the arc of a row of a column."""
        return self.__dict__["_arc"].name(int(self.__dict__["first"][column]) + row)

    def _made(self, number: int) -> Arc:
        k, row = self.place(number)
        column = self.columns[k]
        variables: Numbered[Variable] = self.__dict__["_variable"]
        sources, targets = (tuple(variables.at(int(i)) for i in side[row]) for side in (column.sources, column.targets))
        made = object.__new__(Arc)
        made.__dict__.update(
            arc_ends(sources, targets),
            name=str(self.name(k, row)),
            cpd=column.cpd(row),
            beta=float(column.beta[row]),
            counts=None,
        )
        return made

    def weights(self, each: Sequence[npt.NDArray[np.float64]]) -> ColumnWeights:
        """Weights of all arcs, column by column; NaN: the arc is left out."""
        return ColumnWeights(self.__dict__["_arc"], np.concatenate([np.zeros(0), *each]))

    @property
    def confidence(self) -> ColumnWeights:
        """The beta that each arc has of its own."""
        return self.weights([c.beta for c in self.columns])

    @property
    def movable(self) -> ColumnWeights:
        """1 for every arc that has parameters."""
        return self.weights([np.full(len(c), 1.0 if c.learnable else np.nan) for c in self.columns])

    @cached_property
    def log_settings(self) -> float:
        """log of the number of joint settings of all variables."""
        return math.fsum(map(math.log, self.sizes.tolist()))

    @property
    def fingerprinted(self) -> object:
        """What says all of it: the arrays, and the names if there are any."""
        columns = [(c.sources, c.targets, c.tables, c.beta, c.learnable) for c in self.columns]
        by_number = self.implicit_names
        variables = self.sizes if by_number[0] else self.variables
        return columns, variables, None if by_number[1] else np.array(self.arc_names)

    def around(self, variable: str) -> tuple[Arc, ...]:
        """The arcs that mention a variable."""
        variables: Numbered[Variable] = self.__dict__["_variable"]
        i = variables.index(self.variable(variable).name)
        at, arcs = self.incidence
        return tuple(self.arc(int(a)) for a in arcs[at[i] : at[i + 1]])

    @cached_property
    def scopes(self) -> tuple[Ints, Ints]:
        """Where the scope of each arc begins, (arcs + 1,), and the variables of all scopes."""
        widths = [np.full(len(c), c.scopes.shape[1]) for c in self.columns]
        at = np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, dtype=np.int64), *widths]))])
        return at.astype(np.int64), np.concatenate([np.zeros(0, np.int64), *(c.scopes.ravel() for c in self.columns)])

    @cached_property
    def incidence(self) -> tuple[Ints, Ints]:
        """Where the arcs at each variable begin, (variables + 1,), and those arcs, in order."""
        at, variables = self.scopes
        arcs = np.repeat(np.arange(len(self)), np.diff(at))
        order = np.argsort(variables, kind="stable")
        return np.searchsorted(variables[order], np.arange(len(self.sizes) + 1)), arcs[order]

    def learnable(self, *names: str) -> PDG:
        """The same beliefs with parameters that can move: of these arcs, or of all."""
        return super().learnable(*names) if names else self.with_columns([c.made_learnable() for c in self.columns])

    def with_columns(self, columns: Sequence[Column]) -> ColumnarPDG:
        """The same variables with other tables."""
        return ColumnarPDG(columns, self.sizes if self.implicit_names[0] else self.variables)

    def __reduce__(self) -> tuple[object, ...]:
        return ColumnarPDG, (self.columns, self.sizes if self.implicit_names[0] else self.variables)

    def __repr__(self) -> str:
        n, m = len(self.sizes), len(self)
        if m <= 20 and n <= 20:
            return super().__repr__()
        return f"PDG({n} variables, {m} arcs in {len(self.columns)} columns)"


def mentioned(pdg: PDG, beta: Mapping[str, float]) -> Sequence[str]:
    """The variables that an arc with a weight other than 0 mentions, in order."""
    if not isinstance(pdg, ColumnarPDG):
        known = {v.name for a in pdg.arcs if beta.get(a.name) for v in a.scope}
        return [v.name for v in pdg.variables if v.name in known]
    weights = beta if isinstance(beta, ColumnWeights) else pdg.confidence.filled(0.0) | beta
    at, variables = pdg.scopes
    attended = np.repeat(np.nan_to_num(weights.numbers) != 0, np.diff(at))
    seen = np.flatnonzero(np.bincount(variables[attended], minlength=len(pdg.sizes)))
    return Chosen(pdg.__dict__["_variable"], seen)
