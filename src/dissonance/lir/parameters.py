"""The parameters of P runs of one structure, stacked: theta, the tables it stands for, and where it may not go."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from functools import cached_property

import torch
from torch import Tensor

from dissonance.arc import Arc
from dissonance.errors import CapabilityError, DissonanceError, FormatError
from dissonance.focus import Control
from dissonance.pdg import PDG
from dissonance.variables import cells

Stacked = dict[str, Tensor]
"""theta of P runs: "arc.parameter" -> (P, ...)."""


def stacked(theta: Mapping[str, Tensor]) -> Stacked:
    """theta as a dictionary: itself, if it is one."""
    return theta if isinstance(theta, dict) else dict(theta)


class Parameters:
    """The parameters of PDGs that differ in their numbers only.

    A parameter that several arcs share appears once, under the name of the first.
    """

    def __init__(self, pdgs: Sequence[PDG]) -> None:
        self.pdgs = tuple(pdgs)
        for pdg in self.pdgs[1:]:
            _check_alike(self.pdgs[0], pdg)

    @cached_property
    def arcs(self) -> tuple[Arc, ...]:
        """The arcs of the first of them."""
        return self.pdgs[0].arcs

    @cached_property
    def home(self) -> Mapping[str, str]:
        """The name under which theta has each parameter."""
        first: dict[int, str] = {}
        return {key: first.setdefault(id(p), key) for key, p in self.pdgs[0].theta.items()}

    @cached_property
    def shared(self) -> Mapping[str, str]:
        """The name under which theta has each parameter that it has under another's name."""
        return {key: home for key, home in self.home.items() if key != home}

    @cached_property
    def arc_of(self) -> Mapping[str, str]:
        """The arc of every parameter."""
        return {f"{a.name}.{n}": a.name for a in self.arcs for n, _ in a.cpd.named_parameters()}

    def __len__(self) -> int:
        return len(self.pdgs)

    def one(self, k: int) -> Parameters:
        """Those of run k by itself."""
        return Parameters(self.pdgs[k : k + 1])

    @cached_property
    def theta0(self) -> Mapping[str, Tensor]:
        """The default parameters, copied."""
        each = [pdg.theta for pdg in self.pdgs]
        return {k: torch.stack([t[k].detach() for t in each]) for k, home in self.home.items() if k == home}

    def begin(self) -> MutableMapping[str, Tensor]:
        """theta at the start, to be moved."""
        return dict(self.theta0)

    def moved(self, theta: Stacked) -> MutableMapping[str, Tensor]:
        """theta after a step that may have moved all of it."""
        return theta

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        """All names of each parameter."""
        found: dict[str, list[str]] = {}
        for key, home in self.home.items():
            found.setdefault(home, []).append(key)
        return found

    def own(self, arc: Arc, theta: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The parameters of one arc by their own names."""
        return {n: theta[self.home[f"{arc.name}.{n}"]] for n, _ in arc.cpd.named_parameters()}

    @cached_property
    def keys_of(self) -> dict[str, list[str]]:
        """The names of the parameters of each arc, but for those without components."""
        return {
            a.name: [self.home[f"{a.name}.{n}"] for n, p in a.cpd.named_parameters() if p.numel()] for a in self.arcs
        }

    def tied(self, arc: Arc) -> list[Arc]:
        """The arcs that have a parameter in common with this one, itself among them."""
        return list(self._tied[arc.name])

    @cached_property
    def _tied(self) -> dict[str, list[Arc]]:
        using: dict[str, set[int]] = {}
        for i, a in enumerate(self.arcs):
            for key in self.keys_of[a.name]:
                using.setdefault(key, set()).add(i)
        keys = {a.name: tuple(self.keys_of[a.name]) for a in self.arcs}
        numbers = {own: sorted(set[int]().union(*(using[k] for k in own))) for own in set(keys.values())}
        arcs = {own: [self.arcs[i] for i in found] for own, found in numbers.items()}
        return {name: arcs[own] for name, own in keys.items()}

    @cached_property
    def number(self) -> dict[str, int]:
        """Where each arc is among the arcs."""
        return {a.name: i for i, a in enumerate(self.arcs)}

    def projects(self, arc: Arc) -> bool:
        """Whether the argmin over the parameters of an arc, and of those tied to it, has a closed form."""
        keys = tuple(self.keys_of[arc.name])
        if keys not in self._projects:
            tied = self._tied[arc.name]
            alike = all(a.cpd.can("match") and self.keys_of[a.name] == list(keys) for a in tied)
            self._projects[keys] = arc.cpd.can("project") if len(tied) == 1 else alike
        return self._projects[keys]

    @cached_property
    def _projects(self) -> dict[tuple[str, ...], bool]:
        return {}

    def place(self, name: str) -> int:
        """Where an arc is among the arcs."""
        return self.number[name]

    def held_outside(self, keys: Iterable[str], names: Collection[str]) -> bool:
        """Whether an arc that is not among these has one of the parameters."""
        here = {self.number[name] for name in names}
        return any(not here.issuperset(self.users.get(key, ())) for key in keys)

    @cached_property
    def users(self) -> dict[str, list[int]]:
        """The arcs, by number, that have each parameter."""
        found: dict[str, list[int]] = {}
        for i, arc in enumerate(self.arcs):
            for key in self.keys_of[arc.name]:
                found.setdefault(key, []).append(i)
        return found

    def of(self, k: int, theta: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The parameters of one run, keyed as its PDG has them."""
        return {key: theta[home][k] for key, home in self.home.items()}

    @cached_property
    def drawn(self) -> bool:
        """Whether some arc can only be drawn from and scored."""
        return any([a.is_drawn for a in self.arcs])

    # -- tables ----------------------------------------------------------------------------------------------------

    @cached_property
    def tabular(self) -> bool:
        """Whether every arc is a table of probabilities."""
        if any(arc.cpd.density for arc in self.arcs):
            return False
        try:
            for arc in self.arcs:
                arc.log_table()
        except CapabilityError:
            return False
        return True

    @cached_property
    def shapes(self) -> list[tuple[int, int]]:
        """(source settings, target settings) of every arc; (0, 0) of one whose variables are not finite."""
        finite = [all(v.is_finite for v in a.scope) for a in self.arcs]
        return [(cells(a.sources), cells(a.targets)) if f else (0, 0) for a, f in zip(self.arcs, finite, strict=True)]

    @cached_property
    def rows(self) -> int:
        """The rows of all tables."""
        return sum(rows for rows, _ in self.shapes)

    def distance(self, theta: Mapping[str, Tensor], start: Mapping[str, Tensor]) -> Tensor:
        """The total variation between the tables at theta and at the start, added up over all rows, (P,)."""
        with torch.no_grad():
            p, q = (self.log_tables(x).exp() for x in (theta, start))
        return 0.5 * (p - q).abs().sum(1)

    @cached_property
    def spans(self) -> dict[str, slice]:
        """Where the entries of each arc lie in a flat vector of all tables."""
        found: dict[str, slice] = {}
        at = 0
        for arc, (s, t) in zip(self.arcs, self.shapes, strict=True):
            found[arc.name] = slice(at, at + s * t)
            at += s * t
        return found

    @cached_property
    def arc_at(self) -> Tensor:
        """(entries,) the arc of each entry."""
        return torch.repeat_interleave(torch.arange(len(self.arcs)), torch.tensor([s * t for s, t in self.shapes]))

    @cached_property
    def row_at(self) -> Tensor:
        """(entries,) the row (arc and source setting) of each entry, numbered from 0."""
        widths = torch.tensor([t for s, t in self.shapes for _ in range(s)])
        return torch.repeat_interleave(torch.arange(len(widths)), widths)

    def by_arc(self, x: Tensor) -> Tensor:
        """(P, entries) added up arc by arc, (P, arcs)."""
        return x.new_zeros(len(x), len(self.arcs)).index_add_(1, self.arc_at, x)

    def along_rows(self, x: Tensor) -> Tensor:
        """(P, entries): at every entry the sum over its row."""
        return x.new_zeros(len(x), int(self.row_at[-1]) + 1).index_add_(1, self.row_at, x)[:, self.row_at]

    @cached_property
    def _constant(self) -> dict[str, Tensor]:
        """The tables that nothing can move."""
        fixed = [a.name for a in self.arcs if not any(True for _ in a.cpd.parameters()) and not a.is_euclidean]
        return {n: torch.stack([p[n].log_table().detach().reshape(-1) for p in self.pdgs]) for n in fixed}

    def log_table(self, i: int, theta: Mapping[str, Tensor], runs: Tensor | None = None) -> Tensor:
        """log p(T|S) of arc i, (P, source settings, target settings); differentiable in theta.

        `runs`: theta is that of some runs only.
        """
        arc, shape = self.arcs[i], (-1, *self.shapes[i])
        if arc.name in self._constant:
            table = self._constant[arc.name]
            return (table if runs is None else table[runs]).reshape(shape)
        if arc.cpd.saturated:
            return arc.cpd.log_rows(theta[self._stored(arc)].reshape(shape))
        pdgs = self.pdgs if runs is None else [self.pdgs[k] for k in runs.tolist()]
        each = [pdg[arc.name].log_table(self.of(k, theta)) for k, pdg in enumerate(pdgs)]
        return torch.stack(each).reshape(shape)

    def log_tables(self, theta: Mapping[str, Tensor], runs: Tensor | None = None) -> Tensor:
        """All of them, (P, entries), one arc after another in C order."""
        return torch.cat([self.log_table(i, theta, runs).flatten(1) for i in range(len(self.arcs))], 1)

    def pull(self, theta: Stacked, slope: Tensor, runs: Tensor | None = None) -> Stacked:
        """Derivatives in log p (P, entries) as derivatives in theta."""
        if self._logits is not None:
            p = self.log_tables(theta, runs).exp()
            found = slope - p * self.along_rows(slope)
            return {key: found[:, self.spans[name]].reshape(theta[key].shape) for key, name in self._logits.items()}
        leaves = {k: v.detach().requires_grad_() for k, v in theta.items()}
        with torch.enable_grad():
            total = (self.log_tables(leaves, runs) * slope).sum()  # its value means nothing
        slopes = torch.autograd.grad(total, list(leaves.values()), allow_unused=True, materialize_grads=True)
        return dict(zip(theta, slopes, strict=True))

    @cached_property
    def _logits(self) -> dict[str, str] | None:
        """The arc of every parameter if all are logits of tables of their own, which makes derivatives simple."""
        movable = [a for a in self.arcs if a.name not in self._constant]
        plain = all(a.cpd.softmax for a in movable) and len(movable) == len(self.theta0)
        return {self._stored(a): a.name for a in movable} if plain else None

    def _stored(self, arc: Arc) -> str:
        """The name of the parameter that makes the table of an arc whose cpd is saturated."""
        return self.home[f"{arc.name}.{arc.cpd.stored}"]

    def with_table(self, i: int, theta: Stacked, p: Tensor, where: Tensor) -> Stacked:
        """theta with rows `where` (P, s) of the saturated arc i set to p (P, s, t)."""
        arc = self.arcs[i]
        key = self._stored(arc)
        new = torch.where(where[..., None], arc.cpd.from_rows(p), theta[key].reshape(p.shape))
        return {**theta, key: new.reshape(theta[key].shape)}

    # -- where theta may be ----------------------------------------------------------------------------------------

    def admissible(self, theta: Stacked) -> tuple[Stacked, Tensor]:
        """theta brought back to the parameter space where it has left it, and which runs had, (P,)."""
        left = torch.zeros(len(next(iter(theta.values()))), dtype=torch.bool)
        moved: Stacked = {}
        for arc in self.arcs:
            if not arc.cpd.bounded:
                continue
            for name, _ in arc.cpd.named_parameters():
                key = self.home[f"{arc.name}.{name}"]
                if theta[key].numel():
                    moved[key], outside = arc.cpd.retracted(name, theta[key], self.theta0[key])
                    left |= outside
        return ({**theta, **moved} if moved else theta), left

    @cached_property
    def boundless(self) -> frozenset[str]:
        """The parameters that may be any numbers."""
        bounded = {key for a in self.arcs if a.cpd.bounded for key in self.keys_of[a.name]}
        return frozenset(self.theta0) - bounded

    def nonfinite(self, theta: Mapping[str, Tensor]) -> list[str]:
        """The parameters whose components do not add up to a finite number."""
        return [key for key, x in theta.items() if not math.isfinite(float(x.sum()))]

    # -- control and results ---------------------------------------------------------------------------------------

    def control(self, controls: Sequence[Control]) -> Stacked:
        """chi of every parameter component of every run, (P, ...); "arc.parameter" goes before "arc".

        A key that is the name of an arc is about that arc, and not about a parameter of another one.
        """
        found: Stacked = {}
        for key, start in self.theta0.items():
            names = [n for n in self._names[key] if n not in self.pdgs[0]]
            names += [self.arc_of[n] for n in self._names[key]]
            each: list[Tensor] = []
            for chi in controls:
                given = [n for n in names if n in chi.chi]
                weight = chi.chi[given[0]] if given else 0.0
                each.append(torch.as_tensor(weight, dtype=start.dtype).expand(start.shape[1:]))
            found[key] = torch.stack(each) if len(each) > 1 else each[0][None]
        return found

    def pdg(self, k: int, theta: Mapping[str, Tensor]) -> PDG:
        """The PDG of run k at theta: its own cpds, copied."""
        return self.pdgs[k].at(self.of(k, theta))

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def kept(self, theta: Mapping[str, Tensor], keys: Collection[str]) -> dict[str, Tensor]:
        """The parameters that are asked for, as a checkpoint has them."""
        return {key: theta[key] for key in keys}

    def resumed(self, kept: Mapping[str, Tensor], where: str) -> MutableMapping[str, Tensor]:
        """theta of what was kept: all of it, and what has moved since."""
        if {key: x.shape for key, x in kept.items()} != {key: x.shape for key, x in self.theta0.items()}:
            raise FormatError(f"{where}: holds parameters of other shapes. Delete it, or name another file.")
        return dict(kept)


def alike(pdg: PDG) -> object:
    """A key that PDGs have in common when they differ in their numbers only."""
    arcs = [
        (a.name, a.sources, a.targets, type(a.cpd), tuple((n, p.shape) for n, p in a.cpd.named_parameters()))
        for a in pdg
    ]
    return tuple(arcs), pdg.variables


def _check_alike(one: PDG, other: PDG) -> None:
    if alike(one) != alike(other):
        odd = next((b for a, b in zip(one, other, strict=False) if alike(PDG(a)) != alike(PDG(b))), None)
        where = f": {odd} is different" if odd is not None else ""
        raise DissonanceError(f"runs go together only if their PDGs have the same structure{where}.")
