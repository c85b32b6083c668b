"""The functions by which Python enters machine code: they do most of the work. The parts of `interior.newton` are among
them, for `subtrees.over_subtrees`, which interprets the loop over them.
"""

from __future__ import annotations

from dissonance.compiled import Entry
from dissonance.solvers.convex import certificate, elimination, interior, starts, steps

newton, solve_system, lengthen = Entry(interior.newton), Entry(interior.solve_system), Entry(interior.lengthen)
cold, inside = Entry(starts.cold), Entry(starts.inside)
extent, measure, aim, bend = Entry(steps.extent), Entry(steps.measure), Entry(steps.aim), Entry(steps.bend)
correct, centre, step_lengths = Entry(steps.correct), Entry(steps.centre), Entry(steps.step_lengths)
residual, refine, move = Entry(steps.residual), Entry(steps.refine), Entry(steps.move)
copy, keep = Entry(steps.copy), Entry(steps.keep)
factor, upward, downward = Entry(elimination.factor), Entry(elimination.upward), Entry(elimination.downward)
agree, certify, contradiction = Entry(certificate.agree), Entry(certificate.certify), Entry(certificate.contradiction)
cost, normalise, slack, trim = (
    Entry(certificate.cost),
    Entry(certificate.normalise),
    Entry(certificate.slack),
    Entry(certificate.trim),
)
