"""Known algorithms as runs of LIR: each is a PDG, a refocus, a flow, and a way to read the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.instances.adversarial import adversarial_examples as adversarial_examples
    from dissonance.instances.adversarial import adversarial_training as adversarial_training
    from dissonance.instances.adversarial_vae import AttackedAutoencoder as AttackedAutoencoder
    from dissonance.instances.adversarial_vae import adversarial_vae as adversarial_vae
    from dissonance.instances.base import Instance as Instance
    from dissonance.instances.batches import Batches as Batches
    from dissonance.instances.classification import Classification as Classification
    from dissonance.instances.classification import classification as classification
    from dissonance.instances.classification import stochastic_gradient_descent as stochastic_gradient_descent
    from dissonance.instances.decision import Decision as Decision
    from dissonance.instances.decision import DecisionProblem as DecisionProblem
    from dissonance.instances.decision import Mind as Mind
    from dissonance.instances.decision import decision as decision
    from dissonance.instances.decision import wishful_thinking as wishful_thinking
    from dissonance.instances.decision import zen as zen
    from dissonance.instances.game import Game as Game
    from dissonance.instances.game import game as game
    from dissonance.instances.gan import Adversaries as Adversaries
    from dissonance.instances.gan import gan as gan
    from dissonance.instances.gaussian_variational import GaussianVariational as GaussianVariational
    from dissonance.instances.gaussian_variational import gaussian_variational as gaussian_variational
    from dissonance.instances.likeliest import Likeliest as Likeliest
    from dissonance.instances.likeliest import likeliest as likeliest
    from dissonance.instances.pools import Pool as Pool
    from dissonance.instances.pools import linear_pool as linear_pool
    from dissonance.instances.pools import log_pool as log_pool
    from dissonance.instances.pools import pooled_counts as pooled_counts
    from dissonance.instances.raking import Raked as Raked
    from dissonance.instances.raking import rake as rake
    from dissonance.instances.raking import raking as raking
    from dissonance.instances.self_attention import SelfAttention as SelfAttention
    from dissonance.instances.transformer import LayerArcs as LayerArcs
    from dissonance.instances.transformer import transformer as transformer
    from dissonance.instances.transformer import transformer_training as transformer_training
    from dissonance.instances.vae import Autoencoder as Autoencoder
    from dissonance.instances.vae import vae as vae
    from dissonance.instances.variational import Variational as Variational
    from dissonance.instances.variational import variational as variational

lazily(__name__)
