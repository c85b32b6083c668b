"""Pictures of PDGs, results and traces. SVG needs nothing else; PNG and PDF need matplotlib."""

from dissonance.drawing.notebook import html
from dissonance.drawing.picture import Drawing, draw, suffix_of

__all__ = ["Drawing", "draw", "html", "suffix_of"]
