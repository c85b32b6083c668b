"""Measure how inconsistent a set of probabilistic beliefs is, say who is to blame, and resolve the conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance import above
from dissonance.lazy import lazily

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dissonance.arc import Arc as Arc
    from dissonance.coherence.beliefs import Belief as Belief
    from dissonance.coherence.book import coherence as coherence
    from dissonance.cpds import Deterministic as Deterministic
    from dissonance.cpds import Empirical as Empirical
    from dissonance.cpds import Factor as Factor
    from dissonance.cpds import LinearGaussian as LinearGaussian
    from dissonance.cpds import NeuralCategorical as NeuralCategorical
    from dissonance.cpds import NeuralGaussian as NeuralGaussian
    from dissonance.cpds import PointMass as PointMass
    from dissonance.cpds import SimplexTable as SimplexTable
    from dissonance.cpds import SoftmaxTable as SoftmaxTable
    from dissonance.cpds import Table as Table
    from dissonance.drawing import draw as draw
    from dissonance.errors import CapabilityError as CapabilityError
    from dissonance.errors import DissonanceError as DissonanceError
    from dissonance.errors import FormatError as FormatError
    from dissonance.errors import SizeError as SizeError
    from dissonance.evidence import Report as Report
    from dissonance.evidence import condition as condition
    from dissonance.focus import Attention as Attention
    from dissonance.focus import Control as Control
    from dissonance.focus import Focus as Focus
    from dissonance.focus import full_control as full_control
    from dissonance.inconsistency import inconsistencies as inconsistencies
    from dissonance.inconsistency import inconsistency as inconsistency
    from dissonance.io import from_pandas as from_pandas
    from dissonance.io import load as load
    from dissonance.io import save as save
    from dissonance.lir import Record as Record
    from dissonance.lir import lir as lir
    from dissonance.lir import lirs as lirs
    from dissonance.pdg import PDG as PDG
    from dissonance.query import Posterior as Posterior
    from dissonance.query import Queries as Queries
    from dissonance.query import query as query
    from dissonance.scores import incompatibility as incompatibility
    from dissonance.variables import Euclidean as Euclidean
    from dissonance.variables import Variable as Variable

    from . import bp as bp
    from . import chance as chance
    from . import columns as columns
    from . import cpds as cpds
    from . import distributions as distributions
    from . import drawing as drawing
    from . import em as em
    from . import errors as errors
    from . import estimators as estimators
    from . import evidence as evidence
    from . import flows as flows
    from . import focus as focus
    from . import forecasts as forecasts
    from . import gflownets as gflownets
    from . import implicit as implicit
    from . import instances as instances
    from . import io as io
    from . import refocus as refocus
    from . import reporting as reporting
    from . import results as results
    from . import runs as runs
    from . import scores as scores
    from . import solvers as solvers
    from . import variables as variables

above.homes.update(
    draw="dissonance.drawing",
    html="dissonance.drawing",
    graph="dissonance.coherence.graph",
    from_table="dissonance.io.tables",
    merged="dissonance.io.merging",
    framed="dissonance.io.frames",
    rows_framed="dissonance.io.frames",
    verdict="dissonance.verdict",
    chance="dissonance.chance",
    studio_widget="dissonance.studio.widget",
    columnar="dissonance.columns.assembled",
)
lazily(__name__)
