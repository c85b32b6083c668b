"""How a PDG comes to be made of beliefs about events: it asks here, and the coherence layer, which lies above, answers.

The package names that layer when it is imported; it is loaded when the first such PDG is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

home = ""
"""The module that makes graphs of beliefs."""


def graph(beliefs: Any, variables: Any) -> Any:
    """The graph of beliefs: see `dissonance.coherence.graph`."""
    return import_module(home).graph(beliefs, variables)
