"""Probabilistic dependency graphs: arcs between variables, and the operations that only need their structure."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dissonance.above import Picture, ask
from dissonance.arc import Arc, Theta
from dissonance.cpds import Explicit, Factor, PointMass
from dissonance.cpds.base import TableCPD
from dissonance.cpds.placed import networks, place
from dissonance.errors import CapabilityError, DissonanceError, one_line, suggest, visible
from dissonance.variables import Euclidean, Variable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True, eq=False)
class PDG:
    """An immutable directed hypergraph of arcs.

    >>> X = Variable("X", 2)
    >>> PDG(Arc("p", (), X, [0.9, 0.1]), Arc("q", (), X, [0.2, 0.8]))
    PDG(1 variable, 2 arcs)
      X{0, 1}
      p: -> X   Table
      q: -> X   Table
    """

    arcs: tuple[Arc, ...]
    variables: tuple[Variable, ...]

    def __init__(self, *arcs: Arc, variables: Iterable[Variable] = ()) -> None:
        """`variables` fixes their order and may name some that no arc mentions."""
        if odd := [a for a in arcs if not isinstance(a, Arc)]:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DissonanceError(f"a PDG is made of arcs, found {odd[0]!r}.")
        known: dict[str, Variable] = {}
        for v in (*variables, *(v for a in arcs for v in a.scope)):
            if (other := known.setdefault(v.name, v)) is not v and other != v:
                raise DissonanceError(
                    f"variable {v.name!r} has two domains: {other.domain} and {v.domain}. PDG().add(...) aligns the "
                    "labels of tables; Arc.from_table(..., variables=[...]) reads one with a variable that is known."
                )
        by_name: dict[str, Arc] = {}
        for a in arcs:
            if by_name.setdefault(a.name, a) is not a:
                raise DissonanceError(f"two arcs are named {a.name!r}: {by_name[a.name]} and {a}.")
        for a in by_name.values():
            if "." in a.name:
                _refuse_equal_keys(a, by_name)
        object.__setattr__(self, "arcs", tuple(by_name.values()))
        object.__setattr__(self, "variables", tuple(known.values()))
        object.__setattr__(self, "_arc", by_name)
        object.__setattr__(self, "_variable", known)

    # -- look-up ---------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Arc:
        """The arc of that name."""
        arcs: dict[str, Arc] = self.__dict__["_arc"]
        if name not in arcs:
            raise DissonanceError(f"no arc named {name!r}.{suggest(name, arcs)}")
        return arcs[name]

    def variable(self, name: str) -> Variable:
        """The variable of that name."""
        variables: dict[str, Variable] = self.__dict__["_variable"]
        if name not in variables:
            raise DissonanceError(f"no variable named {name!r}.{suggest(name, variables)}")
        return variables[name]

    def holder(self, key: str) -> Arc | None:
        """The arc of that name, or else the arc that has the parameter "arc.parameter", if there is one."""
        arcs: dict[str, Arc] = self.__dict__["_arc"]
        if key in arcs:
            return arcs[key]
        for i, c in enumerate(key):
            arc = arcs.get(key[:i]) if c == "." else None
            if arc is not None and any(key[i + 1 :] == name for name, _ in arc.cpd.named_parameters()):
                return arc
        return None

    def around(self, variable: str) -> tuple[Arc, ...]:
        """The arcs that mention a variable."""
        return tuple(self._around.get(self.variable(variable).name, ()))

    @cached_property
    def _around(self) -> dict[str, list[Arc]]:
        found: dict[str, list[Arc]] = {}
        for a in self.arcs:
            for name in a.names:
                found.setdefault(name, []).append(a)
        return found

    @cached_property
    def buffers(self) -> frozenset[str]:
        """What a focus may put other values in the place of: "arc.buffer" for each buffer of a cpd."""
        return frozenset(key for a in self.arcs for key in a.held.buffers)

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__["_arc"]

    def __iter__(self) -> Iterator[Arc]:
        return iter(self.arcs)

    def __len__(self) -> int:
        return len(self.__dict__["_arc"])

    @property
    def arc_names(self) -> list[str]:
        """The names of all arcs, in order."""
        return list(self.__dict__["_arc"])

    @property
    def confidence(self) -> Mapping[str, float]:
        """The beta that each arc has of its own."""
        return {a.name: a.beta for a in self.arcs}

    @property
    def movable(self) -> Mapping[str, float]:
        """1 for every arc that has parameters."""
        return {a.name: 1.0 for a in self.arcs if any(True for _ in a.cpd.parameters())}

    @cached_property
    def log_settings(self) -> float:
        """log of the number of joint settings of all variables, which are finite."""
        return math.fsum(math.log(v.size) for v in self.variables)

    # -- making others ---------------------------------------------------------------------------------------------

    def __add__(self, other: PDG | Arc) -> PDG:
        """Both sets of beliefs together; variables of one name are the same variable."""
        other = PDG(other) if isinstance(other, Arc) else checked_pdg(other)
        return PDG(*self.arcs, *other.arcs, variables=(*self.variables, *other.variables))

    def add(self, name: str, table: object, **options: Any) -> PDG:
        """These beliefs and one more, from a table with labels; the options are those of `Arc.from_table`.

        Its labels are those of the variables that are known already, in any order. A value that is new is added to a
        variable; tables that did not know it give it probability 0. One that reads like a known value is an error,
        unless the variable was declared with both: `PDG(variables=[Variable(...)])`.

        >>> pdg = PDG().add("press", {"yes": 0.3, "no": 0.7}, of="Rain")
        >>> pdg = pdg.add("radio", {"no": 0.5, "yes": 0.5}, of="Rain")
        >>> print(f"{inconsistency(pdg).upper:.4f}")
        0.0426
        """
        return ask("merged", [self, PDG(Arc.from_table(name, table, **options))])

    def subgraph(self, *names: str) -> PDG:
        """Only these arcs; every variable stays."""
        return PDG(*(self[n] for n in names), variables=self.variables)

    def without(self, *names: str) -> PDG:
        """All arcs but these; every variable stays."""
        dropped = {self[n].name for n in names}
        return PDG(*(a for a in self.arcs if a.name not in dropped), variables=self.variables)

    def replace(self, *arcs: Arc) -> PDG:
        """The same PDG with these arcs in place of those of the same names."""
        new = {self[a.name].name: a for a in arcs}
        return PDG(*(new.get(a.name, a) for a in self.arcs), variables=self.variables)

    def to(self, device: torch.device | str) -> PDG:
        """The same beliefs with their networks on a device, "cuda" or "cpu"; this PDG stays where it is.

        A network computes where it is and in its own precision; its arguments are brought there and what it makes comes
        back in double precision. Tables, linear-Gaussian cpds and data stay on the CPU, where they are solved. Arcs
        that share a cpd share its copy.
        """
        memo: dict[int, Any] = {}
        copies = {a.name: copy.deepcopy(a.cpd, memo) for a in self.arcs}
        found = [f for cpd in copies.values() for f in networks(cpd)]
        if not found:
            raise CapabilityError(
                "no arc has a network to move: tables and linear-Gaussian cpds are solved on the CPU. For many small "
                "problems use solver=Newton(device=...), for posteriors query(..., device=...)."
            )
        for network in found:
            place(network, device)
        arcs = [Arc(a.name, a.sources, a.targets, copies[a.name], beta=a.beta, counts=a.counts) for a in self.arcs]
        return PDG(*arcs, variables=self.variables)

    def learnable(self, *names: str) -> PDG:
        """The same beliefs with parameters that can move: of these arcs, or of all whose cpds can have some.

        A fixed table becomes a `SoftmaxTable` (zeros stay zeros), a linear-Gaussian cpd one whose A, b and Sigma move.
        """
        made = [self[n].learnable() for n in names] if names else [a.learnable() for a in self.arcs]
        for a in made if names else ():
            if not any(p.requires_grad for p in a.cpd.parameters()):
                raise CapabilityError(f"{a}: a {type(a.cpd).__name__} has no parameters that could move.")
        return self.replace(*made)

    @classmethod
    def from_cpds(cls, cpds: Iterable[tuple[object, object, object]]) -> PDG:
        """From (sources, targets, cpd) triples; arcs are named p1, p2, ..."""
        return cls(*(Arc(f"p{i}", s, t, c) for i, (s, t, c) in enumerate(cpds, 1)))  # pyright: ignore[reportArgumentType]

    @classmethod
    def from_bayesian_network(cls, cpds: Mapping[Variable, tuple[Sequence[Variable], object]]) -> PDG:
        """From {variable: (parents, cpd)}: one arc a variable, named after it. It is consistent by construction."""
        import networkx as nx

        graph = nx.DiGraph((p.name, v.name) for v, (parents, _) in cpds.items() for p in parents)
        if not nx.is_directed_acyclic_graph(graph):
            cycle = " -> ".join(a for a, _ in nx.find_cycle(graph))
            raise DissonanceError(
                f"a Bayesian network has no directed cycles; found {cycle}. Use PDG(...) for beliefs."
            )
        return cls(*(Arc(v.name, parents, v, cpd) for v, (parents, cpd) in cpds.items()), variables=cpds)

    @classmethod
    def from_factor_graph(cls, factors: Iterable[tuple[Sequence[Variable], object]]) -> PDG:
        """From (scope, phi) pairs: one arc `-> scope` proportional to phi each, named phi1, phi2, ...

        Attended with alpha = beta = gamma = 1 its mu* is the factor graph's distribution.
        """
        return cls(*(Arc(f"phi{i}", (), scope, Factor(phi)) for i, (scope, phi) in enumerate(factors, 1)))

    @classmethod
    def from_beliefs(cls, beliefs: str | Iterable[object], variables: Iterable[Variable] = ()) -> PDG:
        """From beliefs about events (`Belief`), or lines that say them: an arc each, and arcs that define the events.

        Attended with beta = 1 its inconsistency is what is certain to be gained from betting against the beliefs; see
        `dissonance.coherence`, which also has regard to the confidence in each.
        """
        return ask("graph", beliefs, variables).pdg

    @classmethod
    def from_columns(cls, *columns: Any, variables: Sequence[Variable] | Sequence[int] | None = None) -> PDG:
        """From columns (`dissonance.columns.Column`): arcs of one shape as rows of arrays. For very many arcs.

        `variables`, or how many values each has; by default what the tables say, the variables named X0, X1, ... if
        they are given by number.
        """
        return ask("columnar", columns, variables)

    # -- parameters ------------------------------------------------------------------------------------------------

    def parameters(self) -> Iterator[nn.Parameter]:
        """Every parameter once, for any torch optimiser."""
        seen: set[int] = set()
        for a in self.arcs:
            for p in a.cpd.parameters():
                if id(p) not in seen:
                    seen.add(id(p))
                    yield p

    def at(self, theta: Theta) -> PDG:
        """The same PDG at other parameters: cpds are copied, and what several of them share stays shared.

        A parameter that theta does not name stays as it is; theta may be of more arcs than these, if it is of some.

        >>> import torch
        >>> X = Variable("X", 2)
        >>> pdg = PDG(Arc("p", (), X, SoftmaxTable([0.9, 0.1])))
        >>> pdg.at({"p.logits": torch.zeros(2)})["p"].cpd.table().tolist()
        [0.5, 0.5]
        """
        own = self.theta
        mine = {k: x for k, x in theta.items() if k in own or self._may_hold(k)}
        self.check(mine or theta)
        for key in [key for key in mine if key not in own]:
            raise DissonanceError(f"theta has {key!r}, which is fixed: it is no parameter.{suggest(key, own)}")
        arcs, copies = list[Arc](), dict[int, Any]()
        for a in self.arcs:
            cpd = copy.deepcopy(a.cpd, copies)
            with torch.no_grad():
                for name, parameter in cpd.named_parameters():
                    parameter.copy_(theta.get(f"{a.name}.{name}", parameter))
            arcs.append(a.with_cpd(cpd))
        return PDG(*arcs, variables=self.variables)

    @property
    def theta(self) -> dict[str, Tensor]:
        """The present parameters as a flat dictionary, keyed "arc.parameter"."""
        return {f"{a.name}.{n}": p for a in self.arcs for n, p in a.cpd.named_parameters()}

    def check(self, theta: Theta | None) -> None:
        """Raise if theta names what no arc holds, has another shape, or holds what is no number."""
        arcs: dict[str, Arc] = self.__dict__["_arc"]
        known: dict[str, Mapping[str, Tensor]] = {}
        for key, value in (theta or {}).items():
            names = self._may_hold(key)
            for n in names:
                if n not in known:
                    known[n] = arcs[n].held.tensors
            arc = next((arcs[n] for n in names if key in known[n]), None)
            if arc is None:
                held = [k for a in self.arcs for k in a.held.keys]
                raise DissonanceError(f"theta has {key!r}, which is no parameter of any arc.{suggest(key, held)}")
            own = known[arc.name][key]
            if not isinstance(value, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DissonanceError(f"{arc}: theta[{key!r}] must be a tensor, found {type(value).__name__}.")
            fixed = isinstance(own, nn.Parameter) or isinstance(arc.cpd, TableCPD)  # data may come in other batches
            if fixed and value.shape != own.shape:
                raise DissonanceError(
                    f"{arc}: theta[{key!r}] has shape {tuple(value.shape)}, the parameter has {tuple(own.shape)}."
                )
            if not math.isfinite(float(value.detach().sum())):
                arc.check_numbers(theta)

    def _may_hold(self, key: str) -> list[str]:
        """The arcs that a key "arc.parameter" may be of: names may have dots."""
        arcs: dict[str, Arc] = self.__dict__["_arc"]
        return [n for i, c in enumerate(key) if c == "." and (n := key[:i]) in arcs]

    def explicit(self, name: str, settings: Sequence[Theta] | None = None) -> PDG:
        """The PDG in which the parameters of one arc are a variable of their own.

        Arc a: S -> T with p(T|S; theta) becomes a: S, Theta_a -> T with p(T|S, Theta_a), and a new arc `theta_a` says
        Theta_a = theta (a point mass, whose learnable value is the old theta). With finitely many `settings` Theta_a
        is a finite variable over them and the point mass sits on the first.
        """
        arc = self[name]
        size = sum(p.numel() for p in arc.cpd.parameters())
        if size == 0:
            raise CapabilityError(f"{arc} has no parameters to make explicit.")
        if settings is None:
            theta = Variable(f"Theta_{name}", Euclidean(size))
            value: object = torch.cat([p.detach().reshape(-1) for p in arc.cpd.parameters()])
        else:
            theta, value = Variable(f"Theta_{name}", len(settings)), 0
        opened = Arc(name, (*arc.sources, theta), arc.targets, Explicit(arc.cpd, settings), beta=arc.beta)
        return self.replace(opened) + Arc(f"theta_{name}", (), theta, PointMass(value))

    def implicit(self, name: str) -> PDG:
        """The inverse of `explicit`: the variable Theta_a becomes the parameters of arc a again."""
        arc = self[name]
        if not isinstance(arc.cpd, Explicit):
            raise CapabilityError(f"{arc} has no explicit parameter; call explicit({name!r}) first.")
        theta, pin = arc.sources[-1], self[f"theta_{name}"]
        if arc.cpd.settings is None:
            setting = arc.cpd.theta(next(pin.cpd.parameters()).detach())
        else:
            setting = arc.cpd.settings[int(pin.log_table().argmax())]
        cpd = copy.deepcopy(arc.cpd.inner)
        with torch.no_grad():
            for n, p in cpd.named_parameters():
                p.copy_(setting[n])
        closed = Arc(name, arc.sources[:-1], arc.targets, cpd, beta=arc.beta)
        arcs = (closed if a is arc else a for a in self.arcs if a is not pin)
        return PDG(*arcs, variables=(v for v in self.variables if v != theta))

    # -- showing ---------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        n, m = len(self.variables), len(self.arcs)
        lines = [f"PDG({n} variable{'s' * (n != 1)}, {m} arc{'s' * (m != 1)})"]
        lines += [f"  {v!r}" for v in self.variables[:20]] + ["  ..."] * (n > 20)
        for a in self.arcs[:20]:
            left = "".join(f"{v.name}, " for v in a.sources)[:-2]
            right = ", ".join(v.name for v in a.targets)
            lines.append(visible(f"  {a.name}: {left + ' ' if left else ''}-> {right}   {type(a.cpd).__name__}"))
        return "\n".join(lines + ["  ..."] * (m > 20))

    def plot(self, **options: Any) -> Picture:
        """The PDG as a picture: `plot().save("pdg.svg")`. The options are those of `dissonance.draw`."""
        return ask("draw", self, **options)

    def studio(self, **options: Any) -> Any:
        """The studio of these beliefs in a notebook (extra `notebook`): edits come back as its `pdg`.

        Options are `attention`, `control` and `name`; it has the present ones, too.
        """
        return ask("studio_widget", self, **options)

    def _repr_html_(self) -> str:
        return ask("html", self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        from dissonance.cpds.display import cpd_table

        yield Text(repr(self))
        for a in self.arcs:
            yield cpd_table(a.name, a.sources, a.targets, a.cpd)


def checked_pdg(given: object) -> PDG:
    """The PDG that is given; an error for anything else."""
    if isinstance(given, PDG):
        return given
    if isinstance(given, tuple) and given and isinstance(given[0], PDG):
        raise DissonanceError("expected a PDG, found a tuple: `load` gives two things, pdg, focus = load(...).")
    raise DissonanceError(f"expected a PDG, found {one_line(repr(given))}.")


def _refuse_equal_keys(arc: Arc, arcs: Mapping[str, Arc]) -> None:
    """Raise if theta has one key for a tensor of this arc and another of an arc whose name its own begins with."""
    for i, c in enumerate(arc.name):
        other = arcs.get(arc.name[:i]) if c == "." else None
        if other is None:
            continue
        known = other.held.tensors
        key = next((k for k, x in arc.held.tensors.items() if known.get(k, x) is not x), None)
        if key is not None:
            raise DissonanceError(f"{other} and {arc} both hold a {key!r}, which is one key of theta: rename an arc.")
