"""Adversarial training: an attack moves the inputs, a patch moves the classifier, on one PDG and in turn.

green (attack):  x -> X <<- x',  X --p--> Y <<- y'     control of x'
blue (patch):          X <<- x',  X --p--> Y <<- y       control of p          (paper, figure 3)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal

from dissonance.arc import Arc
from dissonance.cpds import Data, Distributed, Function, NeuralCategorical, NeuralGaussian
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus
from dissonance.instances.base import Instance
from dissonance.instances.batches import of_round
from dissonance.instances.classification import QUIET, Rows, trained_network, variables
from dissonance.lir import Cycle, Run, Trace
from dissonance.pdg import PDG
from dissonance.variables import Euclidean, Variable

inf = math.inf


def adversarial_examples(
    p: nn.Module, x: Tensor, y: Tensor, *, sigma: float = 1.0, closeness: float = 1.0, weight: float = 1.0, rate: float
) -> Instance[Tensor]:
    """Change every row x_i a little, so that the classifier p calls it y_i: the answer is the rows x'.

    Attention to the Gaussian around x with beta = `closeness`, to p with beta = `weight`, control of x'. Each x'_i goes
    down the gradient of

        closeness [ |x' - x|^2 / (2 sigma^2) + (d/2) log(2 pi sigma^2) ] - weight log p(y|x')

    with that rate. A negative weight is disbelief: x' then flees from y, which may be the true labels.
    """
    pdg = attacked(p, x, y, y, sigma)
    attention = Attention.only({"y'": inf, "x'": inf, "x": closeness, "p": weight})
    control = Control({"x'": rate * len(x)})

    def read(run: Run) -> Tensor:
        return run.theta["x'.f.weight"]

    return Instance(pdg, Cycle(Focus(attention, control)), read, attention, control, "step")


@dataclass(frozen=True)
class Attacks:
    """Refocus: a new batch, with labels y' that are not its own; attacks on it; a patch. Over and over.

    The first focus of a round is on x and x' alone: that puts x' at x, in one step. What a round is about depends on
    its number and the seed of the run only, so that a run may be resumed in the middle of one. With `flee` the labels
    y' are y itself, for an attack that disbelieves p.
    """

    x: Tensor
    y: Tensor
    labels: int
    foci: tuple[Focus, Focus, Focus]
    size: int
    attacks: int
    flee: bool
    name: str = "attacks"

    def batch(self, generator: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draw x, y and y' of a round with its generator."""
        rows = torch.from_numpy(generator.permutation(len(self.x))[: self.size])
        other = torch.from_numpy(generator.integers(1, self.labels, size=self.size))
        y = self.y[rows]
        return self.x[rows], y, y if self.flee else (y + other) % self.labels

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """What this step of the round looks at."""
        number, at = divmod(step, self.attacks + 2)
        x, y, instead = self.batch(of_round(generator, number))
        focus = self.foci[0 if at == 0 else 1 if at <= self.attacks else 2]
        return Focus(focus.attention, focus.control, {"x.mean.rows": x, "y.rows1": y, "y'.rows1": instead})


def adversarial_training(
    p: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    batch: int = 32,
    rate: float = 0.1,
    attacks: int = 5,
    attack_rate: float = 0.1,
    sigma: float = 1.0,
    closeness: float = 1.0,
    weight: float = 1.0,
    prior: float = 0.0,
) -> Instance[nn.Module]:
    """Train a classifier on examples that attack it: the answer is the trained module.

    A round is attacks + 2 steps of LIR. x' starts at a fresh batch x; `attacks` steps with the green focus pull it to
    labels y' that are not its own, held by the Gaussian around x; one step with the blue focus has p call x' what x is:

        x'_i <- x'_i - attack_rate grad [ closeness |x'_i - x_i|^2 / (2 sigma^2) - weight log p(y'_i|x'_i) ]
        theta <- theta - rate grad [ mean -log p(y_i|x'_i) + prior |theta|^2 / 2 ]

    With a negative `weight` the attack disbelieves p and y' is y: x' flees from its own label, wherever to. How far it
    goes is up to sigma: it stops where the pull back, |x' - x| closeness / sigma^2, is that of p. A step towards x is
    attack_rate closeness / sigma^2 of the way, so that this should be below 1 (and below 2 lest it diverge).

    With `prior` > 0 the parameters are an explicit variable Theta, with the arcs theta ->> Theta and N(0, 1) -> Theta:
    the classifier's parameters and its inputs then play the same part.
    """
    pdg = attacked(p, x[:batch], y[:batch], y[:batch], sigma)
    if not 1 <= batch <= len(x) or len(x) != len(y):
        raise DissonanceError(f"{len(x)} inputs, {len(y)} labels and batches of {batch} do not go together.")
    Data(x, y).bind((), (pdg.variable("X"), pdg.variable("Y")))  # all of them must be values
    if not attack_rate * closeness < 2 * sigma**2:
        raise DissonanceError(
            f"attacks with attack_rate={attack_rate:g}, closeness={closeness:g} and sigma={sigma:g} leap over x: have "
            "attack_rate closeness < 2 sigma^2."
        )
    mover, known = "p", dict[str, float]()
    if prior:
        pdg = pdg.explicit("p")
        pdg += Arc("prior", (), pdg.variable("Theta_p"), Distributed(_Standard(pdg.variable("Theta_p"))))
        mover, known = "theta_p", {"theta_p": inf}
    near = Focus(Attention.only({"y": inf, "x'": inf, "x": 1.0}), Control({"x'": batch * sigma**2}))
    green = Attention.only({"y'": inf, "x'": inf, "x": closeness, "p": weight, **known})
    blue = Attention.only({"y": inf, "x'": inf, "p": 1.0, **known, **({"prior": prior} if prior else {})})
    attack = Focus(green, Control({"x'": attack_rate * batch}))
    patch = Focus(blue, Control({mover: rate}))
    refocus = Attacks(x, y, pdg.variable("Y").size, (near, attack, patch), batch, attacks, weight < 0)

    def read(run: Run) -> nn.Module:
        return trained_network(run.pdg.implicit("p") if prior else run.pdg)

    return Instance(pdg, refocus, read, blue, patch.control, "step", QUIET)


def attacked(p: nn.Module, x: Tensor, y: Tensor, instead: Tensor, sigma: float) -> PDG:
    """A classifier, rows x seen through a Gaussian, rows x' that may move (at first x), labels y and y'."""
    inputs, labels = variables(p, x)
    row, index = Variable("row", len(x)), torch.arange(len(x))
    return PDG(
        Arc("y", (), (row, labels), Data(index, y)),
        Arc("y'", (), (row, labels), Data(index, instead)),
        Arc("x", row, inputs, NeuralGaussian(Rows(x), math.log(sigma))),
        Arc("x'", row, inputs, Function(nn.Embedding.from_pretrained(x.clone(), freeze=False))),
        Arc("p", inputs, labels, NeuralCategorical(p)),
    )


class _Standard(nn.Module):
    """N(0, 1) in every dimension."""

    def __init__(self, theta: Variable) -> None:
        super().__init__()
        assert isinstance(theta.domain, Euclidean)
        self.size = theta.domain.dim

    def forward(self) -> Distribution:
        """One distribution, for every row."""
        return Independent(Normal(torch.zeros(1, self.size), 1.0, validate_args=False), 1, validate_args=False)
