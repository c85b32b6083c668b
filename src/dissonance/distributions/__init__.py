"""What mu can be."""

from dissonance.distributions.base import Distribution
from dissonance.distributions.clique_tree import CliqueTree
from dissonance.distributions.joint import Joint
from dissonance.distributions.tree import Tree, decompose

__all__ = ["CliqueTree", "Distribution", "Joint", "Tree", "decompose"]
