"""Belief propagation: factor graphs, their messages and beliefs, as a run of LIR or compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.instances.belief_propagation.beliefs import Beliefs as Beliefs
    from dissonance.instances.belief_propagation.factor_graph import FactorGraph as FactorGraph
    from dissonance.instances.belief_propagation.instance import BeliefPropagation as BeliefPropagation
    from dissonance.instances.belief_propagation.instance import belief_propagation as belief_propagation
    from dissonance.instances.belief_propagation.sum_product import SumProduct as SumProduct
    from dissonance.instances.belief_propagation.tree_pass import tree_marginals as tree_marginals

lazily(__name__)
