"""Models with latent variables in the manner of scikit-learn; each fit is a run of LIR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.estimators.base import Estimator as Estimator
    from dissonance.estimators.base import NotFittedError as NotFittedError
    from dissonance.estimators.bayesian_network import LatentBayesianNetwork as LatentBayesianNetwork
    from dissonance.estimators.hidden_markov import HiddenMarkovModel as HiddenMarkovModel
    from dissonance.estimators.mixtures import GaussianMixture as GaussianMixture
    from dissonance.estimators.mixtures import NaiveBayesMixture as NaiveBayesMixture

lazily(__name__)
