"""How closely things must hold: decided once."""

from __future__ import annotations

ROUNDING, FEASIBLE, UNSEEN = 1e-12, 1e-8, 1e-15
"""When a hard arc holds: |mu(s,t) - p(t|s) mu(s)| <= ROUNDING p(t|s) mu(s) + UNSEEN at all s and t, and mu(s,t) = 0
where p is 0. It holds closely enough, if no mu is found at which all of them hold, with FEASIBLE for ROUNDING."""

CLEARLY = 100 * FEASIBLE
"""How far off a hard arc is, for each arc there is, that cannot hold closely enough whatever the others are given."""

HEAVY = 1e5
"""The beta from which on rounding, times beta, is more than what is tolerated where bounds are sums of logarithms."""
