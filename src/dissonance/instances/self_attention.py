"""A transformer layer, compiled: the fixed point and the steps of LIR under full and finite control of x'."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dissonance.errors import DissonanceError


@dataclass(frozen=True, eq=False)
class SelfAttention:
    """n tokens that listen to each other: k_i = W_K x_i, q_j = W_Q x_j, v_i = W_V x_i and the attention

        phi_ij = exp(scale <k_i, q_j>),     0 where query j does not see key i          (Prop. 5)

    W_K and W_Q are (heads, d_k, d) and W_V is (heads, d_v, d), or matrices for a single head. The paper has scale = 1;
    1/sqrt(d_k) is usual. `causal`: j sees i <= j only; `mask[i, j]` says so one by one. `Sigma[i, j]` is the covariance
    of N(x'_j; v_i, Sigma_ij), broadcast to (heads, n, n, d_v, d_v); the identity if left out.

    x is (..., n, d) and x' is (..., n, heads d_v), the heads side by side, on any device and in any precision; weights
    are laid out (..., heads, i, j). Shares are a softmax over the keys i for each query j.
    """

    W_K: Tensor
    W_Q: Tensor
    W_V: Tensor
    scale: float = 1.0
    causal: bool = False
    mask: Tensor | None = None
    Sigma: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("W_K", "W_Q", "W_V"):
            w = getattr(self, name)
            object.__setattr__(self, name, w[None] if w.dim() == 2 else w)
        if self.W_K.shape != self.W_Q.shape or self.W_V.shape[::2] != self.W_K.shape[::2] or self.W_V.dim() != 3:
            shapes = ", ".join(str(tuple(w.shape)) for w in (self.W_K, self.W_Q, self.W_V))
            raise DissonanceError(f"W_K and W_Q are (heads, d_k, d) and W_V is (heads, d_v, d); found {shapes}.")

    @property
    def heads(self) -> int:
        """How many attentions go side by side."""
        return len(self.W_V)

    def keys(self, x: Tensor) -> Tensor:
        """W_K x, (..., heads, n, d_k)."""
        return x[..., None, :, :] @ self.W_K.mT

    def queries(self, x: Tensor) -> Tensor:
        """W_Q x, (..., heads, n, d_k)."""
        return x[..., None, :, :] @ self.W_Q.mT

    def values(self, x: Tensor) -> Tensor:
        """W_V x, (..., heads, n, d_v)."""
        return x[..., None, :, :] @ self.W_V.mT

    def logits(self, x: Tensor) -> Tensor:
        """log phi, (..., heads, i, j)."""
        return self._scores(x).mT

    def _scores(self, x: Tensor) -> Tensor:
        """log phi with the keys last, as a softmax over them likes it: (..., heads, j, i)."""
        found = (self.scale * self.queries(x)) @ self.keys(x).mT
        hidden = self._hidden(x.shape[-2], x.device)
        return found if hidden is None else found.masked_fill_(hidden.mT, -math.inf)

    def _hidden(self, n: int, device: torch.device) -> Tensor | None:
        """Where query j does not see key i, (..., i, j); None if all see all."""
        later = torch.ones(n, n, dtype=torch.bool, device=device).tril(-1) if self.causal else None
        if self.mask is None:
            return later
        hidden = ~self.mask.to(device) if later is None else later | ~self.mask.to(device)
        blind = hidden.all(-2)
        if bool(blind.any()):
            j = int(blind.nonzero()[0, -1])
            raise DissonanceError(f"query {j} sees no key: nothing says what x'_{j} should be. Let it see itself.")
        return hidden

    def phi(self, x: Tensor) -> Tensor:
        """The attention exp(scale <k_i, q_j>) to every arc, (..., heads, i, j)."""
        return self.logits(x).exp()

    def shares(self, x: Tensor) -> Tensor:
        """alpha_(i|j) = phi_ij / sum_i phi_ij: how much of query j's attention goes to key i, (..., heads, i, j)."""
        return self._scores(x).softmax(-1).mT

    def resolve(self, x: Tensor) -> Tensor:
        """Full control of x': where the inconsistency is least.

        x'_j = (sum_i phi_ij Sigma_ij^-1)^-1 sum_i phi_ij Sigma_ij^-1 v_i,     sum_i alpha_(i|j) v_i if all Sigma agree
        """
        if self.Sigma is None:
            return _side_by_side(self.shares(x).mT @ self.values(x))
        precision, pulled = self._pull(x, self.shares(x))
        return _side_by_side(torch.linalg.solve(precision, pulled))

    def step(self, x: Tensor, x_prime: Tensor, chi: float = 1.0) -> Tensor:
        """Finite control of x': a gradient step x'_j - chi sum_i phi_ij Sigma_ij^-1 (x'_j - v_i)."""
        apart = self._apart(x_prime)
        if self.Sigma is None:
            phi = self.phi(x)
            slope = phi.sum(-2)[..., None] * apart - phi.mT @ self.values(x)
        else:
            precision, pulled = self._pull(x, self.phi(x))
            slope = (precision @ apart[..., None])[..., 0] - pulled
        return x_prime - chi * _side_by_side(slope)

    def costs(self, x: Tensor, x_prime: Tensor) -> Tensor:
        """-log N(x'_j; v_i, Sigma_ij) of every arc, (..., heads, i, j)."""
        off = self._apart(x_prime)[..., None, :, :] - self.values(x)[..., :, None, :]  # (..., heads, i, j, d_v)
        constant = 0.5 * off.shape[-1] * math.log(2 * math.pi)
        if self.Sigma is None:
            return 0.5 * off.square().sum(-1) + constant
        L = torch.linalg.cholesky(self.Sigma)  # noqa: N806
        white = torch.linalg.solve_triangular(L, off[..., None], upper=False)[..., 0]
        return 0.5 * white.square().sum(-1) + L.diagonal(dim1=-2, dim2=-1).log().sum(-1) + constant

    def inconsistency(self, x: Tensor, x_prime: Tensor) -> Tensor:
        """sum_ij phi_ij (-log N(x'_j; v_i, Sigma_ij)), added up over the heads: a number a sequence."""
        return (self.phi(x) * self.costs(x, x_prime)).sum((-3, -2, -1))

    def _pull(self, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """sum_i w_ij Sigma_ij^-1, and sum_i w_ij Sigma_ij^-1 v_i."""
        assert self.Sigma is not None
        n, d = x.shape[-2], self.W_V.shape[1]
        inverse = torch.linalg.inv(self.Sigma).expand(self.heads, n, n, d, d)
        pulled = torch.einsum("...hij,hijab,...hib->...hja", weights, inverse, self.values(x))
        return torch.einsum("...hij,hijab->...hjab", weights, inverse), pulled

    def _apart(self, x_prime: Tensor) -> Tensor:
        """x' (..., n, heads d_v) head by head, (..., heads, n, d_v)."""
        return x_prime.unflatten(-1, (self.heads, -1)).transpose(-3, -2)


def _side_by_side(each: Tensor) -> Tensor:
    """(..., heads, n, d_v) as (..., n, heads d_v)."""
    return each.transpose(-3, -2).flatten(-2)
