"""GFlowNets as LIR: forward and backward policies that disagree about trajectories (Prop. 6).

    Q(tau)!      i | tau ~ uniform{0, ..., n}!      (tau, i) ->> S, S'      P_F(S' | S)      P_B(S | S')

Hard arcs make mu: a trajectory, one of its |tau| transitions (the exit is one), the two states. P_F and P_B are
attended to as far as they surprise more than the other: `balance.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from dissonance import numerics
from dissonance.arc import Arc, Theta
from dissonance.cpds import Table
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus, Varying
from dissonance.gflownets.balance import Balance, Surprise, balance_named
from dissonance.gflownets.cpds import Backward, Forward, StateFlow, Transition, UniformIndex
from dissonance.gflownets.dag import Dag
from dissonance.gflownets.paths import (
    all_trajectories,
    draw_trajectories,
    exploring,
    log_probability,
    path_lengths,
    terminating,
    visits,
)
from dissonance.instances.base import Instance
from dissonance.lir import Record, Run, Trace
from dissonance.numerics import DTYPE
from dissonance.pdg import PDG
from dissonance.variables import Variable


@dataclass(frozen=True)
class FlowNetwork:
    """What a run has learned: a policy that walks a Dag."""

    dag: Dag
    pdg: PDG
    run: Run

    def __repr__(self) -> str:
        return f"FlowNetwork({self.dag}, {self.run})"

    def policy(self, states: Tensor) -> Tensor:
        """log P_F of every action in these states, the exit last: (n, actions + 1)."""
        return _policy(self.pdg, None, states)

    @property
    def log_partition(self) -> float | None:
        """log Z as it was learned: a parameter, or the flow of the start; None where the balance needs none."""
        theta = self.pdg.theta
        known = (("B.log_z", 0), ("flow.log_flow", self.dag.start))
        parts = [float(theta[n].detach().reshape(-1)[at]) for n, at in known if n in theta]
        return sum(parts) if parts else None

    @cached_property
    def evidence(self) -> float:
        """E[log R(x) P_B(tau | x) / P_F(tau)] over the policy's trajectories, exactly: at most log Z, and that in
        balance."""
        dag, states = self.dag, torch.arange(self.dag.states)
        back: Tensor = self.pdg["B"].call("choose", None, states)
        with torch.no_grad():
            log_p = self.policy(states).to(DTYPE)
            gain = torch.where(dag.after >= 0, back[dag.after, dag.undo], 0.0)
            gain = torch.cat([gain, torch.where(dag.exits, dag.log_reward, 0.0)[:, None]], 1)
            each = numerics.times(log_p.exp(), gain - log_p).sum(1)
            return float((visits(dag, self.policy) * each).sum())

    @cached_property
    def terminating(self) -> Tensor:
        """(states,): how likely the policy ends in each state, exactly."""
        return terminating(self.dag, self.policy)

    @property
    def distance(self) -> float:
        """The sum over states of |p(s) - R(s) / Z|: 0 if the policy samples the reward, at most 2."""
        return float((self.terminating - self.dag.target).abs().sum())

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """States in which trajectories of the policy end, (count,)."""
        rows = draw_trajectories(self.dag, self.policy, count, generator)
        return rows[torch.arange(count), path_lengths(self.dag, rows) - 1]


def flow_pdg(
    dag: Dag, rows: Tensor, q: Tensor, forward: Forward, backward: Backward, flow: StateFlow | None = None
) -> PDG:
    """The PDG of Prop. 6 for given trajectories (n, width) with probabilities q (n,); with the flow through states, if
    given, as two further arcs that share their parameters."""
    tau, i = Variable("tau", len(rows)), Variable("i", rows.shape[1] - 1)
    s, t = Variable("S", dag.states), Variable("S'", dag.states + 1)
    arcs = [
        Arc("Q", (), tau, Table(q)),
        Arc("i", tau, i, UniformIndex(path_lengths(dag, rows), i.size)),
        Arc("at", (tau, i), (s, t), Transition(rows)),
        Arc("F", s, t, forward),
        Arc("B", t, s, backward),
    ]
    if flow is not None:
        arcs += [Arc("flow", (), s, flow), Arc("flow'", (), t, flow)]
    return PDG(*arcs)


def surprisal_attention(balance: Balance | str = "ModTB", *, held: bool = True) -> Attention:
    """Attention to what surprises: log P_B(tau) / P_F(tau) to P_F and minus it to P_B, or what another balance makes of
    it. `held`: derivatives are taken with the attention fixed, as in LIR; they are then one half of the loss's."""
    chosen = balance_named(balance)
    signs = {"F": -1.0, "B": 1.0, **({"flow": -1.0, "flow'": 1.0} if chosen.states else {})}
    varying = {name: Varying(Surprise(chosen, sign), held) for name, sign in signs.items()}
    return Attention.only(dict.fromkeys(("Q", "i", "at"), math.inf) | dict.fromkeys(signs, 1.0), varying=varying)


