"""Conditional probability distributions: the protocol and its families."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.cpds.base import CPD as CPD
    from dissonance.cpds.base import TableCPD as TableCPD
    from dissonance.cpds.deterministic import Deterministic as Deterministic
    from dissonance.cpds.deterministic import PointMass as PointMass
    from dissonance.cpds.diagonal_gaussian import DiagonalGaussian as DiagonalGaussian
    from dissonance.cpds.drawn import Data as Data
    from dissonance.cpds.drawn import Distributed as Distributed
    from dissonance.cpds.drawn import Function as Function
    from dissonance.cpds.drawn import Generated as Generated
    from dissonance.cpds.drawn import UniformBox as UniformBox
    from dissonance.cpds.either import Either as Either
    from dissonance.cpds.empirical import Empirical as Empirical
    from dissonance.cpds.empirical import Factor as Factor
    from dissonance.cpds.explicit import Explicit as Explicit
    from dissonance.cpds.gaussian import LinearGaussian as LinearGaussian
    from dissonance.cpds.independent import Independent as Independent
    from dissonance.cpds.network_conditional import NetworkConditional as NetworkConditional
    from dissonance.cpds.neural import BernoulliImages as BernoulliImages
    from dissonance.cpds.neural import NeuralCategorical as NeuralCategorical
    from dissonance.cpds.neural import NeuralGaussian as NeuralGaussian
    from dissonance.cpds.observed import Evidence as Evidence
    from dissonance.cpds.observed import Observed as Observed
    from dissonance.cpds.observed_categorical import ObservedCategorical as ObservedCategorical
    from dissonance.cpds.observed_gaussian import ObservedGaussian as ObservedGaussian
    from dissonance.cpds.standard_normal import StandardNormal as StandardNormal
    from dissonance.cpds.table import SimplexTable as SimplexTable
    from dissonance.cpds.table import SoftmaxTable as SoftmaxTable
    from dissonance.cpds.table import Table as Table
    from dissonance.cpds.table_in_rows import TableInRows as TableInRows

lazily(__name__)
