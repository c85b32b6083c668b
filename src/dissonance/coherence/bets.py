"""The bets that prove a certain gain, and what all of them together win in the worst world that facts allow.

A solver knows a bet only at outcomes that can carry mass. The others are worlds that facts allow and beliefs rule out:

- An outcome that a belief takes for impossible is bet on for nothing, and wins inf.
- A hard belief that gives both outcomes a chance, of which one is ruled out, rules out the other as well: where its
  condition holds, a fair bet on that other outcome is certain to win. Its stake is so large that what it wins makes up
  for all else; what it loses is lost only in worlds that were ruled out before, of which the bets win still more.
- Of a soft belief, the bet loses -FLOOR times beta at most.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dissonance.problem import EPS, Batch
from dissonance.solvers import Newton
from dissonance.solvers.convex.program import Floats, Structure

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

FLOOR = -40.0
"""The least log q of an outcome that facts allow: rows of q sum to 1 in double precision whether it counts or not."""


class Exclusion(NamedTuple):
    """Entries that hard beliefs rule out at one turn, on which their bets win, and those on which these bets lose."""

    won: Ints
    lost: Ints


def by_belief(gain: Floats, no: Ints, yes: Ints) -> Floats:
    """Return what the bet on each belief wins, (P, B, 2), from what it wins at the entries of tables, (P, entries).

    Of a range the bets at both ends are made, and the worse counts.
    """
    return np.stack([gain[:, no].min(-1), gain[:, yes].min(-1)], -1)


class Bets:
    """The bets on beliefs whose tables say no and yes at the entries `no` and `yes` (B, ends)."""

    def __init__(self, blank: Batch, no: Ints, yes: Ints) -> None:
        self.blank, self.no, self.yes = blank, no, yes
        self.whole = self._structure(np.zeros(blank.log_p.shape[1], dtype=np.bool_))
        self.possible = self._seen(self.whole)

    def _structure(self, dead: Bools) -> Structure:
        """Return the structure of books without hard beliefs in which some entries are impossible."""
        none = np.zeros_like(self.blank.beta)
        numbers = np.where(dead, -math.inf, 0.0)[None], none + 1.0, none, self.blank.gamma
        found = Newton().structure(self.blank.with_numbers(*numbers))
        assert found is not None
        return found

    def certain(self, told: Batch, a: Batch, gain: Floats, lower: Floats) -> tuple[Floats, Floats]:
        """Return the bets of books, (P, B, 2), and `lower` (P,) as far as they win it in every world; `told` have the
        books' pattern.

        `gain` (P, entries): what they win at outcomes that can carry mass, -inf at others of soft beliefs.
        """
        gain = np.where(told.impossible, math.inf, gain)
        turns = self._turns(told)
        if turns:
            found = by_belief(gain, self.no, self.yes)
            happens = self.possible[self.no].any(-1), self.possible[self.yes].any(-1)
            worst = np.where(np.stack(happens, -1), found, 0.0).min(-1)
            debt = 1.0 + lower + np.maximum(0.0, -worst).sum(-1)
            for won, lost in reversed(turns):
                odds = np.exp(a.log_p[:, won] - a.log_p[:, lost])
                gain[:, won], gain[:, lost] = debt[:, None], -debt[:, None] * odds
                debt = debt * (1.0 + odds.sum(-1))
        found = np.where(
            (lower > 0)[:, None, None], by_belief(gain, self.no, self.yes), 0.0
        )  # nothing is certain: no bet
        proved = np.maximum(0.0, np.minimum(lower, self.least(found)))
        endless = lower == math.inf  # by bets of any size
        return np.where(endless[:, None, None], math.nan, found), np.where(endless, math.inf, proved)

    def least(self, gain: Floats) -> Floats:
        """Return what bets (P, B, 2) win at least in every world that facts allow, (P,)."""
        s, lay = self.whole, self.whole.layout
        entries = np.zeros((len(gain), int(lay.table_at[-1])))
        entries[:, self.no], entries[:, self.yes] = gain[:, :, :1], gain[:, :, 1:]
        price = s.table_sums(entries).T  # (cells, P)
        size = s.table_sums(np.where(np.isfinite(entries), np.abs(entries), 0.0)).T
        best = np.full((int(lay.unknown_at[-1]), len(gain)), math.inf)
        found, spread = np.zeros((2, len(gain)))
        for k in s.clusters:
            cells = slice(lay.cell_at[k], lay.cell_at[k + 1])
            for j in lay.child[lay.child_at[k] : lay.child_at[k + 1]]:
                price[cells] += best[lay.above[lay.above_at[j] : lay.above_at[j + 1]]]
            np.minimum.at(best, lay.own[cells], price[cells])
            spread += size[cells].max(0)
            if lay.parent[k] < 0:
                found += best[lay.unknown_at[k]]
        return found - (len(lay.parent) + gain.shape[1]) * EPS * spread

    def _seen(self, s: Structure) -> Bools:
        """Return the entries of tables at which some cell can carry mass."""
        seen = np.zeros(int(s.layout.table_at[-1]), dtype=np.bool_)
        seen[s.layout.arc_table] = True
        return seen

    def _turns(self, a: Batch) -> list[Exclusion]:
        """Return what hard beliefs rule out, in the order in which each exclusion follows from those before it."""
        hard = np.repeat(a.hard[0], self.no.shape[1])
        if not hard.any():
            return []
        pairs = np.stack([self.no.ravel(), self.yes.ravel()])[:, hard]
        pairs = np.concatenate([pairs, pairs[::-1]], 1)
        impossible = a.impossible
        dead, found = impossible.copy(), list[Exclusion]()
        while True:
            seen = self._seen(self._structure(dead))
            turn = Exclusion(*pairs[:, seen[pairs[0]] & ~seen[pairs[1]] & ~impossible[pairs[1]]])
            if not len(turn.won):
                break
            found.append(turn)
            dead[turn.won] = True
        for outcome in (self.no, self.yes):  # of a range, one end may rule out what the other does not
            seen[outcome] = seen[outcome].any(-1, keepdims=True)
        kept = [~seen[turn.won] for turn in found]
        return [Exclusion(won[k], lost[k]) for (won, lost), k in zip(found, kept, strict=True) if k.any()]
