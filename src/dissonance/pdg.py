"""Probabilistic dependency graphs: arcs between variables, and the operations that only need their structure."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dissonance import events, pictures
from dissonance.cpds import CPD, Explicit, Factor, PointMass, Table
from dissonance.errors import CapabilityError, DissonanceError, suggest
from dissonance.variables import Euclidean, Variable, as_tuple

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Theta = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Arc:
    """A named cpd from a set of source variables to a set of target variables, a : S -> T.

    >>> Smokes, Cancer = Variable("Smokes", ["no", "yes"]), Variable("Cancer", ["no", "yes"])
    >>> Arc("study", Smokes, Cancer, [[0.99, 0.01], [0.90, 0.10]])
    <arc 'study' (Smokes -> Cancer): Table>
    """

    name: str
    sources: tuple[Variable, ...]
    targets: tuple[Variable, ...]
    cpd: CPD

    def __init__(
        self, name: str, sources: Variable | Iterable[Variable], targets: Variable | Iterable[Variable], cpd: object
    ) -> None:
        """`cpd` may be a CPD or anything a fixed `Table` can be made of."""
        sources, targets = as_tuple(sources), as_tuple(targets)
        self.__dict__.update(name=name, sources=sources, targets=targets)
        if not name:
            raise DissonanceError("an arc needs a non-empty name.")
        if not targets:
            raise DissonanceError(f"{self} needs at least one target.")
        names = self.names
        if len(set(names)) != len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise DissonanceError(f"{self} mentions {twice!r} twice.")
        try:
            bound = (cpd if isinstance(cpd, CPD) else Table(cpd)).bind(sources, targets)
        except DissonanceError as error:
            raise type(error)(f"{self}: {error}") from None
        self.__dict__["cpd"] = bound

    @cached_property
    def scope(self) -> tuple[Variable, ...]:
        """The sources, then the targets."""
        return (*self.sources, *self.targets)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the sources, then of the targets."""
        return tuple([v.name for v in self.scope])

    @cached_property
    def source_names(self) -> tuple[str, ...]:
        """Names of the sources."""
        return self.names[: len(self.sources)]

    @cached_property
    def target_names(self) -> tuple[str, ...]:
        """Names of the targets."""
        return self.names[len(self.sources) :]

    @cached_property
    def mechanism(self) -> tuple[frozenset[str], frozenset[str]]:
        """(S, T) as sets: arcs that agree on it share one entropy term, and their weights add up."""
        return frozenset(self.source_names), frozenset(self.target_names)

    @property
    def is_euclidean(self) -> bool:
        """Whether every variable of the arc is Euclidean."""
        return all(isinstance(v.domain, Euclidean) for v in self.scope)

    @cached_property
    def is_linear_gaussian(self) -> bool:
        """Whether the cpd is linear-Gaussian."""
        return self.cpd.can("linear_gaussian")

    @cached_property
    def is_drawn(self) -> bool:
        """Whether the cpd has no table and is not linear-Gaussian: it can only be drawn from and scored."""
        has_table = self.cpd.can("log_table") and all(v.is_finite for v in self.scope)
        return not (has_table or self.is_linear_gaussian)

    def log_table(self, theta: Theta | None = None) -> Tensor:
        """log p(T|S) as a table (source sizes..., target sizes...), at `theta` if given."""
        try:
            return self.cpd.log_table() if theta is None else self._at(theta, "log_table")
        except CapabilityError as error:
            odd = [f"{v.name} is {v.domain}" for v in self.scope if not v.is_finite]
            raise CapabilityError(f"{self} cannot be tabulated: {'; '.join(odd) or error}.") from None

    def linear_gaussian(self, theta: Theta | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """A, b and Sigma of p(t|s) = N(A s + b, Sigma), at `theta` if given."""
        try:
            return self.cpd.linear_gaussian() if theta is None else self._at(theta, "linear_gaussian")
        except CapabilityError as error:
            raise CapabilityError(f"{self}: {error}") from None

    def call(self, method: str, theta: Theta | None, *arguments: object) -> Any:
        """A method of the cpd, at `theta` if given: it may stand for parameters and for buffers."""
        return getattr(self.cpd, method)(*arguments) if theta is None else self._at(theta, method, *arguments)

    def _at(self, theta: Theta, method: str, *arguments: object) -> Any:
        """The method with theta in place of what the cpd holds, as `torch.func.functional_call` does, without its
        checks: these cost more than a small network."""
        held = self._held
        before = [at[name] for at, name, _ in held]
        try:
            for at, name, key in held:
                if key in theta:
                    at[name] = theta[key]
            return getattr(self.cpd, method)(*arguments)
        finally:
            for (at, name, _), value in zip(held, before, strict=True):
                at[name] = value

    def holds(self, theta: Theta) -> bool:
        """Whether theta has a value for anything the cpd holds."""
        return any(key in theta for _, _, key in self._held)

    @cached_property
    def _held(self) -> list[tuple[dict[str, Any], str, str]]:
        """Where the cpd and its parts hold parameters and buffers, under which names, and the keys of these in theta.

        What has several names has the key of the first.
        """
        keys: dict[int, str] = {}
        found: list[tuple[dict[str, Any], str, str]] = []
        for path, module in self.cpd.named_modules():
            for at in (module.__dict__["_parameters"], module.__dict__["_buffers"]):
                for name, value in at.items():
                    if value is not None:
                        key = ".".join(filter(None, (self.name, path, name)))
                        found.append((at, name, keys.setdefault(id(value), key)))
        return found

    def __str__(self) -> str:
        left = ", ".join(v.name for v in self.sources)
        return f"arc {self.name!r} ({left + ' ' if left else ''}-> {', '.join(v.name for v in self.targets)})"

    def __repr__(self) -> str:
        return f"<{self}: {type(self.cpd).__name__}>"


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
        known: dict[str, Variable] = {}
        for v in (*variables, *(v for a in arcs for v in a.scope)):
            if (other := known.setdefault(v.name, v)) is not v and other != v:
                raise DissonanceError(f"variable {v.name!r} has two domains: {other.domain} and {v.domain}.")
        by_name: dict[str, Arc] = {}
        for a in arcs:
            if by_name.setdefault(a.name, a) is not a:
                raise DissonanceError(f"two arcs are named {a.name!r}: {by_name[a.name]} and {a}.")
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

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__["_arc"]

    def __iter__(self) -> Iterator[Arc]:
        return iter(self.arcs)

    def __len__(self) -> int:
        return len(self.arcs)

    # -- making others ---------------------------------------------------------------------------------------------

    def __add__(self, other: PDG | Arc) -> PDG:
        """Both sets of beliefs together; variables of one name are the same variable."""
        if isinstance(other, Arc):
            other = PDG(other)
        return PDG(*self.arcs, *other.arcs, variables=(*self.variables, *other.variables))

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
        """From `Belief`s about events, or lines that say them: an arc each, and arcs that define the events.

        Attended with beta = 1 its inconsistency is what is certain to be gained from betting against the beliefs; see
        `dissonance.coherence`, which also has regard to the confidence in each.
        """
        return events.graph(beliefs, variables).pdg

    # -- parameters ------------------------------------------------------------------------------------------------

    def parameters(self) -> Iterator[nn.Parameter]:
        """Every parameter once, for any torch optimiser."""
        seen: set[int] = set()
        for a in self.arcs:
            for p in a.cpd.parameters():
                if id(p) not in seen:
                    seen.add(id(p))
                    yield p

    @property
    def theta(self) -> dict[str, Tensor]:
        """The present parameters as a flat dictionary, keyed "arc.parameter"."""
        return {f"{a.name}.{n}": p for a in self.arcs for n, p in a.cpd.named_parameters()}

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
        opened = Arc(name, (*arc.sources, theta), arc.targets, Explicit(arc.cpd, settings))
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
        closed = Arc(name, arc.sources[:-1], arc.targets, cpd)
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
            lines.append(f"  {a.name}: {left + ' ' if left else ''}-> {right}   {type(a.cpd).__name__}")
        return "\n".join(lines + ["  ..."] * (m > 20))

    def plot(self, **options: Any) -> pictures.Picture:
        """The PDG as a picture: `plot().save("pdg.svg")`. The options are those of `dissonance.draw`."""
        return pictures.draw(self, **options)

    def _repr_html_(self) -> str:
        return pictures.html(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        from dissonance.cpds.display import cpd_table

        yield Text(repr(self))
        for a in self.arcs:
            yield cpd_table(a.name, a.sources, a.targets, a.cpd)
