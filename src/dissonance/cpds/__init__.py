"""Conditional probability distributions: the protocol and its families."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.cpds.base import CPD, TableCPD
    from dissonance.cpds.deterministic import Deterministic, PointMass
    from dissonance.cpds.drawn import Data, Distributed, Function, Generated, UniformBox
    from dissonance.cpds.either import Either
    from dissonance.cpds.empirical import Empirical, Factor
    from dissonance.cpds.explicit import Explicit
    from dissonance.cpds.gaussian import LinearGaussian
    from dissonance.cpds.independent import Independent
    from dissonance.cpds.neural import BernoulliImages, NeuralCategorical, NeuralGaussian
    from dissonance.cpds.observed import Evidence, Observed
    from dissonance.cpds.observed_categorical import ObservedCategorical
    from dissonance.cpds.observed_gaussian import ObservedGaussian
    from dissonance.cpds.standard_normal import StandardNormal
    from dissonance.cpds.table import SimplexTable, SoftmaxTable, Table
    from dissonance.cpds.table_in_rows import TableInRows

_HOME = {
    "base": ("CPD", "TableCPD"),
    "deterministic": ("Deterministic", "PointMass"),
    "drawn": ("Data", "Distributed", "Function", "Generated", "UniformBox"),
    "either": ("Either",),
    "empirical": ("Empirical", "Factor"),
    "explicit": ("Explicit",),
    "gaussian": ("LinearGaussian",),
    "independent": ("Independent",),
    "neural": ("BernoulliImages", "NeuralCategorical", "NeuralGaussian"),
    "observed": ("Evidence", "Observed"),
    "observed_categorical": ("ObservedCategorical",),
    "observed_gaussian": ("ObservedGaussian",),
    "standard_normal": ("StandardNormal",),
    "table": ("SimplexTable", "SoftmaxTable", "Table"),
    "table_in_rows": ("TableInRows",),
}

__all__ = [
    "CPD",
    "BernoulliImages",
    "Data",
    "Deterministic",
    "Distributed",
    "Either",
    "Empirical",
    "Evidence",
    "Explicit",
    "Factor",
    "Function",
    "Generated",
    "Independent",
    "LinearGaussian",
    "NeuralCategorical",
    "NeuralGaussian",
    "Observed",
    "ObservedCategorical",
    "ObservedGaussian",
    "PointMass",
    "SimplexTable",
    "SoftmaxTable",
    "StandardNormal",
    "Table",
    "TableCPD",
    "TableInRows",
    "UniformBox",
]

lazily(__name__, {name: module for module, names in _HOME.items() for name in names})
