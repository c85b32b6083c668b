"""Decisions: choosing an action as the resolution of the conflict between what is believed and what is wanted."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from dissonance.arc import Arc
from dissonance.cpds import Deterministic, PointMass, SoftmaxTable, Table
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus, full_control
from dissonance.inconsistency import inconsistencies
from dissonance.instances.base import Instance
from dissonance.lir import Cycle, Run, Value
from dissonance.numerics import check_unlabelled
from dissonance.pdg import PDG
from dissonance.variables import Variable

inf = math.inf


@dataclass(frozen=True)
class DecisionProblem:
    """What decision theory starts from: a belief p(S), an understanding tau(O | S, A), a utility u(O).

    `belief[s]`, `outcome[s][a][o]` and `utility[o]` are numbers; labels of states, actions and outcomes are optional.
    The soft constraint b(1|o) = k exp u(o) is satisfied the more probably the better the outcome;
    k <= exp -max u, which is the default.
    """

    belief: Sequence[float] | Tensor
    outcome: Sequence[Sequence[Sequence[float]]] | Tensor
    utility: Sequence[float] | Tensor
    states: Sequence[Hashable] | None = None
    actions: Sequence[Hashable] | None = None
    outcomes: Sequence[Hashable] | None = None
    k: float | None = None
    log_k: float = field(init=False, repr=False)
    variables: tuple[Variable, Variable, Variable] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for values in (self.belief, self.outcome, self.utility):
            check_unlabelled(values)
        tau = np.asarray(self.outcome, dtype=np.float64)
        u = np.asarray(self.utility, dtype=np.float64)
        wanted = (len(self.belief), tau.shape[1] if tau.ndim == 3 else 0, len(u))
        if tau.shape != wanted:
            raise DissonanceError(
                f"outcome[s][a][o] has shape {tau.shape}; with {wanted[0]} states and {wanted[2]} outcomes it must be "
                f"({wanted[0]}, actions, {wanted[2]})."
            )
        if not np.isfinite(u).all():
            raise DissonanceError(f"utilities must be finite, found {u.tolist()}.")
        largest = math.exp(-u.max())
        if self.k is not None and not 0 < self.k <= largest * (1 + 1e-12):
            raise DissonanceError(f"k must be positive and at most exp(-max u) = {largest:.6g}, found {self.k:.6g}.")
        object.__setattr__(self, "log_k", -float(u.max()) if self.k is None else math.log(min(self.k, largest)))
        labels = (self.states, self.actions, self.outcomes)
        made = [Variable(n, k if x is None else x) for n, k, x in zip("SAO", wanted, labels, strict=True)]
        for v, k in zip(made, wanted, strict=True):
            if v.size != k:
                raise DissonanceError(f"{v.name} has {v.size} labels for {k} values.")
        object.__setattr__(self, "variables", tuple(made))

    def arcs(self) -> list[Arc]:
        """tau: S, A -> O, the soft constraint b: O -> B, and B = 1."""
        s, a, o = self.variables
        b = Variable("B", 2)
        good = np.exp(self.log_k + np.asarray(self.utility, dtype=np.float64))
        return [
            Arc("tau", (s, a), o, Table(self.outcome)),
            Arc("b", o, b, SoftmaxTable(np.stack([1 - good, good], -1))),
            Arc("B=1", (), b, PointMass(1)),
        ]

    def belief_given_action(self) -> Arc:
        """p: A -> S, the belief, whatever the action.

        An arc -> S would leave free how the state depends on the action: a policy that mixes actions could then be
        thought to know the state.
        """
        s, a, _ = self.variables
        return Arc("p", a, s, Table(np.tile(np.asarray(self.belief, dtype=np.float64), (a.size, 1))))


@dataclass(frozen=True)
class Decision:
    """Which actions are best, what every action is worth, and by which rule.

    `values` are inconsistencies (per unit of faith at faith = inf), between bounds; `actions` those whose lower bound
    is no more than the least upper bound: no other can be a minimiser. `equivalents` are the same in units of utility:
    what a sure outcome would have to be worth. `policy` is the arc that LIR moved.
    """

    actions: tuple[Hashable, ...]
    values: dict[Hashable, Value]
    equivalents: dict[Hashable, float]
    rule: str
    policy: Tensor

    def __repr__(self) -> str:
        chosen = " or ".join(map(str, self.actions))
        worth = ", ".join(f"{a}: {u:.6g}" for a, u in self.equivalents.items())
        return f"Decision({chosen}, by {self.rule}; {worth})"


def decision(problem: DecisionProblem, *, confidence: float = inf, faith: float = 1.0) -> Instance[Decision]:
    """Choose an action by full control of the policy: one step is enough.

        <<M + A=a>> = -beta_p log sum_s p(s) exp( (beta_b/beta_p) (EU(s,a) + log k) ),   EU(s,a) = E_tau[u | s,a]

    `confidence` is beta_p, how firmly the belief is held; `faith` is beta_b, how much one insists on good outcomes.
    The understanding tau is hard: a soft one may be bent, so that a gamble is thought to turn out well. Exact at the
    limits: confidence = inf maximises expected utility; faith = inf is the limit of the inconsistency
    divided by beta_b and maximises the best case among the states with p(s) > 0; confidence = 0 among all states.
    """
    if not (confidence >= 0 and faith > 0) or confidence == faith == inf:
        raise DissonanceError(
            f"confidence must be >= 0, faith > 0, and not both inf; found confidence {confidence} and faith {faith}."
        )
    s, a, _ = problem.variables
    seen = Variable("Possible", 2)
    positive = [int(p > 0) for p in problem.belief]
    possible: dict[object, object] = dict(zip(s.finite.labels, positive, strict=True))
    pdg = PDG(
        Arc("policy", (), a, SoftmaxTable([1 / a.size] * a.size)),
        problem.belief_given_action(),
        *problem.arcs(),
        Arc("possible", s, seen, Deterministic(possible)),
        Arc("Possible=1", (), seen, PointMass(1)),
    )
    attention = _attention(confidence, faith)
    return Instance(
        pdg,
        Cycle(Focus(attention, full_control("policy"))),
        lambda run: _chosen(problem, run, confidence, faith),
        attention,
        full_control("policy"),
    )


def _attention(confidence: float, faith: float) -> Attention:
    """At faith = inf: beta_p/beta_b -> 0+, where all that is left of p is which states it allows."""
    limit = faith == inf
    hard = ["policy", "tau", "B=1"]
    if limit and confidence > 0:
        hard += ["possible", "Possible=1"]
    soft = {"p": 0.0 if limit else confidence, "b": 1.0 if limit else faith}
    return Attention.only({n: inf for n in hard} | soft)


def _chosen(problem: DecisionProblem, run: Run, confidence: float, faith: float) -> Decision:
    """Every action scored by itself, all together."""
    a = problem.variables[1]
    attention = _attention(confidence, faith)
    each = [run.pdg.replace(Arc("policy", (), a, PointMass(label))) for label in a.finite.labels]
    found = inconsistencies(each, [attention] * len(each))
    values = {label: Value(r.lower, r.upper) for label, r in zip(a.finite.labels, found, strict=True)}
    least = min(v.upper for v in values.values())
    per = 1.0 if faith == inf else faith
    return Decision(
        tuple(label for label, v in values.items() if v.lower <= least),
        values,
        {label: -v.upper / per - problem.log_k for label, v in values.items()},
        _rule(confidence, faith),
        run.pdg["policy"].cpd.table().detach(),
    )


def _rule(confidence: float, faith: float) -> str:
    if confidence == inf:
        return "expected utility"
    if confidence == 0:
        return "max-max over all states"
    if faith == inf:
        return "max-max over the states believed possible"
    return f"a soft maximum over states, faith : confidence = {faith / confidence:.6g}"


@dataclass(frozen=True)
class Mind:
    """What is believed and what is wanted after something other than the action gave way."""

    belief: Tensor
    utility: Tensor
    before: Value
    after: Value


def zen(
    problem: DecisionProblem, action: Hashable, *, confidence: float = inf, faith: float = 1.0, control: float = inf
) -> Instance[Mind]:
    """Accept what the action leads to: control of u, through b.

    Full control makes every outcome that can happen as good as can be, u = -log k; of finite control chi a step is
    1 - b <- (1 - b) e^(-chi beta_b).
    """
    return _resolution(problem, action, "b", confidence, faith, control)


def wishful_thinking(
    problem: DecisionProblem, action: Hashable, *, confidence: float = 1.0, faith: float = 1.0, control: float = inf
) -> Instance[Mind]:
    """Believe what one hopes for: control of p.

    A step of finite control chi moves p towards mu*(s) ~ p(s) exp((beta_b/beta_p) EU(s,a)), by p <- mu* + (p - mu*)
    e^(-chi beta_p); full control puts all belief on the states that suit the action best.
    """
    return _resolution(problem, action, "p", confidence, faith, control)


def _resolution(
    problem: DecisionProblem, action: Hashable, moved: str, confidence: float, faith: float, control: float
) -> Instance[Mind]:
    if not faith < inf:
        raise DissonanceError(
            "at faith = inf the inconsistency is infinite unless the action reaches the best outcome for certain: "
            "give a finite faith."
        )
    s, a, _ = problem.variables
    belief = Arc("p", (), s, SoftmaxTable(problem.belief))
    pdg = PDG(Arc("policy", (), a, PointMass(action)), belief, *problem.arcs())
    attention = _attention(confidence, faith)
    chi = Control({moved: control})

    def read(run: Run) -> Mind:
        good = run.pdg["b"].cpd.log_table().detach()[:, 1]
        return Mind(run.pdg["p"].cpd.table().detach(), good - problem.log_k, run.before, run.after)

    return Instance(pdg, Cycle(Focus(attention, chi)), read, attention, chi)
