"""GFlowNets: a policy that draws states in proportion to a reward, trained as the resolution of an inconsistency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.gflownets.belief_sets import belief_sets as belief_sets
    from dissonance.gflownets.bits import bit_strings as bit_strings
    from dissonance.gflownets.chains import block_chains as block_chains
    from dissonance.gflownets.cpds import Backward as Backward
    from dissonance.gflownets.cpds import Forward as Forward
    from dissonance.gflownets.cpds import StateFlow as StateFlow
    from dissonance.gflownets.dag import Dag as Dag
    from dissonance.gflownets.flow_network import FlowNetwork as FlowNetwork
    from dissonance.gflownets.flow_network import flow_network as flow_network
    from dissonance.gflownets.flow_network import flow_pdg as flow_pdg
    from dissonance.gflownets.flow_network import surprisal_attention as surprisal_attention
    from dissonance.gflownets.grids import hyper_grid as hyper_grid
    from dissonance.gflownets.losses import LOSSES as LOSSES
    from dissonance.gflownets.sets import subsets as subsets
    from dissonance.gflownets.trained import Policy as Policy
    from dissonance.gflownets.trained import Trained as Trained
    from dissonance.gflownets.trainer import Trainer as Trainer
    from dissonance.gflownets.trainer import TrainingPlan as TrainingPlan
    from dissonance.gflownets.trainer import TrainingRun as TrainingRun
    from dissonance.gflownets.training import train as train
    from dissonance.gflownets.trees import word_tree as word_tree

lazily(__name__)
