"""Several files are several sources: one PDG of all their beliefs, and which beliefs are whose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dissonance.errors import DissonanceError, suggest
from dissonance.focus import Attention, Control, Focus
from dissonance.io import files, load, source_name
from dissonance.io.merging import merged
from dissonance.pdg import PDG, Arc


@dataclass(frozen=True)
class Sources:
    """The beliefs of all sources together, how they are attended, and the arcs of each source by its name."""

    pdg: PDG
    focus: Focus
    arcs: Mapping[str, tuple[str, ...]]

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
            focus = Focus(replace(focus.attention, gamma=gamma), focus.control)
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
    focus = Focus(Attention.only(beta, alpha, gammas.pop()), Control(chi))
    return Sources(merged(pdgs), focus, {n: tuple(to.values()) for n, to in zip(names, renamed, strict=True)})


def _renamed(pdg: PDG, to: Mapping[str, str]) -> PDG:
    if all(old == new for old, new in to.items()):
        return pdg
    arcs = (Arc(to[a.name], a.sources, a.targets, a.cpd, beta=a.beta, counts=a.counts) for a in pdg.arcs)
    return PDG(*arcs, variables=pdg.variables)
