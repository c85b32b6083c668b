"""Models with latent variables in the manner of scikit-learn; each fit is a run of LIR."""

from dissonance.estimators.base import Estimator, NotFittedError
from dissonance.estimators.bayesian_network import LatentBayesianNetwork
from dissonance.estimators.hidden_markov import HiddenMarkovModel
from dissonance.estimators.mixtures import GaussianMixture, NaiveBayesMixture

__all__ = [
    "Estimator",
    "GaussianMixture",
    "HiddenMarkovModel",
    "LatentBayesianNetwork",
    "NaiveBayesMixture",
    "NotFittedError",
]
