"""The functions by which Python enters machine code: they do most of the work. The parts of `interior.newton` are among
them, for `subtrees.over_subtrees`, which interprets the loop over them.
"""

from __future__ import annotations

from dissonance.compiled import Entry
from dissonance.solvers.convex import certificate, elimination, interior, starts, steps

newton, solve_system, lengthen = Entry(interior.newton), Entry(interior.solve_system), Entry(interior.lengthen)
cold, inside = Entry(starts.cold), Entry(starts.inside)
measure, aim, bend, move = Entry(steps.measure), Entry(steps.aim), Entry(steps.bend), Entry(steps.move)
correct, centre, step_lengths = Entry(steps.correct), Entry(steps.centre), Entry(steps.step_lengths)
residual, copy = Entry(steps.residual), Entry(steps.copy)
upward, downward = Entry(elimination.upward), Entry(elimination.downward)
agree, certify, contradiction = Entry(certificate.agree), Entry(certificate.certify), Entry(certificate.contradiction)
cost, slack, trim = Entry(certificate.cost), Entry(certificate.slack), Entry(certificate.trim)
