"""Several files are several sources: one PDG of all their beliefs, and which beliefs are whose."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dissonance.arc import Arc
from dissonance.cpds import Table
from dissonance.errors import DissonanceError, suggest
from dissonance.focus import Attention, Control, Focus, facts
from dissonance.io import files, load, source_name
from dissonance.io.merging import merged
from dissonance.names import ArcNames
from dissonance.pdg import PDG
from dissonance.variables import cells

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sources:
    """The beliefs of all sources together, how they are attended, and the arcs of each source by its name."""

    pdg: PDG
    focus: Focus
    arcs: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> ArcNames:
        """What the names of arcs, sources and patterns stand for."""
        return ArcNames(self.pdg, self.arcs, facts(self.focus.attention.on(self.pdg)))

    def smoothed(self, pseudocount: float) -> Sources:
        """The same, with so much added to every count: what was not seen is then not impossible."""
        counted = [a for a in self.pdg.arcs if a.counts is not None]
        if not counted:
            raise DissonanceError("a pseudocount goes with counts, and no source has any.")
        return replace(self, pdg=self.pdg.replace(*(with_pseudocount(a, pseudocount) for a in counted)))

    def trusting(self, trust: Mapping[str, float]) -> Sources:
        """The same, with the beta of every arc of a source multiplied by a number."""
        if not trust:
            return self
        beta = dict(self.focus.attention.beta)
        for name, factor in trust.items():
            if name not in self.arcs:
                raise DissonanceError(f"no source named {name!r}.{suggest(name, self.arcs)}")
            if not factor >= 0:
                raise DissonanceError(f"the trust in {name!r} is {factor:g}; it must be a number from 0 on, or inf.")
            for arc in self.arcs[name]:
                beta[arc] = 0.0 if factor == 0 else beta.get(arc, 0.0) * factor
        attention = self.focus.attention.replace(beta=beta)
        return replace(self, focus=replace(self.focus, attention=attention))


def load_sources(paths: Sequence[files.Source], *, gamma: float | None = None, learnable: bool = False) -> Sources:
    """Every file is a source, named as the file without folder and suffix; values are merged by their labels.

    Arcs keep their names; those that two sources share are called `source/arc`. A table is named after its file.
    """
    read = [(source_name(str(p)), *load(p, learnable=learnable)) for p in paths]
    if len(read) == 1:
        ((name, pdg, focus),) = read
        if gamma is not None:
            focus = replace(focus, attention=replace(focus.attention, gamma=gamma))
        return Sources(pdg, focus, {name: tuple(pdg.arc_names)})
    names = [name for name, _, _ in read]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise DissonanceError(f"two sources are named {twice!r}: rename one of the files.")
    gammas = {focus.attention.gamma for _, _, focus in read} if gamma is None else {gamma}
    if len(gammas) > 1:
        raise DissonanceError(
            f"the files have different gamma: {', '.join(f'{n} {f.attention.gamma:g}' for n, _, f in read)}. "
            "Say which one to use: gamma=..., or --gamma."
        )
    taken = Counter(a.name for _, pdg, _ in read for a in pdg.arcs)
    renamed = [{a.name: a.name if taken[a.name] == 1 else f"{name}/{a.name}" for a in p.arcs} for name, p, _ in read]
    pdgs = [_renamed(pdg, to) for (_, pdg, _), to in zip(read, renamed, strict=True)]
    beta, alpha, chi = {}, {}, {}
    for (_, _, focus), to in zip(read, renamed, strict=True):
        beta |= {to[n]: x for n, x in focus.attention.beta.items()}
        alpha |= {to[n]: x for n, x in focus.attention.alpha.items()}
        chi |= {to[n]: x for n, x in focus.control.chi.items()}
    together = Focus(Attention.only(beta, alpha, gammas.pop()), Control(chi))
    if scheduled := [name for name, _, focus in read if focus.schedules.foci]:
        _log.warning("the foci and schedules of %s are left out: they are about one file.", ", ".join(scheduled))
    return Sources(merged(pdgs), together, {n: tuple(to.values()) for n, to in zip(names, renamed, strict=True)})


def with_pseudocount(arc: Arc, pseudocount: float) -> Arc:
    """The belief of counts, with so much added to each: p(t|s) = (n(s,t) + pseudocount) / (n(s) + pseudocount |T|)."""
    if not 0 <= pseudocount < math.inf:
        raise DissonanceError(f"the pseudocount is {pseudocount:g}; it must be a number from 0 on.")
    assert arc.counts is not None
    rows = arc.counts.reshape(cells(arc.sources), -1) + pseudocount
    sums = rows.sum(1, keepdim=True)
    if bool((sums <= 0).any()):
        raise DissonanceError(f"{arc}: a row has no counts: give a pseudocount above 0.")
    table = Table((rows / sums).reshape(arc.counts.shape))
    return Arc(arc.name, arc.sources, arc.targets, table, beta=arc.beta, counts=arc.counts)


def _renamed(pdg: PDG, to: Mapping[str, str]) -> PDG:
    if all(old == new for old, new in to.items()):
        return pdg
    arcs = (Arc(to[a.name], a.sources, a.targets, a.cpd, beta=a.beta, counts=a.counts) for a in pdg.arcs)
    return PDG(*arcs, variables=pdg.variables)