@dataclass(frozen=True)
class Walks:
    """The same focus on what the present policy does, a share `explore` of its choices uniform: all trajectories with
    their probabilities, or a fresh batch of `count` of them."""

    dag: Dag
    focus: Focus
    count: int | None
    explore: float
    name: str = "walks"

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """Where the policy walks now."""
        return replace(self.focus, context=self.context(pdg, trace.theta, generator))

    def context(self, pdg: PDG, theta: Theta | None, generator: np.random.Generator) -> dict[str, Tensor]:
        """Trajectories, drawn by torch from a seed of the generator, or their probabilities, in the place of those the
        PDG has."""
        policy = exploring(self.dag, partial(_policy, pdg, theta), self.explore)
        if self.count is None:
            with torch.no_grad():
                log_q = log_probability(self.dag, pdg["at"].cpd.get_buffer("rows"), policy)
            return {"Q.p": torch.softmax(log_q.to(DTYPE), 0)}
        drawn = torch.Generator().manual_seed(int(generator.integers(2**62)))
        rows = draw_trajectories(self.dag, policy, self.count, drawn)
        return {"at.rows": rows, "i.length": path_lengths(self.dag, rows)}


def flow_network(
    dag: Dag,
    *,
    balance: Balance | str = "ModTB",
    batch: int | None = None,
    explore: float = 0.0,
    forward: Forward | None = None,
    backward: Backward | None = None,
    control: float | Mapping[str, float] = 1.0,
    held: bool = True,
) -> Instance[FlowNetwork]:
    """A GFlowNet on a Dag: every step of LIR walks with the present policy and moves it towards balance.

    `balance`: "ModTB" (Prop. 6), "TB", "LPV", "ModLPV", "DB" or "SubTB". `batch`: so many fresh trajectories a step, or
    None: all there are, each with its probability. `explore`: the share of uniform choices in the walks. `forward` and
    `backward` are policies of your own, by default a table and uniform choices. `control` is chi for all parameters, or
    for those named: "F", "B", "B.log_z", "flow". A step is theta - chi times one half of the gradient of the loss on
    those walks (all of it unless `held`).
    """
    if not 0 <= explore <= 1:
        raise DissonanceError(f"explore is a share between 0 and 1, found {explore}.")
    if batch is not None and batch < 1:
        raise DissonanceError(f"a batch needs at least one trajectory, found {batch}.")
    chosen = balance_named(balance)
    forward = Forward(dag) if forward is None else forward
    backward = Backward(dag, partition=chosen.partition) if backward is None else backward
    if chosen.partition and backward.log_z is None:
        raise DissonanceError("this balance needs log Z: a Backward(..., partition=True).")
    generator = torch.Generator().manual_seed(0)
    begin = exploring(dag, forward.choose, explore)
    rows = all_trajectories(dag) if batch is None else draw_trajectories(dag, begin, batch, generator)
    flow = StateFlow(dag) if chosen.states else None
    pdg = flow_pdg(dag, rows, torch.full((len(rows),), 1 / len(rows)), forward, backward, flow)
    attention = surprisal_attention(chosen, held=held)
    learned = [a.name for a in pdg if any(True for _ in a.cpd.parameters())]
    chi = Control(dict(control) if isinstance(control, Mapping) else dict.fromkeys(learned, control))
    focus = Focus(attention, chi)
    return Instance(
        pdg,
        Walks(dag, focus, batch, explore),
        read=partial(_read, dag),
        attention=attention,
        control=chi,
        flow="step",
        trace=Record(globally=False),
    )


def _policy(pdg: PDG, theta: Theta | None, states: Tensor) -> Tensor:
    return pdg["F"].call("choose", theta, states)


def _read(dag: Dag, run: Run) -> FlowNetwork:
    return FlowNetwork(dag, run.pdg, run)
