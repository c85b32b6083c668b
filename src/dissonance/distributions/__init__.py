"""What mu can be."""

from dissonance.distributions.base import Distribution
from dissonance.distributions.clique_tree import CliqueTree
from dissonance.distributions.gaussian import Gaussian
from dissonance.distributions.joint import Joint
from dissonance.distributions.product import Product
from dissonance.distributions.tree import Tree, decompose

__all__ = ["CliqueTree", "Distribution", "Gaussian", "Joint", "Product", "Tree", "decompose"]
