"""Cpds whose values are drawn: functions, data, and any torch.distributions object, with parameters of any kind."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal

from dissonance import numerics
from dissonance.cpds.base import CPD, Drawn, Values, Variables
from dissonance.errors import CapabilityError, DissonanceError
from dissonance.variables import Euclidean, Opaque, Variable

_lock = threading.Lock()
"""torch's own generator is one for all threads."""


class Function(CPD):
    """The targets as a function of the sources: t = f(s), f any module that maps a batch of sources laid end to end."""

    points = deterministic = True

    def __init__(self, f: nn.Module) -> None:
        super().__init__()
        self.f = f

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """The targets must be Euclidean, or a single one that is opaque."""
        self.whole = len(targets) == 1 and isinstance(targets[0].domain, Opaque)
        if not self.whole:
            self.widths = dimensions(targets)
            check_outputs(self.f, sources, sum(self.widths))
        return self

    def draw(self, sources: Values, count: int, generator: torch.Generator) -> Drawn:
        """The point f(s)."""
        made = applied(self.f, sources)
        if self.whole:
            return Drawn((made[:, None],), torch.ones(len(made), 1, dtype=numerics.DTYPE))
        return Drawn(tuple(v[:, None] for v in made.split(self.widths, -1)), made.new_ones(len(made), 1))


class Data(CPD):
    """The empirical distribution of rows: one tensor of rows for each target, in order, equally likely.

    Finite targets are given as indices. A refocus may put another batch of rows in their place:
    `Focus(..., context={"d.rows0": x, "d.rows1": y})`.
    """

    points = True

    def __init__(self, *rows: object) -> None:
        super().__init__()
        kept = [torch.as_tensor(r) for r in rows]
        if not kept or len({len(r) for r in kept}) != 1 or not len(kept[0]):
            raise DissonanceError(
                f"data needs as many rows, at least one, for every target; found {[*map(len, kept)]}."
            )
        for i, r in enumerate(kept):
            self.register_buffer(f"rows{i}", r, persistent=False)
        self.count, self._names = len(kept), [f"rows{i}" for i in range(len(kept))]

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """Data has no sources; its columns fit the targets."""
        if sources:
            raise DissonanceError("data has no sources; make its variables targets.")
        if len(targets) != self.count:
            raise DissonanceError(f"{self.count} columns of data for {len(targets)} targets.")
        for v, rows in zip(targets, self.rows, strict=True):
            check_values(v, rows)
        return self

    @property
    def rows(self) -> tuple[Tensor, ...]:
        """The rows of each target."""
        held: dict[str, Any] = self._buffers
        return tuple([held[n] for n in self._names])

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """Not defined."""
        raise CapabilityError("rows of data are points and have no density.")

    def listed(self) -> tuple[Values, Tensor]:
        """All rows, equally likely."""
        rows = self.rows
        dtype = next(iter([r.dtype for r in rows if r.is_floating_point()]), None)
        return rows, _equal_weights(rows[0].shape[0], dtype, rows[0].device)

    def draw(self, sources: Values, count: int, generator: torch.Generator) -> Drawn:
        """All rows."""
        rows, weights = self.listed()
        return Drawn(tuple([r.unsqueeze(0) for r in rows]), weights.unsqueeze(0))


@lru_cache(maxsize=16)
def _equal_weights(size: int, dtype: torch.dtype | None, device: torch.device) -> Tensor:
    """1/size for each of so many rows: never written to."""
    return torch.full((size,), 1 / size, dtype=dtype, device=device)


class Distributed(CPD):
    """p(t | s) as any torch.distributions object: `make` maps the sources, one tensor a variable, to a distribution
    with a batch axis whose event is the targets laid end to end (an index, for one finite target).

    `make` is a module if it has parameters; a family of its own defines `at` instead. Samples are reparameterised where
    the distribution can; where it cannot, derivatives go through the score function.
    """

    def __init__(self, make: Callable[..., Distribution] | None = None) -> None:
        super().__init__()
        if make is None and type(self).at is Distributed.at:
            raise DissonanceError(f"a {type(self).__name__} needs a `make`, or an `at` of its own.")
        self.make = make

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """Finite targets come alone."""
        if any(v.is_finite for v in targets) and len(targets) > 1:
            raise CapabilityError("a finite target of a drawn cpd comes alone; give every other target an arc.")
        self.finite = sum(v.size for v in targets if v.is_finite)
        self.widths = () if self.finite else dimensions(targets)
        left, right = (", ".join(v.name for v in side) for side in (sources, targets))
        self.ends = f"{left} -> {right}".lstrip()
        self._check(sources)
        return self

    def _check(self, sources: Variables) -> None:
        """Raise unless the distribution at zero, if there is one, is about as many numbers as the targets have."""
        if any(isinstance(v.domain, Opaque) for v in sources):
            return
        try:
            with tried(self), torch.no_grad():
                made = self.at(zeros(self, sources))
        except (RuntimeError, IndexError) as error:
            raise _cannot_take(self.make if isinstance(self.make, nn.Module) else self, sources, error) from None
        except (ValueError, TypeError):  # zero is no value that it is for
            return
        wanted, shape = () if self.finite else (sum(self.widths),), tuple(made.event_shape)
        if shape != wanted or len(made.batch_shape) > 1:
            raise DissonanceError(
                f"{type(made).__name__} has events of shape {shape}; the targets need {wanted}. One batch axis and all "
                "numbers of the targets as one event: torch.distributions.Independent(..., 1) makes it so."
            )

    def at(self, sources: Values) -> Distribution:
        """The distribution of the targets given each setting of the sources."""
        assert self.make is not None
        return self.make(*sources)

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """log p(t | s), one number a batch element."""
        p = self.at(sources)
        try:
            return p.log_prob(targets[0] if self.finite else concatenated(targets))
        except NotImplementedError:
            raise CapabilityError(f"the {_name(p)} of the arc {self.ends} has no log_prob.") from None

    def draw(self, sources: Values, count: int, generator: torch.Generator) -> Drawn:
        """All values of a finite target; else `count` samples."""
        p = self.at(sources)
        rows = p.batch_shape[0] if p.batch_shape else 1
        if self.finite:
            values = torch.arange(self.finite)
            log_p = p.log_prob(values[:, None].expand(-1, rows)).T  # (N, k)
            return Drawn((values.expand(rows, -1),), log_p.exp(), lambda: log_p)
        try:
            return _samples(p, count, generator, self.widths)
        except NotImplementedError:
            raise CapabilityError(
                f"the {_name(p)} of the arc {self.ends} has neither rsample nor log_prob, so that derivatives cannot "
                "get through its samples. Give it one of them, or make the cpd Generated(module, noise)."
            ) from None


