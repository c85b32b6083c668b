"""GFlowNets: a policy that draws states in proportion to a reward, trained as the resolution of an inconsistency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.gflownets.bits import bit_strings
    from dissonance.gflownets.cpds import Backward, Forward, StateFlow
    from dissonance.gflownets.dag import Dag
    from dissonance.gflownets.flow_network import FlowNetwork, flow_network, flow_pdg, surprisal_attention
    from dissonance.gflownets.grids import hyper_grid
    from dissonance.gflownets.losses import LOSSES
    from dissonance.gflownets.trainer import Trainer, TrainingPlan, TrainingRun
    from dissonance.gflownets.training import train
    from dissonance.gflownets.trees import word_tree

_HOME = {
    "bits": ("bit_strings",),
    "cpds": ("Backward", "Forward", "StateFlow"),
    "dag": ("Dag",),
    "flow_network": ("FlowNetwork", "flow_network", "flow_pdg", "surprisal_attention"),
    "grids": ("hyper_grid",),
    "losses": ("LOSSES",),
    "trainer": ("TrainingPlan", "TrainingRun", "Trainer"),
    "training": ("train",),
    "trees": ("word_tree",),
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "LOSSES",
    "Backward",
    "Dag",
    "FlowNetwork",
    "Forward",
    "StateFlow",
    "Trainer",
    "TrainingPlan",
    "TrainingRun",
    "bit_strings",
    "flow_network",
    "flow_pdg",
    "hyper_grid",
    "surprisal_attention",
    "train",
    "word_tree",
]

lazily(__name__, _WHERE)
