"""Cpds on a Dag: the forward and the backward policy, the flow through a state, and where a trajectory is at i."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dissonance.cpds import CPD
from dissonance.cpds.base import Drawn, Values, Variables
from dissonance.errors import DissonanceError
from dissonance.gflownets.dag import Dag
from dissonance.gflownets.paths import destinations
from dissonance.numerics import DTYPE


class Choices(CPD):
    """A softmax over the columns of a table of states, -1 where there is no choice: logits are a table of their own, or
    a module of k-hot inputs. Without logits all choices are equally likely."""

    def __init__(self, dag: Dag, options: Tensor, logits: Tensor | nn.Module | None) -> None:
        super().__init__()
        self.dag, self.options = dag, options
        self.logits = nn.Parameter(logits.detach().clone()) if isinstance(logits, Tensor) else None
        self.net = logits if isinstance(logits, nn.Module) else None
        if self.logits is not None and self.logits.shape != options.shape:
            raise DissonanceError(
                f"logits of the {dag.name} need the shape {tuple(options.shape)}: a row for each state."
            )

    def choose(self, states: Tensor) -> Tensor:
        """log p of every column, (n, columns): -inf where there is none."""
        allowed = self.options[states] >= 0
        allowed = allowed | ~allowed.any(1, keepdim=True)  # states that are never reached: any action
        if self.net is not None:
            hot = torch.zeros(len(states), self.dag.inputs, dtype=next(self.net.parameters()).dtype)
            logits = self.net(hot.scatter_(1, self.dag.active[states], 1.0))
            if logits.shape != allowed.shape:
                raise DissonanceError(
                    f"the network makes {tuple(logits.shape[1:])} logits; {allowed.shape[1]} are needed."
                )
        else:
            logits = torch.zeros(allowed.shape, dtype=DTYPE) if self.logits is None else self.logits[states]
        return torch.log_softmax(torch.where(allowed, logits, -torch.inf), -1)

    def chosen(self, states: Tensor, options: Tensor) -> Tensor:
        """log p of what was chosen, (n,); -inf if it was no choice."""
        match = self.options[states] == options[:, None]
        found = self.choose(states).gather(1, match.to(torch.long).argmax(1)[:, None])[:, 0]
        return torch.where(match.any(1), found, -torch.inf)


class Forward(Choices):
    """P_F(s' | s): a softmax over the moves of a state and its exit to s_f. `logits`: (states, actions + 1), zeros if
    not given, or a module from (n, inputs) to (n, actions + 1)."""

    def __init__(self, dag: Dag, logits: Tensor | nn.Module | None = None) -> None:
        options = destinations(dag)
        super().__init__(dag, options, torch.zeros(options.shape, dtype=DTYPE) if logits is None else logits)

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """log P_F(s' | s)."""
        return self.chosen(sources[0], targets[0])


class Backward(Choices):
    """P_B(s | s'): a softmax over the states before s', and P_B(s | s_f) = R(s) / Z. `logits`: (states, parents), or a
    module from (n, inputs) to (n, parents); uniform if not given. log Z is a parameter, `log_z`, unless `partition` is
    False: then P_B(s | s_f) = R(s)."""

    density = True  # R / Z adds up to 1 for one Z only

    def __init__(self, dag: Dag, logits: Tensor | nn.Module | None = None, *, partition: bool = True) -> None:
        super().__init__(dag, dag.before, logits)
        self.log_z = nn.Parameter(torch.zeros((), dtype=DTYPE)) if partition else None

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """log P_B(s | s'), or log R(s) - log Z at the sink."""
        (here,), (there,) = targets, sources
        sink = there == self.dag.states
        back = self.chosen(torch.where(sink, self.dag.start, there), here)
        log_z = 0.0 if self.log_z is None else self.log_z
        return torch.where(sink, self.dag.log_reward[here] - log_z, back)


class StateFlow(CPD):
    """log F(s), how much flows through each state: `log_flow` (states,), zeros to begin with; F(s_f) = 1."""

    density = True

    def __init__(self, dag: Dag) -> None:
        super().__init__()
        self.log_flow = nn.Parameter(torch.zeros(dag.states, dtype=DTYPE))

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """log F(s)."""
        return torch.cat([self.log_flow, self.log_flow.new_zeros(1)])[targets[0]]


class UniformIndex(CPD):
    """Which transition of trajectory tau: each of the |tau| ones alike. The buffer `length` holds |tau|."""

    def __init__(self, length: Tensor, width: int) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("length", length, persistent=False)

    def log_table(self) -> Tensor:
        """(trajectories, width)."""
        length = self.get_buffer("length")[:, None]
        return torch.where(torch.arange(self.width) < length, -length.to(DTYPE).log(), -torch.inf)


class Transition(CPD):
    """S = tau[i] and S' = tau[i + 1]; the buffer `rows` holds the trajectories."""

    deterministic = True

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.register_buffer("rows", rows, persistent=False)

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """From a trajectory and an index to two states."""
        if (len(sources), len(targets)) != (2, 2):
            raise DissonanceError("a transition is a pair of states, found by a trajectory and an index.")
        return self

    def draw(self, sources: Values, count: int, generator: torch.Generator) -> Drawn:
        """The two states."""
        rows, (tau, i) = self.get_buffer("rows"), sources
        pair = rows[tau, i], rows[tau, i + 1]
        return Drawn((pair[0][:, None], pair[1][:, None]), torch.ones(len(tau), 1, dtype=DTYPE))
