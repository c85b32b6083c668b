"""The covariance of a Gaussian mu: a convex program, and a primal-dual Newton method for it and its dual.

    minimise over C > 0    sum_m -w_m/2 log det Cov(T_m | S_m)  -  gamma/2 log det C  +  1/2 tr(Q C)
    subject to             R C R' = I,  R C S' = 0   for every hard arc (R is whitened)

with T_m, S_m and R rows that act on the coordinates. A Schur complement is concave in C, so this is convex. Replacing
-log det Cov(T|S) by its tangents gives the dual: conditionals r_m = N(A s, P^-1) and multipliers (Omega, Phi),

    maximise    sum_m w_m/2 (log det P_m + d_m)  +  sum_h 1/2 tr Omega_h  +  gamma/2 (log det M - n log gamma + n)
    where       M = Q - sum_m w_m J_m - sum_h J_h  >= 0,    J_m = Y'Y with Y = P^1/2 (T - A S),
                J_h = Y'Omega Y - Y'Phi S - S'Phi'Y with Y = R

(at gamma = 0 without the last term). M is concave in (P, P A): every step is a Newton step of a concave problem. At
the optimum M C = gamma I, and Y C Y' = I, Y C S' = 0 for soft and hard arcs alike. At gamma = 0 the target M C = g I
is followed as g goes to 0: the path ends at the minimiser with the largest entropy, the gamma -> 0+ selection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_solve, cholesky, eigvalsh, inv, solve, solve_triangular

from dissonance.attended import Array
from dissonance.problem import EPS

MOST_STEPS = 100

CENTRAL = 1e-3
"""How small an eigenvalue of M C may be, as a share of their mean, for C to be trusted rather than made anew of M."""

FAR = 2.0
"""g shrinks no faster than this times what Y C Y' = I and Y C S' = 0 still cost, as a share of the gap."""

RIDGE = 1e-14


@dataclass(frozen=True)
class Term:
    """A mechanism (w > 0) or a hard arc (w = 0): rows T and S; the whitened R of a hard arc is its T."""

    w: float
    T: Array
    S: Array
    P: Array
    """The precision to start from; of a hard arc the identity."""

    @property
    def hard(self) -> bool:
        """Whether it is a hard arc."""
        return self.w == 0


@dataclass(frozen=True)
class CovarianceProgram:
    """The data: Q (symmetric, n x n, positive definite on what the hard arcs leave), gamma, and the terms."""

    Q: Array
    gamma: float
    terms: Sequence[Term]

    @property
    def unknowns(self) -> int:
        """How many numbers the dual has."""
        return sum(len(t.T) * (len(t.T) + 1) // 2 + len(t.T) * len(t.S) for t in self.terms)


@dataclass(frozen=True)
class Dual:
    """One term's dual variables: of a soft one A and L with P = L L', of a hard one Omega (else empty) and Phi."""

    A: Array
    L: Array
    Omega: Array
    Phi: Array


@dataclass(frozen=True)
class Result:
    """The covariance, the bounds on the minimum, the dual variables, and how far off the hard arcs are."""

    C: Array
    lower: float
    upper: float
    duals: Sequence[Dual]
    residual: float
    steps: int
    contradiction: bool = False


def minimise(program: CovarianceProgram, tol: float) -> Result:
    """Newton steps until the bounds are `tol` apart, or steps no longer help."""
    state = _State(program)
    best = state.result(0)
    for step in range(1, MOST_STEPS + 1):
        try:
            if not state.advance():
                break
        except np.linalg.LinAlgError:  # no further digits to be had
            break
        now = state.result(step)
        if now.contradiction:
            return now
        best = _better(best, now)
        if best.upper - best.lower <= tol and best.residual <= 1e-11:
            break
    return best


def _better(a: Result, b: Result) -> Result:
    """The later C unless it costs more, and the better lower bound (each is valid)."""
    chosen = a if (a.residual <= 1e-11 and a.upper < b.upper) else b
    return replace(chosen, lower=max(a.lower, b.lower), steps=b.steps)


def left_over(C: Array, T: Array, S: Array) -> Array:
    """Cov(T | S)."""
    spread = T @ C @ T.T
    if len(S):
        half = solve_triangular(root(S @ C @ S.T), S @ C @ T.T, lower=True)
        spread = spread - half.T @ half
    return spread


def objective(program: CovarianceProgram, C: Array) -> float:
    """The objective at C; inf where it has no value."""
    total = 0.5 * float((program.Q * C).sum())
    try:
        for t in program.terms:
            if not t.hard:
                total -= 0.5 * t.w * log_det(left_over(C, t.T, t.S))
    except np.linalg.LinAlgError:
        return math.inf
    return total - (0.5 * program.gamma * log_det(C) if program.gamma else 0.0)


class _State:
    """The iterate: dual variables, M and C; and the unknowns laid out as pairs (u, v) of rows.

    An unknown k moves M by -weight_k (y_u y_v' + y_v y_u'): Omega_ij by the residual rows i and j, Phi_ij by the
    residual row i and the source row j.
    """

    def __init__(self, program: CovarianceProgram) -> None:
        self.program = program
        self.duals = [
            Dual(
                np.zeros((len(t.T), len(t.S))),
                root(t.P),
                -np.eye(len(t.T)) if t.hard else np.zeros((0, 0)),
                np.zeros((len(t.T), len(t.S))),
            )
            for t in program.terms
        ]
        self._lay_out()
        self.M = self._slack(self.duals)
        while log_det(self.M) == -math.inf:  # a mechanism has more weight than belief, or some beta < 0: less sure
            self.duals = [replace(d, L=d.L / math.sqrt(2)) for d in self.duals]
            self.M = self._slack(self.duals)
        self.g = max(program.gamma, max((t.w for t in program.terms), default=1.0), 1e-3)
        self.C = self.g * inv(self.M)

    def _lay_out(self) -> None:
        u, v, weight, drive = [np.zeros(0, int)], [np.zeros(0, int)], [np.zeros(0)], [np.zeros(0)]
        self.blocks: list[tuple[slice, slice, slice]] = []  # rows of S, unknowns Omega, unknowns Phi
        row = start = 0
        for t in self.program.terms:
            w, d, s = (1.0 if t.hard else t.w), len(t.T), len(t.S)
            i, j = np.triu_indices(d)
            u += [row + i, np.repeat(row + np.arange(d), s)]
            v += [row + j, np.tile(row + d + np.arange(s), d)]
            weight += [np.where(i == j, w / 2, w), np.full(d * s, -w)]
            drive += [np.where(i == j, w / 2, 0.0), np.zeros(d * s)]
            middle = start + len(i)
            self.blocks.append((slice(row + d, row + d + s), slice(start, middle), slice(middle, middle + d * s)))
            row, start = row + d + s, middle + d * s
        self.u, self.v = np.concatenate(u), np.concatenate(v)
        self.weight, self.drive = np.concatenate(weight), np.concatenate(drive)

    # -- the parts of the system ---------------------------------------------------------------------------------------

    def _residual_rows(self, term: Term, dual: Dual) -> Array:
        return term.T if term.hard else dual.L.T @ (term.T - dual.A @ term.S)

    def _rows(self) -> Array:
        rows: list[Array] = []
        for t, d in zip(self.program.terms, self.duals, strict=True):
            rows += [self._residual_rows(t, d), t.S]
        return np.concatenate(rows) if rows else np.zeros((0, len(self.M)))

    def _hard_form(self, term: Term, dual: Dual) -> Array:
        across = term.T.T @ dual.Phi @ term.S
        return term.T.T @ dual.Omega @ term.T - across - across.T

    def _slack(self, duals: Sequence[Dual]) -> Array:
        M = self.program.Q.copy()
        rows: list[Array] = []
        for t, d in zip(self.program.terms, duals, strict=True):
            if t.hard:
                M -= self._hard_form(t, d)
            else:
                rows.append(math.sqrt(t.w) * self._residual_rows(t, d))
        if rows:
            Y = np.concatenate(rows)
            M -= Y.T @ Y
        return (M + M.T) / 2

    def _matrix(self, Y: Array, S: Array) -> Array:
        """1/2 tr(dM C dM S) plus the curvature of the soft terms."""
        G, H, u, v = Y @ self.C @ Y.T, Y @ S @ Y.T, self.u, self.v
        B = G[np.ix_(v, u)] * H[np.ix_(u, v)]
        B += B.T
        B += G[np.ix_(v, v)] * H[np.ix_(u, u)]
        B += G[np.ix_(u, u)] * H[np.ix_(v, v)]
        B *= 0.5 * np.outer(self.weight, self.weight)
        for t, (sources, omega, phi) in zip(self.program.terms, self.blocks, strict=True):
            if not t.hard:
                at = np.arange(omega.start, omega.stop)
                B[at, at] += self.weight[at]
                B[phi, phi] += t.w * np.kron(np.eye(len(t.T)), G[sources, sources])
        return B

    def _gradient(self, Y: Array, C: Array) -> Array:
        return self.drive - self.weight * ((Y @ C)[self.u] * Y[self.v]).sum(1)

    def _moved(self, Y: Array, y: Array) -> Array:
        """dM for a step in the unknowns."""
        half = np.zeros((len(Y), len(Y)))
        np.add.at(half, (self.u, self.v), -self.weight * y)
        half = Y.T @ half @ Y
        return half + half.T

    # -- a step --------------------------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """One predictor-corrector step; g shrinks only as fast as Y C Y' = I and Y C S' = 0 come true."""
        n, gamma = len(self.M), self.program.gamma
        L = root(self.M)
        S = cho_solve((L, True), np.eye(n))
        mean = float((self.M * self.C).sum()) / n
        if not mean > 0:  # the gap is below rounding
            return False
        near = float(eigvalsh(L.T @ self.C @ L, subset_by_index=(0, 0))[0]) > CENTRAL * mean
        if not near:
            self.g = max(gamma, self.g)
            self.C = self.g * S
        Y = self._rows()
        step = _solver(self._matrix(Y, S))
        if not near:
            return self._move(*self._direction(Y, S, step, self.g * S))
        off = self._gradient(Y, self.C)
        _, dM, dC = self._direction(Y, S, step, gamma * S)
        most = min(1.0, longest_positive_step(self.C, dC)), min(1.0, longest_positive_step(self.M, dM))
        after = float(((self.M + most[1] * dM) * (self.C + most[0] * dC)).sum()) / n
        share = max(0.1, min(1.0, after / mean) ** 2)
        far = float(off @ step(off)) / (n * mean)
        self.g = max(gamma, mean * min(1.0, max(share, far * FAR)))
        correction = dC @ dM @ S
        return self._move(*self._direction(Y, S, step, self.g * S - (correction + correction.T) / 2))

    def _direction(
        self, Y: Array, S: Array, step: Callable[[Array], Array], target: Array
    ) -> tuple[Array, Array, Array]:
        """The step of the unknowns, of M to first order, and of C, towards C = target."""
        y = step(self._gradient(Y, target))
        dM = self._moved(Y, y)
        across = self.C @ dM @ S
        return y, dM, target - self.C - (across + across.T) / 2

    def _move(self, y: Array, dM: Array, dC: Array) -> bool:
        """Go as far as C and M stay positive definite, P is not many times as large or as small, and the dual gains."""
        primal = min(1.0, 0.95 * longest_positive_step(self.C, dC))
        dual = min(1.0, 0.95 * longest_positive_step(self.M, dM))
        for t, (_, omega, _) in zip(self.program.terms, self.blocks, strict=True):
            if not t.hard:
                moves = eigvalsh(_symmetric(y[omega], len(t.T)))
                dual = min(dual, 0.8 / max(1e-300, -moves[0]), 4.0 / max(1e-300, moves[-1]))
        before = self._gain(self.duals, self.M)
        for _ in range(30):
            duals = self._duals(y, dual)
            M = self._slack(duals)
            if self._gain(duals, M) >= before - 1e-9 * abs(before):
                self.duals, self.M = duals, M
                break
            dual *= 0.7
        else:
            dual = 0.0
        while primal > 1e-9 and log_det(self.C + primal * dC) == -math.inf:
            primal *= 0.7
        self.C = self.C + primal * dC
        return max(primal, dual) > 1e-9

    def _gain(self, duals: Sequence[Dual], M: Array) -> float:
        """The dual objective with g in place of gamma: what a step is to raise."""
        total = 0.5 * self.g * log_det(M)
        for t, d in zip(self.program.terms, duals, strict=True):
            total += 0.5 * float(np.trace(d.Omega)) + t.w * float(np.log(np.diag(d.L)).sum())
        return total

    def _duals(self, y: Array, length: float) -> list[Dual]:
        found: list[Dual] = []
        for t, d, (_, omega, phi) in zip(self.program.terms, self.duals, self.blocks, strict=True):
            dO, dF = length * _symmetric(y[omega], len(t.T)), length * y[phi].reshape(d.Phi.shape)
            if t.hard:
                found.append(replace(d, Omega=d.Omega + dO, Phi=d.Phi + dF))
                continue
            inner = np.eye(len(t.T)) + dO
            L = d.L @ root(inner)
            # a straight line in (P, P A): A moves by P_new^-1 P dA with L' dA = dF
            A = d.A + solve_triangular(d.L, solve(inner, dF), lower=True, trans=1)
            found.append(replace(d, A=A, L=L))
        return found

    # -- proof ---------------------------------------------------------------------------------------------------------

    def result(self, step: int) -> Result:
        """The bounds that the present C and dual variables prove."""
        program, n, gamma = self.program, len(self.M), self.program.gamma
        blurred = self.M - np.diag(n * EPS * np.diag(program.Q))  # positive definite even after rounding
        lower = price = residual = 0.0
        for t, d in zip(program.terms, self.duals, strict=True):
            lower += 0.5 * float(np.trace(d.Omega)) + t.w * (float(np.log(np.diag(d.L)).sum()) + 0.5 * len(t.T))
            if t.hard:
                off, across = t.T @ self.C @ t.T.T - np.eye(len(t.T)), t.T @ self.C @ t.S.T
                residual = max(residual, float(np.abs(off).max()), float(np.abs(across).max(initial=0.0)))
                price += 0.5 * float(np.abs(d.Omega * off).sum()) + float(np.abs(d.Phi * across).sum())
        inside = log_det(blurred)
        if gamma:
            lower += 0.5 * gamma * (inside - n * math.log(gamma) + n)
        if inside == -math.inf:
            lower = -math.inf
        upper = objective(program, self.C) + price
        return Result(self.C, lower, upper, self.duals, residual, step, self._contradiction())

    def _contradiction(self) -> bool:
        """Whether the multipliers prove that no C satisfies the hard arcs: J_h <= 0 in all, and tr Omega > 0."""
        hard = [(t, d) for t, d in zip(self.program.terms, self.duals, strict=True) if t.hard]
        gain = sum(float(np.trace(d.Omega)) for _, d in hard)
        size = max((float(np.abs(d.Omega).max()) for _, d in hard), default=0.0)
        if not hard or gain < 1e-6 * size or size < 1e6:
            return False
        J = sum(self._hard_form(t, d) for t, d in hard)
        return float(eigvalsh(J)[-1]) * float(np.trace(self.C)) < 1e-3 * gain


def _solver(B: Array) -> Callable[[Array], Array]:
    """Solves B y = r for positive semidefinite B; a trace of ridge settles what redundant hard arcs leave open."""
    if not len(B):
        return lambda right: right
    if not (np.diag(B) >= 0).all():
        raise np.linalg.LinAlgError("rounding has made a square negative")
    scale = 1 / np.sqrt(np.diag(B) + 1e-300)
    B = B * np.outer(scale, scale)
    B[np.diag_indices_from(B)] += RIDGE
    L = root(B)
    return lambda right: scale * cho_solve((L, True), scale * right)


def _symmetric(values: Array, d: int) -> Array:
    found = np.zeros((d, d))
    found[np.triu_indices(d)] = values
    return found + np.triu(found, 1).T


def root(matrix: Array) -> Array:
    """L with L L' = matrix, lower triangular; LinAlgError unless it is positive definite."""
    return cholesky(matrix, lower=True, check_finite=False)


def log_det(matrix: Array) -> float:
    """log det of a symmetric matrix, -inf unless it is positive definite."""
    try:
        found = 2 * float(np.log(np.diag(root(matrix))).sum())
    except np.linalg.LinAlgError:
        return -math.inf
    return -math.inf if math.isnan(found) else found


def longest_positive_step(matrix: Array, move: Array) -> float:
    """How far matrix + t move stays positive definite."""
    L = root(matrix)
    inner = solve_triangular(L, solve_triangular(L, move, lower=True).T, lower=True)
    lowest = float(eigvalsh((inner + inner.T) / 2, subset_by_index=(0, 0))[0])
    return math.inf if lowest >= 0 else -1 / lowest