def _samples(p: Distribution, count: int, generator: torch.Generator, widths: Sequence[int]) -> Drawn:
    """`count` samples of each of a batch of distributions."""
    if isinstance(p, Normal):
        return gaussian_samples(p.loc, p.scale, count, generator, widths)._replace(score=None)
    if isinstance(p, Independent) and isinstance(p.base_dist, Normal) and p.reinterpreted_batch_ndims == 1:
        return gaussian_samples(p.base_dist.loc, p.base_dist.scale, count, generator, widths)
    with _lock, torch.random.fork_rng(devices=[]):  # torch.distributions take no generator
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        drawn = p.rsample((count,)) if p.has_rsample else p.sample((count,))  # (k, N, ...)
    values = drawn.movedim(0, 1).split(widths, -1)
    if p.has_rsample:
        weights = drawn.new_full((drawn.shape[1], count), 1 / count)
        return Drawn(values, weights, lambda: p.log_prob(drawn).movedim(0, 1))
    score = p.log_prob(drawn)
    weights = (torch.exp(score - score.detach()) / count).movedim(0, 1)  # its derivative is that of the score
    return Drawn(values, weights, lambda: score.movedim(0, 1))


def gaussian_samples(
    mean: Tensor,
    scale: Tensor,
    count: int,
    generator: torch.Generator,
    widths: Sequence[int],
    log_scale: Tensor | None = None,
) -> Drawn:
    """mean + scale z for standard normal z, (N, k, dim): log p there is -|z|^2/2 - sum log scale - (dim/2) log 2 pi."""
    rows, size = mean.shape
    z = torch.randn((count, rows, size) if count > 1 else (rows, size), generator=generator, dtype=mean.dtype)
    drawn = mean + scale * z  # (k, N, dim), or (N, dim) of one each

    def score() -> Tensor:
        fixed = torch.linalg.vecdot(z, z).mul_(-0.5).sub_(0.5 * size * math.log(2 * math.pi))
        found = fixed - (scale.log() if log_scale is None else log_scale).sum(-1)
        return found.mT if count > 1 else found.unsqueeze(-1)

    by_row = drawn.movedim(0, 1) if count > 1 else drawn.unsqueeze(1)
    values = by_row.split(widths, -1) if len(widths) > 1 else (by_row,)
    return Drawn(values, _equal_weights(count, mean.dtype, mean.device).expand(rows, count), score)


def _name(p: Distribution) -> str:
    return type(p.base_dist if isinstance(p, Independent) else p).__name__


class Generated(CPD):
    """What a module makes of noise: t = f(s, z) with z ~ N(0, I), sources and noise laid end to end.

    It can be drawn from and has no density.
    """

    def __init__(self, f: nn.Module, noise: int) -> None:
        super().__init__()
        if noise < 1:
            raise DissonanceError(f"a generator needs one dimension of noise at least, found {noise}.")
        self.f, self.noise = f, noise

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """The targets must be Euclidean, and the module have as many outputs."""
        self.widths = dimensions(targets)
        check_outputs(self.f, (*sources, Variable("noise", Euclidean(self.noise))), sum(self.widths))
        return self

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """Not known."""
        raise CapabilityError("a generator has no density.")

    def draw(self, sources: Values, count: int, generator: torch.Generator) -> Drawn:
        """f at fresh noise."""
        rows = len(sources[0]) if sources else 1
        dtype = next((p.dtype for p in self.f.parameters()), torch.get_default_dtype())
        noise = torch.randn((rows * count, self.noise), generator=generator, dtype=dtype)
        made = applied(self.f, [*(s.repeat_interleave(count, 0) for s in sources), noise])
        values = made.reshape(rows, count, -1).split(self.widths, -1)
        return Drawn(values, made.new_full((rows, count), 1 / count))


