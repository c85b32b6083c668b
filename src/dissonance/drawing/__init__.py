"""Pictures of PDGs, results and traces. SVG needs nothing else; PNG and PDF need matplotlib."""

from dissonance.drawing.notebook import html as html
from dissonance.drawing.picture import Drawing, draw
from dissonance.drawing.picture import format_of as format_of

__all__ = ["Drawing", "draw"]
