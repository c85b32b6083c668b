"""Known algorithms as runs of LIR: each is a PDG, a refocus, a flow, and a way to read the answer."""

from dissonance.instances.base import Instance
from dissonance.instances.em import Fitted, Settled, em
from dissonance.instances.em_latent import hidden_markov, mixture, network, rows
from dissonance.instances.em_models import GaussianMixture, NaiveBayesMixture
from dissonance.instances.em_network import LatentBayesianNetwork
from dissonance.instances.em_sequences import HiddenMarkovModel

__all__ = [
    "Fitted",
    "GaussianMixture",
    "HiddenMarkovModel",
    "Instance",
    "LatentBayesianNetwork",
    "NaiveBayesMixture",
    "Settled",
    "em",
    "hidden_markov",
    "mixture",
    "network",
    "rows",
]
