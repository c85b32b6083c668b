"""GFlowNets: a policy that draws states in proportion to a reward, trained as the resolution of an inconsistency."""

from dissonance.gflownets.dag import Dag
from dissonance.gflownets.grids import hyper_grid

__all__ = ["Dag", "hyper_grid"]
