"""Known algorithms as runs of LIR: each is a PDG, a refocus, a flow, and a way to read the answer."""

from dissonance.instances.adversarial import adversarial_examples, adversarial_training
from dissonance.instances.base import Instance
from dissonance.instances.batches import Batches
from dissonance.instances.belief_propagation.beliefs import Beliefs
from dissonance.instances.belief_propagation.factor_graph import FactorGraph
from dissonance.instances.belief_propagation.instance import BeliefPropagation, belief_propagation
from dissonance.instances.belief_propagation.sum_product import SumProduct
from dissonance.instances.belief_propagation.tree_pass import tree_marginals
from dissonance.instances.classification import Classification, classification, stochastic_gradient_descent
from dissonance.instances.decision import Decision, DecisionProblem, Mind, decision, wishful_thinking, zen
from dissonance.instances.em.fitted import Fitted, Settled
from dissonance.instances.em.instance import em
from dissonance.instances.em.latent import hidden_markov, mixture, network, rows
from dissonance.instances.game import Game, game
from dissonance.instances.gan import Adversaries, gan
from dissonance.instances.self_attention import SelfAttention
from dissonance.instances.transformer import LayerArcs, transformer, transformer_training
from dissonance.instances.vae import Autoencoder, vae
from dissonance.instances.variational import Variational, variational

__all__ = [
    "Adversaries",
    "Autoencoder",
    "Batches",
    "BeliefPropagation",
    "Beliefs",
    "Classification",
    "Decision",
    "DecisionProblem",
    "FactorGraph",
    "Fitted",
    "Game",
    "Instance",
    "LayerArcs",
    "Mind",
    "SelfAttention",
    "Settled",
    "SumProduct",
    "Variational",
    "adversarial_examples",
    "adversarial_training",
    "belief_propagation",
    "classification",
    "decision",
    "em",
    "game",
    "gan",
    "hidden_markov",
    "mixture",
    "network",
    "rows",
    "stochastic_gradient_descent",
    "transformer",
    "transformer_training",
    "tree_marginals",
    "vae",
    "variational",
    "wishful_thinking",
    "zen",
]
