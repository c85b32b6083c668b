"""The convex program on a junction tree: its numbering, its Newton method, its proof."""
