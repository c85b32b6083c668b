"""A variational autoencoder trained against an adversary: the foci of a VAE and of adversarial training in turn.

attack:  x -> X <<- x',  X --q--> Z --p--> Y <<- y     disbelief in p and the prior, control of x'
patch:         X <<- x',  X --q--> Z --p--> Y <<- y     belief in both, control of q and p

with y = x: what was there, and what was seen of it. The hard arc q goes from X and Y to Z and ignores Y, because X -> Z
alone would leave free how Z depends on Y.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from dissonance.arc import Arc
from dissonance.cpds import CPD, Function, NeuralGaussian, StandardNormal, Table
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus
from dissonance.inconsistency import Inconsistency, inconsistency
from dissonance.instances.base import Instance
from dissonance.instances.batches import of_round
from dissonance.instances.classification import QUIET, Rows
from dissonance.instances.vae import Autoencoder, vae
from dissonance.lir import Cycle, Run, Trace, lir
from dissonance.numerics import DTYPE
from dissonance.pdg import PDG
from dissonance.solvers import Sampled
from dissonance.variables import Euclidean, Variable

inf = math.inf


@dataclass(frozen=True)
class AttackRounds:
    """Refocus: a fresh batch, x' put at x; attacks on it; a patch. Over and over.

    What a round is about depends on its number and the seed of the run only, so that a run may be resumed in the middle
    of one.
    """

    x: Tensor
    foci: Sequence[Focus]
    size: int
    name: str = "attack rounds"

    def batch(self, generator: np.random.Generator) -> Tensor:
        """Draw the rows of a round with its generator."""
        return self.x[torch.from_numpy(generator.permutation(len(self.x))[: self.size])]

    def __call__(self, pdg: PDG, step: int, generator: np.random.Generator, trace: Trace) -> Focus:
        """What this step of the round looks at."""
        number, at = divmod(step, len(self.foci))
        x, focus = self.batch(of_round(generator, number)), self.foci[at]
        return Focus(focus.attention, focus.control, {"x.mean.rows": x, "y.f.rows": x})


class _OfX(nn.Module):
    """An encoder of X that is shown X and Y laid end to end."""

    def __init__(self, encoder: nn.Module, width: int) -> None:
        super().__init__()
        self.encoder, self.width = encoder, width

    def forward(self, both: Tensor) -> Tensor:
        return self.encoder(both[..., : self.width])


BELIEVE = Attention.only(
    {"rows": inf, "y": inf, "x'": inf, "q": inf, "p": 1.0, "prior": 1.0}, {"rows": 1.0, "p": 1.0, "prior": 1.0}, 1.0
)
"""Minus the ELBO of x, seen as x'; alpha of the rows takes out their entropy."""


def attack_focus(chi: float) -> Focus:
    """|x' - x|^2 / (2 sigma^2) less minus the ELBO, with control chi of x'.

    beta = alpha = -1 on p and the prior is disbelief without entropies; alpha_q = 2 turns the sign of the encoder's.
    """
    beta = {"rows": inf, "y": inf, "x'": inf, "q": inf, "x": 1.0, "p": -1.0, "prior": -1.0}
    alpha = {"rows": 1.0, "x": 1.0, "p": -1.0, "prior": -1.0, "q": 2.0}
    return Focus(Attention.only(beta, alpha, 1.0), Control({"x'": chi}))


@dataclass(frozen=True)
class AttackedAutoencoder:
    """A VAE after attacks and patches, and minus the ELBO of what each patch saw; `autoencoder` is the VAE alone."""

    pdg: PDG
    autoencoder: Autoencoder
    losses: list[float] = field(repr=False)

    def bound(self, x: object, seen: object, samples: int = 1, seed: int = 0) -> Inconsistency:
        """Minus the ELBO of rows x of which other rows were `seen`: mean -log p(x|z) for z from q(z|seen), and KL."""
        return inconsistency(self._on(x, seen, 1.0), BELIEVE, solver=Sampled(samples, seed))

    def attack(self, x: object, steps: int, *, rate: float, sigma: float, seed: int = 0) -> Tensor:
        """Rows near x that the VAE takes for something else: so many steps of LIR with the focus of the attack."""
        pdg = self._on(x, x, sigma)
        focus = attack_focus(rate * pdg.variable("row").size)
        run = lir(pdg, Cycle(focus), steps=steps, flow="step", solver=Sampled(1), trace=QUIET, seed=seed)
        return run.theta["x'.f.weight"]

    def _on(self, x: object, seen: object, sigma: float) -> PDG:
        """The same arcs on other rows."""
        q, prior, p = (self.pdg[n].cpd for n in ("q", "prior", "p"))
        return _pdg(torch.as_tensor(x), torch.as_tensor(seen), q, prior, p, self.pdg.variable("Z"), sigma)


