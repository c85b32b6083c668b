"""Distributions whose parameters are networks of the sources."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal

from dissonance.cpds.base import CPD, Drawn, Values, Variables
from dissonance.cpds.drawn import Distributed, applied, check_outputs, concatenated, dimensions, gaussian_samples
from dissonance.errors import DissonanceError


class NeuralGaussian(Distributed):
    """N(m(s), sigma(s)^2), independent dimensions: `mean` and `log_scale` are modules of the sources laid end to end,
    or a number for a fixed log_scale. `both`: one module whose outputs are the mean, then the log scale."""

    def __init__(
        self, mean: nn.Module | None = None, log_scale: nn.Module | float = 0.0, *, both: nn.Module | None = None
    ) -> None:
        if (mean is None) == (both is None):
            raise DissonanceError("a neural Gaussian needs `mean`, or `both`: a module of mean and log scale together.")
        super().__init__()
        self.mean, self.both = mean, both
        self.log_scale = log_scale if isinstance(log_scale, nn.Module) else None
        self.fixed = 0.0 if isinstance(log_scale, nn.Module) else float(log_scale)

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """The modules have a number for each dimension of the targets, `both` two."""
        size = sum(dimensions(targets))
        for f, wanted in ((self.mean, size), (self.log_scale, size), (self.both, 2 * size)):
            if f is not None:
                check_outputs(f, sources, wanted)
        return super().bind(sources, targets)

    def at(self, sources: Values) -> Distribution:
        """Independent normal distributions."""
        mean, log_scale = self.parameters_at(sources)
        return Independent(Normal(mean, log_scale.exp(), validate_args=False), 1, validate_args=False)

    def parameters_at(self, sources: Values) -> tuple[Tensor, Tensor]:
        """The mean and the log scale given each setting of the sources."""
        if self.both is not None:
            mean, log_scale = applied(self.both, sources).chunk(2, -1)
            return mean, log_scale
        assert self.mean is not None
        mean = applied(self.mean, sources)
        return mean, torch.full_like(mean, self.fixed) if self.log_scale is None else applied(self.log_scale, sources)

    def normal(self, sources: Values) -> tuple[Tensor, Tensor]:
        """m(s) and diag sigma(s)^2."""
        mean, log_scale = self.parameters_at(sources)
        return mean, torch.diag_embed((2 * log_scale).exp())

    def draw(self, sources: Values, count: int, generator: torch.Generator) -> Drawn:
        """`count` samples."""
        mean, log_scale = self.parameters_at(sources)
        return gaussian_samples(mean, log_scale.exp(), count, generator, self.widths, log_scale)


class NeuralCategorical(Distributed):
    """softmax of the outputs of a module of the sources laid end to end, over one finite target."""

    def __init__(self, logits: nn.Module) -> None:
        super().__init__()
        self.logits = logits

    def at(self, sources: Values) -> Distribution:
        """The softmax of the logits."""
        return torch.distributions.Categorical(logits=applied(self.logits, sources), validate_args=False)

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """One finite target."""
        if len(targets) != 1 or not targets[0].is_finite:
            raise DissonanceError("a neural categorical needs exactly one target, and a finite one.")
        check_outputs(self.logits, sources, targets[0].size)
        return super().bind(sources, targets)

    def log_prob(self, targets: Values, sources: Values) -> Tensor:
        """log softmax at the target."""
        return -self.surprisal(targets, sources)

    def surprisal(self, targets: Values, sources: Values) -> Tensor:
        """The cross-entropy."""
        return nn.functional.cross_entropy(applied(self.logits, sources), targets[0], reduction="none")


class BernoulliImages(Distributed):
    """Pixels in [0, 1] that are independently on with the probabilities sigmoid(logits(s)).

    log p = sum x log p + (1 - x) log(1 - p): at grey values a score, not a normalised density.
    """

    def __init__(self, logits: nn.Module) -> None:
        super().__init__()
        self.logits = logits

    def bind(self, sources: Variables, targets: Variables) -> CPD:
        """As many logits as the targets have pixels."""
        check_outputs(self.logits, sources, sum(dimensions(targets)))
        return super().bind(sources, targets)

    def at(self, sources: Values) -> Distribution:
        """Independent pixels."""
        made = torch.distributions.Bernoulli(logits=applied(self.logits, sources), validate_args=False)
        return Independent(made, 1, validate_args=False)

    def surprisal(self, targets: Values, sources: Values) -> Tensor:
        """The binary cross-entropy, added up over the pixels."""
        logits = applied(self.logits, sources)
        return nn.functional.binary_cross_entropy_with_logits(logits, concatenated(targets), reduction="none").sum(-1)
