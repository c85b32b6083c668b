"""The CPD protocol: what an arc may be asked about p(targets | sources; theta)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dissonance.costs import LOG_SCORE, Cost
from dissonance.errors import CapabilityError
from dissonance.variables import Variable, shape

Variables = tuple[Variable, ...]
Values = Sequence[Tensor]


class Drawn(NamedTuple):
    """Values of the targets for each of N settings of the sources: one tensor a target, (N, k, ...), and how much each
    counts, (N, k), adding up to 1 along k. Both may depend on theta: that is how derivatives get through.

    `score` has log p of the values, (N, k), where the cpd knows it from drawing: nothing is computed twice."""

    values: tuple[Tensor, ...]
    weights: Tensor
    score: Callable[[], Tensor] | None = None


class CPD(nn.Module):
    """A parametric conditional distribution p(T | S; theta); its parameters are theta, their present values theta_0.

    Every family answers `log_prob`. A family that can do more also answers

    - `log_table()`: log p as a tensor of shape (source sizes..., target sizes...);
    - `linear_gaussian()`: A, b and Sigma, if p(t|s) = N(A s + b, Sigma);
    - `normal(sources)`: the mean and covariance of the targets, if they are Gaussian given the sources;
    - `draw(sources, count, generator)`: values of the targets to average over (`drawn.py`);
    - `listed()`: the same of points without sources;
    - `project(joint)`: sets theta to the argmin of E_mu[-log p], in closed form, for mu(S, T) as `mu.rows` has it;
    - `expectations(joint)` and `match(expectations, share)`: the same in two parts, for arcs that share parameters;
    - `approach(own, joint, rate)`: the natural gradient flow while mu stands still.

    `can` says which. What else LIR needs to know of a family are the attributes `saturated`, `softmax` and `bounded`.

    Finite values travel as indices, Euclidean ones as vectors, one tensor a variable, with shared leading batch axes.
    """

    density: bool = False
    """Whether its table holds densities at given points instead of probabilities: rows need not sum to 1."""

    points: bool = False
    """Whether it is made of points, all of which `draw` gives: they have no density, and what their entropy would be
    is left out."""

    deterministic: bool = False
    """Whether the targets are a function of the sources, and it has no table to tell."""

    stored: str = "p"
    """The name of the parameter or buffer that holds the table, if there is one."""

    saturated: bool = False
    """Whether its only parameter, `stored`, can make any table: by `log_rows` and `from_rows`."""

    softmax: bool = False
    """Whether that parameter is the logits of the table."""

    cost: Cost = LOG_SCORE
    """What mu pays where it differs from the cpd."""

    bounded: bool = False
    """Whether its parameters may leave the parameter space, so that `retracted` must bring them back."""

    @classmethod
    def can(cls, method: str) -> bool:
        """Whether the family answers a method of this protocol that not every family answers."""
        return getattr(cls, method) is not getattr(CPD, method)

    @property
    def is_normal(self) -> bool:
        """Whether the targets are Gaussian given the sources, whatever these are."""
        return self.can("normal") or self.can("linear_gaussian")

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """This cpd fitted to an arc's variables, or an error that says why it does not fit."""
        return self

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """log p(targets | sources), one number a batch element."""
        raise CapabilityError(f"{type(self).__name__} has no log_prob.")

    def surprisal(self, targets: Values, sources: Values) -> Tensor:
        """-log p(targets | sources): a family that has this rather than `log_prob` may say so."""
        return -self.log_prob(targets, sources)

    def log_table(self) -> Tensor:
        """log p as a table; raises CapabilityError if the family has none."""
        raise CapabilityError(f"{type(self).__name__} cannot be tabulated.")

    def linear_gaussian(self) -> tuple[Tensor, Tensor, Tensor]:
        """A, b and Sigma of N(A s + b, Sigma); raises CapabilityError if the family is another."""
        raise CapabilityError(f"{type(self).__name__} is not linear-Gaussian.")

    def normal(self, sources: Values) -> tuple[Tensor, Tensor]:
        """The mean (N or 1, d) and covariance (N or 1, d, d) of the targets given N settings of the sources, if they
        are Gaussian given these."""
        A, b, Sigma = self.linear_gaussian()  # noqa: N806
        mean = torch.cat([s.to(A.dtype) for s in sources], -1) @ A.T + b if sources else b[None]
        return mean, Sigma[None]

    def draw(self, sources: Values, count: int, generator: torch.Generator) -> Drawn:
        """Values of the targets to average over: samples, or all there are."""
        raise CapabilityError(f"{type(self).__name__} cannot be drawn from.")

    def listed(self) -> tuple[Values, Tensor]:
        """All values of the targets, (k, ...) each, and how much each counts, (k,): of points without sources."""
        raise CapabilityError(f"{type(self).__name__} does not list its values.")

    @staticmethod
    def log_rows(theta: Tensor, /) -> Tensor:
        """log p of rows (..., t) from those of the parameter; of families that are `saturated`."""
        raise CapabilityError("this family does not have one parameter that can make any table.")

    @staticmethod
    def from_rows(p: Tensor, /) -> Tensor:
        """The parameter that makes these rows (..., t); of families that are `saturated`."""
        raise CapabilityError("this family does not have one parameter that can make any table.")

    def table(self) -> Tensor:
        """p itself as a table."""
        return self.log_table().exp()

    def project(self, joint: Tensor) -> None:
        """Set theta to the argmin of E_mu[-log p(T|S)], in closed form."""
        raise CapabilityError(f"{type(self).__name__} has no closed-form projection.")

    def expectations(self, joint: Tensor) -> Tensor:
        """E_mu of the family's statistics: all that `match` needs to know of mu(S, T). They add up over arcs."""
        raise CapabilityError(f"{type(self).__name__} has no sufficient statistics.")

    def match(self, expectations: Tensor, share: float = 1.0) -> None:
        """Move theta to the argmin of E_mu[-log p], or a share of the way there, along the natural gradient flow.

        That flow is straight in the mean parameters eta: d eta/dt = beta (E_mu - eta), so share = 1 - e^(-beta t).
        """
        raise CapabilityError(f"{type(self).__name__} has no sufficient statistics.")

    def approach(self, own: dict[str, Tensor], joint: Tensor, rate: dict[str, Tensor]) -> dict[str, Tensor]:
        """The parameters `own` after the natural gradient flow for mu(S, T) standing still; `rate`: chi beta t of each
        component. For families in which that has a closed form whatever the rates."""
        raise CapabilityError(f"{type(self).__name__} has no closed-form natural flow.")

    def retracted(self, name: str, theta: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Values (P, ...) of a parameter brought back to the parameter space, and which of the P had left it.

        `start` (P, ...) are the values they began with. For families that are `bounded`.
        """
        return theta, torch.zeros(len(theta), dtype=torch.bool)

    def learnable(self) -> CPD | None:
        """The same distribution with parameters that can move; None if it has them already, or cannot have any."""
        return None

    def forward(self, method: str, *args: object) -> Tensor:
        """Call a method by name: what `torch.func.functional_call` needs to run it at another theta."""
        return getattr(self, method)(*args)


class TableCPD(CPD):
    """A finite cpd that lives in one table: `log_prob` is a look-up in `log_table()`."""

    target_axes: int | None = None

    @property
    def table_shape(self) -> tuple[int, ...]:
        """The sizes of the sources, then of the targets."""
        return tuple(getattr(self, self.stored).shape)

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """Check the table against the arc's variables: axes are the sources in order, then the targets in order."""
        wanted = shape((*sources, *targets))
        if self.table_shape != wanted:
            raise CapabilityError(
                f"the table has shape {self.table_shape}, but "
                f"({', '.join(v.name for v in sources)}) -> ({', '.join(v.name for v in targets)}) needs {wanted}."
            )
        if self.target_axes not in (None, len(targets)):
            raise CapabilityError("one table cannot serve arcs with different numbers of targets: make a copy of it.")
        object.__setattr__(self, "target_axes", len(targets))  # a plain number: nn.Module's own __setattr__ is slow
        self.check(sources)
        return self

    def check(self, sources: Variables) -> None:
        """Raise unless every source setting's slice is a distribution."""

    def by_row(self, table: Tensor) -> Tensor:
        """A table of this cpd's shape seen as (source settings, target settings)."""
        if self.target_axes == 1 and table.dim() == 2:
            return table
        sizes = self.table_shape
        return table.reshape(-1, prod(sizes[len(sizes) - (self.target_axes or 1) :]))

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """log p(targets | sources) by look-up."""
        index = tuple(torch.as_tensor(v, dtype=torch.long) for v in (*sources, *targets))
        return self.log_table()[index]
