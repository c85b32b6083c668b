"""The part of a run that its focus is about, as a run of its own: a step costs what its focus costs.

An arc without attention and without control changes nothing in a step: the local problem, its solution and the flow are
those of the PDG of the other arcs. Variables that are not in it add a constant, -gamma log |V|, to the inconsistency.
(At gamma = 0 mu* need not be unique, and this may find another one than a look at the whole does.)

That is done where nothing else looks at the whole at every step: for a single run of many arcs whose trace does without
the global inconsistency, `Record(globally=False)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from dissonance.columns import ColumnarPDG
from dissonance.focus import Focus
from dissonance.lir.flows import Flow
from dissonance.lir.foci import Foci
from dissonance.lir.in_columns import ColumnParameters
from dissonance.lir.inner import Inner, inner_for
from dissonance.lir.parameters import Parameters, Stacked
from dissonance.lir.setting import Setting
from dissonance.lir.trace import Record
from dissonance.pdg import PDG

MANY = 100
"""Arcs of a PDG from which on parts of it are solved by themselves."""

SHARE = 0.25
"""The largest share of the arcs that is a part: of more, what is known of the whole is worth more."""

REMEMBERED = 64
"""How many parts are remembered, for foci that come back."""


class Part:
    """Some of the arcs of a run: their parameters, under the names they have in the whole, and their inner problem."""

    def __init__(self, setting: Setting, names: Sequence[str], focus: Focus) -> None:
        whole = setting.parameters
        self.parameters = Parameters([PDG(*(whole.pdgs[0][n] for n in names))])
        self.key_of = {own: whole.home[own] for own, home in self.parameters.home.items() if own == home}
        self.foci = Foci(self.parameters)
        self.start = self.theta(whole.theta0)
        self._inner = inner_for(self.parameters, setting.solver, focus.attention)
        self.shared = whole.held_outside(self.key_of.values(), names)

    def inner(self) -> Inner:
        """The inner problem without memory: a step depends on the steps before it through theta only."""
        return self._inner.fork()

    def theta(self, whole: Mapping[str, Tensor]) -> Stacked:
        """The parameters of these arcs."""
        return {own: whole[key] for own, key in self.key_of.items()}

    @property
    def settings(self) -> float:
        """log of the number of joint settings of its variables."""
        return self.parameters.pdgs[0].log_settings

    def distance(self, theta: Stacked) -> Tensor:
        """The total variation between p and the p of the start, added up over all rows of its tables, (1,)."""
        return self.parameters.distance(theta, self.start)


def apart(arcs: int, record: Record) -> bool:
    """Whether a run of so many arcs is done part by part, and therefore by itself."""
    return arcs >= MANY and not record.globally


def parameters_of(pdgs: Sequence[PDG], record: Record) -> Parameters:
    """The parameters of runs of one structure: of one that is done part by part on columns, nothing for every arc."""
    (first, *others) = pdgs
    if not others and isinstance(first, ColumnarPDG) and apart(len(first), record):
        return ColumnParameters(first)
    return Parameters(pdgs)


class FocusParts:
    """The parts that the foci of a run are about."""

    def __init__(self, setting: Setting, flow: Flow) -> None:
        self.setting, self._known = setting, dict[tuple[str, ...], Part]()
        parameters = setting.parameters
        large = len(parameters) == 1 and apart(len(parameters.pdgs[0]), setting.record)
        plain = setting.solver.name != "paper" and not hasattr(flow, "dump")  # these remember all of theta, or of mu
        self.any = large and plain and not setting.base.attention.varying and parameters.tabular

    @property
    def settings(self) -> float:
        """log of the number of joint settings of all variables."""
        return self.setting.parameters.pdgs[0].log_settings

    def of(self, focus: Focus) -> Part | None:
        """The part that a focus is about; None if it is not a small one."""
        attention = focus.attention
        if not self.any or focus.context or attention.varying:
            return None
        parameters, most = self.setting.parameters, SHARE * len(self.setting.parameters.pdgs[0])
        weights = [attention.beta] if attention.gamma == 0 else [attention.beta, attention.alpha]
        seen = {n for each in weights for n, w in each.items() if w}
        pdg = parameters.pdgs[0]
        seen |= {key if key in pdg else parameters.arc_of.get(key, key) for key in focus.control.chi}
        if not 0 < len(seen) <= most:
            return None
        names = tuple(sorted(seen, key=parameters.place))
        if names not in self._known:
            self._known[names] = Part(self.setting, names, focus)
            if len(self._known) > REMEMBERED:
                self._known.pop(next(iter(self._known)))
        return self._known[names]