class UniformBox(Distributed):
    """Uniform between `low` and `high`, numbers or one for each dimension of the targets."""

    def __init__(self, low: object = 0.0, high: object = 1.0) -> None:
        super().__init__()
        self.register_buffer("low", numerics.real(low).detach().reshape(-1))
        self.register_buffer("high", numerics.real(high).detach().reshape(-1))
        if not bool((self.get_buffer("low") < self.get_buffer("high")).all()):
            raise DissonanceError("a uniform distribution needs low < high.")

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """One bound for all dimensions, or one for each."""
        size = sum(dimensions(targets))
        given = {self.get_buffer(n).numel() for n in ("low", "high")} - {1, size}
        if given:
            raise DissonanceError(f"there are {given.pop()} bounds for {size} dimensions: give one, or one for each.")
        return super().bind(sources, targets)

    def at(self, sources: Values) -> Distribution:
        """Uniform, whatever the sources."""
        rows, size = len(sources[0]) if sources else 1, sum(self.widths)
        low, high = (self.get_buffer(n).expand(size).expand(rows, size) for n in ("low", "high"))
        return Independent(torch.distributions.Uniform(low, high, validate_args=False), 1, validate_args=False)


def dimensions(variables: Sequence[Variable]) -> tuple[int, ...]:
    """The dimensions of Euclidean variables."""
    found: list[int] = []
    for v in variables:
        if not isinstance(v.domain, Euclidean):
            raise CapabilityError(f"{v.name} is {v.domain}; a Euclidean variable is needed here.")
        found.append(v.domain.dim)
    return tuple(found)


def check_outputs(f: nn.Module, sources: Variables, wanted: int) -> None:
    """Raise unless a module takes values of the sources and has so many outputs: it is tried at zero."""
    given = zeros(f, sources)
    if not given or any(isinstance(v.domain, Opaque) for v in sources):  # of what shape a value is, is not known
        return
    try:
        with tried(f), torch.no_grad():
            made = f(concatenated(given)).shape
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise _cannot_take(f, sources, error) from None
    if len(made) != 2 or made[-1] != wanted:
        raise DissonanceError(
            f"{type(f).__name__} makes {tuple(made[1:])} numbers of a row; the targets need {wanted}."
        )


def zeros(f: nn.Module, sources: Variables) -> list[Tensor]:
    """One row of zeros for each source, of the kind that a module works with."""
    first = next((p for p in (*f.parameters(), *f.buffers()) if p.is_floating_point()), torch.zeros(()))
    return [
        torch.zeros(1, dtype=torch.long, device=first.device)
        if v.is_finite
        else first.new_zeros(1, v.domain.dim if isinstance(v.domain, Euclidean) else 0)
        for v in sources
    ]


@contextmanager
def tried(f: nn.Module) -> Generator[None]:
    """The module as it is when it is used and not trained: nothing that it holds changes."""
    modes = [(m, m.training) for m in f.modules()]
    f.eval()
    try:
        yield
    finally:
        for m, training in modes:
            m.training = training


def _cannot_take(f: nn.Module, sources: Variables, error: Exception) -> DissonanceError:
    given = ", ".join(f"{v.name}: {v.domain}" for v in sources)
    why = str(error).partition("\n")[0]
    return DissonanceError(f"{type(f).__name__} cannot take the sources ({given}): {why}.")


def check_values(v: Variable, values: Tensor) -> None:
    """Raise unless these are values of the variable."""
    if v.is_finite:
        whole = not values.is_floating_point() and values.dim() == 1
        if not whole or int(values.min()) < 0 or int(values.max()) >= v.size:
            raise DissonanceError(f"{v.name} needs indices from 0 to {v.size - 1}, one a row.")
    elif isinstance(v.domain, Euclidean) and (values.dim() != 2 or values.shape[1] != v.domain.dim):
        raise DissonanceError(f"{v.name} is {v.domain}, but its rows have shape {tuple(values.shape[1:])}.")


def concatenated(values: Sequence[Tensor]) -> Tensor:
    """Values of several variables laid end to end, (N, ...)."""
    return values[0] if len(values) == 1 else torch.cat([v if v.dim() > 1 else v[:, None] for v in values], -1)


def _first_parameter(f: nn.Module) -> Tensor | None:
    """The first that `f.parameters()` would list, found without listing them."""
    known = f.__dict__
    for own in known["_parameters"].values():
        if own is not None:
            return own
    for part in known["_modules"].values():
        found = None if part is None else _first_parameter(part)
        if found is not None:
            return found
    return None


def applied(f: nn.Module, values: Sequence[Tensor]) -> Tensor:
    """What a module makes of values of several variables laid end to end: real numbers in its own precision."""
    x = concatenated(values)
    own = _first_parameter(f)
    own = x if own is None else own
    return f(x.to(own.dtype) if own.dtype != x.dtype and x.is_floating_point() and own.is_floating_point() else x)
