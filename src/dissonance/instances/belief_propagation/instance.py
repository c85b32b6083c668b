"""Belief propagation: a factor graph, its messages and beliefs as arcs of one PDG, resolved one focus at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dissonance.arc import Arc
from dissonance.cpds import Deterministic, Factor, SoftmaxTable
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus, full_control
from dissonance.instances.base import Instance
from dissonance.instances.belief_propagation.beliefs import Beliefs
from dissonance.instances.belief_propagation.factor_graph import FactorGraph, Region, Scoped
from dissonance.instances.belief_propagation.schedules import Order, schedule_named
from dissonance.instances.belief_propagation.tied import Tied
from dissonance.lir import Record, Refocus, Run
from dissonance.numerics import DTYPE
from dissonance.pdg import PDG
from dissonance.variables import Variable, shape


@dataclass(frozen=True, kw_only=True)
class BeliefPropagation(Instance[Beliefs]):
    """A run of belief propagation: a step updates one message "X->a" or "a->X", or one belief "X"."""

    graph: FactorGraph
    foci: Mapping[str, Focus]
    powers: Mapping[str, float]

    @property
    def sweep(self) -> int:
        """Steps in a sweep of the schedule; as many as there are foci, if it has none."""
        return len(self.refocus.order if isinstance(self.refocus, Order) else self.foci)

    def run(self, steps: int, **options: Any) -> Run:
        """So many steps of LIR, by `Tied` unless another solver is asked for."""
        return super().run(steps, **{"solver": Tied(), **options})

    def beliefs(self, theta: Mapping[str, Tensor]) -> Beliefs:
        """The state that theta stands for: of a finished run, or of a snapshot of its trace."""

        def table(arc: str) -> Tensor:
            logits = theta[f"{arc}.logits"].detach()
            return torch.softmax(logits.reshape(-1), 0).reshape(logits.shape)

        messages = [n for n in self.foci if n not in self.graph.region]
        own = {r.name: table(belief_arc(r)) for r in self.graph.regions}
        return Beliefs(self.graph, {n: table(n) for n in messages}, own, self.powers)


def belief_propagation(
    factors: FactorGraph | PDG | Mapping[str, Scoped] | Iterable[Scoped],
    schedule: str | Sequence[str] | Refocus = "flooding",
    *,
    damping: float = 0.0,
    confidence: float = 1.0,
    power: float | Mapping[str, float] = 1.0,
) -> BeliefPropagation:
    """Sum-product belief propagation as LIR on the PDG M_Phi + Msg + B (Prop. bp, erratum 12).

    `schedule`: "flooding" (two-phase), "sequential", "residual", "random", names of foci in order, or any refocus.

    `damping` d is finite control: chi = -log(d)/beta with beta the `confidence` in the message as it is. The natural
    flow then takes m to d m + (1 - d) mu, with mu ~ m^(beta/(1 + beta)) nu^(1/(1 + beta)) and nu the undamped update.
    For small confidence that is the textbook's d m + (1 - d) nu; for confidence = inf (chi = 1 - d) it is m^d nu^(1-d),
    damping of logarithms.

    `power`: one alpha, or {factor: alpha}. Messages then minimise alpha-divergences (power EP, fractional BP; alpha > 1
    is tree-reweighted with appearance 1/alpha). They are attention weights: alpha_a on phi_a, 1/alpha_b on m_{b->X}.
    """
    graph = FactorGraph.of(factors)
    if not 0 <= damping < 1:
        raise DissonanceError(f"damping is how much of a message is kept: a number in [0, 1), found {damping}.")
    if not confidence > 0:
        raise DissonanceError(f"confidence is the beta of the moving message: a number > 0 or inf, found {confidence}.")
    if not graph.regions:
        raise DissonanceError("no two clusters are linked: there are no messages, and the tables are all there is.")
    powers = all_powers(graph, power)
    pdg = message_pdg(graph)
    if damping == 0:
        chi, beta = math.inf, 1.0
    else:
        chi, beta = (1 - damping if confidence == math.inf else -math.log(damping) / confidence), confidence
    foci = message_foci(graph, powers, chi, beta)
    made = BeliefPropagation(
        pdg,
        schedule_named(schedule, foci, graph, pdg),
        lambda run: made.beliefs(run.theta),
        attention=Attention.only(ties(graph), {}, 1.0),
        control=Control({}),
        trace=Record(globally=False),  # everything at once is not local
        graph=graph,
        foci=foci,
        powers=powers,
    )
    return made


def all_powers(graph: FactorGraph, power: float | Mapping[str, float]) -> dict[str, float]:
    """The power of every factor; 1 where none is given."""
    given = power if isinstance(power, Mapping) else dict.fromkeys(graph.factor, power)
    for name, x in given.items():
        if name not in graph.factor:
            raise DissonanceError(f"power: no factor named {name!r}.")
        if not 0 < x < math.inf:
            raise DissonanceError(f"the power of factor {name!r} must be a number > 0, found {x}.")
        if x > 1 and (graph.factor[name].table == 0).any():
            raise DissonanceError(f"{graph.factor[name]} has zeros: a power above 1 would divide by its messages.")
    return {n: float(given.get(n, 1.0)) for n in graph.factor}


def meeting_place(r: Region) -> tuple[Variable, ...]:
    """The variables of a region, where its factors meet: X itself, or copies of a separator's variables."""
    return r.variables if r.name == r.variables[0].name else tuple(_copy(v, r.name) for v in r.variables)


