"""The trainer: independent runs of GFlowNet training side by side on one device.

This is the compiled path of `flow_network`: the same losses and gradients as resolving its PDG by LIR, for graphs whose
trajectories cannot be enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from dissonance.errors import CapabilityError, DissonanceError, FormatError
from dissonance.gflownets import plain
from dissonance.gflownets.balance import Balance, trained_loss
from dissonance.gflownets.dag import Dag
from dissonance.gflownets.exact import Fit, Terminating
from dissonance.gflownets.gaps import GapLosses
from dissonance.gflownets.losses import LOSSES, TB, Clamp, Kinds
from dissonance.gflownets.optimiser import AdamW, Rates
from dissonance.gflownets.policy import Parts, PolicyShape, logits_and_flows
from dissonance.gflownets.recorded import Recorded
from dissonance.gflownets.replay import Replay
from dissonance.gflownets.trajectories import BLOCK, Trajectories, TransitionRows, padded
from dissonance.gflownets.walk import Walk

ALL = slice(None)
ENTRIES = 1 << 27  # of P_F, tabulated at once
LEAST = 0.01  # the learning rate falls to this share of itself
RECORDED_BATCH = 1 << 14  # trajectories of all runs; with fewer a GPU waits for launches, which are then recorded
COARSE = 4096  # rows are padded to a multiple of it where every number of rows is recorded by itself


@dataclass(frozen=True)
class TrainingRun:
    """One run: a loss, a seed, and the hyperparameters that the published search varies."""

    loss: str | Balance = "ModTB"  # a name, or a balance of your own
    seed: int = 0
    learning_rate: float = 1e-3
    beta2: float = 0.999
    clip: float = 1.0
    log_z_rate: float = 100.0
    clamp: str = "none"
    decay: float = 0.01

    def __post_init__(self) -> None:
        trained_loss(self.loss)
        Clamp.named(self.clamp)
        for name in ("learning_rate", "clip", "log_z_rate"):
            if not 0 < getattr(self, name) < float("inf"):
                raise DissonanceError(f"{name} = {getattr(self, name)}; give a positive number.")
        if not 0 <= self.beta2 < 1 or not self.decay >= 0:
            raise DissonanceError(f"beta2 = {self.beta2}, decay = {self.decay}; give 0 <= beta2 < 1 and 0 <= decay.")


@dataclass(frozen=True)
class TrainingPlan:
    """What all runs of a training have in common; the defaults are those of the published study."""

    iterations: int = 4000
    batch: int = 1024
    capacity: int = 10_000  # trajectories kept for replay; 0: none
    replayed: float = 0.5  # the share of a batch that is replayed
    width: int = 256
    depth: int = 3

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.batch < 1:
            raise DissonanceError(
                f"{self.iterations} iterations of {self.batch} trajectories; both must be at least 1."
            )
        if not 0 <= self.replayed < 1:
            raise DissonanceError(f"a share of {self.replayed} replayed; give at least 0 and less than 1.")
        if self.capacity and self.capacity < self.batch:
            raise DissonanceError(
                f"the replay capacity {self.capacity} is below the batch size {self.batch}; enlarge it, or give 0."
            )


class Trainer:
    """Runs in training: policies, optimiser, replay and random numbers of each.

    Everything random in a run comes from its own generator: which runs are trained beside it does not matter. A run
    whose gradient is not finite stays where it is for that iteration, which is counted in `stuck`.
    """

    def __init__(
        self,
        runs: Sequence[TrainingRun],
        dags: Sequence[Dag],
        plan: TrainingPlan | None = None,
        device: torch.device | str = "cpu",
        kernels: bool | None = None,
        recorded_batch: int = RECORDED_BATCH,
    ) -> None:
        if len(runs) != len(dags) or not runs:
            raise DissonanceError(f"{len(runs)} runs and {len(dags)} graphs; give each run its graph.")
        self.runs, self.plan, self.device = tuple(runs), plan or TrainingPlan(), torch.device(device)
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise CapabilityError('there is no CUDA device that torch can use; give device="cpu".')
        self.dags = tuple(dags)
        self.walk = Walk.of(dags, self.device)
        whole = [LOSSES.get(r.loss) if isinstance(r.loss, str) else None for r in runs]
        self.gaps = GapLosses([trained_loss(r.loss) if w is None else None for r, w in zip(runs, whole, strict=True)])
        self.shape = PolicyShape.of(dags[0], self.plan.width, self.plan.depth, self.gaps.flows)
        self.kinds = Kinds.of([w or TB for w in whole], [Clamp.named(r.clamp) for r in runs], self.device)
        self.theta = self.shape.fresh([run.seed for run in runs]).to(self.device)
        self.parts = self.shape.split(self.theta)
        self.optimiser = AdamW.fresh(self._rates(), self.theta)
        self.adam = self.optimiser.adam
        self.generators = [torch.Generator(self.device).manual_seed(run.seed) for run in runs]
        self.replay = Replay.empty(len(runs), self.plan.capacity, self.walk.longest, self.device)
        self.visited = torch.zeros(len(runs), self.walk.states, dtype=torch.bool, device=self.device)
        self.stuck = torch.zeros(len(runs), dtype=torch.int64, device=self.device)
        self.kernels = _kernels(self.parts, self.walk, False if self.gaps.any and kernels is None else kernels)
        self.fresh = torch.empty(len(runs), self.plan.batch, self.walk.longest, device=self.device)  # uniform, to draw
        self.again = torch.empty(len(runs), self.plan.capacity, device=self.device)  # uniform, to replay
        self.tau = Trajectories.empty(len(runs), self.plan.batch, self.walk.longest, self.device)  # the latest batch
        self.iteration = 0
        waits = (
            self.device.type == "cuda" and self.kernels is not None and len(runs) * self.plan.batch <= recorded_batch
        )
        self._block = COARSE if waits else BLOCK
        self._drawing, self._moving = Recorded(waits), Recorded(waits)

    def _rates(self) -> Rates:
        columns = {
            "learning": [r.learning_rate for r in self.runs],
            "beta2": [r.beta2 for r in self.runs],
            "clip": [r.clip for r in self.runs],
            "log_z": [r.log_z_rate for r in self.runs],
            "decay": [r.decay for r in self.runs],
        }
        return Rates.of(columns, self.device)

    def step(self) -> Tensor:
        """One iteration of every run: draw, replay, score, move; the losses, (runs,)."""
        self._shake()
        rows = padded(int(self._drawing(self._draw)), self._block)
        loss = self._moving(self._move, rows).clone()
        self.iteration += 1
        return loss

    def batch(self) -> Trajectories:
        """Fresh trajectories of each run, part of them replaced by replayed ones; the next batch takes their place."""
        self._shake()
        self._draw()
        return self.tau

    def _shake(self) -> None:
        """New uniform numbers of each run, from its own generator."""
        for fresh, again, generator in zip(self.fresh, self.again, self.generators, strict=True):
            fresh.uniform_(generator=generator)
            if self._replayed:
                again.uniform_(generator=generator)

    @property
    def _replayed(self) -> int:
        """How many trajectories of a batch are replayed."""
        return int(self.plan.batch * self.plan.replayed) if self.plan.capacity else 0

    def _draw(self) -> Tensor:
        """Draw trajectories by the uniform numbers, and replay some; the most transitions that a run has."""
        tau = self.rollout(self.fresh)
        self.visited.scatter_(1, tau.ends(), True)
        if self._replayed:
            self.replay.add(tau)
            replayed = self.replay.draw(self._replayed, self.again)
            tau = tau.replaced(self.plan.batch - self._replayed, replayed)
        self.tau.copy_(tau)
        return tau.most()

    def _move(self, rows: int) -> Tensor:
        """Move the policies against their gradients on the trajectories drawn; the losses."""
        loss, gradient = self.gradient(self.tau, rows)
        share = 1 - (1 - LEAST) * self.optimiser.steps / self.plan.iterations
        self.stuck += ~self.optimiser.step(self.theta, gradient, share)
        return loss

    def rollout(self, uniform: Tensor) -> Trajectories:
        """Trajectories from P_F of each run, for uniform numbers (runs, trajectories, longest)."""
        return (self.kernels or plain).rollout(self.parts, self.walk, uniform)

    def gradient(self, tau: Trajectories, rows: int | None = None) -> tuple[Tensor, Tensor]:
        """The loss of each run on these trajectories, and its gradient in the parameters (runs, size)."""
        leaves = {name: part.detach().requires_grad_() for name, part in self.parts.items()}
        loss = self.losses(leaves, tau, rows)
        found = torch.autograd.grad(loss.sum(), list(leaves.values()), allow_unused=True, materialize_grads=True)
        return loss.detach(), torch.cat([g.reshape(len(self.runs), -1) for g in found], 1)

    def losses(self, parts: Parts, tau: Trajectories, rows: int | None = None) -> Tensor:
        """The loss of each run on these trajectories, whose transitions may be padded to so many rows."""
        laid = TransitionRows.of(self.walk, tau, rows)
        scores = (self.kernels or plain).transition_scores(parts, self.walk, laid)
        losses = self.kinds.each_of(laid.total(scores) - tau.log_rewards(self.walk), tau.length, parts["log_z"])
        return self.kinds.mean(self.gaps(parts, self.walk, tau, laid, losses) if self.gaps.any else losses)

    def terminating(self) -> Tensor:
        """The exact terminating distribution of each run, (runs, states) in float64."""
        return torch.cat([found for _, found in self.terminating_by_parts()])

    def terminating_by_parts(self) -> Iterator[tuple[slice, Tensor]]:
        """Terminating distributions, so many runs at a time as fit."""
        sweep = Terminating.of(self.dags[0], self.walk)
        at_once = max(1, ENTRIES // (self.walk.states * (self.walk.exit + 1)))
        for first in range(0, len(self.runs), at_once):
            some = slice(first, first + at_once)
            yield some, sweep({name: part[some] for name, part in self.parts.items()})

    def fit(self) -> dict[str, Tensor]:
        """How far each run is from its target, exactly: L1, JSD, KL, error of log Z, mass and coverage of the modes.

        Coverage is what the paper reports: the share of modes that any trajectory has ended in so far.
        """
        fits = [Fit.of(found, *self.targets(some)) for some, found in self.terminating_by_parts()]
        columns = {name: torch.cat([getattr(fit, name) for fit in fits]).cpu() for name in vars(fits[0])}
        log_partition = torch.tensor([dag.log_partition for dag in self.dags])
        columns["log_z_error"] = self.log_partition() - log_partition
        wanted = self._targets[1][self.walk.reward]
        columns["coverage"] = ((self.visited & wanted).sum(1) / wanted.sum(1)).cpu()
        return columns

    @torch.no_grad()
    def log_partition(self) -> Tensor:
        """log Z as each run has learned it, a parameter or the flow of the start; NaN where the loss needs none."""
        found = torch.where(self.kinds.learned, self.parts["log_z"], float("nan"))
        begin = torch.full((len(self.runs), 1), self.walk.start, device=self.device)
        flow = logits_and_flows(self.parts, self.walk.active[begin])[1][:, 0] if self.shape.flows else found
        for k, balance in enumerate(self.gaps.balances):
            if balance is not None:
                found[k] = flow[k] if balance.states else self.parts["log_z"][k] if balance.partition else float("nan")
        return found.cpu()

    def targets(self, some: slice = ALL) -> tuple[Tensor, Tensor]:
        """The target and the modes of these runs, (runs, states)."""
        targets, modes = self._targets
        return targets[self.walk.reward[some]], modes[self.walk.reward[some]]

    @cached_property
    def _targets(self) -> tuple[Tensor, Tensor]:
        """Target and modes of each reward, (rewards, states); without modes named, none is one."""
        unique = list({id(dag): dag for dag in self.dags}.values())
        targets = torch.stack([dag.target for dag in unique]).to(self.device)
        modes = torch.stack([torch.zeros_like(dag.exits) if dag.modes is None else dag.modes for dag in unique])
        return targets, modes.to(self.device)

    def state(self) -> dict[str, Any]:
        """All that a training needs to go on, as plain values and tensors on the CPU."""
        return {
            **self._identity(),
            "iteration": self.iteration,
            "theta": self.theta.cpu(),
            "mean": self.adam.mean.cpu(),
            "square": self.adam.square.cpu(),
            "replay": self.replay.state(),
            "generators": [generator.get_state() for generator in self.generators],
            "visited": self.visited.cpu(),
            "stuck": self.stuck.cpu(),
        }

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint is a checkpoint of."""
        known = {id(dag): _fingerprint(dag) for dag in {id(dag): dag for dag in self.dags}.values()}
        return {
            "runs": [asdict(run) | {"clamp": str(run.clamp), "loss": _known(run.loss)} for run in self.runs],
            "graphs": [known[id(dag)] for dag in self.dags],
            "plan": asdict(self.plan),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from this state of the same runs."""
        for what, value in self._identity().items():
            if state.get(what) != value:
                raise FormatError(f"the checkpoint was written with other {what}; give the same, or another folder.")
        self.iteration = state["iteration"]
        self.optimiser.steps.fill_(self.iteration)
        for name, to in (("theta", self.theta), ("mean", self.adam.mean), ("square", self.adam.square)):
            filled(to, state[name], name)
        self.replay.restore(state["replay"], self.walk)
        for generator, known in zip(self.generators, state["generators"], strict=True):
            generator.set_state(known)
        filled(self.visited, state["visited"], "visited")
        filled(self.stuck, state["stuck"], "stuck")


def _known(loss: str | Balance) -> str:
    """What a loss is known by."""
    return loss if isinstance(loss, str) else f"{type(loss).__qualname__} {_fingerprint(loss)}"


def filled(to: Tensor, kept: Tensor, what: str) -> None:
    """Put what was kept in its place, if it has the same shape: one run's numbers are not those of all."""
    if to.shape != kept.shape:
        raise FormatError(f"the checkpoint has {what} of shape {tuple(kept.shape)}, for {tuple(to.shape)}: delete it.")
    to.copy_(kept)


def _kernels(parts: Parts, walk: Walk, wanted: bool | None) -> ModuleType | None:
    """The kernels, if there is a GPU for them and they can take this network; `wanted` insists or forbids."""
    if wanted is False or (wanted is None and walk.after.device.type != "cuda"):
        return None
    try:
        kernels = import_module("dissonance.gflownets.kernels")
    except ImportError:
        kernels = None
    if kernels is not None and kernels.fits(parts, walk):
        return kernels
    if wanted:
        raise CapabilityError(
            "the kernels need Triton 3.4 or newer, a width of 32, 64, 128 or 256, at most 256 inputs, at most 16 moves "
            "forwards and backwards together, and a loss without flows through states; leave `kernels` out to do "
            "without them."
        )
    return None


def _fingerprint(value: object) -> str:
    """What a value is known by; only a run that is kept in a file asks for it, and imports what reads files."""
    from dissonance.io.fingerprint import Fingerprint

    return Fingerprint(value).hex()
