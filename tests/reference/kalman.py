"""The Kalman filter and smoother, and EM of a linear-Gaussian state-space model, in plain numpy."""

from __future__ import annotations

import numpy as np


def smooth(y, A, Q, C, R, m0, P0):
    """Means, covariances and lag-one covariances of the states given all of y (T, d), and log p(y); NaN: not seen."""
    T, k = len(y), len(m0)
    m, P, mp, Pp = np.zeros((T, k)), np.zeros((T, k, k)), np.zeros((T, k)), np.zeros((T, k, k))
    score = 0.0
    for t in range(T):
        mp[t], Pp[t] = (m0, P0) if t == 0 else (A @ m[t - 1], A @ P[t - 1] @ A.T + Q)
        seen = ~np.isnan(y[t])
        H, S = C[seen], C[seen] @ Pp[t] @ C[seen].T + R[np.ix_(seen, seen)]
        off = y[t][seen] - H @ mp[t]
        if seen.any():
            score -= 0.5 * (off @ np.linalg.solve(S, off) + np.linalg.slogdet(2 * np.pi * S)[1])
        G = np.linalg.solve(S, H @ Pp[t]).T
        m[t], P[t] = mp[t] + G @ off, Pp[t] - G @ H @ Pp[t]
    lag = np.zeros((T, k, k))
    for t in range(T - 2, -1, -1):
        J = np.linalg.solve(Pp[t + 1], A @ P[t]).T
        lag[t + 1] = P[t + 1] @ J.T  # Cov(z_t+1, z_t)
        m[t] = m[t] + J @ (m[t + 1] - mp[t + 1])
        P[t] = P[t] + J @ (P[t + 1] - Pp[t + 1]) @ J.T
    return m, P, lag, score


def em_step(y, A, Q, C, R, m0, P0):
    """A, Q, C, R after one iteration on a sequence without gaps, without shifts, the first state as given."""
    m, P, lag, score = smooth(y, A, Q, C, R, m0, P0)
    second = P + m[:, :, None] * m[:, None, :]
    cross = lag[1:] + m[1:, :, None] * m[:-1, None, :]
    A = cross.sum(0) @ np.linalg.inv(second[:-1].sum(0))
    Q = (second[1:].sum(0) - A @ cross.sum(0).T) / (len(y) - 1)
    yz = y.T @ m
    C = yz @ np.linalg.inv(second.sum(0))
    R = (y.T @ y - C @ yz.T) / len(y)
    return A, Q, C, R, score
