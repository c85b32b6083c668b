"""Problems with a closed form, evaluated with 60 digits: the bracket must hold it."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import torch

from dissonance.arc import Arc
from dissonance.cpds import LinearGaussian
from dissonance.errors import DissonanceError
from dissonance.focus import Attention
from dissonance.inconsistency import inconsistency
from dissonance.pdg import PDG
from dissonance.variables import Euclidean, Variable

Case = tuple[PDG, Attention, Any]
DIGITS = 60


def attack(seed: int) -> Iterator[str | None]:
    """Cases without end; a line for every one whose bracket does not hold the closed form."""
    kinds: list[Callable[[random.Random], Case]] = [two_marginals, data, factors, gaussians, product]
    for k in range(1 << 62):
        with mpmath.workdps(DIGITS):
            kind = kinds[k % len(kinds)]
            pdg, attention, exactly = kind(random.Random(f"{seed} {k}"))
            try:
                result = inconsistency(pdg, attention)
            except DissonanceError as error:
                yield None if "orders of magnitude" in str(error) else f"{kind.__name__} {k} of seed {seed}: {error}"
                continue
            held = result.lower <= result.upper and result.lower <= exactly <= result.upper
            found = f"{kind.__name__} {k} of seed {seed}: [{result.lower!r}, {result.upper!r}] without"
            yield None if held else f"{found} {mpmath.nstr(exactly, 20)}"


def _table(rng: random.Random, size: int) -> list[float]:
    p = [10 ** rng.uniform(-rng.choice([1, 3, 9]), 0) for _ in range(size)]
    return [x / math.fsum(p) for x in p]


def _exact(arc: Arc) -> list[Any]:
    """The numbers that the arc holds, as they are."""
    return [mpmath.mpf(x) for x in arc.cpd.table().detach().reshape(-1).tolist()]


def two_marginals(rng: random.Random) -> Case:
    """inf beta KL(mu|p) + beta' KL(mu|q) = -(beta + beta') log sum p^(beta/(beta + beta')) q^(...)."""
    X = Variable("X", rng.randint(2, 6))
    pdg = PDG(Arc("p", (), X, _table(rng, X.size)), Arc("q", (), X, _table(rng, X.size)))
    beta = {name: 10 ** rng.uniform(-1, 1) for name in ("p", "q")}
    b, c = (mpmath.mpf(beta[name]) for name in ("p", "q"))
    terms = [x ** (b / (b + c)) * y ** (c / (b + c)) for x, y in zip(_exact(pdg["p"]), _exact(pdg["q"]), strict=True)]
    return pdg, Attention.only(beta), -(b + c) * mpmath.log(mpmath.fsum(terms))


def data(rng: random.Random) -> Case:
    """A hard arc beside a soft one: beta KL(p|q)."""
    X = Variable("X", rng.randint(2, 6))
    pdg = PDG(Arc("p", (), X, _table(rng, X.size)), Arc("q", (), X, _table(rng, X.size)))
    beta = 10 ** rng.uniform(-2, 2)
    p, q = _exact(pdg["p"]), _exact(pdg["q"])
    kl = mpmath.fsum(x * mpmath.log(x / y) for x, y in zip(p, q, strict=True))
    return pdg, Attention.only({"p": math.inf, "q": beta}), mpmath.mpf(beta) * kl


def factors(rng: random.Random) -> Case:
    """alpha = beta = gamma = 1: -log of the sum over all states of the product of the cpds."""
    variables = [Variable("ABCD"[i], rng.randint(2, 3)) for i in range(rng.randint(1, 4))]
    arcs: list[Arc] = []
    for j in range(rng.randint(1, 5)):
        scope = rng.sample(variables, rng.randint(1, min(3, len(variables))))
        cut = rng.randint(0, len(scope) - 1)
        rows = math.prod(v.size for v in scope[:cut])
        p = torch.tensor([_table(rng, math.prod(v.size for v in scope[cut:])) for _ in range(rows)]).double()
        p = p / p.sum(1, keepdim=True)
        arcs.append(Arc(f"p{j}", scope[:cut], scope[cut:], p.reshape([v.size for v in scope])))
    pdg = PDG(*arcs)
    total = mpmath.mpf(0)
    for state in itertools.product(*(range(v.size) for v in pdg.variables)):
        where = dict(zip((v.name for v in pdg.variables), state, strict=True))
        cells = [float(a.cpd.table()[tuple(where[v.name] for v in a.scope)]) for a in arcs]
        total += mpmath.fprod(map(mpmath.mpf, cells))
    return pdg, Attention.uniform(pdg, gamma=1.0), -mpmath.log(total)


def _chain(rng: random.Random, complete: bool) -> tuple[PDG, list[tuple[Any, Any, Any]], int]:
    """Linear-Gaussian arcs over one to three numbers; R, b and the variance of each, with 60 digits."""
    n = rng.randint(1, 3)
    Z = [Variable(f"Z{i}", Euclidean(1)) for i in range(n)]
    arcs: list[Arc] = []
    narrow = rng.choice([-1, -3, -6, -9])
    for j in range(n + rng.randint(0, 2)):
        others = [v for v in Z if v is not Z[j % n]]
        sources = (
            Z[:j]
            if j < n and complete
            else Z[: rng.randint(0, j)]
            if j < n
            else rng.sample(others, rng.randint(0, n - 1))
        )
        sd, numbers = 10 ** rng.uniform(narrow, 1), [rng.choice([0.0, 1.0, rng.uniform(-2, 2)]) for _ in range(n)]
        A = [[rng.choice(numbers) for _ in sources]] if sources else None
        arcs.append(
            Arc(f"a{j}", sources, Z[j % n], LinearGaussian(A, [rng.choice(numbers)], [[sd * sd]], learnable=False))
        )
    pdg = PDG(*arcs, variables=Z)
    held: list[tuple[Any, Any, Any]] = []
    for a in arcs:
        slope, shift, Sigma = a.linear_gaussian()
        R = mpmath.zeros(1, n)
        R[0, Z.index(a.targets[0])] = 1
        for i, s in enumerate(a.sources):
            R[0, Z.index(s)] = -mpmath.mpf(slope[0, i].item())
        held.append((R, mpmath.mpf(shift[0].item()), mpmath.mpf(Sigma[0, 0].item())))
    return pdg, held, n


def gaussians(rng: random.Random) -> Case:
    """alpha = beta = gamma = 1: -log of the integral of the product of the densities."""
    pdg, held, n = _chain(rng, complete=False)
    quadratic, h, total = mpmath.zeros(n, n), mpmath.zeros(n, 1), mpmath.mpf(0)
    for row, b, s in held:
        quadratic, h = quadratic + row.T * row / s, h + row.T * b / s
        total += (b * b / s + mpmath.log(2 * mpmath.pi * s)) / 2
    best = (h.T * mpmath.lu_solve(quadratic, h))[0]
    total += (mpmath.log(mpmath.det(quadratic)) - n * mpmath.log(2 * mpmath.pi) - best) / 2
    return pdg, Attention.uniform(pdg, gamma=1.0), total


def product(rng: random.Random) -> Case:
    """Hard arcs Z0, Z1 | Z0, Z2 | Z0 Z1 make mu; the others cost their divergence from it."""
    pdg, held, n = _chain(rng, complete=True)
    B, b, D = mpmath.zeros(n, n), mpmath.zeros(n, 1), mpmath.zeros(n, n)
    for i, (row, shift, s) in enumerate(held[:n]):
        B[i, :], b[i], D[i, i] = row, shift, s
    back: Any = B**-1
    m, C = back * b, back * D * back.T
    total = mpmath.mpf(0)
    for arc, (row, shift, s) in zip(pdg.arcs[n:], held[n:], strict=True):
        t, given = pdg.variables.index(arc.targets[0]), [pdg.variables.index(v) for v in arc.sources]
        left = C[t, t]
        if given:
            inner = mpmath.matrix([[C[i, j] for j in given] for i in given])
            across = mpmath.matrix([[C[t, j]] for j in given])
            left -= (across.T * mpmath.lu_solve(inner, across))[0]
        off, spread = (row * m)[0] - shift, (row * C * row.T)[0]
        total += ((off * off + spread) / s + mpmath.log(s / left) - 1) / 2
    beta = {a.name: math.inf if i < n else 1.0 for i, a in enumerate(pdg.arcs)}
    return pdg, Attention.only(beta), total
