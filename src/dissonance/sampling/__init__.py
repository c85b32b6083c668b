"""Averages over draws from hard arcs: a plan of what is drawn in which order, in blocks, with standard errors."""
