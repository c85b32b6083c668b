"""Textbook sum-product belief propagation, fractional belief propagation and brute force, in plain numpy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

Scopes = Sequence[tuple[int, ...]]
Array = np.ndarray


class Textbook:
    """Messages "X3->f0" and "f0->X3", normalised, uniform to begin with; updates are in place.

    With a power alpha_a of each factor they are those of fractional belief propagation (Wiegerinck and Heskes) and of
    power EP (Minka), with n_{a->X} = m_{a->X}^alpha_a as the message of the factor.
    """

    def __init__(self, cards: Sequence[int], scopes: Scopes, tables: Sequence[Array], powers: Sequence[float] = ()):
        self.cards, self.scopes = list(cards), [tuple(s) for s in scopes]
        self.tables = [np.asarray(t, dtype=float) for t in tables]
        self.powers = list(powers) or [1.0] * len(self.tables)
        self.m = {}
        for a, scope in enumerate(self.scopes):
            for v in scope:
                self.m[f"X{v}->f{a}"] = np.full(cards[v], 1 / cards[v])
                self.m[f"f{a}->X{v}"] = np.full(cards[v], 1 / cards[v])

    def neighbours(self, v: int) -> list[int]:
        return [a for a, scope in enumerate(self.scopes) if v in scope]

    def product(self, v: int, without: int | None = None) -> Array:
        """prod_b n_{b->v}^(1/alpha_b), divided by n_{a->v} for the one left out."""
        found = np.ones(self.cards[v])
        for b in self.neighbours(v):
            if b != without:
                found = found * self.m[f"f{b}->X{v}"] ** (1 / self.powers[b])
            elif self.powers[b] != 1:
                found = found * self.m[f"f{b}->X{v}"] ** (1 / self.powers[b] - 1)
        return found

    def new(self, name: str) -> Array:
        """What a message would become."""
        left, right = name.split("->")
        if left[0] == "X":
            found = self.product(int(left[1:]), int(right[1:]))
        else:
            a, v = int(left[1:]), int(right[1:])
            table = self.tables[a] ** self.powers[a]
            scope = self.scopes[a]
            for i, y in enumerate(scope):
                if y != v:
                    shape = [1] * len(scope)
                    shape[i] = self.cards[y]
                    table = table * self.m[f"X{y}->f{a}"].reshape(shape)
            found = table.sum(tuple(i for i, y in enumerate(scope) if y != v))
        return found / found.sum()

    def update(self, name: str) -> None:
        self.m[name] = self.new(name)

    def out(self) -> list[str]:
        return [f"X{v}->f{a}" for a, scope in enumerate(self.scopes) for v in scope]

    def back(self) -> list[str]:
        return [f"f{a}->X{v}" for a, scope in enumerate(self.scopes) for v in scope]

    def flood(self) -> None:
        """All X->a, then all a->X."""
        for name in [*self.out(), *self.back()]:
            self.update(name)

    def belief(self, v: int) -> Array:
        found = self.product(v)
        return found / found.sum()

    def free_energy(self) -> float:
        """-sum_a <log phi_a> - sum_X H(b_X) - sum_a 1/alpha_a (H(b_a) - sum_X H(b_X)), from beliefs alone."""
        total = 0.0
        single = {v: self.belief(v) for v in range(len(self.cards))}
        total -= sum(entropy(b) for b in single.values())
        for a, scope in enumerate(self.scopes):
            b = self.tables[a] ** self.powers[a]
            for i, y in enumerate(scope):
                shape = [1] * len(scope)
                shape[i] = self.cards[y]
                b = b * self.m[f"X{y}->f{a}"].reshape(shape)
            b = b / b.sum()
            with np.errstate(divide="ignore", invalid="ignore"):
                total -= float(np.where(b > 0, b * np.log(self.tables[a]), 0.0).sum())
            total -= (entropy(b) - sum(entropy(single[y]) for y in scope)) / self.powers[a]
        return total


def entropy(p: Array) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def brute_force(cards: Sequence[int], scopes: Scopes, tables: Sequence[Array]) -> tuple[float, list[Array]]:
    """log Z and all marginals by enumeration."""
    joint = np.zeros(tuple(cards))
    for x in itertools.product(*map(range, cards)):
        joint[x] = np.prod([t[tuple(x[v] for v in s)] for s, t in zip(scopes, tables, strict=True)])
    total = joint.sum()
    axes = range(len(cards))
    return float(np.log(total)), [joint.sum(tuple(i for i in axes if i != v)) / total for v in axes]


def same(one: Mapping[str, object], other: Mapping[str, Array]) -> float:
    """The largest difference between messages of the same names."""
    assert set(one) == set(other)
    return max(float(np.abs(np.asarray(one[n]) - other[n]).max()) for n in other)
