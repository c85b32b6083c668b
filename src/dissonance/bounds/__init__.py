"""Bounds where no junction tree fits: a relaxation from below, joint states from above; docs/bounds.md has the proofs.

To read, in this order:

    terms, regions          the arcs as terms over few variables; the sets of variables that are looked at together
    dual, larger            the lower bound: regions that multipliers make agree; which larger ones help most
    states, spanning        the upper bound: joint states and what they cost; how the first of them are drawn
    tally, descent          how many states are at every entry; states moved down, drawn anew by
    blocks, gibbs, forest       few variables at a time, one at a time, or a forest of them
    worlds, oracle          the lower bound by the cheapest joint states, where these can be searched for
    mu, bracketing, solver  joint states as a distribution; brackets that narrow; the solver
    structural, mixture, cut    gamma > 0: conditional entropies from below, products over blocks from above
    columnar, columnar_dual, columnar_states    the same for very many arcs in columns, at gamma = 0
"""
