"""Classification: training, inference and adversarial examples resolve one inconsistency, by moving different arcs.

x ->> X --p--> Y <-- y          with inconsistency -log p(y|x)          (paper, section 4.1)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from dissonance.arc import Arc
from dissonance.cpds import Data, Function, NeuralCategorical, PointMass, SoftmaxTable, Table
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus
from dissonance.instances.base import Instance
from dissonance.instances.batches import Batches
from dissonance.lir import Record, Run
from dissonance.lir.refocus import Uniform
from dissonance.pdg import PDG
from dissonance.variables import Euclidean, Variable

inf = math.inf
T = TypeVar("T")

QUIET = Record(globally=False)
"""A run on batches does not look at all of the data at every step."""


@dataclass(frozen=True)
class Classification:
    """A classifier and a labelled example, `x ->> X --p--> Y <-- y`: what is wrong between them, and three ways out."""

    pdg: PDG
    attention: Attention

    def training(self, rate: float) -> Instance[nn.Module]:
        """Move theta: a step of LIR is a step of gradient descent with this rate."""
        return self._moving("p", rate, lambda run: trained_network(run.pdg))

    def inference(self, control: float = inf) -> Instance[Tensor]:
        """Move the label; with full control it becomes p(Y|x)."""
        return self._moving("y", control, lambda run: run.pdg["y"].cpd.table().detach())

    def adversarial_example(self, rate: float) -> Instance[Tensor]:
        """Move the input, until the classifier says y."""
        return self._moving("x", rate, lambda run: run.theta["x.value"])

    def _moving(self, arc: str, chi: float, read: Callable[[Run], T]) -> Instance[T]:
        return Instance(self.pdg, Uniform(), read, self.attention, Control({arc: chi}), "step")


def classification(
    p: nn.Module, x: Tensor, y: int | Tensor, *, confidence: float = inf, weight: float = 1.0
) -> Classification:
    """The PDG of a classifier (a module from inputs to logits) and one example.

    `y` is the index of a label, or a distribution over labels. `confidence` is beta of y: with inf the inconsistency is
    beta_p KL(y || p(Y|x)), which is -beta_p log p(y|x) for a hard label; with a finite one it is
    -(beta_y + beta_p) log sum y^(beta_y/(beta_y + beta_p)) p^(beta_p/(beta_y + beta_p)). `weight` is beta of p.
    """
    inputs, labels = variables(p, x[None])
    if isinstance(y, int):
        if not 0 <= y < labels.size:
            raise DissonanceError(f"the classifier has the labels 0 to {labels.size - 1}; found {y}.")
        y = torch.eye(labels.size, dtype=torch.float64)[y]
    pdg = PDG(
        Arc("x", (), inputs, PointMass(x)),
        Arc("p", inputs, labels, NeuralCategorical(p)),
        Arc("y", (), labels, SoftmaxTable(y)),
    )
    return Classification(pdg, Attention.only({"x": inf, "p": weight, "y": confidence}))


def stochastic_gradient_descent(
    p: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    batch: int = 32,
    rate: float = 0.1,
    confidence: float = inf,
) -> Instance[nn.Module]:
    """Train a classifier (a module from inputs to logits) on rows x with labels y: SGD with that batch size and rate.

    Each step attends to the empirical distribution d(X, Y) of a fresh batch with beta = inf, to p with beta = 1, and
    controls p with chi = rate: theta <- theta - rate grad mean -log p(y|x). The answer is the trained module; the one
    given is not changed.

    Labels are indices, or distributions, one a row (smoothed labels, say): then each row of the batch has an arc
    y: row -> Y with beta = `confidence`, and the inconsistency is the mean of KL(y || p), or at a confidence of 1 that
    of -2 log sum sqrt(y p). Neither is the cross-entropy.
    """
    inputs, labels = variables(p, x)
    if len(x) != len(y) or not 1 <= batch <= len(x):
        raise DissonanceError(f"{len(x)} inputs, {len(y)} labels and batches of {batch} do not go together.")
    classifier = Arc("p", inputs, labels, NeuralCategorical(p))
    control = Control({"p": rate})
    if y.dim() == 1:
        if confidence != inf:
            raise DissonanceError("labels in doubt (a finite confidence) must be distributions, one a row.")
        pdg = PDG(Arc("d", (), (inputs, labels), Data(x[:batch], y[:batch])), classifier)
        attention = Attention.only({"d": inf, "p": 1.0})
        columns = {"d.rows0": x, "d.rows1": y}
        Data(x, y).bind((), (inputs, labels))  # all of them must be values
    else:
        row = Variable("row", batch)
        pdg = PDG(
            Arc("d", (), row, Data(torch.arange(batch))),
            Arc("x", row, inputs, Function(Rows(x[:batch]))),
            Arc("y", row, labels, Table(y[:batch])),
            classifier,
        )
        attention = Attention.only({"d": inf, "x": inf, "y": confidence, "p": 1.0})
        columns = {"x.f.rows": x, "y.p": y.to(torch.float64)}
    refocus = Batches([Focus(attention, control)], columns, batch)
    return Instance(pdg, refocus, lambda run: trained_network(run.pdg), attention, control, "step", QUIET)


class Rows(nn.Module):
    """The row of a table that an index names: the rows are a buffer, which a refocus may fill."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.register_buffer("rows", rows.clone(), persistent=False)

    def forward(self, index: Tensor) -> Tensor:
        """rows[index]."""
        return self.get_buffer("rows")[index]


def variables(p: nn.Module, x: Tensor) -> tuple[Variable, Variable]:
    """X and Y of a classifier: as many dimensions as an input has, as many labels as there are logits."""
    if x.dim() != 2:
        raise DissonanceError(f"inputs are rows of numbers, (rows, dimensions); found {tuple(x.shape)}.")
    with torch.no_grad():
        try:
            logits = p(x[:1])
        except RuntimeError as error:
            raise DissonanceError(f"the classifier does not take inputs of {x.shape[1]} numbers: {error}.") from None
    return Variable("X", Euclidean(x.shape[1])), Variable("Y", logits.shape[-1])


def trained_network(pdg: PDG) -> nn.Module:
    """The module of the classifier p."""
    found = pdg["p"].cpd
    assert isinstance(found, NeuralCategorical)
    return found.logits
