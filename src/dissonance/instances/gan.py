"""Generative adversarial networks: two foci that disagree about what to believe, each with control of one player."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from dissonance.arc import Arc
from dissonance.cpds import CPD, Data, Either, Generated, NeuralCategorical, Table
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus
from dissonance.inconsistency import Inconsistency, inconsistency
from dissonance.instances.base import Instance
from dissonance.instances.batches import Batches
from dissonance.lir import Record, Row, Run
from dissonance.pdg import PDG
from dissonance.solvers import Auto
from dissonance.variables import Euclidean, Variable

inf = math.inf
C = Variable("C", ["real", "fake"])


@dataclass(frozen=True)
class Adversaries:
    """Both players after a run, and L_GAN = E_data log D + E_G log(1 - D) as each step saw it (NaN where it did not).

    With `nonsaturating` the generator does not look at L_GAN but at E_G[-log D]: `losses` has NaN there.
    """

    pdg: PDG
    losses: list[float] = field(repr=False)

    @property
    def generator(self) -> CPD:
        """The generator G, as a cpd."""
        x = self.pdg["x"].cpd
        assert isinstance(x, Either)
        return x[1]

    @property
    def discriminator(self) -> CPD:
        """The discriminator D, as a cpd."""
        return self.pdg["D"].cpd

    @property
    def jensen_shannon(self) -> Inconsistency:
        """JS(p_data, G) exactly, for finite X: the inconsistency with D out of attention and e believed."""
        return inconsistency(self.pdg, belief(0.0, 1.0))

    @torch.no_grad()
    def generate(self, count: int, seed: int = 0) -> Tensor:
        """Samples of a generator that is drawn from, (count, dim)."""
        return self.generator.draw([], count, torch.Generator().manual_seed(seed)).values[0][0]


class _Odds(nn.Module):
    """Logits of (real, fake) from one number, the log-odds of being real."""

    def __init__(self, f: nn.Module) -> None:
        super().__init__()
        self.f = f

    def forward(self, x: Tensor) -> Tensor:
        odds = self.f(x)
        return torch.cat([odds, torch.zeros_like(odds)], -1)


class _Same(nn.Module):
    """The same logits for every row."""

    def __init__(self, *logits: float) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, x: Tensor) -> Tensor:
        return x.new_tensor(self.logits).expand(len(x), -1)


def belief(discriminator: float, even: float) -> Attention:
    """Attention beta_D and beta_e: what each player makes of the discriminator, and of "it could be either"."""
    return Attention.only({"c": inf, "x": inf, "D": discriminator, "e": even})


DISCRIMINATE, GENERATE = belief(1.0, -1.0), belief(-1.0, 1.0)
PRETEND = Attention.only({"g": inf, "claim": inf, "D": 1.0, "e": -1.0})


def gan(
    real: object,
    generator: CPD | nn.Module,
    discriminator: CPD | nn.Module,
    *,
    noise: int = 1,
    control: tuple[float, float] = (0.1, 0.1),
    rounds: int = 1,
    batch: int | None = None,
    nonsaturating: bool = False,
) -> Instance[Adversaries]:
    """A fair coin C, X | C = [p_data; G], a discriminator D(C | X), and a belief e(C | X) that it could be either.

        <<M>> = -(beta_D/2) L_GAN + (beta_D + beta_e) JS(p_data, G) - beta_D log 2,
        L_GAN = E_data log D(real|x) + E_G log D(fake|x)

    The discriminator believes D and disbelieves e: -L_GAN/2 - log 2, and it has control of D. The generator believes e
    and disbelieves D: L_GAN/2 + log 2, and it has control of G; if `nonsaturating`, it believes D, disbelieves e, and
    claims that its own work is real: E_G[-log D(real|x)] - log 2. They take turns, `rounds` steps of the discriminator
    for each of the generator, all on fresh batches; `control` has their learning rates.

    `real` is a row of numbers for each data point, or, for finite X, a vector of probabilities; then the players are
    tables. A generator that is a module makes X of so many dimensions of standard normal `noise`; a discriminator that
    is a module gives the log-odds that X is real. Erratum 10: C -> X is one hard arc, because hard marginals of a real
    and a fake X leave their coupling free; erratum 11: the constants.
    """
    if rounds < 1:
        raise DissonanceError(f"the discriminator needs at least one step in each round, found rounds={rounds}.")
    given = torch.as_tensor(real)
    finite = given.dim() == 1
    if given.dim() > 2 or (finite and batch is not None):
        raise DissonanceError("real data are rows of numbers, or probabilities of a finite X, which need no batches.")
    x = Variable("X", len(given) if finite else Euclidean(given.shape[1]))
    g = generator if isinstance(generator, CPD) else Generated(generator, noise)
    d = discriminator if isinstance(discriminator, CPD) else NeuralCategorical(_Odds(discriminator))
    arcs = [
        Arc("c", (), C, [0.5, 0.5]),
        Arc("x", C, x, Either(Table(given) if finite else Data(given), g)),
        Arc("D", x, C, d),
        Arc("e", x, C, _always(x, 0.5, 0.5)),
    ]
    if nonsaturating:
        arcs += [Arc("g", (), x, g), Arc("claim", x, C, _always(x, 1.0, 0.0))]
    pdg = PDG(*arcs)
    first = Focus(DISCRIMINATE, Control({"D": control[0]}))
    second = (
        Focus(PRETEND, Control({"g": control[1]})) if nonsaturating else Focus(GENERATE, Control({"x": control[1]}))
    )
    refocus = Batches([first] * rounds + [second], {} if finite else {"x.parts.0.rows0": given}, batch)

    def read(run: Run) -> Adversaries:
        return Adversaries(run.pdg, [_loss(row) for row in run.trace.rows[:-1]])

    lean = Record(globally=False)
    both = Control({"D": control[0], "x": control[1]})
    fakes = Auto(samples=1 if finite else batch or len(given))  # as many as there are real ones
    return Instance(pdg, refocus, read, DISCRIMINATE, both, "step", lean, fakes)


def _always(x: Variable, real: float, fake: float) -> CPD:
    """The same probabilities of C whatever X is."""
    if x.is_finite:
        return Table(torch.tensor([[real, fake]] * x.size))
    return NeuralCategorical(_Same(*(math.log(p) if p else -inf for p in (real, fake))))


def _loss(row: Row) -> float:
    """L_GAN from the inconsistency that a player saw; NaN where that was something else."""
    if row.beta["D"] < 0:
        return 2 * (row.local_upper - math.log(2))
    return -2 * (row.local_upper + math.log(2)) if "x" in row.beta else math.nan
