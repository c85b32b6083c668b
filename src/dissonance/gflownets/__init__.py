"""GFlowNets: a policy that draws states in proportion to a reward, trained as the resolution of an inconsistency."""

from dissonance.gflownets.bits import bit_strings
from dissonance.gflownets.dag import Dag
from dissonance.gflownets.grids import hyper_grid
from dissonance.gflownets.trees import word_tree

__all__ = ["Dag", "bit_strings", "hyper_grid", "word_tree"]
