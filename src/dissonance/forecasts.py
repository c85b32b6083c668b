"""Forecasts of related events: whether they fit together, what is certain to be gained from them, what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissonance.lazy import lazily

if TYPE_CHECKING:
    from dissonance.coherence.beliefs import Belief as Belief
    from dissonance.coherence.beliefs import BeliefError as BeliefError
    from dissonance.coherence.beliefs import read_beliefs as read_beliefs
    from dissonance.coherence.book import BeliefRow as BeliefRow
    from dissonance.coherence.book import Coherence as Coherence
    from dissonance.coherence.book import World as World
    from dissonance.coherence.book import check as check
    from dissonance.coherence.book import coherence as coherence
    from dissonance.coherence.book import coherences as coherences
    from dissonance.coherence.files import Book as Book
    from dissonance.coherence.files import load_books as load_books
    from dissonance.coherence.graph import Graph as Graph
    from dissonance.coherence.graph import graph as graph
    from dissonance.coherence.outcomes import Scores as Scores
    from dissonance.coherence.outcomes import forecast_scores as forecast_scores
    from dissonance.coherence.outcomes import realised as realised
    from dissonance.coherence.outcomes import settled as settled
    from dissonance.coherence.template import Gains as Gains
    from dissonance.coherence.template import Template as Template
    from dissonance.coherence.tuples import load_sets as load_sets

lazily(__name__)
