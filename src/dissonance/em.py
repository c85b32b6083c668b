"""Expectation-maximisation: beliefs with latent variables about the rows of a data set, learned by a run of LIR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.instances.em.fitted import Fitted as Fitted
    from dissonance.instances.em.fitted import Settled as Settled
    from dissonance.instances.em.gaussian import FittedGaussian as FittedGaussian
    from dissonance.instances.em.gaussian import factor_analysis as factor_analysis
    from dissonance.instances.em.gaussian import gaussian_em as gaussian_em
    from dissonance.instances.em.gaussian import state_space as state_space
    from dissonance.instances.em.instance import em as em
    from dissonance.instances.em.kalman import FittedStateSpace as FittedStateSpace
    from dissonance.instances.em.kalman import state_space_em as state_space_em
    from dissonance.instances.em.latent import hidden_markov as hidden_markov
    from dissonance.instances.em.latent import mixture as mixture
    from dissonance.instances.em.latent import network as network
    from dissonance.instances.em.latent import rows as rows
    from dissonance.instances.em.loopy import FittedLoopy as FittedLoopy
    from dissonance.instances.em.loopy import LoopyEM as LoopyEM
    from dissonance.instances.em.loopy import loopy_em as loopy_em

lazily(__name__)
