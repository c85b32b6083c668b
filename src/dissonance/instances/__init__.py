"""Known algorithms as runs of LIR: each is a PDG, a refocus, a flow, and a way to read the answer."""

from dissonance.instances.base import Instance
from dissonance.instances.belief_propagation import BeliefPropagation, belief_propagation
from dissonance.instances.beliefs import Beliefs
from dissonance.instances.em import Fitted, Settled, em
from dissonance.instances.em_latent import hidden_markov, mixture, network, rows
from dissonance.instances.em_models import GaussianMixture, NaiveBayesMixture
from dissonance.instances.em_network import LatentBayesianNetwork
from dissonance.instances.em_sequences import HiddenMarkovModel
from dissonance.instances.factor_graph import FactorGraph
from dissonance.instances.sum_product import SumProduct
from dissonance.instances.tree_pass import tree_marginals

__all__ = [
    "BeliefPropagation",
    "Beliefs",
    "FactorGraph",
    "Fitted",
    "GaussianMixture",
    "HiddenMarkovModel",
    "Instance",
    "LatentBayesianNetwork",
    "NaiveBayesMixture",
    "Settled",
    "SumProduct",
    "belief_propagation",
    "em",
    "hidden_markov",
    "mixture",
    "network",
    "rows",
    "tree_marginals",
]
