"""GFlowNets: a policy that draws states in proportion to a reward, trained as the resolution of an inconsistency."""

from dissonance.gflownets.bits import bit_strings
from dissonance.gflownets.cpds import Backward, Forward, StateFlow
from dissonance.gflownets.dag import Dag
from dissonance.gflownets.flow_network import FlowNetwork, flow_network, flow_pdg, surprisal_attention
from dissonance.gflownets.grids import hyper_grid
from dissonance.gflownets.trees import word_tree

__all__ = [
    "Backward",
    "Dag",
    "FlowNetwork",
    "Forward",
    "StateFlow",
    "bit_strings",
    "flow_network",
    "flow_pdg",
    "hyper_grid",
    "surprisal_attention",
    "word_tree",
]
