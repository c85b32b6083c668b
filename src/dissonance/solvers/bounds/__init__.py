"""Bounds where no junction tree fits: a relaxation from below, joint states from above."""
