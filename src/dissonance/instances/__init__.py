"""Known algorithms as runs of LIR: each is a PDG, a refocus, a flow, and a way to read the answer."""

from dissonance.instances.base import Instance

__all__ = ["Instance"]
