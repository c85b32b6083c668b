"""Belief propagation: factor graphs, messages as foci of one PDG, schedules; compiled flooding and tree passes."""