def adversarial_vae(
    data: object,
    encoder: nn.Module,
    decoder: CPD,
    *,
    latent: int,
    batch: int = 32,
    control: float = 1e-3,
    attacks: int = 5,
    attack_rate: float = 0.1,
    sigma: float = 0.5,
    prior: CPD | None = None,
) -> Instance[AttackedAutoencoder]:
    """Train a VAE on rows that attack it: whatever comes near a row is to be decoded as that row.

    A round is attacks + 2 steps of LIR. x' starts at a fresh batch x; `attacks` steps flee from what the VAE can
    explain, held by a Gaussian around x; one step has the VAE find x in x':

        x'_i <- x'_i - attack_rate grad [ |x'_i - x_i|^2 / (2 sigma^2) + ELBO(x'_i, x_i) ]
        theta <- theta - control grad mean -ELBO(x'_i, x_i)
        ELBO(x', x) = E_q(z|x')[ log p(x|z) ] - KL(q(Z|x') || prior)

    With attacks=0 that is the VAE itself, on the same batches. A step towards x is attack_rate / sigma^2 of the way, so
    that this must be below 2.
    """
    rows = torch.as_tensor(data)
    if rows.dim() != 2 or not 1 <= batch <= len(rows):
        raise DissonanceError(
            f"rows of numbers and batches of at most all are needed, found {tuple(rows.shape)}, {batch}."
        )
    if attacks < 0 or not attack_rate < 2 * sigma**2:
        raise DissonanceError(
            f"attacks={attacks}, attack_rate={attack_rate:g}, sigma={sigma:g}: attacks of that rate leap over x; have "
            "attack_rate < 2 sigma^2."
        )
    q, first = NeuralGaussian(both=_OfX(encoder, rows.shape[1])), rows[:batch]
    pdg = _pdg(first, first, q, prior or StandardNormal(), decoder, Variable("Z", Euclidean(latent)), sigma)
    near = Focus(Attention.only({"rows": inf, "y": inf, "x'": inf, "x": 1.0}), Control({"x'": batch * sigma**2}))
    patch = Focus(BELIEVE, Control({"q": control, "p": control}))
    foci = [near, *[attack_focus(attack_rate * batch)] * attacks, patch]

    def read(run: Run) -> AttackedAutoencoder:
        losses = [r.local_upper for r in run.trace.rows[:-1] if r.step % len(foci) == len(foci) - 1]
        own, prior, p = (run.pdg[n].cpd for n in ("q", "prior", "p"))
        q = NeuralGaussian(both=own.get_submodule("both.encoder"))
        return AttackedAutoencoder(run.pdg, vae(rows, q, p, latent=latent, prior=prior).answer(0), losses)

    return Instance(pdg, AttackRounds(rows, foci, batch), read, BELIEVE, patch.control, "step", QUIET, Sampled(1))


def _pdg(x: Tensor, seen: Tensor, encoder: CPD, prior: CPD, decoder: CPD, z: Variable, sigma: float) -> PDG:
    """Rows x, a Gaussian around them, rows x' that may move (at first `seen`), an encoder of x', a decoder to say x."""
    row = Variable("row", len(x))
    shown, wanted = (Variable(n, Euclidean(x.shape[1])) for n in ("X", "Y"))
    return PDG(
        Arc("rows", (), row, Table(torch.full((len(x),), 1 / len(x), dtype=DTYPE))),
        Arc("y", row, wanted, Function(Rows(x))),
        Arc("x", row, shown, NeuralGaussian(Rows(x), math.log(sigma))),
        Arc("x'", row, shown, Function(nn.Embedding.from_pretrained(seen.clone(), freeze=False))),
        Arc("q", (shown, wanted), z, encoder),
        Arc("prior", (), z, prior),
        Arc("p", z, wanted, decoder),
    )
