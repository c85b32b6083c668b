"""What a network of linear Gaussians says of some of its variables given others."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dissonance import numerics
from dissonance.cpds.base import CPD, Variables
from dissonance.cpds.gaussian import LinearGaussian, dimension
from dissonance.errors import DissonanceError


class NetworkConditional(CPD):
    """p(T | S) of the joint prod_k N(X_k; A_k x_pa(k) + b_k, Sigma_k), for any T and S of its variables.

    x = B x + b + noise, so the joint has the mean m = (I - B)^-1 b and the covariance C = (I - B)^-1 N (I - B)^-T, and

        A = C_TS C_SS^-1,   b = m_T - A m_S,   Sigma = C_TT - A C_ST

    Each factor is (parents, variables, cpd); variables that none makes must be among the sources. The cpds may be those
    of other arcs: their parameters are then shared.
    """

    def __init__(self, *factors: tuple[Variables, Variables, LinearGaussian]) -> None:
        super().__init__()
        self.scopes = [(tuple(parents), tuple(made)) for parents, made, _ in factors]
        self.parts = nn.ModuleList(cpd for *_, cpd in factors)
        self.sources: list[int] = []
        self.targets: list[int] = []
        self.place: dict[str, list[int]] = {}

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """All variables are the network's, and what it does not make is given."""
        known = {v.name: v for scope in self.scopes for v in (*scope[0], *scope[1])}
        known |= {v.name: v for v in sources}
        made = {v.name for _, variables in self.scopes for v in variables}
        missing = [
            n for n in (*known, *(v.name for v in targets)) if n not in made and n not in {v.name for v in sources}
        ]
        if missing:
            raise DissonanceError(f"no factor of the network makes {missing[0]!r}: it must be a source.")
        at = 0
        for name, v in known.items():
            self.place[name] = list(range(at, at := at + dimension([v])))
        self.sources, self.targets = (self._at(x) for x in (sources, targets))
        return self

    def _at(self, variables: Variables) -> list[int]:
        return [i for v in variables for i in self.place[v.name]]

    def linear_gaussian(self) -> tuple[Tensor, Tensor, Tensor]:
        """A, b and Sigma of the targets given the sources."""
        n = sum(map(len, self.place.values()))
        I = torch.eye(n, dtype=numerics.DTYPE)  # noqa: E741, N806
        slopes, b, noise = torch.zeros_like(I), I.new_zeros(n), I
        for (parents, made), cpd in zip(self.scopes, self.parts, strict=True):
            assert isinstance(cpd, LinearGaussian)
            slope, shift, Sigma = cpd.linear_gaussian()  # noqa: N806
            s, t = (torch.tensor(self._at(x), dtype=torch.long) for x in (parents, made))
            slopes = slopes.index_put((t[:, None], s[None]), slope)
            b = b.index_put((t,), shift)
            noise = noise.index_put((t[:, None], t[None]), Sigma)
        spread = torch.linalg.solve(I - slopes, torch.linalg.cholesky(noise))
        m, C = torch.linalg.solve(I - slopes, b), spread @ spread.T  # noqa: N806
        s, t = self.sources, self.targets
        A = torch.linalg.solve(C[s][:, s], C[s][:, t]).T if s else I.new_zeros(len(t), 0)  # noqa: N806
        Sigma = C[t][:, t] - A @ C[s][:, t]  # noqa: N806
        return A, m[t] - A @ m[s], (Sigma + Sigma.T) / 2
