"""Textbook decision theory in numpy: expected utilities, soft maxima, multiplicative weights, values of games."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog


def expected_utility(tau: np.ndarray, u: np.ndarray) -> np.ndarray:
    """EU[s, a] = sum_o tau(o|s,a) u(o)."""
    return np.einsum("sao,o->sa", tau, u)


def value(p: np.ndarray, eu: np.ndarray, log_k: float, beta_p: float, beta_b: float) -> np.ndarray:
    """-beta_p log sum_s p(s) exp((beta_b/beta_p)(EU(s,a) + log k)), every action (erratum 19), and its limits."""
    if beta_p == np.inf:
        return -beta_b * (p @ eu + log_k)
    if beta_p == 0:
        return -beta_b * (eu.max(0) + log_k)
    with np.errstate(divide="ignore"):
        x = np.log(p)[:, None] + beta_b / beta_p * (eu + log_k)
    top = x.max(0)
    return -beta_p * (top + np.log(np.exp(x - top).sum(0)))


def tilted(p: np.ndarray, eu: np.ndarray, ratio: float) -> np.ndarray:
    """p(s) exp(ratio EU(s)), normalised."""
    x = p * np.exp(ratio * (eu - eu.max()))
    return x / x.sum()


def hedge(logits: np.ndarray, payoff: np.ndarray, rate: float) -> np.ndarray:
    """Multiplicative weights: log-weights plus rate times the payoff, up to a constant."""
    x = logits + rate * payoff
    x = np.exp(x - x.max())
    return x / x.sum()


def game_value(eu: np.ndarray) -> float:
    """max over mixed actions of min over states, by linear programming."""
    s, a = eu.shape
    found = linprog(
        np.r_[np.zeros(a), -1.0],
        A_ub=np.c_[-eu, np.ones(s)],
        b_ub=np.zeros(s),
        A_eq=np.r_[np.ones(a), 0.0][None],
        b_eq=[1.0],
        bounds=[(0, None)] * a + [(None, None)],
    )
    return -found.fun