def belief_arc(r: Region) -> str:
    """The name of the arc that believes something about a region."""
    return f"b({r.name})"


def ties(graph: FactorGraph) -> dict[str, float]:
    """beta = inf on every equality X = X^a: they are attended to in every focus (erratum 12)."""
    return {f"{u.name}={v.name}": math.inf for r in graph.regions for a in r.neighbours for u, v in _pairs(r, a)}


def message_pdg(graph: FactorGraph) -> PDG:
    """Factors over copies X^a, equalities X = X^a, messages m_{X->a} on X^a and m_{a->X} on X, beliefs on X."""
    arcs = [Arc(phi.name, (), [_copy(v, phi.name) for v in phi.scope], Factor(phi.table)) for phi in graph.factors]
    for r in graph.regions:
        here = meeting_place(r)
        arcs.append(Arc(belief_arc(r), (), here, _uniform(here)))
        for a in r.neighbours:
            there = [_copy(v, a) for v in r.variables]
            arcs += [Arc(f"{u.name}={v.name}", u, v, Deterministic(lambda x: x)) for u, v in _pairs(r, a)]
            arcs += [Arc(f"{r.name}->{a}", (), there, _uniform(there)), Arc(f"{a}->{r.name}", (), here, _uniform(here))]
    return PDG(*arcs)


def message_foci(graph: FactorGraph, powers: Mapping[str, float], chi: float, beta: float) -> dict[str, Focus]:
    """The foci X->a, a->X and X: gamma = 1, context alpha = beta, the moving belief alpha = 0.

    With powers alpha_a: phi_a weighs alpha_a in a->X; m_{b->X} weighs 1/alpha_b in X and in X->a, and m_{a->X} one less
    there. All of it is 1, 1 and 0 for belief propagation.
    """
    hard = ties(graph)

    def focus(context: Mapping[str, float], moves: str, control: Control, confidence: float) -> Focus:
        context = {n: w for n, w in context.items() if w}
        return Focus(Attention.only({**hard, **context, moves: confidence}, context, 1.0), control)

    foci: dict[str, Focus] = {}
    for r in graph.regions:
        heard = {f"{b}->{r.name}": 1 / powers[b] for b in r.neighbours}
        for a in r.neighbours:
            out, back = f"{r.name}->{a}", f"{a}->{r.name}"
            foci[out] = focus({**heard, back: heard[back] - 1}, out, Control({out: chi}), beta)
            told = {f"{s.name}->{a}": 1.0 for s in graph.around[a] if s is not r}
            foci[back] = focus({a: powers[a], **told}, back, Control({back: chi}), beta)
        foci[r.name] = focus(heard, belief_arc(r), full_control(belief_arc(r)), 1.0)
    return foci


def _copy(v: Variable, where: str) -> Variable:
    return Variable(f"{v.name}@{where}", v.domain)


def _pairs(r: Region, a: str) -> list[tuple[Variable, Variable]]:
    return [(u, _copy(v, a)) for u, v in zip(meeting_place(r), r.variables, strict=True)]


def _uniform(scope: Sequence[Variable]) -> SoftmaxTable:
    return SoftmaxTable(logits=torch.zeros(shape(scope), dtype=DTYPE))
