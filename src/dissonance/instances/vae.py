"""Variational autoencoders: minus the ELBO is the inconsistency of data, encoder, prior and decoder."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from dissonance.arc import Arc
from dissonance.cpds import CPD, BernoulliImages, Data, Distributed, NeuralGaussian, StandardNormal
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus
from dissonance.inconsistency import Inconsistency, inconsistency
from dissonance.instances.base import Instance
from dissonance.instances.batches import Batches
from dissonance.lir import Record, Run
from dissonance.pdg import PDG
from dissonance.solvers import Sampled
from dissonance.variables import Euclidean, Variable

inf = math.inf


@dataclass(frozen=True)
class Autoencoder:
    """A trained VAE: its PDG (arcs d, q, prior, p), and minus the ELBO of the batch that each step saw."""

    pdg: PDG
    attention: Attention
    losses: list[float] = field(repr=False)

    def bound(self, x: object, samples: int = 1, seed: int = 0) -> Inconsistency:
        """Minus the ELBO of rows x (mean over rows), by so many samples of Z for each."""
        theta = {**self.pdg.theta, "d.rows0": torch.as_tensor(x)}
        return inconsistency(self.pdg, self.attention, solver=Sampled(samples, seed), theta=theta)

    @torch.no_grad()
    def encode(self, x: object, samples: int = 1, seed: int = 0) -> Tensor:
        """Samples of Z for each row, (rows, samples, latent)."""
        return self.pdg["q"].cpd.draw([torch.as_tensor(x)], samples, torch.Generator().manual_seed(seed)).values[0]

    @torch.no_grad()
    def decode(self, z: object) -> Tensor:
        """The mean of X at each row of latents, or a sample of it where the decoder does not tell its mean."""
        decoder, rows = self.pdg["p"].cpd, torch.as_tensor(z).to(self.pdg["d"].cpd.get_buffer("rows0").dtype)
        if isinstance(decoder, Distributed):
            return decoder.at([rows]).mean
        return decoder.draw([rows], 1, torch.Generator().manual_seed(0)).values[0][:, 0]

    @torch.no_grad()
    def generate(self, count: int, seed: int = 0) -> Tensor:
        """New rows: samples of Z from the prior, decoded."""
        return self.decode(self.pdg["prior"].cpd.draw([], count, torch.Generator().manual_seed(seed)).values[0][0])


def vae(
    data: object,
    encoder: CPD | nn.Module,
    decoder: CPD,
    *,
    latent: int,
    prior: CPD | None = None,
    beta: float = 1.0,
    control: float = 1e-3,
    batch: int | None = None,
    samples: int = 1,
) -> Instance[Autoencoder]:
    """A latent variable model of the rows of `data` with an approximate posterior that is a function of the row.

        <<M>> = E_d E_q(z|x)[ -log p(x|z) ] + beta E_d KL(q(Z|x) || prior) = -ELBO        (for beta = 1)

    up to the entropy of the data. Hard data d(X) and hard encoder q(Z|X) make mu; the decoder p(X|Z) has attention 1,
    the prior and structure have attention beta, and alpha = beta_a/gamma for both, so that no entropy but that of the
    encoder is left: H(Z) cancels. The same rows or fresh batches of them are attended to at every step; encoder and
    decoder are controlled, the prior (a standard normal unless given) is not. A step of LIR is one of stochastic
    gradient descent at learning rate `control`, with so many `samples` of Z a row.
    An encoder that is a module has 2 `latent` outputs: the mean and the log scale of a Gaussian.
    """
    if not 0 < beta < inf:
        raise DissonanceError(f"beta is the attention to the prior and must be positive and finite, found {beta}.")
    rows = torch.as_tensor(data)
    if rows.dim() != 2:
        raise DissonanceError(f"a VAE needs a row of numbers for each data point, found shape {tuple(rows.shape)}.")
    if isinstance(decoder, BernoulliImages) and not bool(((rows >= 0) & (rows <= 1)).all()):
        raise DissonanceError(
            f"the decoder p(X | Z) is for pixels in [0, 1]; the data go from {rows.min():g} to {rows.max():g}. Scale "
            "them, or take NeuralGaussian for a decoder."
        )
    x, z = Variable("X", Euclidean(rows.shape[1])), Variable("Z", Euclidean(latent))
    pdg = PDG(
        Arc("d", (), x, Data(rows)),
        Arc("q", x, z, encoder if isinstance(encoder, CPD) else NeuralGaussian(both=encoder)),
        Arc("prior", (), z, StandardNormal() if prior is None else prior),
        Arc("p", z, x, decoder),
    )
    attention = Attention.only({"d": inf, "q": inf, "prior": beta, "p": 1.0}, {"prior": 1.0, "p": 1 / beta}, beta)
    chi = Control({"q": control, "p": control})
    refocus = Batches([Focus(attention, chi)], {"d.rows0": rows}, batch)

    def read(run: Run) -> Autoencoder:
        return Autoencoder(run.pdg, attention, run.trace.column("local_upper")[:-1])

    lean = Record(globally=False)
    return Instance(pdg, refocus, read, attention, chi, "step", lean, Sampled(samples))
