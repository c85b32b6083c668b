"""Sweeps of LIR: every belief of a large PDG in a local focus, foci that do not touch resolved together."""
