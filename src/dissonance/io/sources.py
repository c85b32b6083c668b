"""Several files are several sources: one PDG of all their beliefs, and which beliefs are whose."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dissonance.arc import Arc
from dissonance.cpds import Factor, Table
from dissonance.errors import DissonanceError, suggest
from dissonance.focus import Attention, Control, Focus, facts
from dissonance.io import files, load, load_with_alphas, source_name
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


class _ArcsOfSources(dict[str, tuple[str, ...]]):
    """The arcs of each of several sources, and which of all arcs share the alpha of their mechanism."""

    def __init__(self, arcs: Mapping[str, tuple[str, ...]], sharing: frozenset[str]) -> None:
        super().__init__(arcs)
        self.sharing = sharing


def attending(sources: Sources, attention: Attention) -> Sources:
    """The sources under this attention, in which a mechanism that n of them state counts once.

    alpha_a = 1/n for its arcs, but those whose alpha is written in a file, and those that are out of attention.
    """
    sharing = sources.arcs.sharing if isinstance(sources.arcs, _ArcsOfSources) else ()
    of = {n: sources.pdg[n].mechanism for n in sharing if attention.alpha.get(n)}
    stated = Counter(m for names in sources.arcs.values() for m in {of[n] for n in names if n in of})
    attention = attention.replace(alpha={n: 1 / stated[m] for n, m in of.items()})
    return replace(sources, focus=replace(sources.focus, attention=attention))


def load_sources(paths: Sequence[files.Source], *, gamma: float | None = None, learnable: bool = False) -> Sources:
    """Every file is a source, named as the file without folder and suffix; values are merged by their labels.

    Arcs keep their names; those that two sources share are called `source/arc`. A table is named after its file.

    A mechanism (the same targets given the same sources) that n sources state counts once: its arcs have alpha = 1/n,
    but those whose alpha is written in their file. Arcs side by side in one file have alpha = 1 each, as in the paper.
    A factor states no mechanism.
    """
    if len(paths) == 1:
        pdg, focus = load(paths[0], learnable=learnable)
        if gamma is not None:
            focus = replace(focus, attention=replace(focus.attention, gamma=gamma))
        return Sources(pdg, focus, {source_name(str(paths[0])): tuple(pdg.arc_names)})
    found = [load_with_alphas(p, learnable=learnable) for p in paths]
    written = [alphas for _, _, alphas in found]
    read = [(source_name(str(p)), pdg, focus) for p, (pdg, focus, _) in zip(paths, found, strict=True)]
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
    sharing = frozenset(
        to[a.name]
        for (_, pdg, _), to, alphas in zip(read, renamed, written, strict=True)
        for a in pdg.arcs
        if a.name not in alphas and not isinstance(a.cpd, Factor)
    )
    arcs = {n: tuple(to.values()) for n, to in zip(names, renamed, strict=True)}
    return attending(Sources(merged(pdgs), together, _ArcsOfSources(arcs, sharing)), together.attention)


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
