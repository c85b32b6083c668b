"""Measure how inconsistent a set of probabilistic beliefs is, say who is to blame, and resolve the conflict."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dissonance.cpds import (
        CPD,
        BernoulliImages,
        Data,
        Deterministic,
        Distributed,
        Empirical,
        Evidence,
        Factor,
        Function,
        Independent,
        LinearGaussian,
        NeuralCategorical,
        NeuralGaussian,
        ObservedCategorical,
        ObservedGaussian,
        PointMass,
        SimplexTable,
        SoftmaxTable,
        Table,
        UniformBox,
    )
    from dissonance.distributions import CliqueTree, Gaussian, Joint
    from dissonance.errors import CapabilityError, DissonanceError, FormatError, SizeError
    from dissonance.evidence import Likelihood, Report, condition
    from dissonance.focus import Attention, Control, Focus, full_control
    from dissonance.implicit import minimiser
    from dissonance.inconsistency import inconsistencies, inconsistency
    from dissonance.instances import (
        BeliefPropagation,
        Beliefs,
        Classification,
        DecisionProblem,
        FactorGraph,
        GaussianMixture,
        HiddenMarkovModel,
        Instance,
        LatentBayesianNetwork,
        NaiveBayesMixture,
        SumProduct,
        adversarial_examples,
        adversarial_training,
        belief_propagation,
        classification,
        decision,
        em,
        game,
        stochastic_gradient_descent,
        tree_marginals,
        variational,
        wishful_thinking,
        zen,
    )
    from dissonance.io import load, save
    from dissonance.lir import (
        ODE,
        Choice,
        Cycle,
        Descent,
        FullControl,
        Greedy,
        Hub,
        Learned,
        Natural,
        Partial,
        Published,
        Record,
        Run,
        Smooth,
        Step,
        Surprisal,
        TensorBoard,
        Trace,
        Uniform,
        lir,
        lirs,
    )
    from dissonance.pdg import PDG, Arc
    from dissonance.query import Posterior, Queries, query
    from dissonance.scores import incompatibility, observational_incompatibility, structural_deficiency
    from dissonance.variables import Euclidean, Finite, Opaque, Variable

_HOME = {
    "cpds": (
        "CPD",
        "BernoulliImages",
        "Data",
        "Deterministic",
        "Distributed",
        "Empirical",
        "Evidence",
        "Factor",
        "Function",
        "Independent",
        "LinearGaussian",
        "NeuralCategorical",
        "NeuralGaussian",
        "ObservedCategorical",
        "ObservedGaussian",
        "PointMass",
        "SimplexTable",
        "SoftmaxTable",
        "Table",
        "UniformBox",
    ),
    "distributions": ("CliqueTree", "Gaussian", "Joint"),
    "errors": ("CapabilityError", "DissonanceError", "FormatError", "SizeError"),
    "evidence": ("Likelihood", "Report", "condition"),
    "focus": ("Attention", "Control", "Focus", "full_control"),
    "implicit": ("minimiser",),
    "inconsistency": ("inconsistencies", "inconsistency"),
    "instances": (
        "BeliefPropagation",
        "Beliefs",
        "Classification",
        "DecisionProblem",
        "FactorGraph",
        "GaussianMixture",
        "HiddenMarkovModel",
        "Instance",
        "LatentBayesianNetwork",
        "NaiveBayesMixture",
        "SumProduct",
        "adversarial_examples",
        "adversarial_training",
        "belief_propagation",
        "classification",
        "decision",
        "em",
        "game",
        "stochastic_gradient_descent",
        "tree_marginals",
        "variational",
        "wishful_thinking",
        "zen",
    ),
    "io": ("load", "save"),
    "lir": (
        "ODE",
        "Choice",
        "Cycle",
        "Descent",
        "FullControl",
        "Greedy",
        "Hub",
        "Learned",
        "Natural",
        "Partial",
        "Published",
        "Record",
        "Run",
        "Smooth",
        "Step",
        "Surprisal",
        "TensorBoard",
        "Trace",
        "Uniform",
        "lir",
        "lirs",
    ),
    "pdg": ("PDG", "Arc"),
    "query": ("Posterior", "Queries", "query"),
    "scores": ("incompatibility", "observational_incompatibility", "structural_deficiency"),
    "variables": ("Euclidean", "Finite", "Opaque", "Variable"),
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "CPD",
    "ODE",
    "PDG",
    "Arc",
    "Attention",
    "BeliefPropagation",
    "Beliefs",
    "BernoulliImages",
    "CapabilityError",
    "Choice",
    "Classification",
    "CliqueTree",
    "Control",
    "Cycle",
    "Data",
    "DecisionProblem",
    "Descent",
    "Deterministic",
    "DissonanceError",
    "Distributed",
    "Empirical",
    "Euclidean",
    "Evidence",
    "Factor",
    "FactorGraph",
    "Finite",
    "Focus",
    "FormatError",
    "FullControl",
    "Function",
    "Gaussian",
    "GaussianMixture",
    "Greedy",
    "HiddenMarkovModel",
    "Hub",
    "Independent",
    "Instance",
    "Joint",
    "LatentBayesianNetwork",
    "Learned",
    "Likelihood",
    "LinearGaussian",
    "NaiveBayesMixture",
    "Natural",
    "NeuralCategorical",
    "NeuralGaussian",
    "ObservedCategorical",
    "ObservedGaussian",
    "Opaque",
    "Partial",
    "PointMass",
    "Posterior",
    "Published",
    "Queries",
    "Record",
    "Report",
    "Run",
    "SimplexTable",
    "SizeError",
    "Smooth",
    "SoftmaxTable",
    "Step",
    "SumProduct",
    "Surprisal",
    "Table",
    "TensorBoard",
    "Trace",
    "Uniform",
    "UniformBox",
    "Variable",
    "adversarial_examples",
    "adversarial_training",
    "belief_propagation",
    "classification",
    "condition",
    "decision",
    "em",
    "full_control",
    "game",
    "incompatibility",
    "inconsistencies",
    "inconsistency",
    "lir",
    "lirs",
    "load",
    "minimiser",
    "observational_incompatibility",
    "query",
    "save",
    "stochastic_gradient_descent",
    "structural_deficiency",
    "tree_marginals",
    "variational",
    "wishful_thinking",
    "zen",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `import dissonance` does not pull in torch."""
    if name not in _WHERE:
        raise AttributeError(f"module 'dissonance' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dissonance.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps importing the submodule `inconsistency` from hiding the function of the same name."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and name in _WHERE:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
