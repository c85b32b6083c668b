"""Transformer layers: x' as the resolution of what all tokens say to each, and what training by control comes to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from dissonance.arc import Arc
from dissonance.cpds import CPD, LinearGaussian, PointMass
from dissonance.cpds.base import Values
from dissonance.cpds.drawn import Data
from dissonance.errors import DissonanceError, suggest
from dissonance.focus import Attention, Control, Focus
from dissonance.instances.base import Instance
from dissonance.instances.self_attention import SelfAttention
from dissonance.lir import Cycle, Flow, Record, Run
from dissonance.pdg import PDG
from dissonance.variables import Euclidean, Variable

inf = math.inf


def transformer(
    layer: SelfAttention,
    x: Tensor,
    start: Tensor | None = None,
    *,
    control: float = inf,
    flow: Flow | str = "step",
) -> Instance[Tensor]:
    """Inference in a transformer layer (Prop. 5): a bipartite PDG of Gaussians, the points x' under control.

        <<M>> = sum_ij phi_ij (-log N(x'_j; W_V x_i, Sigma_ij)),     phi_ij = exp(scale <k_i, q_j>)

    Hard arcs put X_i at x_i and X'_j at x'_j; the arcs X_i -> X'_j are N(W_V X_i, Sigma_ij), attended with phi_ij. Full
    control of x' is self-attention, in one step; finite control is a gradient step towards it. The answer is x', one
    row a token and the heads side by side; `start` is where it begins, 0 if left out. An arc for each head and pair of
    tokens: `SelfAttention.resolve` and `.step` compute the same for real sizes.
    """
    if x.dim() != 2 or x.shape[1] != layer.W_K.shape[2]:
        raise DissonanceError(
            f"x has shape {tuple(x.shape)}; one sequence of tokens (n, {layer.W_K.shape[2]}) is needed."
        )
    n, wide = x.shape[0], layer.heads * layer.W_V.shape[1]
    start = x.new_zeros(n, wide) if start is None else start
    if start.shape != (n, wide):
        raise DissonanceError(f"x' has shape {tuple(start.shape)}; ({n}, {wide}) is needed.")
    pdg, heard = _bipartite(layer, x, start)
    points = [a.name for a in pdg if isinstance(a.cpd, PointMass)]
    attention = Attention.only({**dict.fromkeys(points, inf), **heard})
    chi = Control({name: control for name in points if name.startswith("x'")})

    def read(run: Run) -> Tensor:
        each = [[run.theta[f"x'{_at(layer, h, j)}.value"] for h in range(layer.heads)] for j in range(n)]
        return torch.stack([torch.cat(heads) for heads in each])

    return Instance(pdg, Cycle(Focus(attention, chi)), read, attention, chi, flow)


def _at(layer: SelfAttention, h: int, j: int) -> str:
    return str(j) if layer.heads == 1 else f"{j} of head {h}"


def _bipartite(layer: SelfAttention, x: Tensor, start: Tensor) -> tuple[PDG, dict[str, float]]:
    """M(W_K, W_Q, W_V, x, x'), and the attention to its soft arcs. The arcs of a head share one W_V."""
    n, d = len(x), layer.W_V.shape[1]
    tokens = [Variable(f"X{i}", Euclidean(x.shape[1])) for i in range(n)]
    arcs = [Arc(f"x{i}", (), v, PointMass(x[i])) for i, v in enumerate(tokens)]
    phi, heard = layer.phi(x).detach(), dict[str, float]()
    Sigma = torch.eye(d, dtype=x.dtype) if layer.Sigma is None else layer.Sigma  # noqa: N806
    Sigma = Sigma.detach().expand(layer.heads, n, n, d, d)  # noqa: N806
    for h in range(layer.heads):
        W_V = nn.Parameter(layer.W_V[h].detach().clone())  # noqa: N806
        for j in range(n):
            name = _at(layer, h, j)
            listener = Variable(f"X'{name}", Euclidean(d))
            arcs.append(Arc(f"x'{name}", (), listener, PointMass(start[j, h * d : (h + 1) * d])))
            for i in range(n):
                if phi[h, i, j] > 0:
                    says = LinearGaussian(W_V, torch.zeros(d), Sigma[h, i, j])
                    says.A = W_V  # pyright: ignore[reportConstantRedefinition]
                    arcs.append(Arc(f"{i} to {name}", tokens[i], listener, says))
                    heard[arcs[-1].name] = float(phi[h, i, j])
    return PDG(*arcs), heard


Kind = Literal["held", "shares held", "differentiated", "shares differentiated"]
"""What the attention of a layer under training is: phi or its shares alpha, and whether derivatives see it."""

KINDS = ("held", "shares held", "differentiated", "shares differentiated")


class LayerArcs(CPD):
    """All arcs of a layer as one, their attention inside.

        log p(x' | x) = sum_ij phi_ij log N(x'_j; W_V x_i, Sigma_ij)

    Where hard arcs pin x and x' to points it is as inconsistent at beta = 1 as the bipartite PDG is, for any number of
    sequences. A score, not a normalised density. theta = W_K, W_Q, W_V. Attention comes from outside of a PDG, so
    "held" lets no derivative through it, and W_K and W_Q have none; "differentiated" takes it for a part of the belief.
    """

    W_K: nn.Parameter
    W_Q: nn.Parameter
    W_V: nn.Parameter

    def __init__(self, layer: SelfAttention, attention: Kind = "held") -> None:
        super().__init__()
        if attention not in KINDS:
            raise DissonanceError(f"no attention named {attention!r}.{suggest(attention, KINDS)}")
        self.layer, self.attention = layer, attention
        for name in ("W_K", "W_Q", "W_V"):
            setattr(self, name, nn.Parameter(getattr(layer, name).detach().clone()))

    def now(self) -> SelfAttention:
        """The layer at the present theta."""
        return replace(self.layer, W_K=self.W_K, W_Q=self.W_Q, W_V=self.W_V)

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """sum_ij phi_ij log N(x'_j; v_i, Sigma_ij), one number a sequence."""
        layer = self.now()
        x, x_prime = sources[0].unflatten(-1, (-1, self.W_K.shape[-1])), targets[0]
        weights = layer.shares(x) if self.attention.startswith("shares") else layer.phi(x)
        weights = weights.detach() if self.attention.endswith("held") else weights
        costs = layer.costs(x, x_prime.unflatten(-1, (x.shape[-2], -1)))
        return -(weights * costs).sum((-3, -2, -1))


def transformer_training(
    layer: SelfAttention,
    x: Tensor,
    y: Tensor,
    *,
    control: Mapping[str, float],
    attention: Kind = "held",
    flow: Flow | str = "step",
) -> Instance[SelfAttention]:
    """Training by control of "W_K", "W_Q" and "W_V": x' is pinned to what it should be, y, and the layer gives way.

        <<M>> = E_data sum_ij phi_ij (-log N(y_j; W_V x_i, Sigma_ij))

    x is (sequences, n, d), y (sequences, n, heads d_v). This is not the loss of standard training: with shares alpha
    and Sigma = 1 it is |y_j - x'_j|^2 / 2 plus the variance of the values under attention, so that every value is
    asked to be right by itself. Held attention moves W_V only; phi that is differentiated falls to 0, which makes
    anything consistent. The answer is the trained layer.
    """
    if x.dim() != 3 or y.shape != (*x.shape[:2], layer.heads * layer.W_V.shape[1]):
        raise DissonanceError(
            f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}; (sequences, n, d) and (sequences, n, "
            f"{layer.heads * layer.W_V.shape[1]}) are needed."
        )
    before, after = (Variable(name, Euclidean(z[0].numel())) for name, z in (("X", x), ("X'", y)))
    pdg = PDG(
        Arc("data", (), (before, after), Data(x.flatten(1), y.flatten(1))),
        Arc("layer", before, after, LayerArcs(layer, attention)),
    )
    focus = Attention.only({"data": inf, "layer": 1.0})
    chi = Control({f"layer.{name}": c for name, c in control.items()})

    def read(run: Run) -> SelfAttention:
        return replace(layer, **{n: run.theta[f"layer.{n}"] for n in ("W_K", "W_Q", "W_V")})

    return Instance(pdg, Cycle(Focus(focus, chi)), read, focus, chi, flow, Record())
