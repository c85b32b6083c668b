"""How the arrow of each arc of a PDG is drawn: its weight, its heads, the foci beside it, its blame."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import torch

from dissonance.arc import Arc
from dissonance.cpds import Table
from dissonance.drawing import style
from dissonance.drawing.arrows import ArrowStyle, Beside
from dissonance.focus import Attention, Focus
from dissonance.inconsistency import BlameRow, Inconsistency
from dissonance.pdg import PDG

Foci = Focus | Sequence[Focus] | Mapping[str, Focus]
Blame = Inconsistency | Mapping[str, float] | Sequence[BlameRow]

MOST_NOTES = 40
"""Up to how many arcs have their blame written beside them."""
SLIGHT = 0.003
"""A smaller part of the largest blame than this is not written."""
MOST_CELLS = 100_000
"""Tables up to this size are looked at: one of zeros and ones is deterministic."""


def arrow_styles(
    pdg: PDG,
    attention: Attention,
    foci: Mapping[str, Focus],
    chi: Mapping[str, Mapping[str, float]],
    blame: Mapping[str, float] | None,
    named: Collection[str],
) -> dict[str, ArrowStyle]:
    """The style of each arrow; those in `named` have their names written, unless that is their target's name.

    `chi`: by focus, how freely it lets each arc move.
    """
    betas = {a.name: attention.beta.get(a.name, 0.0) for a in pdg.arcs}
    most = max((abs(b) for b in betas.values() if math.isfinite(b)), default=0.0)
    beside = {a.name: _beside(a.name, list(foci.values()), list(chi.values())) for a in pdg.arcs}
    found = {a.name: _arrow_style(a, betas[a.name], most, beside[a.name], blame) for a in pdg.arcs}
    for a in pdg.arcs:
        repeated = len(a.targets) == 1 and a.name == a.targets[0].name
        if repeated or a.name not in named:
            found[a.name] = replace(found[a.name], hidden=True)
    return found if len(pdg) <= MOST_NOTES else {name: replace(k, note="") for name, k in found.items()}


def _arrow_style(
    arc: Arc, beta: float, most: float, beside: tuple[Beside, ...], blame: Mapping[str, float] | None
) -> ArrowStyle:
    colour, note = "muted" if beta == 0 else "ink", ""
    if blame is not None:
        mine = blame.get(arc.name, math.nan)
        colour = "muted" if math.isnan(mine) else style.blame_colour(share(mine, blame))
        note = short_number(mine) if mine > SLIGHT * max(largest(blame), 1e-9) else ""
    heads = 2 if is_deterministic(arc) else 1
    return ArrowStyle(arc.name, beta, style.line_width(beta, most), heads, colour, beside, note)


def _beside(name: str, foci: Sequence[Focus], controls: Sequence[Mapping[str, float]]) -> tuple[Beside, ...]:
    """The foci that control an arc, and those that attend to it if not all do so alike."""
    betas = [f.attention.beta.get(name, 0.0) for f in foci]
    told_apart = len(set(betas)) > 1
    found: list[Beside] = []
    for i, (control, beta) in enumerate(zip(controls, betas, strict=True)):
        controlled = control.get(name, 0.0) > 0
        if controlled or (told_apart and beta != 0):
            found.append(Beside(style.focus_colour(i), controlled))
    return tuple(found)


def is_deterministic(arc: Arc) -> bool:
    """Whether the targets are a function of the sources: by the kind of the cpd, or a table of zeros and ones."""
    if arc.cpd.deterministic:
        return True
    if not isinstance(arc.cpd, Table) or math.prod(v.size for v in arc.scope) > MOST_CELLS:
        return False
    with torch.no_grad():
        p = arc.cpd.table()
        return bool(((p == 0) | (p == 1)).all())


def foci_by_name(focus: Foci | None) -> dict[str, Focus]:
    """The foci with their names; without names they are counted."""
    if focus is None:
        return {}
    if isinstance(focus, Focus):
        return {"focus": focus}
    return dict(focus) if isinstance(focus, Mapping) else {f"focus {i}": f for i, f in enumerate(focus, 1)}


def shown_attention(pdg: PDG, foci: Mapping[str, Focus], blame: Blame | None) -> Attention:
    """What the widths mean by default: the attention blame was found with, the most of any focus, or the arcs' own."""
    if isinstance(blame, Inconsistency):
        return blame.attention
    if not foci:
        return Attention.of(None, pdg)
    betas = [f.attention.beta for f in foci.values()]
    return Attention.only({a.name: max((b.get(a.name, 0.0) for b in betas), key=abs) for a in pdg.arcs})


def blames(pdg: PDG, blame: Blame | None) -> dict[str, float] | None:
    """How much each arc is to blame: what it contributes, or the numbers as given."""
    if blame is None:
        return None
    if isinstance(blame, Inconsistency):
        blame = blame.by_arc(saved=False)
    if isinstance(blame, Mapping):
        return {pdg[name].name: float(x) for name, x in blame.items()}
    return {pdg[row.name].name: row.contribution for row in blame}


def share(mine: float, blame: Mapping[str, float]) -> float:
    """One arc's part of the largest blame."""
    most = largest(blame)
    return 1.0 if mine == math.inf else 0.0 if most <= 1e-9 else max(0.0, mine) / most


def largest(blame: Mapping[str, float]) -> float:
    """The largest blame that is a number."""
    return max((x for x in blame.values() if math.isfinite(x)), default=0.0)


def short_number(x: float) -> str:
    """A number with three digits, and infinity as its sign."""
    return "∞" if x == math.inf else f"{x:.3g}"
